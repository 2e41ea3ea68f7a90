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

// A committed is one partition's commit; offset -1 is none.
type committed struct {
	offset   int64
	metadata string
}

var noCommit = committed{offset: -1}

// committers commit offsets for groups without members (generation -1), one request
// at a time over several partitions, and delete some again, or the whole group.
type committers struct {
	topic    string
	groups   []string
	rng      *rand.Rand
	answered []([]committed) // by group, by partition
	// open is the unanswered request: each partition of group openAt may have its
	// old or its new state, since the partitions live in different shards.
	open   []committed
	openAt int
	serial int
	count  int64
	wrong  findings
}

func newCommitters(topic string, partitions, groups int, seed uint64) *committers {
	a := &committers{topic: topic, rng: rand.New(rand.NewPCG(seed, 5))}
	for g := range groups {
		a.groups = append(a.groups, fmt.Sprintf("%s-group-%d", topic, g))
		row := make([]committed, partitions)
		for p := range row {
			row[p] = noCommit
		}
		a.answered = append(a.answered, row)
	}
	return a
}

func (a *committers) name() string { return "commit " + a.topic }

func (a *committers) answers() int64 { return a.count }

func (a *committers) partitions() int { return len(a.answered[0]) }

// prepare makes the topic and waits until the coordinator of the groups is there.
func (a *committers) prepare(ctx context.Context, sys *system) error {
	if err := ensureTopic(ctx, sys.kafka, a.topic, a.partitions()); err != nil {
		return err
	}
	return waitCoordinator(ctx, sys.kafka, a.groups[0])
}

// waitCoordinator waits until a group's offsets can be fetched.
func waitCoordinator(ctx context.Context, addr, group string) error {
	for began := time.Now(); ; pause(ctx, 20*time.Millisecond) {
		// Kafka makes the topic that holds the commits when it is first asked.
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.Version, req.CoordinatorKey = 3, group
		resp, err := asKafka[*kmsg.FindCoordinatorResponse](ctx, addr, req)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			if _, err = fetchCommits(ctx, addr, group, "none", 1); err == nil {
				return nil
			}
		}
		if ctx.Err() != nil || time.Since(began) > checkLimit/2 {
			return fmt.Errorf("no coordinator for %s: %w", group, err)
		}
	}
}

func (a *committers) load(ctx context.Context, sys *system) {
	c, err := kafkawire.Dial(ctx, sys.kafka)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for ctx.Err() == nil {
		g := a.rng.IntN(len(a.groups))
		after := append([]committed(nil), a.answered[g]...)
		var req kmsg.Request
		switch roll := a.rng.IntN(16); {
		case roll == 0 && a.hasCommit(g):
			req = a.deleteGroup(g, after)
		case roll < 3 && a.hasCommit(g):
			req = a.delete(g, after)
		default:
			req = a.commit(g, after)
		}
		a.open, a.openAt = after, g
		resp, err := c.Do(req)
		if err != nil {
			return
		}
		if err := firstError(resp); err != nil {
			a.wrong.add("%s for %s was answered with: %v", kmsg.NameForKey(req.Key()), a.groups[g], err)
			return
		}
		a.answered[g], a.open = after, nil
		a.count++
	}
}

func (a *committers) hasCommit(g int) bool {
	for _, c := range a.answered[g] {
		if c != noCommit {
			return true
		}
	}
	return false
}

// some returns a few different partitions.
func (a *committers) some() []int { return a.rng.Perm(a.partitions())[:1+a.rng.IntN(a.partitions())] }

// commit makes up an OffsetCommit and writes its effect to after.
func (a *committers) commit(g int, after []committed) kmsg.Request {
	tp := kmsg.NewOffsetCommitRequestTopic()
	tp.Topic = a.topic
	for _, p := range a.some() {
		a.serial++
		// Mostly forward, sometimes back, as a reset does.
		offset := max(0, after[p].offset+int64(a.rng.IntN(50))-10)
		after[p] = committed{offset, fmt.Sprintf("commit %d", a.serial)}
		part := kmsg.NewOffsetCommitRequestTopicPartition()
		part.Partition, part.Offset, part.Metadata = int32(p), offset, kmsg.StringPtr(after[p].metadata)
		tp.Partitions = append(tp.Partitions, part)
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, a.groups[g], -1
	req.Topics = append(req.Topics, tp)
	return req
}

// delete makes up an OffsetDelete and writes its effect to after.
func (a *committers) delete(g int, after []committed) kmsg.Request {
	tp := kmsg.NewOffsetDeleteRequestTopic()
	tp.Topic = a.topic
	for _, p := range a.some() {
		after[p] = noCommit
		part := kmsg.NewOffsetDeleteRequestTopicPartition()
		part.Partition = int32(p)
		tp.Partitions = append(tp.Partitions, part)
	}
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = a.groups[g]
	req.Topics = append(req.Topics, tp)
	return req
}

// deleteGroup makes up a DeleteGroups and writes its effect to after.
func (a *committers) deleteGroup(g int, after []committed) kmsg.Request {
	for p := range after {
		after[p] = noCommit
	}
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = 2, []string{a.groups[g]}
	return req
}

// firstError finds the first error code of a commit's or a deletion's reply.
func firstError(resp kmsg.Response) error {
	switch r := resp.(type) {
	case *kmsg.OffsetCommitResponse:
		for _, p := range r.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return kerr.ErrorForCode(p.ErrorCode)
			}
		}
	case *kmsg.DeleteGroupsResponse:
		return kerr.ErrorForCode(r.Groups[0].ErrorCode)
	case *kmsg.OffsetDeleteResponse:
		if r.ErrorCode != 0 {
			return kerr.ErrorForCode(r.ErrorCode)
		}
		for _, p := range r.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return nil
}

// fetchCommits asks for a group's commits of a topic's partitions.
func fetchCommits(ctx context.Context, addr, group, topic string, partitions int) ([]committed, error) {
	tp := kmsg.NewOffsetFetchRequestTopic()
	tp.Topic = topic
	for p := range partitions {
		tp.Partitions = append(tp.Partitions, int32(p))
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group, req.RequireStable = 7, group, true
	req.Topics = append(req.Topics, tp)
	resp, err := asKafka[*kmsg.OffsetFetchResponse](ctx, addr, req)
	if err != nil {
		return nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	out := make([]committed, partitions)
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode != 0 && p.ErrorCode != kerr.UnknownTopicOrPartition.Code {
			return nil, kerr.ErrorForCode(p.ErrorCode)
		}
		out[p.Partition] = committed{offset: p.Offset}
		if p.Metadata != nil && p.Offset >= 0 {
			out[p.Partition].metadata = *p.Metadata
		}
	}
	return out, nil
}

func (a *committers) check(ctx context.Context, sys *system) findings {
	found := a.wrong
	a.wrong = nil
	if err := waitCoordinator(ctx, sys.kafka, a.groups[0]); err != nil {
		return append(found, err.Error())
	}
	for g, group := range a.groups {
		got, err := fetchCommits(ctx, sys.kafka, group, a.topic, a.partitions())
		if err != nil {
			found.add("%s: OffsetFetch: %v", group, err)
			continue
		}
		for p, want := range a.answered[g] {
			open := a.open != nil && a.openAt == g && got[p] == a.open[p]
			if got[p] != want && !open {
				found.add("%s: partition %d is at %+v, acknowledged was %+v", group, p, got[p], want)
			}
		}
		a.answered[g] = got
	}
	a.open = nil
	return found
}
