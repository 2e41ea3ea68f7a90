package storage

// The syncer: one fsync for everybody who came before it began.
//
//	Durable ─┐
//	Durable ─┼─► next round ─► fsync ─► all of the round answered
//	SyncAll ─┘        ▲
//	                  └─ who comes while an fsync is under way joins the round after
//
// A round belongs to nobody: whoever finds none under way runs his own, or starts the goroutine that runs rounds until
// none is asked for.

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

type syncer struct {
	log    *segLog
	shards []*pebbleShard
	mark   *durableMark
	onSync func(time.Duration)
	count  atomic.Uint64

	mu      sync.Mutex
	next    *syncRound // asked for and not begun; owned by mu
	running bool       // somebody runs rounds; owned by mu
	idle    sync.Cond  // running became false

	seqs []uint64 // scratch of who runs a round
}

type syncRound struct {
	done chan struct{}
	err  error // set before done is closed
}

// ask returns the round that will cover everything written before this call.
func (s *syncer) ask() *syncRound {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &syncRound{done: make(chan struct{})}
	}
	if !s.running {
		s.running = true
		go s.run()
	}
	return s.next
}

// wait joins a round and sees it through.
func (s *syncer) wait(ctx context.Context) error {
	r, mine := s.join()
	return s.await(ctx, r, mine)
}

// join is ask for who will await. Where no round is under way it is the caller's to run: nobody has to be woken for it.
func (s *syncer) join() (r *syncRound, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.next; r == nil {
		r = &syncRound{done: make(chan struct{})}
	}
	if s.running {
		s.next = r
		return r, false
	}
	s.running, s.next = true, nil
	return r, true
}

// await waits for a round, or runs it. ctx ends a wait for others only.
func (s *syncer) await(ctx context.Context, r *syncRound, mine bool) error {
	if !mine {
		select {
		case <-r.done:
			return r.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.do(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		go s.run() // for those who came meanwhile
		return r.err
	}
	s.running = false
	s.idle.Broadcast()
	return r.err
}

// do runs one round.
func (s *syncer) do(r *syncRound) {
	r.err = s.syncOnce()
	close(r.done)
}

// run runs rounds until none is asked for.
func (s *syncer) run() {
	for {
		s.mu.Lock()
		r := s.next
		s.next = nil
		if r == nil {
			s.running = false
			s.idle.Broadcast()
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.do(r)
	}
}

// rest waits until no round is under way or asked for.
func (s *syncer) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.running {
		s.idle.Wait()
	}
}

// syncOnce fsyncs the log and notes what is durable thereby.
func (s *syncer) syncOnce() error {
	var began time.Time
	if s.onSync != nil {
		began = time.Now()
	}
	// Before the log: a batch committed later may be in the sync, and is not counted.
	s.seqs = s.seqs[:0]
	for _, sh := range s.shards {
		s.seqs = append(s.seqs, sh.seq.Load())
	}
	segment, offset, did, err := s.log.sync()
	if err != nil {
		return err
	}
	for i, sh := range s.shards {
		sh.synced.Store(s.seqs[i])
	}
	if did {
		s.count.Add(1)
		if s.onSync != nil {
			s.onSync(time.Since(began))
		}
	}
	return s.mark.write(promise{segment, offset, s.seqs})
}
