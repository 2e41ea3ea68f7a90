package resp

import (
	"strings"
	"sync"
	"sync/atomic"
)

// stats are the server's own counters; the rows of the list hold theirs.
type stats struct {
	connections atomic.Int64 // accepted since start
	refused     atomic.Int64 // over maxclients
	commands    atomic.Int64
	blocked     atomic.Int64 // connections that wait now
	changes     atomic.Int64 // rdb_changes_since_last_save
	hits        atomic.Int64
	misses      atomic.Int64
	inputLimit  atomic.Int64 // closed: a command larger than the limit
	outputLimit atomic.Int64 // closed: a client that does not read
	netIn       atomic.Int64 // of connections that are gone
	netOut      atomic.Int64
	errReplies  atomic.Int64

	mu     sync.Mutex
	errors map[string]int64 // by code: ERR, NOGROUP ...
}

// mostErrorCodes bounds errorstat, as Redis does.
const mostErrorCodes = 128

// countError counts an error reply by its code.
func (s *Server) countError(text string) {
	s.stats.errReplies.Add(1)
	code, _, _ := strings.Cut(text, " ")
	s.stats.mu.Lock()
	if _, ok := s.stats.errors[code]; ok || len(s.stats.errors) < mostErrorCodes {
		s.stats.errors[code]++
	}
	s.stats.mu.Unlock()
}

// changed says that a command changed n things (INFO's rdb_changes_since_last_save).
func (c *call) changed(n int64) { c.srv.stats.changes.Add(n) }

func (s *Server) resetStats() {
	s.list.each(func(row *command) { row.stats.reset() })
	for _, n := range []*atomic.Int64{&s.stats.connections, &s.stats.refused, &s.stats.commands, &s.stats.hits, &s.stats.misses,
		&s.stats.inputLimit, &s.stats.outputLimit, &s.stats.netIn, &s.stats.netOut, &s.stats.errReplies} {
		n.Store(0)
	}
	s.stats.mu.Lock()
	clear(s.stats.errors)
	s.stats.mu.Unlock()
}

// CommandStat is one row's counters since start or CONFIG RESETSTAT.
type CommandStat struct {
	Name     string // "xadd", "xgroup|create"
	Calls    int64
	Nanos    int64 // time in the handler
	Rejected int64 // refused before it ran
	Failed   int64 // answered with an error
	// BytesIn and BytesOut are what the commands and their replies took on the wire.
	BytesIn, BytesOut int64
}

// Stats is a reading of the server's counters.
type Stats struct {
	Clients, Blocked     int64 // now
	Connections, Refused int64
	Commands             int64
	NetIn, NetOut        int64 // bytes
	ErrorReplies         int64
	Errors               map[string]int64 // by code
	// SlowClosed and LargeClosed count connections closed because they did not read, or sent a command beyond the limit.
	SlowClosed, LargeClosed int64
	Rows                    []CommandStat // every row of the list, also uncalled ones
}

// Stats reads the counters; each is exact, together they are of about one moment.
func (s *Server) Stats() Stats {
	st := Stats{Blocked: s.stats.blocked.Load(), Connections: s.stats.connections.Load(), Refused: s.stats.refused.Load(),
		Commands: s.stats.commands.Load(), ErrorReplies: s.stats.errReplies.Load(), Errors: map[string]int64{},
		NetIn: s.stats.netIn.Load(), NetOut: s.stats.netOut.Load(),
		SlowClosed: s.stats.outputLimit.Load(), LargeClosed: s.stats.inputLimit.Load()}
	all := s.everyone()
	st.Clients = int64(len(all))
	for _, c := range all {
		st.NetIn += c.sess.in.Load()
		st.NetOut += c.sess.out.Load()
	}
	s.stats.mu.Lock()
	for code, n := range s.stats.errors {
		st.Errors[code] = n
	}
	s.stats.mu.Unlock()
	s.list.each(func(row *command) {
		st.Rows = append(st.Rows, CommandStat{Name: row.name, Calls: row.stats.calls.Load(), Nanos: row.stats.nsec.Load(),
			Rejected: row.stats.rejected.Load(), Failed: row.stats.failed.Load(),
			BytesIn: row.stats.in.Load(), BytesOut: row.stats.out.Load()})
	})
	return st
}
