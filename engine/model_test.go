package engine

// The model: what a stream and its groups mean, written so that it is plainly right and slow.

type modelEntry struct {
	offset int64
	id     ID
	time   int64
	dead   bool
}

type modelStream struct {
	entries    []modelEntry // every entry ever, in offset order
	start      int64
	lastID     ID
	maxDeleted ID
	bias       int64
	modulus    uint64
	residue    uint64
	groups     map[string]*modelGroup
}

func newModelStream() *modelStream {
	return &modelStream{modulus: 1, groups: map[string]*modelGroup{}}
}

func (m *modelStream) next() int64 { return int64(len(m.entries)) }

func (m *modelStream) alive(o int64) bool {
	return o >= m.start && o < m.next() && !m.entries[o].dead
}

func (m *modelStream) living() []modelEntry {
	var out []modelEntry
	for _, e := range m.entries {
		if m.alive(e.offset) {
			out = append(out, e)
		}
	}
	return out
}

// nextID gives the first of n IDs at a clock.
func (m *modelStream) nextID(now uint64) ID {
	id := ID{MS: now, Seq: m.residue}
	if now <= m.lastID.MS {
		id = ID{MS: m.lastID.MS, Seq: m.lastID.Seq + 1}
		for id.Seq%m.modulus != m.residue {
			id.Seq++
		}
	}
	return id
}

func (m *modelStream) push(id ID, time int64) {
	m.entries = append(m.entries, modelEntry{offset: m.next(), id: id, time: time})
	m.lastID = id
}

func (m *modelStream) batch(now uint64, times []int64) {
	id := m.nextID(now)
	for _, t := range times {
		m.push(id, t)
		id.Seq += m.modulus
	}
}

func (m *modelStream) delete(id ID) bool {
	for i := range m.entries {
		if e := &m.entries[i]; e.id == id && m.alive(e.offset) {
			e.dead = true
			if m.maxDeleted.Less(id) {
				m.maxDeleted = id
			}
			return true
		}
	}
	return false
}

// trimTo removes everything below an offset and says how many lived.
func (m *modelStream) trimTo(to int64) int64 {
	n := int64(0)
	for o := m.start; o < to; o++ {
		if m.alive(o) {
			n++
		}
	}
	m.start = max(m.start, to)
	return n
}

func (m *modelStream) trimLen(keep int64) int64 {
	l := m.living()
	if excess := int64(len(l)) - keep; excess > 0 {
		if excess == int64(len(l)) {
			return m.trimTo(m.next())
		}
		return m.trimTo(l[excess-1].offset + 1)
	}
	return 0
}

func (m *modelStream) trimID(min ID) int64 {
	for o := m.start; o < m.next(); o++ {
		if !m.entries[o].id.Less(min) {
			return m.trimTo(o)
		}
	}
	return m.trimTo(m.next())
}

func (m *modelStream) rangeIDs(from, to ID, count int64, reverse bool) []string {
	out := []string{}
	l := m.living()
	for i := range l {
		e := l[i]
		if reverse {
			e = l[len(l)-1-i]
		}
		if e.id.Less(from) || to.Less(e.id) {
			continue
		}
		if count >= 0 && int64(len(out)) >= count {
			break
		}
		out = append(out, e.id.String())
	}
	return out
}

// modelRow is one pending entry.
type modelRow struct {
	consumer string
	time     int64
	count    uint64
}

type modelGroup struct {
	lastOffset int64
	lastID     ID
	pending    map[int64]modelRow
	consumers  map[string]bool
	fresh      bool // the last commit is answered to the letter
	commit     int64
}

func (g *modelGroup) watermark(start int64) int64 {
	w := max(g.lastOffset+1, start)
	for o := range g.pending {
		if o >= start { // what is pending and trimmed cannot be fetched any more
			w = min(w, o)
		}
	}
	return w
}

func (m *modelStream) deliver(g *modelGroup, consumer string, count int64, now int64) []string {
	var out []string
	for o := g.lastOffset + 1; o < m.next() && int64(len(out)) < count; o++ {
		if m.alive(o) {
			g.pending[o] = modelRow{consumer, now, 1}
			g.lastOffset, g.lastID = o, m.entries[o].id
			out = append(out, m.entries[o].id.String())
		}
	}
	g.consumers[consumer] = true
	return out
}

func (m *modelStream) ack(g *modelGroup, id ID) bool {
	for o := range g.pending {
		if m.entries[o].id == id {
			delete(g.pending, o)
			g.fresh = false
			return true
		}
	}
	return false
}

// commitAt is dictionary 5, rule 3.
func (m *modelStream) commitAt(g *modelGroup, n int64) {
	for o := range g.pending {
		if o < n {
			delete(g.pending, o)
		}
	}
	switch {
	case n > g.lastOffset+1:
		g.lastOffset = n - 1
	case n <= g.lastOffset:
		partial := true
		for o := n; o <= g.lastOffset; o++ {
			if _, p := g.pending[o]; !p && o >= 0 && m.alive(o) {
				partial = false
			}
		}
		if !partial {
			g.lastOffset = n - 1
			for o := range g.pending {
				if o >= n {
					delete(g.pending, o)
				}
			}
		}
	}
	g.fresh, g.commit = true, n
}
