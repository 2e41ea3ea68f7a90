package engine

import (
	"sync/atomic"
)

// tailBlock is one of the newest blocks of a stream. Immutable once closed, except
// that a deletion replaces it by a copy with other marks.
type tailBlock struct {
	Block
	marks  Marks // nil: none deleted
	stream *stream
	size   int64
	gone   bool // no longer in the stream's tail; guarded by shard.mu
}

// tailOverhead is what a cached block costs beside its payload.
const tailOverhead = 192

// tailBudget is the fixed memory that all shards' tails share. A shard over its fair
// share makes room for what it adds; otherwise the shrinker takes from the largest.
type tailBudget struct {
	cap  int64
	used atomic.Int64
	kick chan struct{}
	quit chan struct{}
	done chan struct{}
}

// tailQueue holds a shard's cached blocks, oldest first, across streams.
type tailQueue struct {
	blocks []*tailBlock
	head   int
	used   int64
}

func (q *tailQueue) push(b *tailBlock, budget *tailBudget) {
	if q.head > 1024 && q.head > len(q.blocks)/2 {
		n := copy(q.blocks, q.blocks[q.head:])
		clear(q.blocks[n:])
		q.blocks, q.head = q.blocks[:n], 0
	}
	q.blocks = append(q.blocks, b)
	q.used += b.size
	budget.used.Add(b.size)
}

// evict drops the shard's oldest published blocks while more says so. What is not
// published must stay: it is not in the store yet, or may not be told. Call with shard.mu held.
func (q *tailQueue) evict(budget *tailBudget, more func() bool) {
	for q.head < len(q.blocks) && more() {
		b := q.blocks[q.head]
		if !b.gone {
			if b.Last >= b.stream.hw && !b.stream.dropped {
				return
			}
			b.stream.popTail(b)
		}
		q.blocks[q.head] = nil
		q.head++
		q.used -= b.size
		budget.used.Add(-b.size)
	}
}

func (q *tailQueue) clear(budget *tailBudget) {
	budget.used.Add(-q.used)
	*q = tailQueue{}
}

// makeRoom is called after something was added to a shard's tail, shard.mu held.
func (s *shard) makeRoom() {
	t := &s.e.tail
	if t.used.Load() <= t.cap {
		return
	}
	fair := t.cap / int64(len(s.e.shards))
	s.tail.evict(t, func() bool { return t.used.Load() > t.cap && s.tail.used > fair })
	if t.used.Load() > t.cap {
		select {
		case t.kick <- struct{}{}:
		default:
		}
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

// shrinkTails takes from every shard above its fair share until the budget holds.
func (e *Engine) shrinkTails() {
	t := &e.tail
	fair := t.cap / int64(len(e.shards))
	for _, s := range e.shards {
		s.mu.Lock()
		s.tail.evict(t, func() bool { return t.used.Load() > t.cap && s.tail.used > fair })
		s.mu.Unlock()
	}
}
