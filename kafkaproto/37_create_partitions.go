package kafkaproto

import "github.com/twmb/franz-go/pkg/kmsg"

// CreatePartitions v0-v3: raises the number of partitions of a topic; not an increase:
// INVALID_PARTITIONS. Entries that are there stay in their partitions, so a key may change partition, for XADD's routing
// as for Kafka's producers. Durable when it is answered.

func (s topicAPI) createPartitions(c *call, req *kmsg.CreatePartitionsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	named := make(map[string]int)
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		line := kmsg.NewCreatePartitionsResponseTopic()
		line.Topic = t.Topic
		if n := named[t.Topic]; n > 1 {
			named[t.Topic] = -1
			text := "Duplicate topic name."
			line.ErrorCode, line.ErrorMessage = invalidRequest, &text
		} else if n < 0 {
			continue
		} else {
			var assignment [][]int32
			for _, a := range t.Assignment {
				assignment = append(assignment, a.Replicas)
			}
			err := s.b.GrowTopic(c.ctx, t.Topic, t.Count, assignment, req.ValidateOnly)
			line.ErrorCode, line.ErrorMessage = codeOf(err), messageOf(err)
		}
		resp.Topics = append(resp.Topics, line)
	}
	return resp
}
