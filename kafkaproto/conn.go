package kafkaproto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// conn is one client. Its reader goroutine reads, evaluates, and writes replies while
// nothing is pending; its writer goroutine exists from the first reply that waits for
// a commit behind other requests, and alone writes while any is pending.
type conn struct {
	s      *Server
	nc     net.Conn // another after it was lent; replaced by the reader under s.mu
	frames *frameReader
	host   string // "/127.0.0.1"
	ctx    context.Context
	cancel context.CancelFunc
	// engineTurn is reused by one request after another; the reader's.
	engineTurn *bridge.Turn
	// watched is closed when the goroutine that looks out for the client's leaving
	// has given the frame reader back.
	watched chan struct{}
	credit  credit // whether the socket may be lent to a lane; the reader's

	out chan pending // to the writer, in the order of the requests
	// writing is held by whoever writes a reply, taken in the order of the replies.
	writing sync.Mutex

	mu      sync.Mutex
	settled sync.Cond // on mu: waiting went down, or broken was set
	waiting int       // replies handed to the writer whose turn has not come
	bytes   int       // of their requests
	broken  bool      // nothing is written any more
}

// pending is a reply in the writer's queue.
type pending struct {
	reply
	row         *row
	version     int16
	correlation int32
	size        int // of the request
}

// mostPending bounds the replies of one connection that wait for a commit.
const mostPending = 256

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{s: s, nc: nc, frames: newFrameReader(nc, s.o.MaxFrame)}
	c.settled.L = &c.mu
	c.credit.price = s.lending.after
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	if host, _, err := net.SplitHostPort(nc.RemoteAddr().String()); err == nil {
		c.host = "/" + host
	}
	return c
}

// turn is the connection's turn of the engine, at a level. It is empty between requests.
func (c *conn) turn(level bridge.Level) *bridge.Turn {
	if c.engineTurn == nil {
		c.engineTurn = c.s.b.Begin(level)
	} else {
		c.engineTurn.SetLevel(level)
		c.engineTurn.Tick()
		c.engineTurn.Touched() // readers are woken by the hub; nobody here serves them within the turn
	}
	return c.engineTurn
}

// serve runs the connection to its end.
func (c *conn) serve() {
	defer c.cancel()
	defer func() { c.nc.Close() }()
	err := c.readAll()
	if c.out != nil {
		close(c.out)
	}
	c.drain()
	c.writing.Lock() // the writer's last reply is out
	c.writing.Unlock()
	if c.watched != nil {
		c.nc.Close()
		<-c.watched
	}
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
	case errors.Is(err, os.ErrDeadlineExceeded):
	default:
		c.s.o.Logger.Debug("kafka: connection closed", "client", c.host, "error", err)
	}
}

// readAll evaluates requests until the connection must close. A panic ends this
// connection and nobody else's.
func (c *conn) readAll() (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.s.o.Logger.Error("kafka: request panicked", "client", c.host, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	for {
		// Also for the watching goroutine, which may be reading already.
		c.nc.SetReadDeadline(time.Now().Add(c.s.o.IdleTimeout))
		if c.s.closing.Load() {
			return nil
		}
		if c.watched != nil {
			<-c.watched
			c.watched = nil
		}
		if c.mayLend() {
			lent, err := c.lend()
			if err != nil {
				return err
			}
			if lent {
				continue // on the new net.Conn
			}
		}
		frame, err := c.frames.next()
		if err != nil {
			return err
		}
		if err := c.evaluate(frame); err != nil {
			return err
		}
	}
}

var (
	errUnknownRequest = errors.New("unknown request or version")
	errRefused        = errors.New("closed by the request's handler")
	errBroken         = errors.New("connection broke while writing")
)

// evaluate answers one request, or queues its answer.
func (c *conn) evaluate(frame []byte) error {
	h, rest, err := parseHeader(frame)
	if err != nil {
		return err
	}
	r := c.s.list[h.key]
	if r == nil {
		return fmt.Errorf("%w: key %d", errUnknownRequest, h.key)
	}
	r.counts.bytesIn.Add(int64(len(frame)) + 4)
	if r.limit > 0 && len(frame) > r.limit {
		r.counts.refused.Add(1)
		return fmt.Errorf("%s: %w: %d", r.name, errFrameSize, len(frame))
	}
	q := call{ctx: c.ctx, s: c.s, b: c.s.b, c: c, row: r, version: h.version, correlation: h.correlation}
	if h.version < r.min || h.version > r.max {
		r.counts.refused.Add(1)
		if h.key != apiVersionsKey {
			return fmt.Errorf("%w: %s version %d", errUnknownRequest, r.name, h.version)
		}
		return c.finish(&q, c.s.apiVersionsUnsupported(), len(frame))
	}
	if err := q.decode(rest); err != nil {
		r.counts.refused.Add(1)
		return fmt.Errorf("%s version %d: %w", r.name, h.version, err)
	}
	if !r.pipelined {
		c.drain()
	}
	begin := time.Now()
	out := r.handle(&q)
	r.counts.nanos.Add(int64(time.Since(begin)))
	r.counts.requests.Add(1)
	c.count(&q, len(frame))
	return c.finish(&q, out, len(frame))
}

// decode reads the rest of the header and the body.
func (q *call) decode(rest []byte) (err error) {
	id, rest, err := parseClientID(rest)
	if err != nil {
		return err
	}
	if q.version >= q.row.flexible {
		if rest, err = skipTags(rest); err != nil {
			return err
		}
	}
	if q.row.key == produceKey {
		req := &kmsg.ProduceRequest{Version: q.version}
		q.req = req
		return req.UnsafeReadFrom(rest) // its names do not outlive the frame
	}
	q.clientID = string(id)
	q.req = kmsg.RequestForKey(q.row.key)
	q.req.SetVersion(q.version)
	return q.req.ReadFrom(rest)
}

// finish writes a reply, at once when nothing is pending before it, else through the writer.
func (c *conn) finish(q *call, out reply, size int) error {
	p := pending{reply: out, row: q.row, version: q.version, correlation: q.correlation, size: size}
	c.mu.Lock()
	// The reader itself waits for a commit only if no further request could join it.
	direct := c.waiting == 0 && (out.ticket == nil || out.inline && !c.frames.ready())
	if !direct {
		for (c.waiting >= mostPending || c.bytes > c.s.o.MaxInFlight) && !c.broken {
			c.settled.Wait()
		}
		c.waiting++
		c.bytes += size
	}
	broken := c.broken
	c.mu.Unlock()
	if broken {
		c.s.replying.Add(-out.size)
		return errBroken
	}
	if direct {
		return c.settle(&p)
	}
	if c.out == nil {
		c.out = make(chan pending, mostPending)
		go c.writeAll(c.out)
	}
	c.out <- p
	if out.closes {
		return errRefused
	}
	return nil
}

// settle waits for a reply's commit and writes it.
func (c *conn) settle(p *pending) error {
	out := p.committed()
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.tell(p, &out)
}

// committed waits for a reply's commit and returns what may be told.
func (p *pending) committed() reply {
	if p.ticket == nil {
		return p.reply
	}
	// Not the connection's context: somebody must wait for the round, because it is
	// the waiting that commits.
	if err := p.ticket.Wait(context.Background()); err != nil && p.failed != nil {
		return p.failed(err)
	}
	return p.reply
}

// tell writes a reply whose turn it is; writing is held.
func (c *conn) tell(p *pending, out *reply) error {
	defer c.s.replying.Add(-out.size)
	if !out.none && (out.body != nil || out.raw != nil) {
		if err := c.write(p, out); err != nil {
			return err
		}
	}
	if out.closes {
		p.row.counts.failed.Add(1)
		return errRefused
	}
	return nil
}

// writeAll is the writer goroutine.
func (c *conn) writeAll(out <-chan pending) {
	for p := range out {
		told := p.committed()
		c.writing.Lock()
		// Counted down before the write, so that a client which answers a reply with its
		// next request finds the reader free to serve it alone: the reader's own reply waits for writing.
		c.mu.Lock()
		broken := c.broken
		c.waiting--
		c.bytes -= p.size
		c.settled.Broadcast()
		c.mu.Unlock()
		var err error
		if !broken {
			err = c.tell(&p, &told)
		} else {
			c.s.replying.Add(-told.size)
		}
		if err != nil {
			// Still writing: a reader that has drained must see it before it lends the socket.
			c.breakOff()
			c.nc.Close() // wakes the reader
		}
		c.writing.Unlock()
	}
}

// breakOff says that nothing more is written.
func (c *conn) breakOff() {
	c.mu.Lock()
	c.broken = true
	c.settled.Broadcast()
	c.mu.Unlock()
}

// drain waits until the writer holds no reply but one that it is writing.
func (c *conn) drain() {
	c.mu.Lock()
	for c.waiting > 0 {
		c.settled.Wait()
	}
	c.mu.Unlock()
}

// buffers are for replies; those that grew large are left to the collector.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

const largestKept = 256 << 10

// write sends one reply: size:4 correlation:4 [tags] body.
func (c *conn) write(p *pending, out *reply) error {
	bp := buffers.Get().(*[]byte)
	b := appendReply((*bp)[:0], p.row, p.version, p.correlation, out.body)
	size := len(b)
	for _, piece := range out.raw {
		size += len(piece)
	}
	put32(b, uint32(size-4))
	p.row.counts.bytesOut.Add(int64(size))
	c.allow(size)
	var err error
	if len(out.raw) == 0 {
		_, err = c.nc.Write(b)
	} else {
		pieces := make(net.Buffers, 0, 1+len(out.raw))
		pieces = append(append(pieces, b), out.raw...)
		_, err = pieces.WriteTo(c.nc)
	}
	if cap(b) <= largestKept {
		*bp = b
		buffers.Put(bp)
	}
	return err
}

// appendReply appends a reply, whose size is right when all of its body is encoded here.
func appendReply(b []byte, r *row, version int16, correlation int32, body kmsg.Response) []byte {
	at := len(b)
	b = be32(append(b, 0, 0, 0, 0), uint32(correlation))
	if r.flexible <= version && r.key != apiVersionsKey {
		b = append(b, 0)
	}
	if body != nil {
		b = body.AppendTo(b)
	}
	put32(b[at:], uint32(len(b)-at-4))
	return b
}

// allow gives a client that does not read time by the size of its reply.
func (c *conn) allow(size int) {
	c.nc.SetWriteDeadline(time.Now().Add(time.Minute + time.Duration(size>>16)*time.Second))
}

// watch looks out for the client's leaving while a handler waits: the frame reader
// belongs to the watching goroutine until a byte comes or the connection breaks. A
// client that sends its next request meanwhile is no longer watched.
func (c *conn) watch() {
	if c.watched != nil {
		return
	}
	c.nc.SetReadDeadline(time.Time{})
	if c.s.closing.Load() {
		c.cancel()
		return
	}
	done := make(chan struct{})
	c.watched = done
	go func() {
		defer close(done)
		if _, err := c.frames.br.Peek(1); err != nil {
			c.cancel()
		}
	}()
}
