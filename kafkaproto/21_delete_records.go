package kafkaproto

import "github.com/twmb/franz-go/pkg/kmsg"

// DeleteRecords v0-v2: everything below an offset goes, for Redis too (it is XTRIM). -1
// is the high watermark; beyond it: OFFSET_OUT_OF_RANGE. Below the log start nothing happens. Durable
// when it is answered. Of a partition that is named twice the last offset counts, as in Kafka.

var trimmedTopics = topicShape[kmsg.DeleteRecordsRequestTopic, kmsg.DeleteRecordsRequestTopicPartition]{
	key: func(t *kmsg.DeleteRecordsRequestTopic) topicKey { return topicKey{name: t.Topic} },
	partitions: func(t *kmsg.DeleteRecordsRequestTopic) *[]kmsg.DeleteRecordsRequestTopicPartition {
		return &t.Partitions
	},
	partition: func(p *kmsg.DeleteRecordsRequestTopicPartition) int32 { return p.Partition },
}

func (s recordAPI) deleteRecords(c *call, req *kmsg.DeleteRecordsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	topics, _ := trimmedTopics.once(req.Topics)
	for i := range topics {
		t := &topics[i]
		out := kmsg.NewDeleteRecordsResponseTopic()
		out.Topic = t.Topic
		topic, missing := s.topicOf(t.Topic, [16]byte{}, false)
		for j := range t.Partitions {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.ErrorCode, p.LowWatermark = t.Partitions[j].Partition, missing, -1
			if missing == none {
				if no, ok := topic.Stream(p.Partition); ok {
					start, err := s.b.DeleteRecords(c.ctx, no, t.Partitions[j].Offset)
					if p.ErrorCode = codeOf(err); err == nil {
						p.LowWatermark = start
					}
				} else {
					p.ErrorCode = unknownTopicOrPartition
				}
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}
