package kafkaproto

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
	"weir/kafkaproto/batch"
)

// Produce v3-v13 (0-2 are advertised, KAFKA-18659, and refused, as Kafka 4 does).
//
//   - Each partition takes exactly one batch of format 2, checked whole (package batch) and stored as it came.
//   - acks=1 is answered when the batch is written, acks=-1 when it is durable, acks=0
//     never: an error then closes the connection. Others: INVALID_REQUIRED_ACKS.
//   - The appends are evaluated at once and the reply waits with the connection's writer,
//     so that all that is in flight shares a commit.
//   - LogAppendTime topics get the broker's clock, and the reply says it.
//   - Compacted topics refuse records without a key, by index (v8+).
//   - Idempotent batches: the engine's window; a repeated batch answers its first offset.
//   - zstd before v7: UNSUPPORTED_COMPRESSION_TYPE.
//
// Left out: transactional batches (INVALID_TXN_STATE) until transactions are served;
// min.insync.replicas is stored and not acted on, there being one replica.

func (s recordAPI) produce(c *call) reply {
	req := c.req.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	level := bridge.Written
	switch req.Acks {
	case 0:
		level = bridge.Unanswered
	case -1:
		level = bridge.Durable
	}
	legal := req.Acks >= -1 && req.Acks <= 1
	turn := c.c.turn(level)
	now := s.b.Now()
	failed := false
	resp.Topics = make([]kmsg.ProduceResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, out := &req.Topics[i], &resp.Topics[i]
		out.Topic, out.TopicID = rt.Topic, rt.TopicID
		topic, missing := s.topicOf(rt.Topic, rt.TopicID, c.version >= 13)
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			p := &out.Partitions[j]
			*p = kmsg.NewProduceResponseTopicPartition()
			p.Partition = rt.Partitions[j].Partition
			p.BaseOffset, p.LogStartOffset = -1, -1
			switch {
			case !legal:
				p.ErrorCode = invalidRequiredAcks
			case missing != none:
				p.ErrorCode = missing
			default:
				s.append(c, turn, topic, rt.Partitions[j].Records, now, p)
			}
			failed = failed || p.ErrorCode != none
		}
	}
	ticket := turn.Ticket()
	if req.Acks == 0 {
		return reply{none: true, closes: failed, ticket: &ticket, failed: closed}
	}
	return reply{
		body: resp, ticket: &ticket, inline: level == bridge.Written,
		failed: func(error) reply { return notStored(resp) },
	}
}

// closed is the answer to acks=0 that failed.
func closed(error) reply { return reply{none: true, closes: true} }

// notStored turns a reply whose commit failed into errors.
func notStored(resp *kmsg.ProduceResponse) reply {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if p.ErrorCode == none {
				p.ErrorCode, p.BaseOffset, p.LogAppendTime, p.LogStartOffset = kafkaStorageError, -1, -1, -1
			}
		}
	}
	return reply{body: resp}
}

// topicOf finds a topic that Kafka clients see, by name or by ID, or says which error.
func (s *Server) topicOf(name string, id [16]byte, byID bool) (*bridge.Topic, code) {
	if byID {
		if t, ok := s.b.TopicByID(id); ok && t.Visible() {
			return t, none
		}
		return nil, unknownTopicID
	}
	if t, ok := s.b.Topic(name); ok && t.Visible() {
		return t, none
	}
	return nil, unknownTopicOrPartition
}

// append checks and evaluates one partition's batch.
func (s recordAPI) append(c *call, turn *bridge.Turn, topic *bridge.Topic, records []byte, now int64, p *kmsg.ProduceResponseTopicPartition) {
	no, ok := topic.Stream(p.Partition)
	if !ok {
		p.ErrorCode = unknownTopicOrPartition
		return
	}
	rules := topic.BatchRules(now)
	checked, err := checkBatch(records, rules, c.version)
	if err != nil {
		refuse(p, err)
		return
	}
	args := bridge.BatchArgs{Data: records, Count: checked.Count, MinTime: checked.MinTime, MaxTime: checked.MaxTime}
	if checked.ProducerID >= 0 {
		args.Producer = &bridge.ProducerBatch{
			ID: checked.ProducerID, Epoch: checked.ProducerEpoch,
			FirstSeq: checked.BaseSequence, LastSeq: checked.LastSequence(),
		}
	}
	if rules.LogAppendTime {
		batch.StampAppendTime(records, now)
		args.MinTime, args.MaxTime = now, now
		p.LogAppendTime = now
	}
	done, err := turn.AppendBatch(no, args)
	if err != nil {
		p.LogAppendTime = -1
		refuse(p, err)
		return
	}
	p.BaseOffset, p.LogStartOffset = done.Base, done.Start
}

var (
	errOneBatch    = errors.New("a produce request carries exactly one record batch per partition")
	errTooLarge    = errors.New("the record batch is larger than the topic's max.message.bytes")
	errZstdVersion = errors.New("zstd needs Produce version 7 or newer")
	errTransaction = errors.New("transactions are not served yet")
)

// checkBatch validates a partition's records.
func checkBatch(records []byte, rules bridge.BatchRules, version int16) (batch.Checked, error) {
	if len(records) == 0 {
		return batch.Checked{}, errOneBatch
	}
	n, whole := batch.Split(records)
	if whole && n < len(records) {
		return batch.Checked{}, errOneBatch
	}
	if len(records) > rules.MaxBytes {
		return batch.Checked{}, errTooLarge
	}
	check := batch.Rules{KeysRequired: rules.KeysRequired}
	if !rules.LogAppendTime { // else the producers' times do not matter
		check.MinTime, check.MaxTime = rules.MinTime, rules.MaxTime
	}
	checked, err := batch.Check(records, check)
	switch {
	case err != nil:
		return checked, err
	case checked.Transactional:
		return checked, errTransaction
	case checked.Codec == batch.Zstd && version < 7:
		return checked, errZstdVersion
	}
	return checked, nil
}

// refuse writes a partition's error.
func refuse(p *kmsg.ProduceResponseTopicPartition, err error) {
	p.ErrorCode, p.ErrorMessage = codeOf(err), messageOf(err)
	var bad *batch.BadRecords
	if errors.As(err, &bad) {
		for _, i := range bad.Indexes {
			line := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			line.RelativeOffset, line.ErrorMessage = i, &bad.Reason
			p.ErrorRecords = append(p.ErrorRecords, line)
		}
	}
}
