package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"weir/compat-tests/respwire"
)

// A queue is one stream that many clients append to with XADD *, and one group whose
// consumers read, acknowledge most, leave some pending, and take each other's over.
//
// Its ledgers: entries (every ID acknowledged is there, with its value), deliveries
// (no ID is handed out by > twice; what was handed out and not acknowledged is
// pending; what was acknowledged is not; the group's place is never older).
type queue struct {
	key  string
	seed uint64
	log  *ledger[id]

	mu        sync.Mutex
	serial    int
	delivered map[id]bool // by > in an answered XREADGROUP
	acking    map[id]bool // XACK was sent
	acked     map[id]bool // XACK was answered
	count     int64
	wrong     findings
}

const queueGroup = "workers"

func newQueue(key string, seed uint64) *queue {
	return &queue{key: key, seed: seed, log: newLedger[id](), delivered: map[id]bool{},
		acking: map[id]bool{}, acked: map[id]bool{}}
}

func (q *queue) name() string { return "queue " + q.key }

func (q *queue) answers() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count + q.log.answers()
}

// prepare creates the group before the first round.
func (q *queue) prepare(ctx context.Context, sys *system) error {
	c, err := respwire.Dial(ctx, sys.redis)
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.Do("XGROUP", "CREATE", q.key, queueGroup, "0", "MKSTREAM")
	if e, ok := v.(respwire.Error); ok && !strings.HasPrefix(string(e), "BUSYGROUP ") {
		return e
	}
	return err
}

func (q *queue) load(ctx context.Context, sys *system) {
	var wg sync.WaitGroup
	work := func(client func(context.Context, *respwire.Conn, int)) {
		q.serial++
		n := q.serial
		wg.Go(func() {
			c, err := respwire.Dial(ctx, sys.redis)
			if err != nil {
				return
			}
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			client(ctx, c, n)
		})
	}
	for range 6 {
		work(q.add)
	}
	for range 4 {
		work(q.consume)
	}
	work(q.takeOver)
	wg.Wait()
}

// pause keeps a stream small enough to be read whole after every kill.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// add appends in pipelines of up to 32.
func (q *queue) add(ctx context.Context, c *respwire.Conn, client int) {
	rng := rand.New(rand.NewPCG(q.seed, uint64(client)))
	for n := 0; ctx.Err() == nil; pause(ctx, 10*time.Millisecond) {
		var values []string
		for range 1 + rng.IntN(32) {
			n++
			v := fmt.Sprintf("%d/%d", client, n)
			values = append(values, v)
			c.Queue("XADD", q.key, "*", "value", v)
		}
		q.log.sent(values...)
		if c.Flush() != nil {
			return
		}
		for _, v := range values {
			reply, err := c.Recv()
			if err != nil {
				return
			}
			if e, ok := reply.(respwire.Error); ok {
				q.log.refuse(v, e)
				continue
			}
			q.log.answer(parseID(reply.(string)), v)
		}
	}
}

// consume reads new entries and acknowledges most of them.
func (q *queue) consume(ctx context.Context, c *respwire.Conn, client int) {
	rng := rand.New(rand.NewPCG(q.seed, uint64(client)))
	consumer := "w" + strconv.Itoa(client%4)
	for ctx.Err() == nil {
		v, err := c.Do("XREADGROUP", "GROUP", queueGroup, consumer, "COUNT", "20", "BLOCK", "50", "STREAMS", q.key, ">")
		if err != nil {
			return
		}
		if v == nil {
			continue
		}
		ids, err := deliveredIDs(v)
		if err != nil {
			q.blame("XREADGROUP answered %v", v)
			return
		}
		q.deliver(ids)
		ids = slices.DeleteFunc(ids, func(id) bool { return rng.IntN(10) == 0 })
		if len(ids) > 0 && !q.ack(c, ids) {
			return
		}
	}
}

// takeOver claims what others left pending and acknowledges it.
func (q *queue) takeOver(ctx context.Context, c *respwire.Conn, client int) {
	for ctx.Err() == nil {
		v, err := c.Do("XAUTOCLAIM", q.key, queueGroup, "rescuer", "5", "0", "COUNT", "10", "JUSTID")
		if err != nil {
			return
		}
		list, ok := v.([]any)
		if !ok || len(list) != 3 {
			q.blame("XAUTOCLAIM answered %v", v)
			return
		}
		var ids []id
		for _, s := range list[1].([]any) {
			ids = append(ids, parseID(s.(string)))
		}
		if len(ids) > 0 && !q.ack(c, ids) {
			return
		}
		pause(ctx, 20*time.Millisecond)
	}
}

// deliveredIDs reads an XREADGROUP reply of one key.
func deliveredIDs(v any) (ids []id, err error) {
	defer func() {
		if recover() != nil { // another shape than Redis's
			err = errShape
		}
	}()
	for _, e := range v.([]any)[0].([]any)[1].([]any) {
		ids = append(ids, parseID(e.([]any)[0].(string)))
	}
	return ids, nil
}

func (q *queue) blame(format string, args ...any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wrong.add(format, args...)
}

func (q *queue) deliver(ids []id) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count++
	for _, i := range ids {
		if q.delivered[i] {
			q.wrong.add("%s was delivered as new twice", i)
		}
		q.delivered[i] = true
	}
}

// ack sends one XACK; false means that the connection is broken.
func (q *queue) ack(c *respwire.Conn, ids []id) bool {
	args := []string{"XACK", q.key, queueGroup}
	q.mu.Lock()
	for _, i := range ids {
		args = append(args, i.String())
		q.acking[i] = true
	}
	q.mu.Unlock()
	v, err := c.Do(args...)
	if err != nil {
		return false
	}
	if e, ok := v.(respwire.Error); ok {
		q.blame("XACK answered %v", e)
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count++
	for _, i := range ids {
		q.acked[i] = true
	}
	return true
}

func (q *queue) check(ctx context.Context, sys *system) findings {
	got, err := snapshot(ctx, sys.redis, q.key)
	if err != nil {
		return findings{"reading it back: " + err.Error()}
	}
	var log []placed[id]
	for _, e := range got.entries {
		log = append(log, placed[id]{e.id, e.value})
	}
	found := q.log.compare(q.key, log)
	if got.added != int64(len(got.entries)) {
		found.add("entries-added is %d, but %d entries were added and none deleted", got.added, len(got.entries))
	}
	found = append(found, q.compareGroup(got)...)
	if sys.oneStore {
		found = append(found, sameOnKafka(ctx, sys, q.key, got.entries)...)
	}
	return found
}

// compareGroup checks the group against the deliveries.
func (q *queue) compareGroup(got *stream) findings {
	q.mu.Lock()
	defer q.mu.Unlock()
	found := q.wrong
	q.wrong = nil
	g, ok := got.groups[queueGroup]
	if !ok {
		found.add("the group is lost")
		return found
	}
	for i := range q.delivered {
		if i.compare(g.last) > 0 {
			found.add("%s was delivered, but the group's last delivered ID is %s", i, g.last)
		}
	}
	for i := range q.acked {
		if p, ok := g.pel[i]; ok {
			found.add("%s was acknowledged, but is pending with %s", i, p.consumer)
		}
	}
	for _, e := range got.entries {
		_, isPending := g.pel[e.id]
		if after := e.id.compare(g.last) > 0; after && isPending {
			found.add("%s is pending, but was never delivered: last delivered is %s", e.id, g.last)
		} else if !after && !isPending && !q.acking[e.id] {
			found.add("%s was delivered, is not pending, and nobody acknowledged it: it is lost to the group", e.id)
		}
	}
	q.takeOverState(got, g)
	return found
}

// takeOverState makes the server's state what is answered. Call with mu held.
func (q *queue) takeOverState(got *stream, g *group) {
	q.delivered, q.acking, q.acked = map[id]bool{}, map[id]bool{}, map[id]bool{}
	for _, e := range got.entries {
		if e.id.compare(g.last) > 0 {
			break
		}
		q.delivered[e.id] = true
		if _, isPending := g.pel[e.id]; !isPending {
			q.acking[e.id], q.acked[e.id] = true, true
		}
	}
}
