package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// An op is one command of a script: what is sent, and what it does to the model.
// apply returns the reply that is due, as reply values of respwire.
type op struct {
	args  []string
	apply func(*stream) any
}

// A scripter makes up commands that are right in the state that its earlier ones
// lead to, so that every reply is known beforehand.
type scripter struct {
	key   string
	rng   *rand.Rand
	clock uint64 // ms of the next explicit ID
}

func (w *scripter) pick(n int) int { return w.rng.IntN(n) }

// someID returns a living entry's ID, or the zero ID.
func (w *scripter) someID(s *stream) id {
	if len(s.entries) == 0 {
		return id{}
	}
	return s.entries[w.pick(len(s.entries))].id
}

// consumer returns one of three names.
func (w *scripter) consumer() string { return "c" + strconv.Itoa(w.pick(3)) }

// groupName returns one of three names.
func (w *scripter) groupName() string { return "g" + strconv.Itoa(w.pick(3)) }

// next makes up a command for the state s, which it does not change.
func (w *scripter) next(s *stream) op {
	if !s.exists {
		if w.pick(2) == 0 {
			return w.groupCreate(s)
		}
		return w.add()
	}
	roll := w.pick(100)
	name := w.groupName()
	g := s.groups[name]
	switch {
	case roll < 30 || len(s.entries) < 5:
		return w.add()
	case roll < 38:
		return w.addTrimming(s)
	case roll < 46:
		return w.del(s)
	case roll < 50:
		return w.trim(s)
	case roll < 52:
		return w.setID(s)
	case roll == 52 && w.pick(4) == 0:
		return op{[]string{"DEL", w.key}, func(s *stream) any { *s = stream{}; return int64(1) }}
	case g == nil:
		return w.groupCreateAs(name, s)
	case roll < 54:
		return w.groupSetID(name, s)
	case roll < 56:
		return w.groupManage(name, g)
	case roll < 76:
		return w.deliver(name)
	case roll < 88:
		return w.ack(name, g)
	case roll < 95:
		return w.claim(name, g)
	default:
		return w.autoClaim(name)
	}
}

// newEntry returns the next explicit ID with a value of its own.
func (w *scripter) newEntry() entry {
	w.clock += uint64(1 + w.pick(3))
	e := entry{id: id{w.clock, uint64(w.pick(3))}}
	e.value = fmt.Sprintf("%s/%d", w.key, w.clock)
	return e
}

func (w *scripter) add() op {
	e := w.newEntry()
	return op{[]string{"XADD", w.key, e.id.String(), "v", e.value}, func(s *stream) any {
		s.append(e)
		return e.id.String()
	}}
}

func (w *scripter) addTrimming(s *stream) op {
	e := w.newEntry()
	if w.pick(3) == 0 {
		low := w.someID(s)
		return op{[]string{"XADD", w.key, "MINID", low.String(), e.id.String(), "v", e.value}, func(s *stream) any {
			s.append(e)
			s.trimBelow(low)
			return e.id.String()
		}}
	}
	n := 1 + w.pick(200)
	return op{[]string{"XADD", w.key, "MAXLEN", strconv.Itoa(n), e.id.String(), "v", e.value}, func(s *stream) any {
		s.append(e)
		s.trimTo(n)
		return e.id.String()
	}}
}

func (w *scripter) del(s *stream) op {
	ids := []id{w.someID(s)}
	if w.pick(2) == 0 {
		ids = append(ids, w.someID(s), id{w.clock + 1000, 1})
	}
	args := []string{"XDEL", w.key}
	for _, i := range ids {
		args = append(args, i.String())
	}
	return op{args, func(s *stream) any {
		n := 0
		for _, i := range ids {
			n += s.remove(i)
		}
		return int64(n)
	}}
}

func (w *scripter) trim(s *stream) op {
	if w.pick(2) == 0 {
		low := w.someID(s)
		return op{[]string{"XTRIM", w.key, "MINID", low.String()}, func(s *stream) any {
			return int64(s.trimBelow(low))
		}}
	}
	n := w.pick(100)
	return op{[]string{"XTRIM", w.key, "MAXLEN", strconv.Itoa(n)}, func(s *stream) any {
		return int64(s.trimTo(n))
	}}
}

// setID jumps the last ID forward and declares entries that were never here.
func (w *scripter) setID(s *stream) op {
	w.clock += uint64(w.pick(10))
	last := id{w.clock, 5}
	added, gone := s.added+int64(w.pick(5)), id{w.clock, 4}
	w.clock++
	return op{[]string{"XSETID", w.key, last.String(), "ENTRIESADDED", strconv.FormatInt(added, 10),
		"MAXDELETEDID", gone.String()}, func(s *stream) any {
		s.last, s.added, s.maxDeleted = last, added, gone
		return "OK"
	}}
}

func (w *scripter) groupCreate(s *stream) op { return w.groupCreateAs(w.groupName(), s) }

func (w *scripter) groupCreateAs(name string, s *stream) op {
	at := w.cursor(s)
	return op{[]string{"XGROUP", "CREATE", w.key, name, at, "MKSTREAM"}, func(s *stream) any {
		s.create()
		s.groups[name] = &group{s.cursor(at), map[id]pending{}, map[string]bool{}}
		return "OK"
	}}
}

// cursor makes up a place for a group to stand.
func (w *scripter) cursor(s *stream) string {
	return []string{"0", "$", w.someID(s).String()}[w.pick(3)]
}

func (s *stream) cursor(at string) id {
	if at == "$" {
		return s.last
	}
	return parseID(at)
}

func (w *scripter) groupSetID(name string, s *stream) op {
	at := w.cursor(s)
	return op{[]string{"XGROUP", "SETID", w.key, name, at}, func(s *stream) any {
		s.groups[name].last = s.cursor(at)
		return "OK"
	}}
}

// groupManage destroys a group, or makes or deletes one of its consumers.
func (w *scripter) groupManage(name string, g *group) op {
	c := w.consumer()
	switch w.pick(3) {
	case 0:
		return op{[]string{"XGROUP", "DESTROY", w.key, name}, func(s *stream) any {
			delete(s.groups, name)
			return int64(1)
		}}
	case 1:
		return op{[]string{"XGROUP", "CREATECONSUMER", w.key, name, c}, func(s *stream) any {
			g := s.groups[name]
			if g.consumers[c] {
				return int64(0)
			}
			g.consumers[c] = true
			return int64(1)
		}}
	default:
		return op{[]string{"XGROUP", "DELCONSUMER", w.key, name, c}, func(s *stream) any {
			g, n := s.groups[name], int64(0)
			for i, p := range g.pel {
				if p.consumer == c {
					delete(g.pel, i)
					n++
				}
			}
			delete(g.consumers, c)
			return n
		}}
	}
}

func (w *scripter) deliver(name string) op {
	c, count, noAck := w.consumer(), 1+w.pick(10), w.pick(10) == 0
	args := []string{"XREADGROUP", "GROUP", name, c, "COUNT", strconv.Itoa(count)}
	if noAck {
		args = append(args, "NOACK")
	}
	key := w.key
	return op{append(args, "STREAMS", key, ">"), func(s *stream) any {
		got := s.deliver(s.groups[name], c, count, noAck)
		if len(got) == 0 {
			return nil
		}
		return []any{[]any{key, entryReplies(got)}}
	}}
}

func entryReplies(entries []entry) []any {
	out := []any{}
	for _, e := range entries {
		out = append(out, []any{e.id.String(), []any{"v", e.value}})
	}
	return out
}

// somePending returns up to n pending IDs.
func (w *scripter) somePending(g *group, n int) []id {
	all := g.pendingIDs()
	if len(all) == 0 {
		return []id{{1, 1}}
	}
	var out []id
	for range n {
		out = append(out, all[w.pick(len(all))])
	}
	return out
}

func (w *scripter) ack(name string, g *group) op {
	ids := w.somePending(g, 1+w.pick(8))
	args := []string{"XACK", w.key, name}
	for _, i := range ids {
		args = append(args, i.String())
	}
	return op{args, func(s *stream) any {
		g, n := s.groups[name], int64(0)
		for _, i := range ids {
			if _, ok := g.pel[i]; ok {
				delete(g.pel, i)
				n++
			}
		}
		return n
	}}
}

func (w *scripter) claim(name string, g *group) op {
	c, i, justID := w.consumer(), w.somePending(g, 1)[0], w.pick(2) == 0
	args := []string{"XCLAIM", w.key, name, c, "0", i.String()}
	if justID {
		args = append(args, "JUSTID")
	}
	return op{args, func(s *stream) any {
		g := s.groups[name]
		g.consumers[c] = true
		if !s.claim(g, c, i, justID) {
			return []any{}
		}
		if justID {
			return []any{i.String()}
		}
		return entryReplies(s.entries[s.find(i):][:1])
	}}
}

func (w *scripter) autoClaim(name string) op {
	c, count := w.consumer(), 1+w.pick(5)
	return op{[]string{"XAUTOCLAIM", w.key, name, c, "0", "0", "COUNT", strconv.Itoa(count)}, func(s *stream) any {
		next, claimed, gone := s.autoClaim(s.groups[name], c, count)
		entries, deleted := []any{}, []any{}
		for _, i := range claimed {
			entries = append(entries, entryReplies(s.entries[s.find(i):][:1])...)
		}
		for _, i := range gone {
			deleted = append(deleted, i.String())
		}
		return []any{next.String(), entries, deleted}
	}}
}
