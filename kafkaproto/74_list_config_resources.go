package kafkaproto

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// ListConfigResources v0-v1 (KIP-1142): which topics, brokers and groups may have
// configurations; groups only if some are set. v0 asks for client metrics, of which there are none. A type that
// nothing has: UNSUPPORTED_VERSION, as Kafka says.

const (
	brokerLoggerType  = 8
	clientMetricsType = 16
)

func (s configAPI) listConfigResources(c *call, req *kmsg.ListConfigResourcesRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	types := req.ResourceTypes
	switch {
	case c.version == 0:
		types = []int8{clientMetricsType}
	case len(types) == 0:
		types = []int8{int8(bridge.TopicResource), int8(bridge.BrokerResource), int8(bridge.GroupResource)}
	}
	for _, typ := range types {
		add := func(name string) {
			resp.ConfigResources = append(resp.ConfigResources, kmsg.ListConfigResourcesResponseConfigResource{Name: name, Type: typ})
		}
		switch typ {
		case int8(bridge.TopicResource):
			for _, t := range s.b.Topics() {
				if t.Visible() {
					add(t.Name)
				}
			}
		case int8(bridge.BrokerResource):
			add(strconv.Itoa(int(s.b.NodeID())))
		case int8(bridge.GroupResource):
			for _, name := range s.b.ConfiguredGroups() {
				add(name)
			}
		case brokerLoggerType, clientMetricsType:
		default:
			resp.ErrorCode, resp.ConfigResources = unsupportedVersion, nil
			return resp
		}
	}
	return resp
}
