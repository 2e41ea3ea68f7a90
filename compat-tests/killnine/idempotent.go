package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/kafkawire"
)

// An idempotent is one idempotent producer of one partition that outlives the
// server: after a restart it sends what was not answered once more, in order, with
// the sequences it had, and then goes on. Whatever of it was written before the kill
// must be known as a duplicate and be answered with the offset it has.
type idempotent struct {
	topic    string
	seed     uint64
	window   int
	producer kafkawire.Producer // Sequence is the next one
	log      *ledger[int64]
	pending  []idempotentBatch // sent, not answered, oldest first
	serial   int
	resent   int64
}

type idempotentBatch struct {
	first  int32 // sequence
	values []string
}

// newIdempotent: a real Kafka 4.4 knows only the newest batch of a producer after a
// restart and refuses older ones as out of order; against it the window is 1.
func newIdempotent(topic string, seed uint64, window int) *idempotent {
	return &idempotent{topic: topic, seed: seed, window: window, log: newLedger[int64](), producer: kafkawire.Producer{ID: -1}}
}

func (a *idempotent) name() string { return "idem " + a.topic }

func (a *idempotent) answers() int64 { return a.log.answers() }

func (a *idempotent) prepare(ctx context.Context, sys *system) error {
	if err := ensureTopic(ctx, sys.kafka, a.topic, 1); err != nil {
		return err
	}
	for a.producer.ID < 0 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 4, 60_000, -1, -1
		resp, err := asKafka[*kmsg.InitProducerIDResponse](ctx, sys.kafka, req)
		if err != nil {
			return err
		}
		switch err := kerr.ErrorForCode(resp.ErrorCode); {
		case err == nil:
			a.producer = kafkawire.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}
		case kerr.IsRetriable(err):
			pause(ctx, 20*time.Millisecond)
		default:
			return fmt.Errorf("InitProducerId: %w", err)
		}
	}
	return nil
}

func (a *idempotent) load(ctx context.Context, sys *system) {
	c, err := kafkawire.Dial(ctx, sys.kafka)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	rng := rand.New(rand.NewPCG(a.seed, uint64(a.serial)))
	for _, b := range a.pending { // at most a window
		a.resent++
		if a.send(c, b) != nil {
			return
		}
	}
	if !a.receive(c) {
		return
	}
	for ctx.Err() == nil {
		for range 1 + rng.IntN(a.window) {
			b := idempotentBatch{first: a.producer.Sequence}
			for range 1 + rng.IntN(5) {
				a.serial++
				b.values = append(b.values, fmt.Sprintf("%s/%d", a.topic, a.serial))
			}
			a.producer.Sequence += int32(len(b.values))
			a.pending = append(a.pending, b)
			a.log.sent(b.values...)
			if a.send(c, b) != nil {
				return
			}
		}
		if !a.receive(c) {
			return
		}
		pause(ctx, 2*time.Millisecond)
	}
}

func (a *idempotent) send(c *kafkawire.Conn, b idempotentBatch) error {
	var raw [][]byte
	for _, v := range b.values {
		raw = append(raw, []byte(v))
	}
	set := kafkawire.Batch(raw, time.Now(), kafkawire.Producer{ID: a.producer.ID, Epoch: a.producer.Epoch, Sequence: b.first})
	return c.Send(produceRequest(a.topic, 0, -1, set))
}

// receive takes the replies of all that is pending; false ends the load.
func (a *idempotent) receive(c *kafkawire.Conn) bool {
	for len(a.pending) > 0 {
		b := a.pending[0]
		resp, err := c.Recv()
		if err != nil {
			return false
		}
		base, refused := answerOf(resp)
		if refused != nil {
			a.log.refuse(b.values[0], fmt.Errorf("sequence %d: %w", b.first, refused))
			return false
		}
		for i, v := range b.values {
			a.log.answer(base+int64(i), v)
		}
		a.pending = a.pending[1:]
	}
	return true
}

func (a *idempotent) check(ctx context.Context, sys *system) findings {
	recs, err := readWhole(ctx, sys, a.topic, 0, 1)
	if err != nil {
		return findings{err.Error()}
	}
	found := a.log.compare(a.topic, placedRecords(recs))
	// What is pending stays so: it will be sent again, whatever the log has of it.
	for _, b := range a.pending {
		a.log.sent(b.values...)
	}
	for i, r := range recs {
		if r.Sequence != int32(i) || r.Producer.ID != a.producer.ID {
			found.add("offset %d has sequence %d of producer %d: one was skipped or stored twice", r.Offset, r.Sequence, r.Producer.ID)
			break
		}
	}
	return found
}
