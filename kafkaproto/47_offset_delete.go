package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// OffsetDelete v0: takes a group off partitions, with all that is pending there (XGROUP DESTROY of one stream).
// What does not exist is told first, as in OffsetCommit. A topic that members are subscribed to: GROUP_SUBSCRIBED_TO_TOPIC.

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
	resp.Topics = forgottenTopics.missingFirst(resp.Topics, func(p *kmsg.OffsetDeleteResponseTopicPartition) bool {
		return isMissing(p.ErrorCode)
	})
	return resp
}

var forgottenTopics = topicShape[kmsg.OffsetDeleteResponseTopic, kmsg.OffsetDeleteResponseTopicPartition]{
	key: func(t *kmsg.OffsetDeleteResponseTopic) topicKey { return topicKey{name: t.Topic} },
	partitions: func(t *kmsg.OffsetDeleteResponseTopic) *[]kmsg.OffsetDeleteResponseTopicPartition {
		return &t.Partitions
	},
}
