package kafkaproto

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// lane evaluates small Produce requests of many connections. What the sockets need is the event loop's.
//
//	cycle:  all that is ready ─► feed: frames ─► take: one request into a turn ─► answer: one Wait, all replies
//	                                  ┌───────────────────── acks=-1: gathered ◄──┘
//	                                  └─► settle: one commit, one fsync ─► settled: all replies
//
// acks=1 and acks=-1 have a turn each. The lane waits for the first: that commits what both have evaluated into the same
// rounds. It never waits for an fsync, and does not commit what only acks=-1 asks for: that is gathered while an fsync is
// under way, and then until a cycle brings no more, so that clients whose replies were just written share the next one.
//
// Why does whoever has waited for the fsync not write its replies? While he does, the next group has not
// gathered: measured, half of the connections took turns with the other half.
//
// All fields are the lane's goroutine's.
type lane struct {
	s                *Server
	row              *row // of Produce
	api              recordAPI
	written, durable *bridge.Turn
	now              int64 // the bridge's clock in this cycle, ms
	tick             int64 // the lane's clock in this cycle
	req              kmsg.ProduceRequest
	out              []byte
	active           []*loan // with something to answer, or leaving, in this cycle
	gathered         []*loan // with replies for the next fsync
	fresh            bool    // this cycle has added some
	cycles           int     // since gathering, with no fsync under way
	syncing          bool
	begun            int64          // when the last fsync was asked for, in ticks
	company          company        // who is expected to share the next one
	settler          chan *settling // never full: one is under way at most
	tally            struct{ requests, bytesIn, nanos int64 }
}

// mostLent is the largest frame that a lane evaluates.
const mostLent = 16 << 10

func newLane(s *Server) *lane {
	return &lane{
		s: s, row: s.list[produceKey], api: recordAPI{s},
		written: s.b.Begin(bridge.Written), durable: s.b.Begin(bridge.Durable), settler: make(chan *settling, 1),
	}
}

// begin starts a cycle.
func (l *lane) begin(tick int64) {
	l.tick, l.now = tick, l.s.b.Now()
	l.written.Tick()
	l.durable.Tick()
}

// activate puts a connection on this cycle's list.
func (l *lane) activate(n *loan) {
	if !n.active {
		n.active = true
		l.active = append(l.active, n)
	}
}

// leave has a connection given back at the end of the cycle.
func (l *lane) leave(n *loan) {
	n.leaving = true
	l.activate(n)
}

// feed evaluates the requests that data holds and keeps what it does not evaluate. A panic ends this connection and
// nobody else's; what it has evaluated is committed with the rest.
func (l *lane) feed(n *loan, data []byte) {
	begin := time.Now()
	defer func() {
		if p := recover(); p != nil {
			l.s.o.Logger.Error("kafka: request panicked", "client", n.c.host, "panic", p, "stack", string(debug.Stack()))
			n.err, n.in = fmt.Errorf("panic: %v", p), nil
			l.leave(n)
		}
		l.tally.nanos += int64(time.Since(begin))
	}()
	l.activate(n)
	for !n.leaving && len(data) >= 4 {
		size := int(int32(binary.BigEndian.Uint32(data)))
		if size < 8 || size > mostLent {
			n.leaving = true
			break
		}
		if len(data) < 4+size {
			break
		}
		if !l.take(n, data[4:4+size]) {
			n.leaving = true
			break
		}
		n.served++
		n.seen = l.tick
		data = data[4+size:]
	}
	n.in = append(n.in[:0], data...)
}

// take evaluates a request; false when it is none of the lane's business, and then nothing was changed.
func (l *lane) take(n *loan, frame []byte) bool {
	h, rest, err := parseHeader(frame)
	if err != nil || h.key != produceKey || h.version < l.row.min || h.version > l.row.max {
		return false
	}
	if _, rest, err = parseClientID(rest); err != nil {
		return false
	}
	if h.version >= l.row.flexible {
		if rest, err = skipTags(rest); err != nil {
			return false
		}
	}
	l.req = kmsg.ProduceRequest{Version: h.version, Topics: l.req.Topics}
	if err := l.req.UnsafeReadFrom(rest); err != nil || l.req.Acks != 1 && l.req.Acks != -1 {
		return false
	}
	if !n.c.room() {
		return false
	}
	a := answers.Get().(*answer)
	a.correlation, a.size, a.durable, a.err = h.correlation, len(frame), l.req.Acks == -1, nil
	a.resp.Version = h.version
	turn := l.written
	if a.durable {
		turn = l.durable
	}
	l.api.produceInto(turn, l.now, &l.req, &a.resp, true)
	l.tally.requests++
	l.tally.bytesIn += int64(len(frame)) + 4
	if n.c.promise(a) {
		n.direct++
	}
	n.answers = append(n.answers, a)
	return true
}

// room says whether a further reply may wait for an fsync.
func (c *conn) room() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting < mostPending && c.bytes <= c.s.o.MaxInFlight
}

// promise says that a reply may be written in this cycle: it needs no fsync, and none before it does. Otherwise it counts
// it as waiting.
func (c *conn) promise(a *answer) (direct bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == 0 && !a.durable {
		return true
	}
	c.waiting++
	c.bytes += a.size
	return false
}

// answer commits the cycle's turn and writes its replies, or leaves them to the next fsync.
func (l *lane) answer() {
	if len(l.active) == 0 {
		return
	}
	l.row.counts.requests.Add(l.tally.requests)
	l.row.counts.bytesIn.Add(l.tally.bytesIn)
	l.row.counts.nanos.Add(l.tally.nanos)
	l.tally.requests, l.tally.bytesIn, l.tally.nanos = 0, 0, 0
	l.written.Touched() // readers are woken by the hub
	l.durable.Touched()
	var err error
	if l.written.Pending() {
		// Not a context that ends: it is the waiting that commits.
		err = l.written.Wait(context.Background())
	}
	for _, n := range l.active {
		for _, a := range n.answers {
			if !a.durable {
				a.err = err
			}
		}
		if n.direct > 0 {
			l.out = l.row.encode(l.out[:0], n.answers[:n.direct])
			if !n.write(l.out, 0, 0) {
				n.leaving = true
			}
		}
		if rest := n.answers[n.direct:]; len(rest) > 0 {
			l.put(n, rest)
		}
		clear(n.answers)
		n.answers, n.direct, n.active = n.answers[:0], 0, false
	}
	if cap(l.out) > largestKept {
		l.out = nil
	}
}

// answer is a reply of a lane.
type answer struct {
	resp        kmsg.ProduceResponse
	correlation int32
	size        int // of the request
	durable     bool
	err         error // of the commit
}

var answers = sync.Pool{New: func() any { return new(answer) }}

// encode appends replies and lets go of them.
func (r *row) encode(b []byte, all []*answer) []byte {
	for _, a := range all {
		if a.err != nil {
			notStored(&a.resp)
		}
		b = appendReply(b, r, a.resp.Version, a.correlation, &a.resp)
		if len(a.resp.Topics) == 1 && len(a.resp.Topics[0].Partitions) <= 16 { // larger ones are left to the collector
			answers.Put(a)
		}
	}
	r.counts.bytesOut.Add(int64(len(b)))
	return b
}

// write sends replies whose turn it is, of which some have been counted as waiting. What the socket does not take is
// kept for the reader's goroutine. False: the connection must be given back.
func (n *loan) write(b []byte, waited, bytes int) bool {
	c := n.c
	c.writing.Lock()
	defer c.writing.Unlock()
	if waited > 0 {
		// Before the write, as in conn.writeAll: a reader's goroutine that has drained still waits for writing.
		c.mu.Lock()
		c.waiting -= waited
		c.bytes -= bytes
		c.settled.Broadcast()
		c.mu.Unlock()
	}
	if len(n.rest) == 0 {
		m, err := writeSocket(n.fd, b)
		if err != nil {
			c.breakOff()
			return false
		}
		b = b[m:]
	}
	n.rest = append(n.rest, b...)
	return len(n.rest) == 0
}

// settling is what waits for an fsync: replies to acks=-1, and all behind them on their connections.
type settling struct {
	ticket bridge.Ticket
	due    []due
	err    error // of the wait
}

// due are replies of a connection.
type due struct {
	loan    *loan
	answers []*answer
}

// patience is how many cycles in a row may bring more for the next fsync before it is begun.
const patience = 8

// put leaves replies to the next fsync.
func (l *lane) put(n *loan, later []*answer) {
	if len(n.later) == 0 {
		l.gathered = append(l.gathered, n)
	}
	n.later = append(n.later, later...)
	l.fresh = true
}

// commitGathered begins an fsync for what has been gathered, unless one is under way, or the cycle has brought more: then
// the next may as well.
func (l *lane) commitGathered() {
	if len(l.gathered) == 0 || l.syncing {
		return
	}
	if l.fresh && l.cycles < patience && !l.company.complete(len(l.gathered)) {
		l.fresh = false
		l.cycles++
		return
	}
	if l.linger() > 0 {
		return
	}
	l.company.judge(len(l.gathered))
	l.begun = l.tick
	s := &settling{due: make([]due, len(l.gathered))}
	if l.durable.Pending() {
		s.ticket = l.durable.Ticket()
	}
	for i, n := range l.gathered {
		s.due[i], n.later = due{n, n.later}, nil
	}
	clear(l.gathered)
	l.gathered, l.fresh, l.cycles, l.syncing = l.gathered[:0], false, 0, true
	l.settler <- s
}

// gathering says that commitGathered waits for a cycle that brings nothing.
func (l *lane) gathering() bool { return len(l.gathered) > 0 && !l.syncing }

// linger is how long the lane may wait for more to come before the next fsync.
func (l *lane) linger() time.Duration {
	if l.fresh || l.company.complete(len(l.gathered)) {
		return 0
	}
	return time.Duration(max(l.company.until-l.tick, 0))
}

// company is what is known of those who share an fsync. Whose reply was just written is likely to send his next request
// soon; an fsync that covers him too is cheaper than one more. Those who were expected in vain are not waited for
// again for a while.
type company struct {
	expected int   // connections, those that have come included
	until    int64 // in ticks
	pause    int   // fsyncs before the lane lingers again
	vain     int   // the pause after the next disappointment
}

const (
	mostLinger = 200 * time.Microsecond // and a quarter of what the last fsync took
	mostVain   = 64
)

// expect is called when n replies have been written after an fsync that took so long.
func (c *company) expect(n, have int, now int64, took time.Duration) {
	c.expected, c.until = n+have, 0
	if c.pause > 0 {
		c.pause--
	} else if c.expected > 1 {
		c.until = now + int64(min(took/4, mostLinger))
	}
}

func (c *company) complete(have int) bool { return have >= c.expected }

// judge is called when an fsync begins.
func (c *company) judge(have int) {
	switch {
	case c.until == 0:
	case 4*have < 3*c.expected:
		c.vain = min(2*c.vain+1, mostVain)
		c.pause = c.vain
	default:
		c.vain = 0
	}
	c.until = 0
}

// settle waits for one fsync after another; done tells the lane. It is a goroutine of its own, so that the lane never waits.
func settle(orders <-chan *settling, done func(*settling)) {
	for s := range orders {
		// Not a context that ends: it is the waiting that commits.
		s.err = s.ticket.Wait(context.Background())
		done(s)
	}
}

// settled writes the replies that have waited for an fsync.
func (l *lane) settled(s *settling) {
	l.syncing = false
	took := time.Duration(l.tick - l.begun)
	for _, d := range s.due {
		bytes := 0
		for _, a := range d.answers {
			bytes += a.size
			if a.durable {
				a.err = s.err
			}
		}
		waited := len(d.answers)
		l.out = l.row.encode(l.out[:0], d.answers)
		if !d.loan.write(l.out, waited, bytes) && !d.loan.gone {
			l.leave(d.loan)
		}
	}
	l.company.expect(len(s.due), len(l.gathered), l.s.lending.clock().UnixNano(), took)
}
