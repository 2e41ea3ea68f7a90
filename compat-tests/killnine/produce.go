package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"weir/compat-tests/kafkawire"
)

// producers are plain Kafka producers: batches to every partition of one topic, up
// to five requests in flight, no idempotence and so no resending.
type producers struct {
	topic  string
	acks   int16
	seed   uint64
	logs   []*ledger[int64] // by partition
	serial int
}

func newProducers(topic string, partitions int, acks int16, seed uint64) *producers {
	a := &producers{topic: topic, acks: acks, seed: seed}
	for range partitions {
		a.logs = append(a.logs, newLedger[int64]())
	}
	return a
}

func (a *producers) name() string { return fmt.Sprintf("produce %s acks=%d", a.topic, a.acks) }

func (a *producers) answers() (sum int64) {
	for _, l := range a.logs {
		sum += l.answers()
	}
	return sum
}

func (a *producers) prepare(ctx context.Context, sys *system) error {
	return ensureTopic(ctx, sys.kafka, a.topic, len(a.logs))
}

func (a *producers) load(ctx context.Context, sys *system) {
	var wg sync.WaitGroup
	for range 3 {
		a.serial++
		n := a.serial
		wg.Go(func() { a.produce(ctx, sys, n) })
	}
	wg.Wait()
}

// A shipment is one batch in flight.
type shipment struct {
	partition int
	values    []string
}

// produce is one client.
func (a *producers) produce(ctx context.Context, sys *system, client int) {
	c, err := kafkawire.Dial(ctx, sys.kafka)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	rng := rand.New(rand.NewPCG(a.seed, uint64(client)))
	for n := 0; ctx.Err() == nil; pause(ctx, 5*time.Millisecond) {
		var flight []shipment
		for range 1 + rng.IntN(5) {
			s := shipment{partition: rng.IntN(len(a.logs))}
			var raw [][]byte
			for range 1 + rng.IntN(10) {
				n++
				v := fmt.Sprintf("%s/%d/%d", a.topic, client, n)
				s.values, raw = append(s.values, v), append(raw, []byte(v))
			}
			a.logs[s.partition].sent(s.values...)
			set := kafkawire.Batch(raw, time.Now(), kafkawire.NoProducer)
			flight = append(flight, s)
			if c.Send(produceRequest(a.topic, s.partition, a.acks, set)) != nil {
				break // replies may still be here
			}
		}
		for _, s := range flight {
			resp, err := c.Recv()
			if err != nil {
				return
			}
			base, refused := answerOf(resp)
			for i, v := range s.values {
				if refused != nil {
					a.logs[s.partition].refuse(v, refused)
					continue
				}
				a.logs[s.partition].answer(base+int64(i), v)
			}
		}
	}
}

func (a *producers) check(ctx context.Context, sys *system) findings {
	var found findings
	for p, l := range a.logs {
		recs, err := readWhole(ctx, sys, a.topic, p, len(a.logs))
		if err != nil {
			found.add("%v", err)
			continue
		}
		found = append(found, l.compare(fmt.Sprintf("%s/%d", a.topic, p), placedRecords(recs))...)
	}
	return found
}

func placedRecords(recs []kafkawire.Record) []placed[int64] {
	var log []placed[int64]
	for _, r := range recs {
		log = append(log, placed[int64]{r.Offset, string(r.Value)})
	}
	return log
}

// readWhole reads a partition that nobody deletes from: its offsets must be 0, 1, 2
// and so on. Where both protocols show one store, the other view is compared.
func readWhole(ctx context.Context, sys *system, topic string, partition, partitions int) ([]kafkawire.Record, error) {
	if err := waitLed(ctx, sys.kafka, topic, partitions); err != nil {
		return nil, err
	}
	recs, err := readLog(ctx, sys.kafka, topic, partition)
	if err != nil {
		return nil, err
	}
	for i, r := range recs {
		if r.Offset != int64(i) {
			return recs, fmt.Errorf("%s/%d: offset %d stands where %d should", topic, partition, r.Offset, i)
		}
	}
	if sys.oneStore {
		err = sameOnRedis(ctx, sys, topic, partition, recs)
	}
	return recs, err
}
