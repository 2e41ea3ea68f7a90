package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/kafkawire"
)

// A flood is producers that send as much as the server takes, so that a kill finds
// full write buffers and a log of many megabytes to be read at the next start. Each
// round has a topic of its own, deleted once it was compared.
type flood struct {
	round int
	logs  []*ledger[int64] // by partition
	count int64
}

const (
	floodPartitions = 3
	floodRecord     = 16 << 10 // bytes of a value
	floodBatch      = 8        // records
	floodMost       = 1500     // batches a client sends in a round, about 200 MB
)

func (a *flood) name() string { return "flood" }

func (a *flood) answers() int64 {
	sum := a.count
	for _, l := range a.logs {
		sum += l.answers()
	}
	return sum
}

func (a *flood) topic() string { return fmt.Sprintf("kn-flood-%d", a.round) }

func (a *flood) prepare(ctx context.Context, sys *system) error {
	a.count = a.answers()
	a.round++
	a.logs = nil
	for range floodPartitions {
		a.logs = append(a.logs, newLedger[int64]())
	}
	return ensureTopic(ctx, sys.kafka, a.topic(), floodPartitions)
}

func (a *flood) load(ctx context.Context, sys *system) {
	var wg sync.WaitGroup
	for client := range 2 {
		wg.Go(func() { a.produce(ctx, sys, client) })
	}
	wg.Wait()
}

// produce is one client: five requests in flight, acks=1 and acks=all in turn.
func (a *flood) produce(ctx context.Context, sys *system, client int) {
	c, err := kafkawire.Dial(ctx, sys.kafka)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var flight []shipment
	receive := func() bool {
		s := flight[0]
		flight = flight[1:]
		resp, err := c.Recv()
		if err != nil {
			return false
		}
		base, refused := answerOf(resp)
		for i, v := range s.values {
			if refused != nil {
				a.logs[s.partition].refuse(v, refused)
				continue
			}
			a.logs[s.partition].answer(base+int64(i), v)
		}
		return true
	}
	for n := 0; n < floodMost && ctx.Err() == nil; n++ {
		s := shipment{partition: n % floodPartitions}
		var raw [][]byte
		for i := range floodBatch {
			v := fmt.Sprintf("%d/%d/%d/%d", a.round, client, n, i)
			padded := make([]byte, floodRecord)
			copy(padded, v)
			s.values, raw = append(s.values, v), append(raw, padded)
		}
		a.logs[s.partition].sent(s.values...)
		set := kafkawire.Batch(raw, time.Now(), kafkawire.NoProducer)
		flight = append(flight, s)
		if c.Send(produceRequest(a.topic(), s.partition, int16(1-2*(client%2)), set)) != nil {
			break // replies may still be here
		}
		if len(flight) == 5 && !receive() {
			return
		}
	}
	for len(flight) > 0 && receive() {
	}
}

func (a *flood) check(ctx context.Context, sys *system) findings {
	var found findings
	if err := waitLed(ctx, sys.kafka, a.topic(), floodPartitions); err != nil {
		return findings{err.Error()}
	}
	for p, l := range a.logs {
		recs, err := readLog(ctx, sys.kafka, a.topic(), p)
		if err != nil {
			found.add("%v", err)
			continue
		}
		var log []placed[int64]
		for i, r := range recs {
			log = append(log, placed[int64]{r.Offset, string(bytes.TrimRight(r.Value, "\x00"))})
			if r.Offset != int64(i) || len(r.Value) != floodRecord {
				found.add("%s/%d: offset %d with %d bytes stands where %d should", a.topic(), p, r.Offset, len(r.Value), i)
				break
			}
		}
		found = append(found, l.compare(fmt.Sprintf("%s/%d", a.topic(), p), log)...)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 30_000, []string{a.topic()}
	resp, err := asKafka[*kmsg.DeleteTopicsResponse](ctx, sys.kafka, req)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		found.add("deleting %s: %v", a.topic(), err)
	}
	return found
}
