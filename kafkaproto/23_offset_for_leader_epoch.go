package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// OffsetForLeaderEpoch v2-v4. There is one epoch, 0: asked for it, the log end; for any
// other, -1 and -1 (unknown).

func (s recordAPI) offsetForLeaderEpoch(c *call, req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewOffsetForLeaderEpochResponseTopic()
		out.Topic = t.Topic
		topic, missing := s.topicOf(t.Topic, [16]byte{}, false)
		for j := range t.Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.ErrorCode = t.Partitions[j].Partition, missing
			p.LeaderEpoch, p.EndOffset = -1, -1
			if missing == none {
				s.epochEnd(topic, &t.Partitions[j], &p)
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

func (s recordAPI) epochEnd(topic *bridge.Topic, asked *kmsg.OffsetForLeaderEpochRequestTopicPartition, p *kmsg.OffsetForLeaderEpochResponseTopicPartition) {
	no, ok := topic.Stream(asked.Partition)
	if !ok {
		p.ErrorCode = unknownTopicOrPartition
		return
	}
	if p.ErrorCode = checkLeaderEpoch(asked.CurrentLeaderEpoch); p.ErrorCode != none || asked.LeaderEpoch != bridge.LeaderEpoch {
		return
	}
	ends, err := s.b.Ends(no)
	if p.ErrorCode = codeOf(err); err == nil {
		p.LeaderEpoch, p.EndOffset = bridge.LeaderEpoch, ends.HighWater
	}
}
