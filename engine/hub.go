package engine

import (
	"sync"
	"sync/atomic"
)

// Place is what a reader waits for: a stream, or a topic's name that may come to exist.
type Place struct {
	Stream StreamNo // 0: Name is meant
	Name   string
}

// Waiter is one parked reader. Wake is called at most once until Rearm, without
// locks held, from any goroutine, when an entry became visible, or the group, the
// reader or the stream changed; it must not block. Owner lets an event loop find its own.
type Waiter struct {
	Owner any
	Wake  func()

	armed  bool    // guarded by hub.mu
	places []Place // where it stands
}

// hub is where readers wait: one queue per place, first come first served. The
// queues are short (readers of one stream), so removal is a scan.
type hub struct {
	parked atomic.Int64 // waiters in all queues; read without mu to skip the hub altogether
	mu     sync.Mutex
	places map[Place]*place
}

type place struct{ waiters []*Waiter }

// Park registers a waiter at places, behind those who wait there already. Register
// first, then evaluate once more: nothing slips between. A woken waiter keeps its
// place until Unpark; Rearm lets it be woken again.
func (e *Engine) Park(w *Waiter, places []Place) {
	h := &e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	w.armed = true
	for _, p := range places {
		q := h.places[p]
		if q == nil {
			q = &place{}
			h.places[p] = q
		}
		q.waiters = append(q.waiters, w)
		w.places = append(w.places, p)
		h.parked.Add(1)
	}
}

// Rearm lets a woken waiter be woken again. Call it before evaluating anew.
func (e *Engine) Rearm(w *Waiter) {
	e.hub.mu.Lock()
	w.armed = true
	e.hub.mu.Unlock()
}

// Unpark removes a waiter from all its places. Its Wake may still be under way.
func (e *Engine) Unpark(w *Waiter) {
	h := &e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	w.armed = false
	for _, p := range w.places {
		q := h.places[p]
		if q == nil {
			continue
		}
		for i, x := range q.waiters {
			if x == w {
				q.waiters = append(q.waiters[:i], q.waiters[i+1:]...)
				h.parked.Add(-1)
				break
			}
		}
		if len(q.waiters) == 0 {
			delete(h.places, p)
		}
	}
	w.places = w.places[:0]
}

// Parked lists a place's waiters in the order they came.
func (e *Engine) Parked(p Place) []*Waiter {
	if e.hub.parked.Load() == 0 {
		return nil
	}
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	if q := e.hub.places[p]; q != nil {
		return append([]*Waiter(nil), q.waiters...)
	}
	return nil
}

// WakeName wakes those who wait for a topic's name: it exists now, or is gone.
func (e *Engine) WakeName(name string) {
	if e.hub.parked.Load() > 0 {
		e.hub.wake([]Place{{Name: name}})
	}
}

// wake wakes everybody at the places, in order.
func (h *hub) wake(places []Place) {
	if len(places) == 0 {
		return
	}
	var woken []*Waiter
	h.mu.Lock()
	for _, p := range places {
		if q := h.places[p]; q != nil {
			for _, w := range q.waiters {
				if w.armed {
					w.armed = false
					woken = append(woken, w)
				}
			}
		}
	}
	h.mu.Unlock()
	for _, w := range woken {
		w.Wake()
	}
}
