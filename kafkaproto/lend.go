package kafkaproto

import (
	"math"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Lending: a connection that does nothing but small Produce requests is served by a lane, an event loop that evaluates
// what all of its connections have sent into one turn, commits it once, and writes all replies.
//
//	reader's goroutine ── runs of small produces ──► drain ─► socket off Go's poller ─► lane
//	        ▲                                                                            │ anything else
//	        └── what was read and not evaluated, what the socket did not take ◄──────────┘
//
// The lane owns the socket, and with it the order of requests and replies, until it gives it back; the goroutine waits
// meanwhile. Why not serve all requests in lanes? Because a handler may block (a fetch, a join), be large, and be slow.
//
// Why is the socket taken off Go's poller, by duplicating the descriptor and closing the net.Conn? Registered there, each
// segment that comes would wake a thread of the runtime that finds nobody waiting.

// smallProduce is the largest frame that makes a connection a small producer.
const smallProduce = 8 << 10

// credit is what a connection has shown of itself.
type credit struct {
	run   int // small produces in a row, none of which met another request or reply
	price int // the run after which the socket is lent
}

const (
	lendAfter  = 2    // is the price at first
	lendAgain  = 4    // times the price when a loan was not worth its while
	worthwhile = 8    // times the price must be served by a loan
	mostCredit = 4096 // is never exceeded by the price
)

// count notes a request that was evaluated and whose reply is not written yet.
func (c *conn) count(q *call, size int) {
	req, ok := q.req.(*kmsg.ProduceRequest)
	if !ok || size > smallProduce || req.Acks != 1 && req.Acks != -1 || !c.idle() {
		c.credit.run = 0
		return
	}
	c.credit.run++
}

// idle says that no reply waits to be written, and that no further request has come.
func (c *conn) idle() bool {
	if !c.frames.empty() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting == 0 && !c.broken
}

// mayLend is asked between requests, by the reader.
func (c *conn) mayLend() bool { return c.credit.run >= c.credit.price && c.s.lending.after > 0 }

// loan is a connection that a lane serves. It belongs to the lane; where not, that is said.
type loan struct {
	c    *conn
	fd   int
	back chan struct{} // gets one token when the lane gives the connection back

	in      []byte    // received and not evaluated
	answers []*answer // of this cycle, in the order of the requests
	direct  int       // so many of them may be written in this cycle, the others wait for an fsync
	later   []*answer // of earlier cycles, gathered for the next fsync
	active  bool      // in the lane's list of this cycle
	leaving bool      // given back at the end of the cycle
	gone    bool      // given back; the lane still writes what it owes, for which lend waits
	served  int       // requests
	seen    int64     // when the last request came, in ticks of the lane
	err     error     // why the connection must end; nil

	rest []byte // of replies, what the socket did not take; under c.writing
}

// lend has a lane serve the connection, and returns when the lane has given it back. False when it cannot be lent now.
func (c *conn) lend() (bool, error) {
	c.settleAll()
	c.credit.run = 0
	if !c.idle() {
		return false, nil
	}
	n := c.s.lanes.lend(c)
	if n == nil {
		c.credit.price = math.MaxInt // not on this system, not this kind of socket
		return false, nil
	}
	<-n.back
	c.settleAll()
	nc, err := attach(n.fd)
	if err != nil {
		return true, err
	}
	c.replace(nc)
	c.frames.goOn(n.in, nc)
	if n.served >= worthwhile*c.credit.price {
		c.credit.price = c.s.lending.after
	} else {
		c.credit.price = min(c.credit.price*c.s.lending.again, mostCredit)
	}
	c.mu.Lock()
	broken := c.broken
	c.mu.Unlock()
	switch {
	case broken:
		return true, errBroken
	case len(n.rest) > 0:
		c.allow(len(n.rest))
		if _, err := nc.Write(n.rest); err != nil {
			return true, err
		}
	}
	return true, n.err
}

// settleAll waits until nobody has a reply of the connection, or is writing one.
func (c *conn) settleAll() {
	c.drain()
	c.writing.Lock() // the last one is out
	c.writing.Unlock()
}

// replace makes the connection go on with another net.Conn of the same socket.
func (c *conn) replace(nc net.Conn) {
	c.s.mu.Lock()
	c.nc = nc
	if c.s.cut {
		nc.Close()
	}
	c.s.mu.Unlock()
}
