package storage

import (
	"cmp"
	"fmt"
	"slices"
)

// span is a run of offsets, ends included.
type span struct{ first, last int64 }

// groupCheck is what must agree about one group; consumers come before it.
type groupCheck struct {
	name      []byte // nil: no GroupRow was seen
	known     bool
	next      uint32 // number of its next consumer
	consumers map[uint32]bool
	maxNumber uint32
	lastEnd   int64 // end of the newest pending run
}

type timeHint struct{ time, base int64 }

type idHint struct {
	id   ID
	base int64
}

// streamCheck collects one stream's rows in key order.
type streamCheck struct {
	c   *checker
	no  StreamNo
	row StreamRow
	has bool // a StreamRow was seen
	// Small rows, in order of arrival.
	groups  map[uint32]*groupCheck
	pending []span
	times   []timeHint
	ids     []idHint
	ghosts  int64
	marked  int64
	living  int64

	// Blocks, as they pass.
	began   bool   // pending has been sorted and merged
	needs   []span // pending offsets whose ID was not found yet, merged; a queue
	prev    Block  // newest block, without payload; Last is -1 before the first
	cur     Block  // block whose marks may follow
	curOpen bool
	marks   Marks
	ti, ii  int // next hints to hold against blocks
}

func newStreamCheck(c *checker, no StreamNo) *streamCheck {
	return &streamCheck{c: c, no: no, groups: map[uint32]*groupCheck{}, prev: Block{Last: -1}}
}

func (s *streamCheck) problem(offset int64, format string, args ...any) {
	s.c.problem(s.no, offset, format, args...)
}

func (s *streamCheck) offsetOf(k Key) int64 {
	switch k.Kind {
	case KindPending, KindGhost, KindBlock, KindMarks:
		return k.Offset
	}
	return -1
}

// take takes one row; the error says that the row itself is damaged.
func (s *streamCheck) take(k Key, value []byte) (err error) {
	r := &s.c.report
	if !s.has && k.Kind != KindStream {
		s.has = true // say it once
		s.problem(-1, "rows without a stream row")
		s.row.NextGroup, s.row.Next = ^uint32(0), 1<<62
	}
	switch k.Kind {
	case KindStream:
		s.has = true
		r.Streams++
		if s.row, err = ParseStreamRow(value); err == nil {
			_, _, err = s.row.AbsorbAll(s.c.view, s.no)
			s.checkRow()
		}
	case KindConsumer:
		r.Consumers++
		return s.consumer(k, value)
	case KindGroup:
		r.Groups++
		return s.group(k, value)
	case KindPending:
		return s.pendingRun(k, value)
	case KindProducer:
		r.Producers++
		return s.producer(value)
	case KindTime, KindID:
		r.IndexRows++
		return s.index(k, value)
	case KindGhost:
		r.Ghosts++
		return s.ghost(k, value)
	case KindBlock:
		r.Blocks++
		return s.block(k, value)
	case KindMarks:
		s.mark(k, value)
	}
	return err
}

func (s *streamCheck) checkRow() {
	r := &s.row
	switch {
	case !(0 <= r.Swept && r.Swept <= r.Start && r.Start <= r.Head && r.Head <= r.Next):
		s.problem(-1, "not in order: swept %d, start %d, head %d, next %d", r.Swept, r.Start, r.Head, r.Next)
	case r.Length < 0 || r.Length > r.Next-r.Head:
		s.problem(-1, "length %d between head %d and next %d", r.Length, r.Head, r.Next)
	case r.Modulus == 0 || r.Residue >= r.Modulus:
		s.problem(-1, "residue %d of modulus %d", r.Residue, r.Modulus)
	case r.LastID.Less(r.MaxDeleted):
		s.problem(-1, "last ID %v below the largest deleted %v", r.LastID, r.MaxDeleted)
	case r.LeaderEpoch < 0:
		s.problem(-1, "leader epoch %d", r.LeaderEpoch)
	}
}

func (s *streamCheck) numbered(n uint32) *groupCheck {
	g := s.groups[n]
	if g == nil {
		g = &groupCheck{consumers: map[uint32]bool{}, lastEnd: -1}
		s.groups[n] = g
	}
	return g
}

func (s *streamCheck) consumer(k Key, value []byte) error {
	row, err := ParseConsumerRow(value)
	if err != nil {
		return err
	}
	g := s.numbered(k.Group)
	if row.Number == 0 || g.consumers[row.Number] {
		s.problem(-1, "consumer %q of group %d: number %d is used", k.Name, k.Group, row.Number)
	}
	g.consumers[row.Number] = true
	g.maxNumber = max(g.maxNumber, row.Number)
	return nil
}

func (s *streamCheck) group(k Key, value []byte) error {
	row, err := ParseGroupRow(value)
	if err != nil {
		return err
	}
	g := s.numbered(row.Number)
	switch {
	case g.known:
		s.problem(-1, "groups %q and %q have the number %d", g.name, k.Name, row.Number)
	case row.Number >= s.row.NextGroup:
		s.problem(-1, "group %q has the number %d, the next group would get %d", k.Name, row.Number, s.row.NextGroup)
	case g.maxNumber >= row.NextConsumer && g.maxNumber > 0:
		s.problem(-1, "group %q has a consumer %d, the next would get %d", k.Name, g.maxNumber, row.NextConsumer)
	case row.LastOffset < -1:
		s.problem(-1, "group %q last delivered offset %d", k.Name, row.LastOffset)
	}
	g.known, g.name, g.next = true, slices.Clone(k.Name), row.NextConsumer
	return nil
}

// pendingRun holds a run against its group. Not against the group's last delivered
// offset: XGROUP SETID may move that back, and pending entries stay.
func (s *streamCheck) pendingRun(k Key, value []byte) error {
	row, err := ParsePendingRow(value)
	if err != nil {
		return err
	}
	if row.Last < k.Offset || k.Offset < 0 {
		return fmt.Errorf("a pending run ends at %d", row.Last)
	}
	g := s.numbered(k.Group)
	switch {
	case k.Offset <= g.lastEnd:
		s.problem(k.Offset, "group %d: pending runs overlap", k.Group)
	case row.Owner != 0 && !g.consumers[row.Owner]:
		s.problem(k.Offset, "group %d: pending with consumer %d, which is not there", k.Group, row.Owner)
	case row.Last >= s.row.Next:
		s.problem(k.Offset, "group %d: pending up to %d, the stream ends before %d", k.Group, row.Last, s.row.Next)
	}
	g.lastEnd = max(g.lastEnd, row.Last)
	s.pending = append(s.pending, span{k.Offset, row.Last})
	s.c.report.PendingRuns++
	s.c.report.PendingEntries += row.Last - k.Offset + 1
	return nil
}

func (s *streamCheck) producer(value []byte) error {
	row, err := ParseProducerRow(value)
	if err != nil {
		return err
	}
	base := int64(-1)
	for _, b := range row.Batches {
		if b.Base <= base || b.Base >= s.row.Next {
			s.problem(b.Base, "a producer's batches are not in order, or beyond the end")
		}
		base = b.Base
	}
	return nil
}

func (s *streamCheck) index(k Key, value []byte) error {
	base, err := ParseOffset(value)
	if err != nil {
		return err
	}
	switch {
	case base < 0 || base >= s.row.Next:
		s.problem(base, "a %v row points outside the stream", k.Kind)
	case k.Kind == KindTime:
		if n := len(s.times); n > 0 && s.times[n-1].base >= base {
			s.problem(base, "time index rows are not in order")
		}
		s.times = append(s.times, timeHint{k.Time, base})
	default:
		if n := len(s.ids); n > 0 && s.ids[n-1].base >= base {
			s.problem(base, "ID index rows are not in order")
		}
		s.ids = append(s.ids, idHint{k.ID, base})
	}
	return nil
}

func (s *streamCheck) ghost(k Key, value []byte) error {
	row, err := ParseGhostRow(value)
	if err != nil {
		return err
	}
	s.ghosts++
	if row.Last < k.Offset || row.Last >= s.row.Next {
		s.problem(k.Offset, "a ghost ends at %d", row.Last)
	}
	s.begin()
	at := k.Offset
	for _, run := range row.Runs {
		if run.Count == 0 || run.Offset < at || run.Offset+int64(run.Count)-1 > row.Last {
			s.problem(k.Offset, "a ghost's runs are not in order, or beyond its end")
			break
		}
		at = run.Offset + int64(run.Count)
		s.found(span{run.Offset, at - 1})
		if last := run.At(run.Count - 1); s.row.LastID.Less(last) {
			s.problem(run.Offset, "a ghost's ID %v is above the last ID %v", last, s.row.LastID)
		}
	}
	return nil
}

// begin sorts what is pending, of all groups, into spans that do not touch.
func (s *streamCheck) begin() {
	if s.began {
		return
	}
	s.began = true
	slices.SortFunc(s.pending, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	for _, p := range s.pending {
		if n := len(s.needs); n > 0 && p.first <= s.needs[n-1].last+1 {
			s.needs[n-1].last = max(s.needs[n-1].last, p.last)
		} else {
			s.needs = append(s.needs, p)
		}
	}
	s.pending = nil
}

// found takes offsets whose IDs are known out of needs.
func (s *streamCheck) found(have span) {
	i, _ := slices.BinarySearchFunc(s.needs, have.first, func(n span, first int64) int { return cmp.Compare(n.last, first) })
	var rest []span
	j := i
	for ; j < len(s.needs) && s.needs[j].first <= have.last; j++ {
		if n := s.needs[j]; n.first < have.first {
			rest = append(rest, span{n.first, have.first - 1})
		}
		if n := s.needs[j]; n.last > have.last {
			rest = append(rest, span{have.last + 1, n.last})
		}
	}
	if i == j {
		return
	}
	s.needs = slices.Replace(s.needs, i, j, rest...)
}

func (s *streamCheck) block(k Key, value []byte) error {
	s.begin()
	s.closeBlock()
	b, err := ParseBlock(k.Offset, value)
	if err != nil {
		return err
	}
	switch {
	case b.Base <= s.prev.Last:
		s.problem(b.Base, "the block overlaps the one at %d", s.prev.Base)
	case b.Last >= s.row.Next:
		s.problem(b.Base, "the block ends at %d, the stream before %d", b.Last, s.row.Next)
	case b.Last < s.row.Swept:
		s.problem(b.Base, "the block ends at %d, and all below %d was swept", b.Last, s.row.Swept)
	case s.prev.Last >= 0 && !s.prev.LastID.Less(b.FirstID):
		s.problem(b.Base, "its first ID %v is not above %v, the last of the block before", b.FirstID, s.prev.LastID)
	case s.row.LastID.Less(b.LastID):
		s.problem(b.Base, "its ID %v is above the stream's last, %v", b.LastID, s.row.LastID)
	case b.MaxTime > s.row.MaxTime:
		s.problem(b.Base, "its timestamp %d is above the stream's largest, %d", b.MaxTime, s.row.MaxTime)
	}
	s.hints(&b)
	s.found(span{b.Base, b.Last})
	if b.Kind == Entries {
		err = s.entries(&b)
	}
	b.Payload = nil
	s.prev, s.cur, s.curOpen, s.marks = b, b, true, nil
	return err
}

// hints holds index rows against a block. A row may outlive its block.
func (s *streamCheck) hints(b *Block) {
	for ; s.ii < len(s.ids) && s.ids[s.ii].base <= b.Base; s.ii++ {
		h := s.ids[s.ii]
		switch {
		case h.base == b.Base && h.id != b.FirstID:
			s.problem(b.Base, "the ID index says that the block begins with %v, it does with %v", h.id, b.FirstID)
		case b.FirstID.Less(h.id) || s.prev.Last >= 0 && !s.prev.LastID.Less(h.id):
			s.problem(h.base, "the ID index leads %v past its block", h.id)
		}
	}
	for _, h := range s.times[s.ti:] {
		if h.base > b.Base {
			if b.MaxTime > h.time {
				s.problem(b.Base, "its timestamp %d lies before the block that the time index gives for %d", b.MaxTime, h.time)
			}
			break // rows further on have larger times
		}
		s.ti++
	}
}

// entries walks a native block.
func (s *streamCheck) entries(b *Block) error {
	it := b.Entries()
	var last ID
	for it.Next() {
		last = it.ID()
		for it.Field() != nil {
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	if last != b.LastID {
		s.problem(b.Base, "its last entry is %v, its header says %v", last, b.LastID)
	}
	return nil
}

func (s *streamCheck) mark(k Key, value []byte) {
	s.marked++
	if !s.curOpen || s.cur.Base != k.Offset {
		s.problem(k.Offset, "deletion marks without a block")
		return
	}
	s.marks = slices.Clone(value)
	for i := s.cur.Count(); i < 8*len(s.marks); i++ {
		if s.marks.Get(i) {
			s.problem(k.Offset, "deletion marks beyond the block's end")
			break
		}
	}
	if s.marks.Count() == 0 {
		s.problem(k.Offset, "deletion marks that mark nothing")
	}
}

// closeBlock counts the newest block, whose marks have passed.
func (s *streamCheck) closeBlock() {
	if !s.curOpen {
		return
	}
	s.curOpen = false
	b := &s.cur
	from := max(b.Base, s.row.Start)
	living := max(0, b.Last-from+1)
	// Marks are as long as the row that holds them, whatever the header claims.
	for o := from; o <= b.Last && o-b.Base < int64(8*len(s.marks)); o++ {
		if s.marks.Get(int(o - b.Base)) {
			living--
			if o == from {
				from++ // the first living one is further on
			}
		}
	}
	if living > 0 && from < s.row.Head {
		s.problem(from, "a living entry below the head, %d", s.row.Head)
	}
	if living == 0 && b.Base >= s.row.Start {
		s.problem(b.Base, "a block of which nothing lives")
	}
	s.living += living
	s.c.report.Entries += living
	s.c.report.Deleted += int64(s.marks.Count())
}

// end holds the sums against the stream row.
func (s *streamCheck) end() {
	s.begin()
	s.closeBlock()
	for n, g := range s.groups {
		if !g.known {
			s.problem(-1, "consumers or pending entries of group %d, which is not there", n)
		}
	}
	for _, n := range s.needs {
		s.problem(n.first, "pending up to %d, and neither a block nor a ghost has the IDs", n.last)
	}
	if s.row.Next == 1<<62 {
		return // there was no stream row to hold against
	}
	if s.living != s.row.Length {
		s.problem(-1, "length %d, %d entries live", s.row.Length, s.living)
	}
	if s.marked != s.row.MarkedBlocks {
		s.problem(-1, "%d marked blocks by its row, %d there are", s.row.MarkedBlocks, s.marked)
	}
	if s.ghosts != s.row.Ghosts {
		s.problem(-1, "%d ghosts by its row, %d there are", s.row.Ghosts, s.ghosts)
	}
}
