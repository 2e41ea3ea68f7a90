package kafkaproto

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster v0-v2: one broker, which is the controller. The controllers' endpoint
// (v1+, type 2) is refused with MISMATCHED_ENDPOINT_TYPE, as by Kafka's brokers; other types with UNSUPPORTED_ENDPOINT_TYPE.

const (
	mismatchedEndpointType  code = 114
	unsupportedEndpointType code = 115
)

func (s topicAPI) describeCluster(c *call, req *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ClusterAuthorizedOperations = math.MinInt32
	if c.version >= 1 && req.EndpointType != 1 {
		text := "This is a broker's listener."
		resp.ErrorCode, resp.ErrorMessage = unsupportedEndpointType, &text
		if req.EndpointType == 2 {
			resp.ErrorCode = mismatchedEndpointType
		}
		return resp
	}
	resp.EndpointType = 1
	resp.ClusterID, resp.ControllerID = s.b.ClusterID(), s.b.NodeID()
	host, port := c.c.advertised()
	broker := kmsg.NewDescribeClusterResponseBroker()
	broker.NodeID, broker.Host, broker.Port = s.b.NodeID(), host, port
	resp.Brokers = append(resp.Brokers, broker)
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = allClusterOperations
	}
	return resp
}
