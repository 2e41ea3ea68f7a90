package resp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/bridge"
	"weir/engine"
)

// RedisVersion is what INFO and HELLO report: the Redis whose stream features are offered.
const RedisVersion = "8.2.3"

// Fsync is when a write is answered (appendfsync).
type Fsync uint8

const (
	// EverySecond: answered when the operating system has it; whoever owns the server calls engine.Sync each second.
	EverySecond Fsync = iota
	// Always: answered when it is on disk.
	Always
	// Never: answered when the operating system has it, which flushes when it likes.
	Never
)

var fsyncNames = []string{"everysec", "always", "no"}

// String is the option's value in Redis's words.
func (f Fsync) String() string { return fsyncNames[f] }

// ParseFsync reads "always", "everysec" or "no".
func ParseFsync(s string) (Fsync, bool) {
	i := slices.Index(fsyncNames, s)
	return Fsync(max(i, 0)), i >= 0
}

// Options of a server. The zero value of each field is the default.
type Options struct {
	// Loops is how many event loops share the connections; max(1, NumCPU/2). One loop serves everything that arrives together
	// in one commit, so more of them pay only when the parsing itself is the limit.
	Loops int
	// Portable forces a goroutine for each connection where an event loop could be had.
	Portable bool
	// MaxClients is how many connections are served at a time; 10,000.
	MaxClients int
	Limits     Limits
	// RequirePass is the default user's password; "" none.
	RequirePass string
	AppendFsync Fsync
	// WriteTimeout closes a client that has not taken a byte of what waits for it for so long; 60 s. < 0: never.
	WriteTimeout time.Duration
	// NodeEntries and NodeBytes are stream-node-max-entries (100) and stream-node-max-bytes (4096): `~` trims whole nodes of them.
	NodeEntries, NodeBytes int64
	// Version is weir's own, for INFO.
	Version string
	Logger  *slog.Logger
	// Now is the clock of connections, deadlines and TIME; time.Now when nil.
	Now func() time.Time
}

// Server serves Redis clients on one bridge. Safe for concurrent use.
type Server struct {
	bridge *bridge.Bridge
	eng    *engine.Engine
	o      Options
	list   *list
	log    *slog.Logger
	now    func() time.Time
	start  time.Time
	runID  string
	conf   settings
	stats  stats

	nextID atomic.Int64
	port   atomic.Int32

	scan    scanOrder
	wait    groupQueues
	buffers buffers
	params  []parameter

	mu       sync.Mutex
	clients  map[int64]*conn
	runs     map[runner]struct{}
	draining bool
	idle     chan struct{} // closed once draining and no client is left
}

// runner is a group of loops behind one listener.
type runner interface {
	serve() error
	// drain stops accepting; connections end when what they sent is answered. kill ends them at once.
	drain()
	kill()
}

// New makes a server; nothing runs before Serve. b may be nil only in tests of the socket: commands that need
// streams then fail.
func New(b *bridge.Bridge, o Options) *Server {
	o.Limits = o.Limits.withDefaults()
	if o.Loops <= 0 {
		o.Loops = max(1, runtime.NumCPU()/2)
	}
	if o.MaxClients <= 0 {
		o.MaxClients = 10000
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = time.Minute
	}
	if o.NodeEntries <= 0 {
		o.NodeEntries = 100
	}
	if o.NodeBytes <= 0 {
		o.NodeBytes = 4096
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{bridge: b, o: o, list: newList(), log: o.Logger, now: o.Now, runID: newRunID(), params: parameters(),
		clients: map[int64]*conn{}, runs: map[runner]struct{}{}, idle: make(chan struct{})}
	if b != nil {
		s.eng = b.Engine()
	}
	s.start = s.now()
	s.conf.init(o)
	s.stats.errors = map[string]int64{}
	return s
}

func (s *Server) engine() *engine.Engine { return s.eng }

// AppendFsync is the level in force (CONFIG SET may change it). Who owns the server asks before each second's engine.Sync.
func (s *Server) AppendFsync() Fsync { return Fsync(s.conf.fsync.Load()) }

func (s *Server) level() engine.Level {
	if s.AppendFsync() == Always {
		return engine.Durable
	}
	return engine.Written
}

func (s *Server) password() string { return *s.conf.requirePass.Load() }

// ErrServerClosed is returned by Serve after Shutdown.
var ErrServerClosed = errors.New("resp: server closed")

// Serve accepts connections until Shutdown (ErrServerClosed) or until the listener fails. It owns ln and closes it. It may be called
// for several listeners at a time. TCP and Unix listeners get event loops where the system has them; any other (TLS) gets a
// goroutine for each connection.
func (s *Server) Serve(ln net.Listener) error {
	r, err := s.newRunner(ln)
	if err != nil {
		ln.Close()
		return err
	}
	if a, ok := ln.Addr().(*net.TCPAddr); ok {
		s.port.CompareAndSwap(0, int32(a.Port))
	}
	s.mu.Lock()
	if s.draining {
		s.mu.Unlock()
		r.kill()
		ln.Close()
		return ErrServerClosed
	}
	s.runs[r] = struct{}{}
	s.mu.Unlock()
	err = r.serve()
	s.mu.Lock()
	delete(s.runs, r)
	draining := s.draining
	s.mu.Unlock()
	if draining {
		return ErrServerClosed
	}
	return err
}

// Shutdown stops accepting, lets every connection finish what it has sent (waiting commands end with a closed
// connection), and returns when all are gone, or closes them when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	first := !s.draining
	s.draining = true
	if first && len(s.clients) == 0 {
		close(s.idle)
	}
	runs := s.runners()
	s.mu.Unlock()
	for _, r := range runs {
		r.drain()
	}
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	for _, r := range runs {
		r.kill()
	}
	<-s.idle
	return ctx.Err()
}

func (s *Server) runners() []runner {
	rs := make([]runner, 0, len(s.runs))
	for r := range s.runs {
		rs = append(rs, r)
	}
	return rs
}

// admit registers a new connection; false when there are too many, or the server drains.
func (s *Server) admit(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	if int64(len(s.clients)) >= s.conf.maxClients.Load() {
		s.stats.refused.Add(1)
		return false
	}
	s.stats.connections.Add(1)
	s.clients[c.sess.id] = c
	return true
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[c.sess.id] != c {
		return
	}
	delete(s.clients, c.sess.id)
	if s.draining && len(s.clients) == 0 {
		close(s.idle)
	}
}

// everyone lists the connections in the order they came.
func (s *Server) everyone() []*conn {
	s.mu.Lock()
	all := make([]*conn, 0, len(s.clients))
	for _, c := range s.clients {
		all = append(all, c)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *conn) int { return int(a.sess.id - b.sess.id) })
	return all
}

// client finds a connection by its id.
func (s *Server) client(id int64) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[id]
}
