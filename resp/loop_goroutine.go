package resp

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/engine"
)

// The portable loop: a goroutine and a turn for each connection. What a pipeline holds shares a commit; between
// connections the engine's rounds do the sharing. It serves systems without epoll, TLS, and in-memory listeners.

// begin makes a turn; nil without an engine (tests of the socket).
func (s *Server) begin() *engine.Turn {
	if s.eng == nil {
		return nil
	}
	return s.eng.Begin(s.level())
}

// commit waits for a turn's rounds. It is not to be given up by a client's leaving, so it has no other context.
func (s *Server) commit(t *engine.Turn) error {
	if t == nil {
		return nil
	}
	return t.Wait(context.Background())
}

// threads are the connections of one listener.
type threads struct {
	srv *Server
	ln  net.Listener

	mu       sync.Mutex
	all      map[*thread]struct{}
	draining bool
}

// acceptPause is how long accepting rests when the process has no file descriptors left.
const acceptPause = 100 * time.Millisecond

func (r *threads) serve() error {
	for {
		nc, err := r.ln.Accept()
		switch {
		case err == nil:
			r.accept(nc)
		case errors.Is(err, net.ErrClosed):
			return err
		case isOutOfFiles(err):
			r.srv.log.Error("accept failed; pausing", "error", err)
			timer := time.NewTimer(acceptPause)
			<-timer.C
		default:
			return err
		}
	}
}

func (r *threads) accept(nc net.Conn) {
	t := &thread{srv: r.srv, nc: nc, signal: make(chan struct{}, 1), turn: r.srv.begin()}
	t.c = newConn(r.srv, t, r.srv.nextID.Add(1), nc.RemoteAddr().String(), nc.LocalAddr().String(), r.srv.now())
	if !r.srv.admit(t.c) {
		nc.SetWriteDeadline(time.Now().Add(time.Second))
		nc.Write([]byte("-" + errMaxClients + "\r\n"))
		nc.Close()
		return
	}
	r.mu.Lock()
	r.all[t] = struct{}{}
	if r.draining {
		t.drain()
	}
	r.mu.Unlock()
	go func() {
		defer func() {
			r.mu.Lock()
			delete(r.all, t)
			r.mu.Unlock()
		}()
		t.run()
	}()
}

func (r *threads) drain() {
	r.ln.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
	for t := range r.all {
		t.drain()
	}
}

func (r *threads) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.all {
		t.nc.Close()
		t.notify(t.c)
	}
}

// thread is one connection's loop.
type thread struct {
	srv      *Server
	nc       net.Conn
	c        *conn
	turn     *engine.Turn
	signal   chan struct{} // capacity 1: look at the connection
	draining atomic.Bool
}

// past is a deadline that interrupts a Read.
var past = time.Unix(1, 0)

func (t *thread) drain() {
	t.draining.Store(true)
	t.nc.SetReadDeadline(past)
	t.notify(t.c)
}

// notify implements loop. A kill must also interrupt a Read or a Write, which closing does.
func (t *thread) notify(c *conn) {
	if c.sess.killed.Load() {
		t.nc.Close()
	}
	select {
	case t.signal <- struct{}{}:
	default:
	}
}

// evaluated implements loop: other connections' readers are on other goroutines, and wake by the engine's hub.
func (t *thread) evaluated(*engine.Turn) {}

// parked implements loop: run looks at c.block itself.
func (t *thread) parked(*conn, bool) {}

func (t *thread) run() {
	defer t.nc.Close()
	defer t.c.end()
	if !t.handshake() {
		return
	}
	buf := make([]byte, 16<<10)
	for !t.draining.Load() && !t.c.sess.killed.Load() {
		n, err := t.nc.Read(buf)
		if n > 0 && !t.turnOf(func(now time.Time) { t.c.feed(buf[:n], now) }) {
			return
		}
		for n > 0 && (t.c.block != nil || t.c.ready()) {
			if !t.advance() {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// handshakeTime bounds a TLS handshake, which would otherwise wait for a silent client for ever.
const handshakeTime = 10 * time.Second

// handshake does a TLS connection's handshake before anything is read.
func (t *thread) handshake() bool {
	tc, ok := t.nc.(interface {
		HandshakeContext(context.Context) error
	})
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTime)
	defer cancel()
	return tc.HandshakeContext(ctx) == nil
}

// advance goes on with a connection that waits, or that has commands left.
func (t *thread) advance() bool {
	if t.c.block != nil {
		return t.await()
	}
	return t.turnOf(t.c.proceed)
}

// turnOf evaluates within a turn, commits, and writes all replies; false when the connection is to be closed.
func (t *thread) turnOf(evaluate func(now time.Time)) bool {
	if t.turn != nil {
		t.turn.SetLevel(t.srv.level())
	}
	t.c.begin(t.turn)
	evaluate(t.srv.now())
	t.c.settle(t.srv.commit(t.turn))
	for {
		if out := t.c.output(); len(out) > 0 {
			if t.srv.o.WriteTimeout > 0 {
				t.nc.SetWriteDeadline(time.Now().Add(t.srv.o.WriteTimeout))
			}
			t.c.sess.pendingOut.Store(int64(len(out)))
			n, err := t.nc.Write(out)
			t.c.wrote(n)
			t.c.sess.pendingOut.Store(0)
			if err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.srv.stats.outputLimit.Add(1)
				}
				return false
			}
		}
		if !t.c.produce() {
			break
		}
	}
	return !t.c.drained()
}

// await waits until the blocked command has replied. Meanwhile one goroutine reads ahead, to notice that the client has left.
func (t *thread) await() bool {
	ahead := t.readAhead()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	alive := true
	for alive && t.c.block != nil {
		var expired <-chan time.Time
		if d := t.c.block.deadline; !d.IsZero() {
			timer.Reset(d.Sub(t.srv.now()))
			expired = timer.C
		}
		select {
		case <-t.signal:
		case <-expired:
		case <-ahead.gone:
		}
		// Looked at before the command is evaluated again: nothing is delivered to a client that has left.
		if ahead.left() || t.draining.Load() || t.c.sess.killed.Load() {
			alive = false
			break
		}
		alive = t.turnOf(t.c.wake)
	}
	rest := ahead.stop()
	if !alive {
		return false
	}
	return len(rest) == 0 || t.turnOf(func(now time.Time) { t.c.feed(rest, now) })
}

// readAhead reads what a waiting client sends, up to parkedInput.
type readAhead struct {
	t        *thread
	gone     chan struct{} // closed when the client has left
	done     chan struct{}
	buf      []byte // owned by the goroutine until done
	room     int    // bytes to read at most
	stopping atomic.Bool
}

func (t *thread) readAhead() *readAhead {
	r := &readAhead{t: t, gone: make(chan struct{}), done: make(chan struct{}), room: parkedInput - t.c.in.pending()}
	go r.run()
	return r
}

func (r *readAhead) run() {
	defer close(r.done)
	chunk := make([]byte, 4<<10)
	for len(r.buf) < r.room {
		n, err := r.t.nc.Read(chunk)
		r.buf = append(r.buf, chunk[:n]...)
		if err != nil {
			if !r.stopping.Load() {
				close(r.gone)
			}
			return
		}
	}
}

func (r *readAhead) left() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

// stop interrupts the Read and returns what came.
func (r *readAhead) stop() []byte {
	r.stopping.Store(true)
	r.t.nc.SetReadDeadline(past)
	<-r.done
	r.t.nc.SetReadDeadline(time.Time{})
	if r.t.draining.Load() {
		r.t.nc.SetReadDeadline(past) // drain may have set it just before it was cleared
	}
	return r.buf
}
