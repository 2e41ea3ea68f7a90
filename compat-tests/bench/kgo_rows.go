package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The same through a real client. On two cores the client takes its half of the
// processor, so these rows say what a user of kgo sees, not what the server can do.

// kgoProduce sends records of 100 bytes to 12 partitions as fast as kgo takes them.
func kgoProduce(opts ...kgo.Opt) func(context.Context, *turn) (measure, error) {
	return func(ctx context.Context, t *turn) (measure, error) {
		topic, err := newTopic(ctx, t.srv, 12)
		if err != nil {
			return measure{}, err
		}
		client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(t.srv.Kafka), kgo.DefaultProduceTopic(topic),
			kgo.ProducerBatchCompression(kgo.NoCompression())}, opts...)...)
		if err != nil {
			return measure{}, err
		}
		defer client.Close()
		value := values(1, 100)[0]
		var done atomic.Int64
		var failed atomic.Pointer[error]
		promise := func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
				return
			}
			done.Add(1)
		}
		send := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				for range 100 {
					client.Produce(ctx, &kgo.Record{Value: value}, promise)
				}
			}
		}
		send(t.warm)
		cpu, own, before, began := t.srv.CPU(), ownCPU(), done.Load(), time.Now()
		send(t.measure)
		m := measure{count: float64(done.Load() - before), elapsed: time.Since(began), client: ownCPU() - own}
		if err := client.Flush(ctx); err != nil {
			return m, err
		}
		if err := failed.Load(); err != nil {
			return m, fmt.Errorf("kgo produce: %w", *err)
		}
		t.settle()
		m.cpu = t.srv.CPU() - cpu
		return m, dropTopic(ctx, t.srv, topic)
	}
}

// kgoFetch reads a stocked topic of 12 partitions from its start, again and again.
// Units are megabytes of values.
func kgoFetch(ctx context.Context, t *turn) (measure, error) {
	s := shape{partitions: 12, records: 16, size: 1024}
	topic, err := newTopic(ctx, t.srv, s.partitions)
	if err != nil {
		return measure{}, err
	}
	if _, err := stock(ctx, t.srv, topic, s); err != nil {
		return measure{}, err
	}
	t.settle()
	var m measure
	cpu, own, began := t.srv.CPU(), ownCPU(), time.Now()
	for m.elapsed < t.measure {
		client, err := kgo.NewClient(kgo.SeedBrokers(t.srv.Kafka), kgo.ConsumeTopics(topic),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			return measure{}, err
		}
		for got := 0; got < fetchTotal*9/10; {
			fs := client.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				client.Close()
				return measure{}, fmt.Errorf("kgo fetch: %w", err)
			}
			fs.EachRecord(func(r *kgo.Record) { got += len(r.Value); m.count += float64(len(r.Value)) / 1e6 })
		}
		m.elapsed = time.Since(began)
		client.Close()
	}
	m.cpu, m.client = t.srv.CPU()-cpu, ownCPU()-own
	return m, dropTopic(ctx, t.srv, topic)
}
