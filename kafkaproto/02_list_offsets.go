package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// ListOffsets v1-v11.
//
//   - -1 the high watermark, -2 the log start, -3 (v7+) the first record with the largest timestamp,
//     -4 (v8+) as -2: all is local; -5 (v9+) and -6 (v11+): -1, nothing is tiered. Other
//     negative values: UNSUPPORTED_VERSION, as those of newer versions.
//   - A timestamp: the first record that reaches it, else -1 and -1.
//   - A fencing leader epoch as in Fetch.
//   - A partition that is named twice: INVALID_REQUEST, told once.

const (
	latestOffset        = -1
	earliestOffset      = -2
	maxTimestampOffset  = -3
	earliestLocalOffset = -4
	latestTieredOffset  = -5
	earliestPending     = -6
)

var listedTopics = topicShape[kmsg.ListOffsetsRequestTopic, kmsg.ListOffsetsRequestTopicPartition]{
	key:        func(t *kmsg.ListOffsetsRequestTopic) topicKey { return topicKey{name: t.Topic} },
	partitions: func(t *kmsg.ListOffsetsRequestTopic) *[]kmsg.ListOffsetsRequestTopicPartition { return &t.Partitions },
	partition:  func(p *kmsg.ListOffsetsRequestTopicPartition) int32 { return p.Partition },
}

func (s recordAPI) listOffsets(c *call, req *kmsg.ListOffsetsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	topics, twice := listedTopics.once(req.Topics)
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(topics))
	for i := range topics {
		t, out := &topics[i], &resp.Topics[i]
		out.Topic = t.Topic
		topic, missing := s.topicOf(t.Topic, [16]byte{}, false)
		out.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			p := &out.Partitions[j]
			*p = kmsg.NewListOffsetsResponseTopicPartition()
			p.Partition, p.ErrorCode = t.Partitions[j].Partition, missing
			if twice[place{topicKey{name: t.Topic}, p.Partition}] {
				p.ErrorCode = invalidRequest
			} else if missing == none {
				s.listOffset(c, topic, &t.Partitions[j], p)
			}
		}
	}
	return resp
}

// listOffset answers one partition.
func (s recordAPI) listOffset(c *call, topic *bridge.Topic, asked *kmsg.ListOffsetsRequestTopicPartition, p *kmsg.ListOffsetsResponseTopicPartition) {
	no, ok := topic.Stream(asked.Partition)
	if !ok {
		p.ErrorCode = unknownTopicOrPartition
		return
	}
	if p.ErrorCode = checkLeaderEpoch(asked.CurrentLeaderEpoch); p.ErrorCode != none {
		return
	}
	ends, err := s.b.Ends(no)
	var offset, timestamp int64 = -1, -1
	known := true
	switch at := asked.Timestamp; {
	case err != nil:
	case at == latestOffset:
		offset = ends.HighWater
	case at == earliestOffset, at == earliestLocalOffset && c.version >= 8:
		offset = ends.Start
	case at == maxTimestampOffset && c.version >= 7:
		offset, timestamp, known, err = s.b.MaxTimeOffset(no)
	case at == latestTieredOffset && c.version >= 9, at == earliestPending && c.version >= 11:
		known = false
	case at < 0:
		p.ErrorCode = unsupportedVersion
		return
	default:
		offset, timestamp, known, err = s.b.OffsetAtTime(topic, no, at)
	}
	if err != nil {
		p.ErrorCode = codeOf(err)
		return
	}
	if known {
		p.Offset, p.Timestamp, p.LeaderEpoch = offset, timestamp, bridge.LeaderEpoch
	}
}
