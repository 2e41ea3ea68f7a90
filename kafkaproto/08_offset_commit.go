package kafkaproto

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// OffsetCommit v2-v10.
//
//   - The reply mirrors the request: the same topics and partitions in the same order, if all of them exist; else each
//     topic once, what is missing first.
//   - A partition that does not exist is told first, what the group refuses after that: a
//     request of which nothing exists does not reach the group.
//   - Topics by name up to v9, by id from v10 on (UNKNOWN_TOPIC_ID).
//   - Anybody may commit for a group without members (generation -1, empty member id),
//     also for one that is not there yet.
//   - The generation of a group that is not there: GROUP_ID_NOT_FOUND from v9 on,
//     ILLEGAL_GENERATION before.
//
// Retention time (v2-v4) is ignored, as Kafka does when groups do not expire.

func (s *Server) offsetCommit(c *call, r *kmsg.OffsetCommitRequest) kmsg.Response {
	req := bridge.CommitRequest{Group: r.Group, MemberID: r.MemberID, InstanceID: deref(r.InstanceID), Generation: r.Generation}
	resp := r.ResponseKind().(*kmsg.OffsetCommitResponse)
	for i := range r.Topics {
		t := &r.Topics[i]
		name, _ := s.topicName(c.version >= 10, t.Topic, t.TopicID)
		for _, p := range t.Partitions {
			req.Partitions = append(req.Partitions, bridge.PartitionCommit{
				TopicPartition: bridge.TopicPartition{Topic: name, Partition: p.Partition},
				Offset:         p.Offset, Epoch: p.LeaderEpoch, Metadata: []byte(deref(p.Metadata)),
			})
		}
	}
	errs, err := c.b.CommitOffsets(&req)
	if errors.Is(err, bridge.ErrGroupNotFound) && c.version < 9 {
		err = bridge.ErrIllegalGeneration
	}
	n := 0
	for i := range r.Topics {
		t := &r.Topics[i]
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		_, known := s.topicName(c.version >= 10, t.Topic, t.TopicID)
		for _, p := range t.Partitions {
			one := kmsg.NewOffsetCommitResponseTopicPartition()
			one.Partition = p.Partition
			switch {
			case !known:
				one.ErrorCode = unknownTopicID
			case errs[n] != nil:
				one.ErrorCode = codeOf(errs[n])
			default:
				one.ErrorCode = codeOf(err)
			}
			n++
			out.Partitions = append(out.Partitions, one)
		}
		resp.Topics = append(resp.Topics, out)
	}
	resp.Topics = committedTopics.missingFirst(resp.Topics, func(p *kmsg.OffsetCommitResponseTopicPartition) bool {
		return isMissing(p.ErrorCode)
	})
	return resp
}

var committedTopics = topicShape[kmsg.OffsetCommitResponseTopic, kmsg.OffsetCommitResponseTopicPartition]{
	key: func(t *kmsg.OffsetCommitResponseTopic) topicKey { return topicKey{t.Topic, t.TopicID} },
	partitions: func(t *kmsg.OffsetCommitResponseTopic) *[]kmsg.OffsetCommitResponseTopicPartition {
		return &t.Partitions
	},
}

// isMissing says whether an error is that there is no such partition.
func isMissing(c code) bool { return c == unknownTopicOrPartition || c == unknownTopicID }

// topicName is the name of a topic that a request gives by name or by id; false when no topic has the id.
func (s *Server) topicName(byID bool, name string, id [16]byte) (string, bool) {
	if !byID {
		return name, true
	}
	if t, ok := s.b.TopicByID(id); ok {
		return t.Name, true
	}
	return "", false
}

// deref is a nullable string, "" when null.
func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// nullable is the inverse of deref.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
