package engine

import (
	"context"
	"errors"
	"math/bits"
	"sync/atomic"

	"weir/storage"
)

// round is what was evaluated on one shard and is committed as one batch.
//
//	open ──seal──► sealed ──Commit──► written ──Durable──► durable
//	                  └────────error────► failed ◄──error────┘
//
// batch, dirty and level belong to shard.mu while the round is open, then to the
// holder of the shard's token. written is closed when the commit has ended, durable
// (made only when somebody asked for it) when the fsync has; err is set before.
type round struct {
	shard   *shard
	batch   storage.Batch
	dirty   []*stream
	level   Level // highest that an append or a turn asked for
	pos     storage.Pos
	state   atomic.Uint32 // roundState
	written chan struct{}
	durable chan struct{}
	err     error
	closed  bool  // its rows are written; guarded by shard.mu
	poison  error // it was evaluated on a round that failed; guarded by shard.mu
}

type roundState = uint32

const (
	roundOpen roundState = iota
	roundWritten
	roundDurable
	roundFailed
)

// ask raises the round's level. Call with shard.mu held while the round is open.
func (r *round) ask(l Level) {
	if l == Durable && r.durable == nil {
		r.durable = make(chan struct{})
	}
	r.level = max(r.level, l)
}

// has says whether the round has reached a level (or failed: nothing more will come).
func (r *round) has(l Level) bool {
	switch st := r.state.Load(); st {
	case roundOpen:
		return false
	case roundWritten:
		return l != Durable
	default:
		return true
	}
}

// await waits for a level. A round that is not led by anybody is led by the caller.
func (r *round) await(ctx context.Context, l Level) error {
	if r.state.Load() == roundOpen {
		if l == Durable {
			r.gather(ctx)
		}
		if err := r.lead(ctx); err != nil {
			return err
		}
	}
	if l == Durable && r.state.Load() == roundWritten {
		r.shard.e.syncer.drive()
		select {
		case <-r.durable:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if r.state.Load() == roundFailed {
		return r.err
	}
	return nil
}

// gather waits for an fsync that is under way, which cannot cover this round: meanwhile
// others evaluate into it, and one commit serves them all. Who asks for written only
// does not wait here, and takes the round along.
func (r *round) gather(ctx context.Context) {
	if busy := r.shard.e.syncer.underWay(); busy != nil {
		select {
		case <-busy:
		case <-r.written:
		case <-ctx.Done():
		}
	}
}

// lead commits the round unless somebody else does.
func (r *round) lead(ctx context.Context) error {
	select {
	case <-r.written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case r.shard.token <- struct{}{}:
	}
	r.shard.commitFull(ctx)
	if r.state.Load() == roundOpen {
		mates := r.shard.mates(r)
		r.shard.e.commitHeld(ctx, append(mates, r))
		for _, m := range mates {
			<-m.shard.token
		}
	}
	<-r.shard.token
	return nil
}

// mateBytes is how large a round may be to be committed with others': merging copies it.
const mateBytes = 32 << 10

// mates takes the tokens of other shards that have something small to commit which
// nobody is committing: single records for a hundred partitions are then one commit
// instead of sixteen. The caller holds r's token and gives the mates' back.
func (s *shard) mates(r *round) []*round {
	e := s.e
	open := e.open.Load()
	if open&^(1<<s.id) == 0 || len(e.shards) > 64 || e.apart.Load() || !s.small(r) {
		return nil
	}
	var mates []*round
	for open != 0 {
		i := bits.TrailingZeros64(open)
		open &^= 1 << i
		m := e.shards[i]
		if m == s {
			continue
		}
		select { // never waits: whoever holds two tokens otherwise took them in order
		case m.token <- struct{}{}:
			if mate := m.mate(); mate != nil {
				mates = append(mates, mate)
			} else {
				<-m.token
			}
		default:
		}
	}
	return mates
}

// mate is the shard's open round if it may be committed with others'. The caller holds the token.
func (s *shard) mate() *round {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.open; r != nil && len(s.full) == 0 && r.batch.Size() <= mateBytes {
		return r
	}
	return nil
}

// small says whether a round may be committed with others'.
func (s *shard) small(r *round) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.poison == nil && !r.closed && r.batch.Size() <= mateBytes
}

// commitFull commits the rounds that were closed because they were full. The caller holds the token.
func (s *shard) commitFull(ctx context.Context) {
	for {
		s.mu.Lock()
		if len(s.full) == 0 {
			s.mu.Unlock()
			return
		}
		r := s.full[0]
		s.full = s.full[1:]
		s.mu.Unlock()
		r.commitAlone(ctx)
	}
}

// commitAlone seals, commits and publishes one round. The caller holds the token.
func (r *round) commitAlone(ctx context.Context) {
	r.seal()
	err := r.poison
	if err == nil {
		err = r.shard.e.Failed()
	}
	if err == nil {
		// A client that leaves must not take the commit of fifty others with it.
		r.pos, err = r.shard.w.Commit(context.WithoutCancel(ctx), r.batch)
	} else {
		r.batch.Discard()
	}
	r.finishWritten(err)
}

// commit commits rounds of different shards, ascending, as one where the store can.
func (e *Engine) commit(ctx context.Context, rounds []*round) error {
	if len(rounds) == 1 {
		return rounds[0].await(ctx, Written)
	}
	held := make([]*round, 0, len(rounds))
	for _, r := range rounds {
		select {
		case <-r.written:
			continue
		case r.shard.token <- struct{}{}:
		}
		r.shard.commitFull(ctx)
		if r.state.Load() != roundOpen || r.shard.poisoned(r) {
			<-r.shard.token
			continue
		}
		held = append(held, r)
	}
	e.commitHeld(ctx, held)
	for _, r := range held {
		<-r.shard.token
	}
	for _, r := range rounds {
		if err := r.await(ctx, Written); err != nil {
			return err
		}
	}
	return nil
}

// commitHeld commits rounds whose tokens are held.
func (e *Engine) commitHeld(ctx context.Context, held []*round) {
	if len(held) == 0 {
		return
	}
	if len(held) == 1 || e.Failed() != nil || e.apart.Load() {
		for _, r := range held {
			r.commitAlone(ctx)
		}
		return
	}
	batches := make([]storage.Batch, len(held))
	for i, r := range held {
		r.seal()
		batches[i] = r.batch
	}
	pos, err := e.st.CommitTogether(context.WithoutCancel(ctx), batches)
	if err == storage.ErrNotTogether {
		e.apart.Store(true)
		for _, r := range held {
			p, err := r.shard.w.Commit(context.WithoutCancel(ctx), r.batch)
			r.pos = p
			r.finishWritten(err)
		}
		return
	}
	for i, r := range held {
		if err == nil {
			r.pos = pos[i]
		}
		r.finishWritten(err)
	}
}

// seal ends evaluation into the round.
func (r *round) seal() {
	r.shard.mu.Lock()
	r.close()
	r.shard.mu.Unlock()
}

// close writes the rows of what the round made dirty, once. Call with shard.mu held.
func (r *round) close() {
	s := r.shard
	if r.closed {
		return
	}
	r.closed = true
	for i := 0; i < len(r.dirty); i++ { // sealing may not add, but an index is safe if it does
		r.dirty[i].seal(r)
	}
	if s.open == r {
		s.open = nil
		s.e.open.And(^s.bit())
	}
}

// finishWritten publishes the outcome of the commit.
func (r *round) finishWritten(err error) {
	s := r.shard
	if err != nil {
		r.err = err
		if !errors.Is(err, storage.ErrTooLarge) { // of which nothing was written, and which is no fault of the disk
			r.err = s.e.fail(err)
		}
		s.mu.Lock()
		r.state.Store(roundFailed)
		if r.poison == nil {
			s.forget(r.err)
		}
		s.mu.Unlock()
		close(r.written)
		if r.durable != nil {
			close(r.durable)
		}
		return
	}
	s.mu.Lock()
	r.state.Store(roundWritten)
	wake := r.publish()
	s.mu.Unlock()
	if r.durable != nil {
		s.e.syncer.add(r) // before anybody wakes who would see it through
	}
	close(r.written)
	s.e.hub.wake(wake)
}

// finishDurable publishes the outcome of the fsync.
func (r *round) finishDurable(err error) {
	s := r.shard
	if err != nil {
		// Written but not durable: those who asked for durable hear the error; the latched store takes no more.
		r.err = s.e.fail(err)
		r.state.Store(roundFailed)
		close(r.durable)
		return
	}
	s.mu.Lock()
	r.state.Store(roundDurable)
	wake := r.publish()
	s.mu.Unlock()
	close(r.durable)
	s.e.hub.wake(wake)
}

// publish moves the high watermarks that this round's new level allows and returns the places to wake.
// Call with shard.mu held.
func (r *round) publish() []Place {
	var wake []Place
	for _, st := range r.dirty {
		moved := st.advance()
		st.settle(r)
		if (moved || st.changed) && r.shard.e.hub.parked.Load() > 0 {
			wake = append(wake, Place{Stream: st.no})
		}
		st.changed = false
		if st.dropped && r.state.Load() == roundWritten && r.shard.streams[st.no] == st {
			delete(r.shard.streams, st.no)
		}
	}
	if r.durable == nil || r.state.Load() == roundDurable {
		r.dirty = nil // streams know the round that they were last opened in, which must not keep others in memory
	}
	return wake
}
