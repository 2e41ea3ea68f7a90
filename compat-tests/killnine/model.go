package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// An id is a stream entry's ID.
type id struct{ ms, seq uint64 }

func (a id) String() string { return fmt.Sprintf("%d-%d", a.ms, a.seq) }

func (a id) compare(b id) int { return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.seq, b.seq)) }

// parseID reads ms-seq; anything else is the zero id.
func parseID(s string) id {
	ms, seq, _ := strings.Cut(s, "-")
	var v id
	v.ms, _ = strconv.ParseUint(ms, 10, 64)
	v.seq, _ = strconv.ParseUint(seq, 10, 64)
	return v
}

// An entry has one field, v, in every stream of this program.
type entry struct {
	id    id
	value string
}

// A pending is one row of a PEL.
type pending struct {
	consumer string
	count    int64
}

// A group is the state of a consumer group that must survive.
type group struct {
	last      id
	pel       map[id]pending
	consumers map[string]bool
}

// A stream is the state of a key that must survive. It follows Redis 8.2, as the
// scripts were run against it.
type stream struct {
	exists     bool
	entries    []entry // ascending
	last       id
	maxDeleted id
	added      int64
	groups     map[string]*group
}

func (s *stream) clone() *stream {
	c := *s
	c.entries = slices.Clone(s.entries)
	c.groups = map[string]*group{}
	for name, g := range s.groups {
		c.groups[name] = &group{g.last, maps.Clone(g.pel), maps.Clone(g.consumers)}
	}
	return &c
}

// lines renders the state, one fact a line, so that two states can be compared and
// what differs be named.
func (s *stream) lines() []string {
	if !s.exists {
		return []string{"key: none"}
	}
	out := []string{"last id: " + s.last.String(), "max deleted id: " + s.maxDeleted.String(),
		fmt.Sprintf("entries added: %d", s.added)}
	for _, e := range s.entries {
		out = append(out, fmt.Sprintf("entry %s = %s", e.id, e.value))
	}
	for name, g := range s.groups {
		out = append(out, fmt.Sprintf("group %s: last delivered %s", name, g.last))
		for c := range g.consumers {
			out = append(out, fmt.Sprintf("group %s: consumer %s", name, c))
		}
		for i, p := range g.pel {
			out = append(out, fmt.Sprintf("group %s: pending %s with %s, delivered %d times", name, i, p.consumer, p.count))
		}
	}
	slices.Sort(out)
	return out
}

// find returns where the first entry at or after i stands.
func (s *stream) find(i id) int {
	at, _ := slices.BinarySearchFunc(s.entries, i, func(e entry, i id) int { return e.id.compare(i) })
	return at
}

func (s *stream) has(i id) bool {
	at := s.find(i)
	return at < len(s.entries) && s.entries[at].id == i
}

func (s *stream) create() {
	if !s.exists {
		*s = stream{exists: true, groups: map[string]*group{}}
	}
}

// append is XADD.
func (s *stream) append(e entry) {
	s.create()
	s.entries = append(s.entries, e)
	s.last = e.id
	s.added++
}

// trimTo keeps the newest n and returns how many went.
func (s *stream) trimTo(n int) int {
	gone := max(0, len(s.entries)-n)
	s.entries = s.entries[gone:]
	return gone
}

// trimBelow drops what is below i and returns how many went.
func (s *stream) trimBelow(i id) int {
	gone := s.find(i)
	s.entries = s.entries[gone:]
	return gone
}

// remove is XDEL of one ID.
func (s *stream) remove(i id) int {
	if !s.has(i) {
		return 0
	}
	at := s.find(i)
	s.entries = slices.Delete(slices.Clone(s.entries), at, at+1)
	if i.compare(s.maxDeleted) > 0 {
		s.maxDeleted = i
	}
	return 1
}

// deliver is XREADGROUP > for one consumer.
func (s *stream) deliver(g *group, consumer string, count int, noAck bool) []entry {
	g.consumers[consumer] = true
	from := s.find(id{g.last.ms, g.last.seq + 1})
	got := s.entries[from:min(from+count, len(s.entries))]
	for _, e := range got {
		g.last = e.id
		if !noAck {
			g.pel[e.id] = pending{consumer, 1}
		}
	}
	return got
}

// claim is XCLAIM with a minimum idle time of 0 for one ID: what is gone from the
// stream is dropped from the PEL.
func (s *stream) claim(g *group, consumer string, i id, justID bool) bool {
	p, ok := g.pel[i]
	if !ok {
		return false
	}
	if !s.has(i) {
		delete(g.pel, i)
		return false
	}
	p.consumer = consumer
	if !justID {
		p.count++
	}
	g.pel[i] = p
	return true
}

// pendingIDs returns a group's pending IDs, ascending.
func (g *group) pendingIDs() []id {
	return slices.SortedFunc(maps.Keys(g.pel), id.compare)
}

// autoClaim is XAUTOCLAIM from 0 with a minimum idle time of 0.
func (s *stream) autoClaim(g *group, consumer string, count int) (next id, claimed, gone []id) {
	g.consumers[consumer] = true
	all := g.pendingIDs()
	for n, i := range all {
		if n == count {
			return i, claimed, gone
		}
		if s.claim(g, consumer, i, false) {
			claimed = append(claimed, i)
		} else {
			gone = append(gone, i)
		}
	}
	return id{}, claimed, gone
}
