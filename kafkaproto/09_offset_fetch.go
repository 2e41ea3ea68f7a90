package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// OffsetFetch v1-v10: one group, or several (v8+).
//
//   - A group or a partition that does not exist has no commit: error 0, offset -1,
//     leader epoch -1, metadata "".
//   - Null topics (v2+) are all on which the group has a commit.
//   - Topics by name up to v9, by id from v10 on (UNKNOWN_TOPIC_ID, told last).
//   - require_stable (v7+) changes nothing while there are no transactions.
//   - Member id and epoch (v9+) are those of the new consumer protocol, which is not served; a classic group ignores them.

func (s *Server) offsetFetch(c *call, r *kmsg.OffsetFetchRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
	if c.version < 8 {
		var asked []kmsg.OffsetFetchRequestGroupTopic
		if r.Topics != nil || c.version < 2 {
			asked = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(r.Topics))
		}
		for _, t := range r.Topics {
			one := kmsg.NewOffsetFetchRequestGroupTopic()
			one.Topic, one.Partitions = t.Topic, t.Partitions
			asked = append(asked, one)
		}
		topics, err := s.committed(c, r.Group, asked)
		resp.ErrorCode = codeOf(err)
		for _, t := range topics {
			out := kmsg.NewOffsetFetchResponseTopic()
			out.Topic = t.Topic
			for _, p := range t.Partitions {
				out.Partitions = append(out.Partitions, kmsg.OffsetFetchResponseTopicPartition(p))
			}
			resp.Topics = append(resp.Topics, out)
		}
		return resp
	}
	for i := range r.Groups {
		out := kmsg.NewOffsetFetchResponseGroup()
		out.Group = r.Groups[i].Group
		topics, err := s.committed(c, out.Group, r.Groups[i].Topics)
		out.Topics, out.ErrorCode = topics, codeOf(err)
		resp.Groups = append(resp.Groups, out)
	}
	return resp
}

// committed are a group's commits on the asked topics, on all when asked is nil.
func (s *Server) committed(c *call, group string, asked []kmsg.OffsetFetchRequestGroupTopic) ([]kmsg.OffsetFetchResponseGroupTopic, error) {
	byID := c.version >= 10
	var want []bridge.TopicPartition
	if asked != nil {
		want = []bridge.TopicPartition{}
	}
	for i := range asked {
		name, _ := s.topicName(byID, asked[i].Topic, asked[i].TopicID)
		for _, p := range asked[i].Partitions {
			want = append(want, bridge.TopicPartition{Topic: name, Partition: p})
		}
	}
	commits, err := c.b.CommittedOffsets(group, want)
	if err != nil {
		return nil, err
	}
	var topics []kmsg.OffsetFetchResponseGroupTopic
	if asked == nil {
		for _, at := range commits {
			if n := len(topics); n == 0 || topics[n-1].Topic != at.Topic {
				out := kmsg.NewOffsetFetchResponseGroupTopic()
				out.Topic = at.Topic
				if t, ok := c.b.Topic(at.Topic); ok {
					out.TopicID = t.ID
				}
				topics = append(topics, out)
			}
			out := &topics[len(topics)-1]
			out.Partitions = append(out.Partitions, committedPartition(&at))
		}
		return topics, nil
	}
	var unknown []kmsg.OffsetFetchResponseGroupTopic
	for i := range asked {
		out := kmsg.NewOffsetFetchResponseGroupTopic()
		out.Topic, out.TopicID = asked[i].Topic, asked[i].TopicID
		_, known := s.topicName(byID, asked[i].Topic, asked[i].TopicID)
		for range asked[i].Partitions {
			p := committedPartition(&commits[0])
			commits = commits[1:]
			if !known {
				p.ErrorCode = unknownTopicID
			}
			out.Partitions = append(out.Partitions, p)
		}
		if !known {
			unknown = append(unknown, out)
			continue
		}
		topics = append(topics, out)
	}
	return append(topics, unknown...), nil
}

func committedPartition(at *bridge.CommittedOffset) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	metadata := string(at.Metadata)
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = at.Partition, at.Offset, at.Epoch, &metadata
	return p
}
