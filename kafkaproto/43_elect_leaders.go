package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// ElectLeaders v0-v2: this node leads already, ELECTION_NOT_NEEDED for each partition that
// exists. All partitions (null): none needs one, so none is named.

const electionNotNeeded code = 84

func (s topicAPI) electLeaders(c *call, req *kmsg.ElectLeadersRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic, missing := s.topicOf(t.Topic, [16]byte{}, false)
		out := kmsg.NewElectLeadersResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			line := kmsg.NewElectLeadersResponseTopicPartition()
			line.Partition, line.ErrorCode = p, missing
			if missing == none {
				if line.ErrorCode = electionNotNeeded; !hasPartition(topic, p) {
					line.ErrorCode = unknownTopicOrPartition
				}
			}
			out.Partitions = append(out.Partitions, line)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func hasPartition(t *bridge.Topic, p int32) bool {
	_, ok := t.Stream(p)
	return ok
}
