package engine

import (
	"sync/atomic"
)

// tailBlock is one of the newest blocks of a stream. Immutable once closed, except
// that a deletion replaces it by a copy with other marks. prev, next, age and queued
// belong to the shard's queue.
type tailBlock struct {
	Block
	marks  Marks // nil: none deleted
	stream *stream
	size   int64

	prev, next *tailBlock
	age        uint64 // when it was cached, in blocks of the whole engine
	queued     bool
}

// tailOverhead is what a cached block costs beside its payload.
const tailOverhead = 192

// tailBudget is the fixed memory that the tails of all shards share. The oldest
// block of the whole engine goes first, whichever shard holds it: one busy topic may
// use all of it.
type tailBudget struct {
	cap  int64
	used atomic.Int64
	age  atomic.Uint64
	kick chan struct{}
	quit chan struct{}
	done chan struct{}
}

// tailQueue lists a shard's cached blocks, oldest first, across streams. Guarded by shard.mu.
type tailQueue struct{ first, last *tailBlock }

// push adds a block as the newest.
func (q *tailQueue) push(b *tailBlock, t *tailBudget) {
	b.age, b.queued = t.age.Add(1), true
	b.prev, b.next = q.last, nil
	if q.last != nil {
		q.last.next = b
	} else {
		q.first = b
	}
	q.last = b
	t.used.Add(b.size)
}

// remove takes a block out, if it is in.
func (q *tailQueue) remove(b *tailBlock, t *tailBudget) {
	if !b.queued {
		return
	}
	b.queued = false
	if b.prev != nil {
		b.prev.next = b.next
	} else {
		q.first = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	} else {
		q.last = b.prev
	}
	b.prev, b.next = nil, nil
	t.used.Add(-b.size)
}

// replace puts a copy in a block's place.
func (q *tailQueue) replace(old, b *tailBlock) {
	if !old.queued {
		return
	}
	b.queued, b.age, b.prev, b.next = true, old.age, old.prev, old.next
	if b.prev != nil {
		b.prev.next = b
	} else {
		q.first = b
	}
	if b.next != nil {
		b.next.prev = b
	} else {
		q.last = b
	}
	old.queued, old.prev, old.next = false, nil, nil
}

// clear empties the queue.
func (q *tailQueue) clear(t *tailBudget) {
	for q.first != nil {
		q.remove(q.first, t)
	}
}

// evict drops the shard's blocks that are older than age while the budget is
// overdrawn. What is not published must stay: it is not in the store yet, or may not
// be told. Call with shard.mu held.
func (s *shard) evict(age uint64) {
	t := &s.e.tail
	for b := s.tail.first; b != nil && b.age < age && t.used.Load() > t.cap; b = s.tail.first {
		if b.Last >= b.stream.hw {
			return
		}
		b.stream.popTail(b)
	}
}

// makeRoom is called after something was added to the shard's tail, with shard.mu
// held. Others' blocks are taken by the shrinker, which may lock their shards; the
// shard takes of its own only when the shrinker does not keep up.
func (s *shard) makeRoom() {
	t := &s.e.tail
	used := t.used.Load()
	if used <= t.cap {
		return
	}
	select {
	case t.kick <- struct{}{}:
	default:
	}
	if used > t.cap+t.cap/8 {
		s.evict(^uint64(0))
	}
}

func (t *tailBudget) start(e *Engine) {
	t.quit, t.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(t.done)
		for {
			select {
			case <-t.quit:
				return
			case <-t.kick:
				e.shrinkTails()
			}
		}
	}()
}

func (t *tailBudget) stop() {
	close(t.quit)
	<-t.done
}

// shrinkTails takes from the shard with the oldest block until the budget holds, or
// nothing more may go.
func (e *Engine) shrinkTails() {
	stuck := make([]bool, len(e.shards))
	for e.tail.used.Load() > e.tail.cap {
		oldest, at, next := ^uint64(0), -1, ^uint64(0)
		for i, s := range e.shards {
			age := s.oldestAge()
			switch {
			case stuck[i] || age == 0:
			case age < oldest:
				oldest, at, next = age, i, oldest
			default:
				next = min(next, age)
			}
		}
		if at < 0 {
			return
		}
		s := e.shards[at]
		s.mu.Lock()
		s.evict(max(next, oldest+1))
		s.mu.Unlock()
		stuck[at] = s.oldestAge() == oldest
	}
}

// oldestAge is the age of the shard's oldest cached block; 0 when there is none.
func (s *shard) oldestAge() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tail.first == nil {
		return 0
	}
	return s.tail.first.age
}
