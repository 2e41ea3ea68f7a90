package kafkaproto

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/bridge"
)

// Options of a server. The zero value of each field is the default.
type Options struct {
	// AdvertisedHost and AdvertisedPort are what Metadata tells clients to connect to;
	// "" and 0: the address that the client reached.
	AdvertisedHost string
	AdvertisedPort int32
	MaxFrame       int           // largest request in bytes; 100 MiB (socket.request.max.bytes)
	MaxConnections int           // beyond it a new connection is closed at once; 10,000
	MaxInFlight    int           // bytes of requests of one connection that wait for a commit; 64 MiB
	IdleTimeout    time.Duration // silence after which a connection is closed; 10 min (connections.max.idle.ms)
	MaxReplying    int64         // bytes of Fetch replies being written, all clients together, before replies get smaller; 256 MiB
	Lanes          int           // event loops for small producers, on Linux; 1, none if negative
	MaxSessions    int           // fetch sessions kept (max.incremental.fetch.session.cache.slots); 1,000
	Logger         *slog.Logger
}

func (o *Options) fill() {
	if o.MaxFrame <= 0 {
		o.MaxFrame = 100 << 20
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = 10000
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = 64 << 20
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 10 * time.Minute
	}
	if o.MaxReplying <= 0 {
		o.MaxReplying = 256 << 20
	}
	if o.Lanes == 0 {
		o.Lanes = 1
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = 1000
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Server speaks Kafka's protocol over one bridge. Safe for concurrent use.
type Server struct {
	b    *bridge.Bridge
	o    Options
	list map[int16]*row

	// ctx ends when Shutdown begins: what is parked returns.
	ctx     context.Context
	cancel  context.CancelFunc
	closing atomic.Bool

	lanes   lanes
	lending struct { // set before the first connection
		after, again int              // lendAfter, lendAgain; after 0: never
		clock        func() time.Time // for idle timeouts
		lent         atomic.Int64     // connections now
		loans        atomic.Int64     // ever made
	}

	mu        sync.Mutex // guards the two sets, their connections' nc, and cut
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	cut       bool           // connections are closed whatever they do
	gone      sync.WaitGroup // connections

	sessions *sessionCache
	replying atomic.Int64 // bytes of Fetch replies being written
	opened   atomic.Int64
	refused  atomic.Int64
}

// New makes a server. The bridge is closed by its owner, after Shutdown.
func New(b *bridge.Bridge, o Options) *Server {
	o.fill()
	s := &Server{
		b: b, o: o,
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
		sessions:  newSessionCache(o.MaxSessions),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.list = newList(s)
	s.lanes.s = s
	if o.Lanes > 0 {
		s.lending.after = lendAfter
	}
	s.lending.again, s.lending.clock = lendAgain, time.Now
	return s
}

// Serve accepts connections until Shutdown (then it returns nil) or until the
// listener fails. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		return ln.Close()
	}
	s.listeners[ln] = struct{}{}
	s.mu.Unlock()
	for {
		nc, err := ln.Accept()
		if err == nil {
			s.accept(nc)
			continue
		}
		if s.closing.Load() || errors.Is(err, net.ErrClosed) {
			return nil
		}
		// Out of file descriptors and the like: those who are connected go on, and so
		// does accepting once somebody has left.
		var ne net.Error
		if !errors.As(err, &ne) {
			return fmt.Errorf("kafkaproto: accept: %w", err)
		}
		s.o.Logger.Warn("kafka: cannot accept for now", "error", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-s.ctx.Done():
			return nil
		}
	}
}

func (s *Server) accept(nc net.Conn) {
	s.mu.Lock()
	if s.closing.Load() || len(s.conns) >= s.o.MaxConnections {
		s.mu.Unlock()
		s.refused.Add(1)
		nc.Close()
		return
	}
	c := newConn(s, nc)
	s.conns[c] = struct{}{}
	s.gone.Add(1)
	s.mu.Unlock()
	s.opened.Add(1)
	go func() {
		defer s.gone.Done()
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
}

// Shutdown stops accepting, lets every connection finish the requests it has read,
// and returns when all are gone, or, with ctx's error, when ctx ends; then what is
// left is cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closing.Store(true)
	s.cancel()
	s.mu.Lock()
	for ln := range s.listeners {
		ln.Close()
	}
	for c := range s.conns {
		// Wakes a reader that waits for the next request; one that is about to wait
		// sees closing after it has set its own deadline.
		c.nc.SetReadDeadline(time.Unix(1, 0))
	}
	s.mu.Unlock()
	s.lanes.poke()
	done := make(chan struct{})
	go func() { s.gone.Wait(); s.lanes.stop(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		s.cut = true
		for c := range s.conns {
			c.nc.Close()
		}
		s.mu.Unlock()
		<-done
		return ctx.Err()
	}
}

// RequestCounters are one request's metrics since the start.
type RequestCounters struct {
	Key      int16
	Name     string
	Requests int64 // evaluated
	Refused  int64 // version or body not understood
	Failed   int64 // connection closed instead of an answer
	BytesIn  int64
	BytesOut int64
	Nanos    int64 // spent in handlers, waiting included
}

// Counters are a server's metrics since the start.
type Counters struct {
	Requests    []RequestCounters // in order of the key
	Connections int               // open now
	Lent        int64             // of which served by an event loop (lend.go)
	Loans       int64             // times that a connection was lent to one
	Opened      int64             // connections ever accepted
	Refused     int64             // connections closed because there were too many
	Sessions    int               // fetch sessions now
}

// Counters takes a snapshot of the metrics.
func (s *Server) Counters() Counters {
	out := Counters{
		Opened: s.opened.Load(), Refused: s.refused.Load(), Sessions: s.sessions.len(),
		Lent: s.lending.lent.Load(), Loans: s.lending.loans.Load(),
	}
	s.mu.Lock()
	out.Connections = len(s.conns)
	s.mu.Unlock()
	for _, r := range s.rows() {
		out.Requests = append(out.Requests, RequestCounters{
			Key: r.key, Name: r.name,
			Requests: r.counts.requests.Load(), Refused: r.counts.refused.Load(),
			Failed: r.counts.failed.Load(), BytesIn: r.counts.bytesIn.Load(),
			BytesOut: r.counts.bytesOut.Load(), Nanos: r.counts.nanos.Load(),
		})
	}
	return out
}
