package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// members are two real clients in one classic consumer group. They stay while the
// server is killed, and commit what they have polled, poll by poll. A partition's
// commit only ever goes forward, whoever owns it: after a kill it is not below the
// newest acknowledged one and not beyond the newest that was asked for.
type members struct {
	topic      string
	partitions int
	clients    []*kgo.Client

	mu    sync.Mutex
	acked []int64 // by partition; -1: none
	asked []int64
	count int64
}

const memberGroup = "kn-members"

func newMembers(topic string, partitions int) *members {
	a := &members{topic: topic, partitions: partitions}
	for range partitions {
		a.acked, a.asked = append(a.acked, -1), append(a.asked, -1)
	}
	return a
}

func (a *members) name() string { return "member " + a.topic }

func (a *members) answers() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

func (a *members) close() {
	for _, c := range a.clients {
		c.Close()
	}
}

func (a *members) prepare(ctx context.Context, sys *system) error {
	if a.clients != nil {
		return nil
	}
	if err := ensureTopic(ctx, sys.kafka, a.topic, a.partitions); err != nil {
		return err
	}
	for i := range 2 {
		c, err := kgo.NewClient(kgo.SeedBrokers(sys.kafka), kgo.MetadataMinAge(100*time.Millisecond), kgo.ClientID(fmt.Sprintf("member-%d", i)),
			kgo.ConsumerGroup(memberGroup), kgo.ConsumeTopics(a.topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(300*time.Millisecond),
			kgo.FetchMaxWait(100*time.Millisecond), kgo.BlockRebalanceOnPoll(),
			kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }))
		if err != nil {
			return err
		}
		a.clients = append(a.clients, c)
	}
	return nil
}

func (a *members) load(ctx context.Context, _ *system) {
	var wg sync.WaitGroup
	for _, c := range a.clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				recs := c.PollRecords(ctx, 200).Records()
				if len(recs) > 0 {
					a.commit(ctx, c, recs)
				}
				c.AllowRebalance()
			}
		})
	}
	wg.Wait()
}

// commit commits what was polled and notes the outcome.
func (a *members) commit(ctx context.Context, c *kgo.Client, recs []*kgo.Record) {
	next := map[int32]int64{}
	for _, r := range recs {
		next[r.Partition] = r.Offset + 1
	}
	note := func(l []int64) {
		a.mu.Lock()
		defer a.mu.Unlock()
		for p, o := range next {
			l[p] = max(l[p], o)
		}
	}
	note(a.asked)
	if c.CommitRecords(ctx, recs...) == nil {
		note(a.acked)
		a.mu.Lock()
		a.count++
		a.mu.Unlock()
	}
}

func (a *members) check(ctx context.Context, sys *system) findings {
	var found findings
	if err := waitCoordinator(ctx, sys.kafka, memberGroup); err != nil {
		return findings{err.Error()}
	}
	got, err := fetchCommits(ctx, sys.kafka, memberGroup, a.topic, a.partitions)
	if err != nil {
		return findings{fmt.Sprintf("OffsetFetch: %v", err)}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, c := range got {
		if c.offset < a.acked[p] {
			found.add("%s/%d: committed is %d, acknowledged was %d", a.topic, p, c.offset, a.acked[p])
		}
		if c.offset > a.asked[p] {
			found.add("%s/%d: committed is %d, the most that was asked for is %d", a.topic, p, c.offset, a.asked[p])
		}
		a.acked[p] = c.offset
	}
	return found
}
