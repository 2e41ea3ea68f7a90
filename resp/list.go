package resp

import (
	"sync/atomic"
)

// flags are what is true of a command, by Redis's own names.
type flags uint32

const (
	write flags = 1 << iota
	readonly
	denyOOM
	admin
	noScript
	blocking
	loading
	stale
	skipMonitor
	skipSlowlog
	fast
	noAuth
	noMulti
	noAsyncLoading
	allowBusy
	movableKeys
)

// category is an ACL category that does not follow from the flags.
type category uint32

const (
	catKeyspace category = 1 << iota
	catStream
	catConnection
	catDangerous
)

// command is one row of the list: everything that is known of a command or of a subcommand.
type command struct {
	name  string // lower case; a subcommand's is "xgroup|create"
	arity int    // number of words, the name included; -n: at least n. A subcommand counts its container's word too
	flags flags
	cats  category
	tips  []string // Redis's hints to cluster clients
	keys  []keySpec
	// since is Redis's version, group Redis's group of commands ("stream", "generic", "server", "connection").
	since, group, summary string
	run                   func(*call) // nil for a container
	subs                  []*command

	bySub map[string]*command // of subs, by the bare lower-case word
	stats rowStats
}

// rowStats counts one row. INFO commandstats and Server.Stats read it while loops write it.
type rowStats struct {
	calls    atomic.Int64
	nsec     atomic.Int64 // time in the handler; nanoseconds, for single calls take less than a microsecond
	rejected atomic.Int64 // refused before the handler ran: arity, authentication
	failed   atomic.Int64 // answered with an error by the handler
	in, out  atomic.Int64 // bytes of commands and of replies
}

func (s *rowStats) reset() {
	s.calls.Store(0)
	s.nsec.Store(0)
	s.rejected.Store(0)
	s.failed.Store(0)
	s.in.Store(0)
	s.out.Store(0)
}

// list is all commands of the server. It is immutable once built, but for its counters.
type list struct {
	rows   []*command // containers and plain commands, in the order of the files
	byName map[string]*command
}

// newList builds the one list. It is a constructor and not a package variable because handlers (COMMAND) read it.
func newList() *list {
	return buildList(connectionRows(), serverRows(), keyRows(), streamRows())
}

// buildList indexes rows. A name given twice is a mistake of ours.
func buildList(parts ...[]*command) *list {
	l := &list{byName: map[string]*command{}}
	for _, part := range parts {
		for _, row := range part {
			if l.byName[row.name] != nil {
				panic("resp: command listed twice: " + row.name)
			}
			l.byName[row.name] = row
			l.rows = append(l.rows, row)
			if len(row.subs) > 0 {
				row.bySub = map[string]*command{}
			}
			for _, sub := range row.subs {
				row.bySub[sub.name[len(row.name)+1:]] = sub
			}
			for _, k := range row.keys {
				if k.keyword != "" {
					row.flags |= movableKeys
				}
			}
		}
	}
	return l
}

// each calls fn for every row, subcommands after their container.
func (l *list) each(fn func(*command)) {
	for _, row := range l.rows {
		fn(row)
		for _, sub := range row.subs {
			fn(sub)
		}
	}
}

// longestName bounds the words that are looked up: no command is longer.
const longestName = 32

// lookup finds a command by its first word, in any case. nil when there is none.
func (l *list) lookup(word []byte) *command { return lookupFold(l.byName, word) }

// sub finds a container's subcommand by its second word.
func (r *command) sub(word []byte) *command { return lookupFold(r.bySub, word) }

// lookupFold looks a word up in lower case without allocating.
func lookupFold(m map[string]*command, word []byte) *command {
	if len(word) > longestName {
		return nil
	}
	var lower [longestName]byte
	for i, c := range word {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return m[string(lower[:len(word)])]
}

// arityOK says whether a command of n words (the name included) may run.
func (r *command) arityOK(n int) bool {
	if r.arity < 0 {
		return n >= -r.arity
	}
	return n == r.arity
}

// keySpec says where keys are among the words of a command (Redis's key specifications, 7.0).
type keySpec struct {
	flags   []string // RO, RW, OW, RM; then access, update, insert, delete
	index   int      // the first key's place, or
	keyword string   // the word before it,
	from    int      // looked for from this place on
	last    int      // of the last key, relative to the first; negative: from the end
	step    int
	limit   int // with last = -1: 2 means that only the first half of what remains are keys
}

// firstKey is the commonest specification: one key right after the command (at 1) or the subcommand (at 2).
func firstKey(index int, flags ...string) []keySpec {
	return []keySpec{{flags: flags, index: index, step: 1}}
}

// positions appends the places of the keys in args; ok is false when args are malformed.
func (k *keySpec) positions(args [][]byte, to []int) (places []int, ok bool) {
	first := k.index
	if k.keyword != "" {
		first = 0
		for i := k.from; i < len(args); i++ {
			if foldEqual(args[i], k.keyword) {
				first = i + 1
				break
			}
		}
		if first == 0 {
			return to, false
		}
	}
	last := first + k.last
	if k.last < 0 {
		last = len(args) + k.last
		if k.limit > 1 {
			last = first + (len(args)-first)/k.limit + k.last
		}
	}
	if first >= len(args) || last >= len(args) || last < first {
		return to, false
	}
	for i := first; i <= last; i += k.step {
		to = append(to, i)
	}
	return to, true
}

// foldEqual compares a word with a literal, letter case aside. word is what was received.
func foldEqual(word []byte, literal string) bool {
	if len(word) != len(literal) {
		return false
	}
	for i, c := range word {
		l := literal[i]
		if c != l && (lowerByte(c) != lowerByte(l)) {
			return false
		}
	}
	return true
}

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
