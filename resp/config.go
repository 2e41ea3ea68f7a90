package resp

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
)

// CONFIG GET SET RESETSTAT REWRITE HELP.
//
// Knobs that do something can be set. Parameters that clients read at connect and that are fixed here are listed with the
// value that is true of this server; setting one to that value is OK, to another an error. REWRITE is refused: there is no file to
// rewrite.

// settings are the knobs in force. Loops read them without a lock.
type settings struct {
	fsync       atomic.Int32
	maxClients  atomic.Int64
	nodeEntries atomic.Int64 // stream-node-max-entries; 0 no limit
	nodeBytes   atomic.Int64
	requirePass atomic.Pointer[string]
}

func (s *settings) init(o Options) {
	s.fsync.Store(int32(o.AppendFsync))
	s.maxClients.Store(int64(o.MaxClients))
	s.nodeEntries.Store(o.NodeEntries)
	s.nodeBytes.Store(o.NodeBytes)
	s.requirePass.Store(&o.RequirePass)
}

// nodeEntries is stream-node-max-entries as trimming wants it: 0 means that nodes have no such limit.
func (c *call) nodeEntries() int64 {
	if n := c.srv.conf.nodeEntries.Load(); n > 0 {
		return n
	}
	return math.MaxInt64
}

// parameter is one row of CONFIG.
type parameter struct {
	name string
	get  func(s *Server) string
	// parse checks a value and returns what puts it in force; why says what is wrong with it. nil: fixed.
	parse func(value string) (apply func(s *Server), why string)
}

// parameters is the list of CONFIG, in a constructor for the reason newList gives.
func parameters() []parameter {
	fixed := func(name, value string) parameter {
		return parameter{name: name, get: func(*Server) string { return value }}
	}
	number := func(name string, field func(*settings) *atomic.Int64, lo, hi int64, memory bool) parameter {
		return parameter{name: name,
			get: func(s *Server) string { return strconv.FormatInt(field(&s.conf).Load(), 10) },
			parse: func(v string) (func(*Server), string) {
				n, why := parseNumber(v, lo, hi, memory)
				return func(s *Server) { field(&s.conf).Store(n) }, why
			}}
	}
	limit := func(name string, of func(*Limits) int) parameter {
		return parameter{name: name, get: func(s *Server) string { return strconv.Itoa(of(&s.o.Limits)) }}
	}
	return []parameter{
		{name: "appendfsync", get: func(s *Server) string { return s.AppendFsync().String() },
			parse: func(v string) (func(*Server), string) {
				f, ok := ParseFsync(strings.ToLower(v))
				if !ok {
					return nil, "argument(s) must be one of the following: everysec, always, no"
				}
				return func(s *Server) { s.conf.fsync.Store(int32(f)) }, ""
			}},
		{name: "requirepass", get: (*Server).password,
			parse: func(v string) (func(*Server), string) {
				return func(s *Server) { s.conf.requirePass.Store(&v) }, ""
			}},
		number("maxclients", func(s *settings) *atomic.Int64 { return &s.maxClients }, 1, math.MaxUint32, false),
		number("stream-node-max-entries", func(s *settings) *atomic.Int64 { return &s.nodeEntries }, 0, math.MaxInt64, false),
		number("stream-node-max-bytes", func(s *settings) *atomic.Int64 { return &s.nodeBytes }, 0, math.MaxInt64, true),
		limit("proto-max-bulk-len", func(l *Limits) int { return l.Bulk }),
		limit("client-query-buffer-limit", func(l *Limits) int { return l.Command }),
		{name: "port", get: func(s *Server) string { return strconv.Itoa(int(s.port.Load())) }},
		fixed("appendonly", "yes"), fixed("save", ""), fixed("databases", "1"), fixed("timeout", "0"), fixed("replica-read-only", "yes"),
		fixed("maxmemory", "0"), fixed("maxmemory-policy", "noeviction"), fixed("cluster-enabled", "no"), fixed("lazyfree-lazy-user-del", "yes"),
	}
}

// parseNumber reads a value as Redis does; memory values may have a unit.
func parseNumber(v string, lo, hi int64, memory bool) (n int64, why string) {
	unit := int64(1)
	if memory {
		digits := strings.TrimRight(v, "bBkKmMgG")
		switch strings.ToLower(v[len(digits):]) {
		case "", "b":
		case "k":
			unit = 1000
		case "kb":
			unit = 1 << 10
		case "m":
			unit = 1000 * 1000
		case "mb":
			unit = 1 << 20
		case "g":
			unit = 1000 * 1000 * 1000
		case "gb":
			unit = 1 << 30
		default:
			return 0, "argument must be a memory value"
		}
		v = digits
	}
	n, ok := parseInt([]byte(v))
	switch {
	case !ok && memory:
		return 0, "argument must be a memory value"
	case !ok:
		return 0, "argument couldn't be parsed into an integer"
	case n < lo || n > hi/unit:
		return 0, "argument must be between " + strconv.FormatInt(lo, 10) + " and " + strconv.FormatInt(hi, 10) + " inclusive"
	}
	return n * unit, ""
}

func configRow() *command {
	const usual = noScript | loading | stale
	all := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	sub := func(name string, arity int, f flags, since string, tips []string, summary string, run func(*call)) *command {
		return &command{name: "config|" + name, arity: arity, flags: f, tips: tips, since: since, group: "server", summary: summary, run: run}
	}
	return &command{name: "config", arity: -2, since: "2.0.0", group: "server", summary: "About settings.", subs: []*command{
		sub("resetstat", 2, admin|usual, "2.0.0", all, "Begins INFO's counters anew.", configResetStat),
		sub("help", 2, loading|stale, "5.0.0", nil, "Lists the subcommands.", configHelp),
		sub("get", -3, admin|usual, "2.0.0", nil, "Answers settings by pattern.", configGet),
		sub("rewrite", 2, admin|usual, "2.8.0", all, "Refused: settings come from flags and the environment.", configRewrite),
		sub("set", -4, admin|usual, "2.0.0", all, "Changes settings, all or none.", configSet),
	}}
}

// configGet: CONFIG GET pattern [pattern ...].
func configGet(c *call) {
	type answer struct {
		name string
		p    *parameter
	}
	var found []answer
	seen := map[string]bool{}
	add := func(name string, p *parameter) {
		if p != nil && !seen[p.name] {
			seen[p.name] = true
			found = append(found, answer{name, p})
		}
	}
	for _, pattern := range c.args[2:] {
		if !bytes.ContainsAny(pattern, "*?[") {
			add(string(pattern), c.srv.parameter(strings.ToLower(string(pattern)))) // answered as it was spelt
			continue
		}
		for i := range c.srv.params {
			if p := &c.srv.params[i]; globMatch(pattern, []byte(p.name), true) {
				add(p.name, p)
			}
		}
	}
	c.Map(len(found))
	for _, a := range found {
		c.BulkString(a.name)
		c.BulkString(a.p.get(c.srv))
	}
}

// configSet: CONFIG SET parameter value [parameter value ...]. Every value is checked before one is put in force.
func configSet(c *call) {
	words := c.args[2:]
	if len(words)%2 != 0 {
		c.Err(errSyntax)
		return
	}
	var applies []func(*Server)
	seen := map[string]bool{}
	for ; len(words) > 0; words = words[2:] {
		name, value := strings.ToLower(string(words[0])), string(words[1])
		p := c.srv.parameter(name)
		if p == nil {
			c.Err("ERR Unknown option or number of arguments for CONFIG SET - '" + string(cut(words[0], 128)) + "'")
			return
		}
		var apply func(*Server)
		why := ""
		switch {
		case seen[name]:
			why = "duplicate parameter"
		case p.parse != nil:
			apply, why = p.parse(value)
		case p.get(c.srv) != value:
			why = "can't set immutable config"
		}
		if why != "" {
			c.Err("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + why)
			return
		}
		seen[name] = true
		if apply != nil {
			applies = append(applies, apply)
		}
	}
	for _, apply := range applies {
		apply(c.srv)
	}
	c.OK()
}

func (s *Server) parameter(name string) *parameter {
	for i := range s.params {
		if s.params[i].name == name {
			return &s.params[i]
		}
	}
	return nil
}

func configResetStat(c *call) {
	c.srv.resetStats()
	c.OK()
}

func configRewrite(c *call) { c.Err("ERR The server is running without a config file") }

func configHelp(c *call) {
	c.help("CONFIG", "GET <pattern> [...]", "Answer the settings whose names match.", "SET <name> <value> [...]", "Change settings.",
		"RESETSTAT", "Begin the counters of INFO anew.", "REWRITE", "Refused; there is no configuration file to write.")
}
