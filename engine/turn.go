package engine

import (
	"context"
	"runtime"
	"sort"
)

// Turn evaluates verbs and remembers what must be committed before their answers
// may be told. A turn belongs to one goroutine at a time and may serve many clients:
// an event loop uses one for all that is ready. It is reusable after Wait or Ticket.
type Turn struct {
	e       *Engine
	level   Level
	now     int64
	needs   []need
	touched []StreamNo
}

// need is a round and the level that it must reach.
type need struct {
	r     *round
	level Level
}

// Begin starts a turn whose writes are answered at a level.
func (e *Engine) Begin(level Level) *Turn {
	return &Turn{e: e, level: level, now: e.o.NowMS()}
}

// SetLevel changes the level of the writes that follow.
func (t *Turn) SetLevel(l Level) { t.level = l }

// Now is the turn's clock in ms since 1970.
func (t *Turn) Now() int64 { return t.now }

// Tick reads the clock anew: once per command.
func (t *Turn) Tick() { t.now = t.e.o.NowMS() }

// Wait commits what is open and returns when every round that the turn wrote to, or read unfinished
// work of, has its level. On error (ErrFailed, or the context's) nothing that was evaluated in this turn may be
// told. The turn is then empty and may be used again.
func (t *Turn) Wait(ctx context.Context) error {
	err := waitAll(ctx, t.e, t.needs)
	clear(t.needs)
	t.needs = t.needs[:0]
	return err
}

// Pending says whether Wait has anything to wait for.
func (t *Turn) Pending() bool { return len(t.needs) > 0 }

// Ticket takes the turn's rounds out of it, to be waited for by another goroutine
// (pipelined produce); the turn is then empty.
func (t *Turn) Ticket() Ticket {
	k := Ticket{e: t.e, needs: t.needs}
	t.needs = nil
	return k
}

// Ticket is what remains to be waited for. The zero Ticket is done.
type Ticket struct {
	e     *Engine
	needs []need
}

// Wait is Turn.Wait. Somebody must call it: it is the waiting that commits.
func (k *Ticket) Wait(ctx context.Context) error {
	needs := k.needs
	k.needs = nil
	if len(needs) > 0 && needs[len(needs)-1].r.state.Load() == roundOpen {
		// Goroutines whose requests have come as well evaluate into the round first, and one of them
		// commits for all. With nobody else ready this costs nothing.
		runtime.Gosched()
	}
	return waitAll(ctx, k.e, needs)
}

// Touched returns the streams that got entries, or lost a group, a reader or
// themselves, since the last call: those whose parked readers may be evaluated again
// within this same turn, before anything else is. Valid until the next verb.
func (t *Turn) Touched() []StreamNo {
	ts := t.touched
	t.touched = t.touched[:0]
	return ts
}

// touch notes that readers parked at the stream may find something now.
func (t *Turn) touch(st *stream) {
	st.changed = true
	if t.e.hub.parked.Load() > 0 {
		t.touched = append(t.touched, st.no)
	}
}

// need adds a round to wait for.
func (t *Turn) need(r *round, l Level) {
	if r.has(l) && r.state.Load() != roundFailed {
		return
	}
	for i := len(t.needs) - 1; i >= 0; i-- {
		if t.needs[i].r == r {
			t.needs[i].level = max(t.needs[i].level, l)
			return
		}
	}
	t.needs = append(t.needs, need{r, l})
}

func waitAll(ctx context.Context, e *Engine, needs []need) error {
	if len(needs) == 0 {
		return nil
	}
	// What was committed on the way and others want to be durable may have nobody who waits for it.
	defer e.syncer.wake()
	open := 0
	for _, n := range needs {
		if n.r.state.Load() == roundOpen {
			open++
		}
	}
	if open > 1 {
		rounds := make([]*round, 0, open)
		for _, n := range needs {
			if n.r.state.Load() == roundOpen {
				rounds = append(rounds, n.r)
			}
		}
		sort.Slice(rounds, func(i, j int) bool { return rounds[i].shard.id < rounds[j].shard.id })
		if err := e.commit(ctx, oncePerShard(rounds)); err != nil {
			return err
		}
	}
	for _, n := range needs {
		if err := n.r.await(ctx, n.level); err != nil {
			return err
		}
	}
	return nil
}

// oncePerShard keeps the newest round of each shard: a turn that outlived a commit of others may know two, of which the
// older is being written by somebody else already.
func oncePerShard(rounds []*round) []*round {
	out := rounds[:0]
	for _, r := range rounds {
		if n := len(out); n > 0 && out[n-1].shard == r.shard {
			out[n-1] = r
			continue
		}
		out = append(out, r)
	}
	return out
}

// write locks the stream's shard and opens its round for the turn. On success the
// caller must unlock st.shard.mu.
func (t *Turn) write(no StreamNo) (*stream, *round, error) {
	s := t.e.shardOf(no)
	if s == nil {
		return nil, nil, ErrNoStream
	}
	s.mu.Lock()
	if err := t.e.refuse(); err != nil {
		s.mu.Unlock()
		return nil, nil, err
	}
	st, err := s.stream(no)
	if err != nil {
		s.mu.Unlock()
		return nil, nil, err
	}
	r := s.round()
	t.joinStream(r, st)
	return st, r, nil
}

// refuse is why nothing can be written, nil when it can.
func (e *Engine) refuse() error {
	if err := e.Failed(); err != nil {
		return err
	}
	if e.closed.Load() {
		return ErrClosed
	}
	return nil
}

// join makes the turn wait for an open round at the turn's level.
func (t *Turn) join(r *round) {
	r.ask(t.level)
	t.need(r, max(t.level, Written))
}

// joinStream is join for a round that changes a stream: who reads the stream meanwhile waits for the same level.
func (t *Turn) joinStream(r *round, st *stream) {
	t.join(r)
	if st.openRound != r {
		st.openRound, st.openLevel = r, Unanswered
	}
	st.openLevel = max(st.openLevel, t.level)
}

// read locks the stream's shard and makes the turn wait for the stream's unfinished
// rounds. On success the caller must unlock st.shard.mu.
func (t *Turn) read(no StreamNo) (*stream, error) {
	st, err := t.e.lock(no)
	if err == nil {
		t.gate(st)
	}
	return st, err
}

// gate makes the turn wait for everything unfinished of a stream, at the level that each writer asked for.
func (t *Turn) gate(st *stream) {
	for _, p := range st.inflight {
		t.need(p.r, p.level)
	}
	if r := st.dirtyIn; r != nil && r == st.shard.open {
		level := Written
		if st.openRound == r {
			level = max(level, st.openLevel)
		}
		t.need(r, level)
	}
}
