package resp

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// session is what others may know of a connection: CLIENT LIST, INFO and CLIENT KILL run on any loop. The connection's own loop
// writes it; atomics are read as they stand, the rest under mu.
type session struct {
	id            int64
	addr, laddr   string
	created       time.Time
	last          atomic.Int64 // unix ms of the last command
	row           atomic.Pointer[command]
	resp          atomic.Int32
	in, out, cmds atomic.Int64 // bytes received, bytes written, commands run
	pendingOut    atomic.Int64 // bytes of replies that wait for the client
	pendingIn     atomic.Int64
	waiting       atomic.Int32 // waitingNo ...
	killed        atomic.Bool
	flags         atomic.Uint32

	mu              sync.Mutex
	name            string
	libName, libVer string
	user            string
}

// What a connection is doing with a blocked command. CLIENT UNBLOCK moves waitingYes on; the connection's loop then
// replies accordingly.
const (
	waitingNo int32 = iota
	waitingYes
	unblockTimeout
	unblockError
)

// session flags.
const (
	sessNoEvict uint32 = 1 << iota
	sessNoTouch
	sessReplyOff
)

func (s *session) set(flag uint32, on bool) {
	f := s.flags.Load()
	if on {
		s.flags.Store(f | flag)
	} else {
		s.flags.Store(f &^ flag)
	}
}

// setName, setLib and setUser store what the client said.
func (s *session) setName(name string) { s.mu.Lock(); s.name = name; s.mu.Unlock() }

func (s *session) getName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

func (s *session) setLib(name, ver *string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != nil {
		s.libName = *name
	}
	if ver != nil {
		s.libVer = *ver
	}
}

func (s *session) setUser(user string) { s.mu.Lock(); s.user = user; s.mu.Unlock() }

func (s *session) getUser() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user
}

// flagLetters are CLIENT LIST's: b blocked, e no-evict, T no-touch, N none.
func (s *session) flagLetters() string {
	var b []byte
	if s.waiting.Load() != waitingNo {
		b = append(b, 'b')
	}
	f := s.flags.Load()
	if f&sessNoEvict != 0 {
		b = append(b, 'e')
	}
	if f&sessNoTouch != 0 {
		b = append(b, 'T')
	}
	if len(b) == 0 {
		return "N"
	}
	return string(b)
}

// line is the connection in CLIENT LIST: Redis 8.2's fields in its order. What has no meaning here (file descriptor, Redis's buffers)
// is 0.
func (s *session) line(now time.Time) string {
	s.mu.Lock()
	name, libName, libVer, user := s.name, s.libName, s.libVer, s.user
	s.mu.Unlock()
	cmd := "NULL"
	if row := s.row.Load(); row != nil {
		cmd = row.name
	}
	out := s.pendingOut.Load()
	events := "r"
	if out > 0 {
		events = "rw"
	}
	var b []byte
	add := func(key, value string) {
		if len(b) > 0 {
			b = append(b, ' ')
		}
		b = append(append(append(b, key...), '='), value...)
	}
	num := func(key string, n int64) { add(key, strconv.FormatInt(n, 10)) }
	num("id", s.id)
	add("addr", s.addr)
	add("laddr", s.laddr)
	num("fd", 0)
	add("name", name)
	num("age", int64(now.Sub(s.created)/time.Second))
	num("idle", max(0, (now.UnixMilli()-s.last.Load())/1000))
	add("flags", s.flagLetters())
	for _, key := range []string{"db", "sub", "psub", "ssub"} {
		num(key, 0)
	}
	num("multi", -1)
	num("watch", 0)
	num("qbuf", s.pendingIn.Load())
	for _, key := range []string{"qbuf-free", "argv-mem", "multi-mem", "rbs", "rbp"} {
		num(key, 0)
	}
	num("obl", out)
	num("oll", 0)
	num("omem", out)
	num("tot-mem", out+s.pendingIn.Load())
	add("events", events)
	add("cmd", cmd)
	add("user", user)
	num("redir", -1)
	num("resp", int64(s.resp.Load()))
	add("lib-name", libName)
	add("lib-ver", libVer)
	num("io-thread", 0)
	num("tot-net-in", s.in.Load())
	num("tot-net-out", s.out.Load())
	num("tot-cmds", s.cmds.Load())
	return string(b)
}
