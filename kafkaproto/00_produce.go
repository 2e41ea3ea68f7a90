package kafkaproto

import (
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
	"weir/kafkaproto/batch"
)

// Produce v3-v13 (0-2 are advertised, KAFKA-18659, and refused, as Kafka 4 does).
//
//   - Each partition takes exactly one batch of format 2, checked whole (package batch) and stored as it came. Of a
//     partition that is named twice only the last batch is taken, as in Kafka.
//   - acks=1 is answered when the batch is written, acks=-1 when it is durable, acks=0
//     never: an error then closes the connection. Others: INVALID_REQUIRED_ACKS.
//   - The appends are evaluated at once and the reply waits with the connection's writer,
//     so that all that is in flight shares a commit.
//   - LogAppendTime topics get the broker's clock, and the reply says it.
//   - Compacted topics refuse records without a key, by index (v8+).
//   - Idempotent batches: the engine's window; a repeated batch answers its first offset.
//   - zstd before v7: UNSUPPORTED_COMPRESSION_TYPE.
//
// Connections that do nothing else are lent to a lane (lend.go), which evaluates with the same code.
//
// Left out: transactional batches (INVALID_TXN_STATE) until transactions are served;
// min.insync.replicas is stored and not acted on, there being one replica.

const produceKey = 0

func (s recordAPI) produce(c *call) reply {
	req := c.req.(*kmsg.ProduceRequest)
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	level := produceLevel(req.Acks)
	turn := c.c.turn(level)
	failed := s.produceInto(turn, s.b.Now(), req, resp, false)
	ticket := turn.Ticket()
	if req.Acks == 0 {
		return reply{none: true, closes: failed, ticket: &ticket, failed: closed}
	}
	return reply{
		body: resp, ticket: &ticket, inline: level == bridge.Written,
		failed: func(error) reply { notStored(resp); return reply{body: resp} },
	}
}

// produceLevel is when a Produce is answered. Other acks than these are refused.
func produceLevel(acks int16) bridge.Level {
	switch acks {
	case 0:
		return bridge.Unanswered
	case -1:
		return bridge.Durable
	}
	return bridge.Written
}

var producedTopics = topicShape[kmsg.ProduceRequestTopic, kmsg.ProduceRequestTopicPartition]{
	key:        func(t *kmsg.ProduceRequestTopic) topicKey { return topicKey{t.Topic, t.TopicID} },
	partitions: func(t *kmsg.ProduceRequestTopic) *[]kmsg.ProduceRequestTopicPartition { return &t.Partitions },
	partition:  func(p *kmsg.ProduceRequestTopicPartition) int32 { return p.Partition },
}

// produceInto evaluates a request into a turn that is given (the connection's, a lane's) and fills its response,
// whose slices are used again. It says whether a partition failed. lent: the records lie in a buffer that will be
// used again, so that what is stored of them must be copied. The response keeps nothing of the request's memory.
func (s recordAPI) produceInto(turn *bridge.Turn, now int64, req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse, lent bool) (failed bool) {
	legal := req.Acks >= -1 && req.Acks <= 1
	topics, _ := producedTopics.once(req.Topics)
	resp.Topics = sized(resp.Topics, len(topics))
	for i := range topics {
		rt, out := &topics[i], &resp.Topics[i]
		partitions := sized(out.Partitions, len(rt.Partitions))
		*out = kmsg.NewProduceResponseTopic()
		out.TopicID, out.Partitions = rt.TopicID, partitions
		topic, missing := s.topicOf(rt.Topic, rt.TopicID, req.Version >= 13)
		switch {
		case req.Version >= 13:
		case missing == none:
			out.Topic = topic.Name
		default:
			out.Topic = strings.Clone(rt.Topic)
		}
		for j := range rt.Partitions {
			p := &partitions[j]
			*p = kmsg.NewProduceResponseTopicPartition()
			p.Partition = rt.Partitions[j].Partition
			p.BaseOffset, p.LogStartOffset = -1, -1
			switch {
			case !legal:
				p.ErrorCode = invalidRequiredAcks
			case missing != none:
				p.ErrorCode = missing
			default:
				b := produced{records: rt.Partitions[j].Records, lent: lent, version: req.Version}
				b.appendTo(turn, topic, now, p)
			}
			failed = failed || p.ErrorCode != none
		}
	}
	return failed
}

// sized is a slice of n elements that keeps what memory the old one has. The elements may be old ones.
func sized[T any](old []T, n int) []T {
	if cap(old) >= n {
		return old[:n]
	}
	return make([]T, n)
}

// closed is the answer to acks=0 that failed.
func closed(error) reply { return reply{none: true, closes: true} }

// notStored turns a reply whose commit failed into errors.
func notStored(resp *kmsg.ProduceResponse) {
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if p.ErrorCode == none {
				p.ErrorCode, p.BaseOffset, p.LogAppendTime, p.LogStartOffset = kafkaStorageError, -1, -1, -1
			}
		}
	}
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

// produced is what a request has for one partition.
type produced struct {
	records []byte
	lent    bool // the memory will be used again
	version int16
}

// appendTo checks and evaluates one partition's batch.
func (b *produced) appendTo(turn *bridge.Turn, topic *bridge.Topic, now int64, p *kmsg.ProduceResponseTopicPartition) {
	no, ok := topic.Stream(p.Partition)
	if !ok {
		p.ErrorCode = unknownTopicOrPartition
		return
	}
	rules := topic.BatchRules(now)
	checked, err := checkBatch(b.records, rules, b.version)
	if err != nil {
		refuse(p, err)
		return
	}
	records := b.records
	if b.lent {
		records = append(make([]byte, 0, len(records)), records...) // the engine keeps it: not a byte more
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
