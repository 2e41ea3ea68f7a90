package kafkaproto

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// DescribeTopicPartitions v0 (KIP-966): topics in order of the name, at most
// response_partition_limit partitions (2,000 at most), and a cursor to go on from. No topics named: all.

const mostDescribed = 2000

func (s topicAPI) describeTopicPartitions(c *call, req *kmsg.DescribeTopicPartitionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	names := s.describedNames(req)
	room := int(req.ResponsePartitionLimit)
	if room <= 0 || room > mostDescribed {
		room = mostDescribed
	}
	var told []*bridge.Topic
	for _, name := range names {
		first := int32(0)
		if cur := req.Cursor; cur != nil {
			if name < cur.Topic {
				continue
			}
			if name == cur.Topic {
				first = max(cur.Partition, 0)
			}
		}
		if room == 0 {
			next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
			next.Topic, next.Partition = name, first
			resp.NextCursor = &next
			break
		}
		line := kmsg.NewDescribeTopicPartitionsResponseTopic()
		line.Topic = &name
		t, missing := s.topicOf(name, [16]byte{}, false)
		if line.ErrorCode = missing; missing != none {
			if !bridge.LegalName(name) {
				line.ErrorCode = invalidTopic
			}
			line.AuthorizedOperations = allTopicOperations // as Kafka without an authorizer
			resp.Topics = append(resp.Topics, line)
			continue
		}
		told = append(told, t)
		line.TopicID, line.AuthorizedOperations = t.ID, allTopicOperations
		node := []int32{s.b.NodeID()}
		p := first
		for ; int(p) < len(t.Streams) && room > 0; p, room = p+1, room-1 {
			part := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
			part.Partition, part.LeaderID, part.LeaderEpoch = p, node[0], bridge.LeaderEpoch
			part.Replicas, part.ISR = node, node
			// Nullable in the schema, but the JVM client does not expect null.
			part.EligibleLeaderReplicas, part.LastKnownELR = []int32{}, []int32{}
			line.Partitions = append(line.Partitions, part)
		}
		resp.Topics = append(resp.Topics, line)
		if int(p) < len(t.Streams) {
			next := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
			next.Topic, next.Partition = name, p
			resp.NextCursor = &next
			break
		}
	}
	if err := s.b.Settle(c.ctx, told); err != nil {
		for i := range resp.Topics {
			resp.Topics[i].ErrorCode = codeOf(err)
		}
	}
	return resp
}

// describedNames are the topics asked for, in order, each once.
func (s topicAPI) describedNames(req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if len(names) == 0 {
		for _, t := range s.b.Topics() {
			if t.Visible() {
				names = append(names, t.Name)
			}
		}
		return names
	}
	slices.Sort(names)
	return slices.Compact(names)
}
