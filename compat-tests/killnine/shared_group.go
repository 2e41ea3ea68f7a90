package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/kafkawire"
	"weir/compat-tests/respwire"
)

// A groupState is what both protocols show of one group on one stream, in offsets.
// Nothing is ever deleted from the stream, so an entry's index is its offset.
type groupState struct {
	end       int64 // records in the stream
	delivered int64 // last delivered offset, -1 before the first
	pending   map[int64]bool
}

func (s groupState) clone() groupState {
	s.pending = maps.Clone(s.pending)
	return s
}

// watermark is the lowest pending offset, or the next one to be delivered: what
// OffsetFetch answers.
func (s groupState) watermark() int64 {
	if len(s.pending) == 0 {
		return s.delivered + 1
	}
	return slices.Min(slices.Collect(maps.Keys(s.pending)))
}

func (s groupState) String() string {
	return fmt.Sprintf("%d records, delivered to %d, pending %v, watermark %d", s.end, s.delivered,
		slices.Sorted(maps.Keys(s.pending)), s.watermark())
}

func (s groupState) equal(o groupState) bool {
	return s.end == o.end && s.delivered == o.delivered && maps.Equal(s.pending, o.pending)
}

// commit is OffsetCommit n: all below n is acknowledged; if something in [n,
// delivered] was acknowledged already it is a rewind.
func (s *groupState) commit(n int64) {
	maps.DeleteFunc(s.pending, func(o int64, _ bool) bool { return o < n })
	if n > s.delivered || int64(len(s.pending)) != s.delivered-n+1 {
		s.delivered = n - 1
		clear(s.pending)
	}
}

// A sharedGroup uses one group from both protocols, one request at a time: records
// come by Produce and XADD, go by XREADGROUP, and are acknowledged by XACK and by
// OffsetCommit. Only a server that shows one store both ways can be asked this.
type sharedGroup struct {
	topic    string
	rng      *rand.Rand
	answered groupState
	open     *groupState      // after the one unanswered request
	ids      map[int64]string // by offset, as far as they are known
	ready    bool
	serial   int
	count    int64
	wrong    findings
}

const sharedGroupName = "both"

func newSharedGroup(topic string, seed uint64) *sharedGroup {
	return &sharedGroup{topic: topic, rng: rand.New(rand.NewPCG(seed, 9)), ids: map[int64]string{},
		answered: groupState{delivered: -1, pending: map[int64]bool{}}}
}

func (a *sharedGroup) name() string { return "shared group " + a.topic }

func (a *sharedGroup) answers() int64 { return a.count }

// prepare makes the topic through Kafka, the group through Redis, and its first
// commit through Kafka.
func (a *sharedGroup) prepare(ctx context.Context, sys *system) error {
	if a.ready {
		return nil
	}
	if err := ensureTopic(ctx, sys.kafka, a.topic, 1); err != nil {
		return err
	}
	r, k, err := a.dial(ctx, sys)
	if err != nil {
		return err
	}
	defer r.Close()
	defer k.Close()
	if v, err := r.Do("XGROUP", "CREATE", a.topic, sharedGroupName, "0"); err != nil || v != "OK" {
		return fmt.Errorf("XGROUP CREATE answered %v, %w", v, err)
	}
	a.ready = true
	return a.sendCommit(k, 0)
}

func (a *sharedGroup) dial(ctx context.Context, sys *system) (*respwire.Conn, *kafkawire.Conn, error) {
	k, err := kafkawire.Dial(ctx, sys.kafka)
	if err != nil {
		return nil, nil, err
	}
	r, err := respwire.Dial(ctx, sys.redis)
	if err != nil {
		k.Close()
	}
	return r, k, err
}

// errWrong ends a load whose finding is noted already.
var errWrong = errors.New("a wrong answer")

func (a *sharedGroup) load(ctx context.Context, sys *system) {
	r, k, err := a.dial(ctx, sys)
	if err != nil {
		return
	}
	defer r.Close()
	defer k.Close()
	defer context.AfterFunc(ctx, func() { r.Close(); k.Close() })()
	for ctx.Err() == nil {
		var err error
		switch now := a.answered; a.rng.IntN(6) {
		case 0:
			err = a.produce(k)
		case 1:
			err = a.add(r)
		case 2, 3:
			if now.delivered+1 < now.end {
				err = a.read(r)
			}
		case 4:
			if len(now.pending) > 0 {
				err = a.ack(r)
			}
		default:
			// From a little below the watermark (a reset) to the end.
			low := max(0, now.watermark()-2)
			err = a.sendCommit(k, low+a.rng.Int64N(min(now.delivered+3, now.end)-low+1))
		}
		if err != nil {
			return
		}
	}
}

// answer takes a request's outcome over.
func (a *sharedGroup) answer(after groupState) {
	a.answered, a.open = after, nil
	a.count++
}

func (a *sharedGroup) produce(k *kafkawire.Conn) error {
	after, base := a.answered.clone(), a.answered.end
	n := 1 + a.rng.IntN(4)
	after.end += int64(n)
	a.open = &after
	set := kafkawire.Batch(slices.Repeat([][]byte{[]byte("p")}, n), time.Now(), kafkawire.NoProducer)
	resp, err := k.Do(produceRequest(a.topic, 0, 1, set))
	if err != nil {
		return err
	}
	if got, err := answerOf(resp); err != nil || got != base {
		a.wrong.add("Produce answered offset %d (%v), not %d", got, err, base)
		return errWrong
	}
	a.answer(after)
	return nil
}

func (a *sharedGroup) add(r *respwire.Conn) error {
	after := a.answered.clone()
	after.end++
	a.open = &after
	v, err := r.Do("XADD", a.topic, "*", "value", "x")
	if err != nil {
		return err
	}
	if e, ok := v.(respwire.Error); ok {
		a.wrong.add("XADD answered %v", e)
		return errWrong
	}
	a.answer(after)
	return nil
}

func (a *sharedGroup) read(r *respwire.Conn) error {
	after, n := a.answered.clone(), 1+a.rng.IntN(5)
	for range n {
		if after.delivered+1 < after.end {
			after.delivered++
			after.pending[after.delivered] = true
		}
	}
	a.open = &after
	v, err := r.Do("XREADGROUP", "GROUP", sharedGroupName, "reader", "COUNT", strconv.Itoa(n), "STREAMS", a.topic, ">")
	if err != nil {
		return err
	}
	ids, err := deliveredIDs(v)
	if err != nil || int64(len(ids)) != after.delivered-a.answered.delivered {
		a.wrong.add("XREADGROUP COUNT %d in state [%s] answered %v", n, a.answered, v)
		return errWrong
	}
	for i, got := range ids {
		at := a.answered.delivered + 1 + int64(i)
		if was, ok := a.ids[at]; ok && was != got.String() {
			a.wrong.add("offset %d had ID %s and is delivered as %s", at, was, got)
		}
		a.ids[at] = got.String()
	}
	a.answer(after)
	return nil
}

func (a *sharedGroup) ack(r *respwire.Conn) error {
	after := a.answered.clone()
	all := slices.Sorted(maps.Keys(after.pending))
	offset := all[a.rng.IntN(len(all))]
	delete(after.pending, offset)
	a.open = &after
	v, err := r.Do("XACK", a.topic, sharedGroupName, a.ids[offset])
	if err != nil {
		return err
	}
	if v != int64(1) {
		a.wrong.add("XACK of offset %d (%s) in state [%s] answered %v", offset, a.ids[offset], a.answered, v)
		return errWrong
	}
	a.answer(after)
	return nil
}

func (a *sharedGroup) sendCommit(k *kafkawire.Conn, n int64) error {
	after := a.answered.clone()
	after.commit(n)
	a.open = &after
	a.serial++
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Offset = n
	tp := kmsg.NewOffsetCommitRequestTopic()
	tp.Topic, tp.Partitions = a.topic, []kmsg.OffsetCommitRequestTopicPartition{part}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, sharedGroupName, -1
	req.Topics = append(req.Topics, tp)
	resp, err := k.Do(req)
	if err != nil {
		return err
	}
	if err := firstError(resp); err != nil {
		a.wrong.add("OffsetCommit %d in state [%s] answered %v", n, a.answered, err)
		return errWrong
	}
	a.answer(after)
	return nil
}

func (a *sharedGroup) check(ctx context.Context, sys *system) findings {
	found := a.wrong
	a.wrong = nil
	s, err := snapshot(ctx, sys.redis, a.topic)
	if err != nil {
		found.add("reading it back through Redis: %v", err)
		return found
	}
	g, ok := s.groups[sharedGroupName]
	if !ok {
		found.add("the group is lost")
		return found
	}
	got := groupState{end: int64(len(s.entries)), delivered: int64(s.find(id{g.last.ms, g.last.seq + 1})) - 1, pending: map[int64]bool{}}
	for i := range g.pel {
		if !s.has(i) {
			found.add("%s is pending and not in the stream", i)
		}
		got.pending[int64(s.find(i))] = true
	}
	if !got.equal(a.answered) && (a.open == nil || !got.equal(*a.open)) {
		found.add("Redis shows [%s], acknowledged was [%s]", got, a.answered)
	}
	commits, err := fetchCommits(ctx, sys.kafka, sharedGroupName, a.topic, 1)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		found.add("Kafka does not know the topic any more")
	case err != nil:
		found.add("OffsetFetch: %v", err)
	case commits[0].offset != got.watermark():
		found.add("OffsetFetch answers %d, Redis shows [%s]", commits[0].offset, got)
	}
	a.answered, a.open = got, nil
	for i, e := range s.entries {
		if was, ok := a.ids[int64(i)]; ok && was != e.id.String() {
			found.add("offset %d had ID %s and now has %s", i, was, e.id)
		}
		a.ids[int64(i)] = e.id.String()
	}
	return found
}
