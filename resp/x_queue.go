package resp

// groupQueues keep those who wait for new entries of one group in the order they came, whatever loop they belong to:
//
//	XADD ──► wakes everybody at the stream
//	            first of the queue: takes, leaves ──► wakes the next: takes, leaves ──► ...
//	            all others: look only whether the group still exists
//
// Why not let everyone try? On one loop that would do, as waiters are evaluated in their order. Several loops evaluate at the
// same time, and the one that came last would take the entry of the one that came first.
//
// A queue is named by the key and the group, not by the stream: a stream that is made anew under its key keeps its waiters' order.
//
// Locks: mu is held for the queues alone; wake-ups are made without it.

import (
	"slices"
	"sync"
)

type groupQueues struct {
	mu     sync.Mutex
	queues map[queueName][]*conn
}

type queueName struct{ key, group string }

// join puts c at the end of the queues.
func (g *groupQueues) join(c *conn, names []queueName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.queues == nil {
		g.queues = map[queueName][]*conn{}
	}
	for _, n := range names {
		g.queues[n] = append(g.queues[n], c)
	}
}

// first says whether c may take what there is.
func (g *groupQueues) first(c *conn, n queueName) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[n]
	return len(q) == 0 || q[0] == c
}

// leave takes c out of its queues and wakes those that are first now: they may have looked away because of c.
func (g *groupQueues) leave(c *conn, names []queueName) {
	var next []*conn
	g.mu.Lock()
	for _, n := range names {
		q := g.queues[n]
		i := slices.Index(q, c)
		if i < 0 {
			continue
		}
		if i == 0 && len(q) > 1 && q[1] != c {
			next = append(next, q[1])
		}
		if len(q) == 1 {
			delete(g.queues, n)
			continue
		}
		g.queues[n] = slices.Delete(q, i, i+1)
	}
	g.mu.Unlock()
	for _, c := range next {
		c.waiter.Wake()
	}
}
