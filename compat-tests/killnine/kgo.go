package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A kgoProducer is a real client that stays while the server is killed: it keeps its
// records, reconnects and resends them by itself, idempotently, acks=all.
type kgoProducer struct {
	topic  string
	logs   []*ledger[int64]
	window int
	client *kgo.Client
	serial int
}

func newKgoProducer(topic string, partitions, window int) *kgoProducer {
	a := &kgoProducer{topic: topic, window: window}
	for range partitions {
		a.logs = append(a.logs, newLedger[int64]())
	}
	return a
}

func (a *kgoProducer) name() string { return "kgo " + a.topic }

func (a *kgoProducer) answers() (sum int64) {
	for _, l := range a.logs {
		sum += l.answers()
	}
	return sum
}

func (a *kgoProducer) close() {
	if a.client != nil {
		a.client.Close()
	}
}

func (a *kgoProducer) prepare(ctx context.Context, sys *system) (err error) {
	if a.client != nil {
		return nil
	}
	if err := ensureTopic(ctx, sys.kafka, a.topic, len(a.logs)); err != nil {
		return err
	}
	opts := []kgo.Opt{kgo.SeedBrokers(sys.kafka), kgo.MetadataMinAge(100 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(time.Millisecond), kgo.MaxBufferedRecords(500),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }), kgo.RecordRetries(1 << 30)}
	if a.window == 1 { // otherwise kgo's own: five
		opts = append(opts, kgo.MaxProduceRequestsInflightPerBroker(1))
	}
	a.client, err = kgo.NewClient(opts...)
	return err
}

func (a *kgoProducer) load(ctx context.Context, _ *system) {
	for ctx.Err() == nil {
		for range 20 {
			a.serial++
			r := &kgo.Record{Topic: a.topic, Partition: int32(a.serial % len(a.logs)),
				Value: fmt.Appendf(nil, "%s/%d", a.topic, a.serial)}
			l := a.logs[r.Partition]
			l.sent(string(r.Value))
			// Not ctx: what is buffered at the kill is sent after the restart.
			a.client.TryProduce(context.Background(), r, func(r *kgo.Record, err error) {
				switch err {
				case nil:
					l.answer(r.Offset, string(r.Value))
				case kgo.ErrMaxBuffered: // never left the client
					l.unsend(string(r.Value))
				default:
					l.refuse(string(r.Value), err)
				}
			})
		}
		pause(ctx, 3*time.Millisecond)
	}
}

func (a *kgoProducer) check(ctx context.Context, sys *system) findings {
	if err := a.client.Flush(ctx); err != nil {
		return findings{fmt.Sprintf("kgo has records that the restarted server does not take: %v", err)}
	}
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
