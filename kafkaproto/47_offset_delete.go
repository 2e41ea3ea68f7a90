package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// OffsetDelete v0: takes a group off partitions, with all that is pending there (XGROUP DESTROY of one stream).
// A topic that members are subscribed to: GROUP_SUBSCRIBED_TO_TOPIC.

func (s *Server) offsetDelete(c *call, r *kmsg.OffsetDeleteRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.OffsetDeleteResponse)
	var want []bridge.TopicPartition
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			want = append(want, bridge.TopicPartition{Topic: t.Topic, Partition: p.Partition})
		}
	}
	errs, err := c.b.ForgetOffsets(r.Group, want)
	if err != nil {
		resp.ErrorCode = codeOf(err)
		return resp
	}
	for _, t := range r.Topics {
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			one := kmsg.NewOffsetDeleteResponseTopicPartition()
			one.Partition, one.ErrorCode = p.Partition, codeOf(errs[0])
			errs = errs[1:]
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
