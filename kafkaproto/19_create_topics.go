package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// CreateTopics v2-v7.
//
//   - Each topic succeeds or fails by itself; it is durable when it is answered.
//   - -1 partitions or replicas (v4+): the broker's defaults. A replication factor above one is
//     refused unless the broker is told to clamp.
//   - v5+ tells what was made, with all configurations; v7+ the topic ID. validate_only checks and makes nothing.
//   - A topic that is named twice: INVALID_REQUEST.

func (s topicAPI) createTopics(c *call, req *kmsg.CreateTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	named := make(map[string]int)
	for i := range req.Topics {
		named[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		line := kmsg.NewCreateTopicsResponseTopic()
		line.Topic = asked.Topic
		line.NumPartitions, line.ReplicationFactor = -1, -1
		if n := named[asked.Topic]; n > 1 {
			named[asked.Topic] = -1
			text := "Duplicate topic name."
			line.ErrorCode, line.ErrorMessage = invalidRequest, &text
		} else if n < 0 {
			continue
		} else {
			s.createTopic(c, asked, req.ValidateOnly, &line)
		}
		resp.Topics = append(resp.Topics, line)
	}
	return resp
}

func (s topicAPI) createTopic(c *call, asked *kmsg.CreateTopicsRequestTopic, validateOnly bool, line *kmsg.CreateTopicsResponseTopic) {
	n := bridge.NewTopic{Name: asked.Topic, Partitions: asked.NumPartitions, Replication: asked.ReplicationFactor}
	if len(asked.ReplicaAssignment) > 0 {
		n.Assignment = make(map[int32][]int32, len(asked.ReplicaAssignment))
		for _, a := range asked.ReplicaAssignment {
			if _, double := n.Assignment[a.Partition]; double {
				text := "Found multiple manual partition assignments for one partition."
				line.ErrorCode, line.ErrorMessage = invalidReplicaAssignment, &text
				return
			}
			n.Assignment[a.Partition] = a.Replicas
		}
	}
	for _, v := range asked.Configs {
		n.Configs = append(n.Configs, bridge.ConfigValue{Name: v.Name, Value: v.Value})
	}
	t, err := s.b.CreateTopic(c.ctx, n, validateOnly)
	if err != nil {
		line.ErrorCode, line.ErrorMessage = codeOf(err), messageOf(err)
		return
	}
	line.TopicID = t.ID
	line.NumPartitions, line.ReplicationFactor = int32(len(t.Streams)), 1
	for _, v := range s.b.DescribeTopic(t) {
		line.Configs = append(line.Configs, kmsg.CreateTopicsResponseTopicConfig{
			Name: v.Name, Value: v.Value, ReadOnly: v.ReadOnly, Source: int8(v.Source), IsSensitive: v.Sensitive,
		})
	}
}
