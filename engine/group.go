package engine

import (
	"fmt"
	"math"
	"slices"

	"weir/storage"
)

// Group is a group of one stream, named, whether or not it exists: the verbs of groups hang on it.
// A missing stream is ErrNoStream, a missing group ErrNoGroup, unless said otherwise.
type Group struct {
	t    *Turn
	no   StreamNo
	name string
}

// Group names a group of a stream within this turn.
func (t *Turn) Group(no StreamNo, name string) Group { return Group{t, no, name} }

// group is one loaded group of a stream. shard.mu guards it.
//
//	        watermark        row.LastOffset
//	  acked     │ pending, acked   │ not delivered
//	────────────┴──────────────────┴──────────────► offsets
//
// The cursor is kept twice, as an offset and as an ID, because each side may put it
// where the other has no entry: XGROUP SETID at an ID that is still to come, a commit
// at an offset beyond the end. settle makes the two agree as the stream grows.
//
// A group that only a Kafka member's fetches have made is provisional: it lives in
// memory, answers no committed offset (as in Kafka before the first commit), and goes
// with its last member. The first ack, commit, claim or Redis command makes it real.
type group struct {
	stream    *stream
	name      string
	row       storage.GroupRow
	pel       pel
	consumers map[string]*consumer
	byNumber  map[uint32]*consumer // while loading
	differing []*consumer          // whose rows differ from storage; those not dirty any more have gone

	reader      string // the Kafka member that owns the partition; memory only
	provisional bool
	unsettled   bool // the two cursors may disagree
	beyond      bool // the cursor's offset was put beyond the end of the stream
	idBehind    bool // row.LastID is still to be read from the stream, see advance
	rowDirty    bool // row differs from storage
	due         bool // something must be written with the round that lists the stream as dirty
	lazy        bool // something differs that may wait for the next thing that must be written
}

// consumer is one consumer of a group on one stream.
type consumer struct {
	name    string
	number  uint32
	kind    ConsumerKind
	seen    int64 // ms, last attempt
	active  int64 // ms, last delivery or claim; -1 never
	pending int64 // rows of the PEL that it owns
	dirty   bool
	stored  bool
}

// kafka says whether the consumer is a member that can own a partition (a share member cannot).
func (c *consumer) kafka() bool {
	return c != nil && (c.kind == ClassicMember || c.kind == ConsumerMember)
}

// lock finds the stream and the group and locks the shard; the caller unlocks
// stream.shard.mu when err is nil. A gated caller tells what it reads: its turn waits
// for everything unfinished of the stream.
func (g Group) lock(gated bool) (*group, error) {
	sh := g.t.e.shardOf(g.no)
	if sh == nil {
		return nil, ErrNoStream
	}
	sh.mu.Lock()
	st, err := sh.stream(g.no)
	if err != nil {
		sh.mu.Unlock()
		return nil, err
	}
	gr := st.groups[g.name]
	if gated || gr == nil {
		g.t.gate(st)
	}
	if gr == nil {
		sh.mu.Unlock()
		return nil, ErrNoGroup
	}
	return gr, nil
}

// write makes the turn wait for the open round, into which the group will be
// flushed. Call it before changing anything, with the shard locked.
func (g Group) write(gr *group) (*round, error) {
	r, err := g.open(gr.stream)
	if err == nil {
		gr.mustWrite()
	}
	return r, err
}

// mustWrite lists the group among those whose rows go into the round.
func (gr *group) mustWrite() {
	gr.provisional = false
	if !gr.due {
		gr.due = true
		gr.stream.dueGroups = append(gr.stream.dueGroups, gr)
	}
}

// open is write for a group that is not there yet, or not any more.
func (g Group) open(st *stream) (*round, error) {
	if err := g.t.e.refuse(); err != nil {
		return nil, err
	}
	r := st.shard.round()
	g.t.joinStream(r, st)
	st.list(r)
	return r, nil
}

// newGroup adds an empty group to a stream, with its cursor before everything.
func (s *stream) newGroup(name string) *group {
	s.rowDue = true // numbers the next group
	gr := &group{
		stream: s, name: name, consumers: make(map[string]*consumer),
		row:    storage.GroupRow{Number: s.row.NextGroup, LastOffset: -1, EntriesRead: -1, CommitEpoch: -1, NextConsumer: 1},
		reader: s.shard.e.groups.reader(name, s.no), rowDirty: true,
	}
	s.row.NextGroup++
	s.groups[name] = gr
	s.shard.e.indexGroup(name, s.no, true)
	return gr
}

// dropGroup forgets a group and removes its rows in the round (nil: it has none).
func (s *stream) dropGroup(gr *group, r *round) error {
	delete(s.groups, gr.name)
	gr.due = false
	s.shard.e.indexGroup(gr.name, s.no, false)
	if r == nil {
		return nil
	}
	if err := r.batch.Delete(storage.GroupKey(s.no, []byte(gr.name))); err != nil {
		return err
	}
	lower, upper := storage.PendingRange(s.no, gr.row.Number)
	if err := r.batch.DeleteRange(lower, upper); err != nil {
		return err
	}
	lower, upper = storage.ConsumersRange(s.no, gr.row.Number)
	return r.batch.DeleteRange(lower, upper)
}

// consumer finds a consumer or makes it, seen now; made says that it was made. A Redis client that
// uses a Kafka member's name does not change what it is.
func (gr *group) consumer(name string, kind ConsumerKind, now int64) (c *consumer, made bool) {
	c = gr.consumers[name]
	if c == nil {
		c = &consumer{name: name, number: gr.row.NextConsumer, kind: kind, active: -1}
		gr.row.NextConsumer++
		gr.rowDirty = true
		gr.consumers[name] = c
		made = true
	} else if kind != RedisConsumer {
		c.kind = kind
	}
	c.seen = now
	gr.differs(c)
	return c, made
}

// differs notes that a consumer's row is no longer what storage has.
func (gr *group) differs(c *consumer) {
	if !c.dirty {
		c.dirty = true
		gr.differing = append(gr.differing, c)
	}
}

// dropConsumer forgets a consumer that owns nothing.
func (gr *group) dropConsumer(c *consumer, r *round) error {
	delete(gr.consumers, c.name)
	c.dirty = false
	if !c.stored {
		return nil
	}
	return r.batch.Delete(storage.ConsumerKey(gr.stream.no, gr.row.Number, []byte(c.name)))
}

// watermark is the lowest offset that a consumer starting anew must read. It is not
// simply the lowest pending offset: XCLAIM FORCE and SETID leave pending entries above the
// cursor, and what is pending below the log start nobody can read (a Kafka consumer that
// began there would be told that it is out of range).
func (gr *group) watermark() int64 {
	start := gr.stream.row.Start
	w := max(gr.row.LastOffset+1, start)
	if low, ok := gr.pel.next(start); ok {
		w = min(w, low)
	}
	return w
}

// stale notes that the last explicit commit is no longer what OffsetFetch answers.
func (gr *group) stale() {
	if gr.row.CommitFresh {
		gr.row.CommitFresh, gr.rowDirty = false, true
	}
}

// ordinal is Redis's entries-read for a cursor that Kafka's side moved: offsets are dense, so
// the number of entries ever added up to one is known.
func (gr *group) ordinal() int64 {
	row := &gr.stream.row
	return max(0, min(gr.row.LastOffset+1, row.Next)+row.AddedBias)
}

// advance moves the cursor forward to the offset of an entry that a member has fetched. Its ID is read when
// somebody needs it: a consumer that catches up would otherwise have every cold block
// read twice.
func (gr *group) advance(offset int64) {
	gr.row.LastOffset, gr.rowDirty, gr.idBehind = offset, true, true
	gr.row.EntriesRead = gr.ordinal()
}

// catchUp reads the ID that advance left.
func (gr *group) catchUp() error {
	if !gr.idBehind {
		return nil
	}
	id, err := gr.stream.idFloor(gr.row.LastOffset)
	if err == nil {
		gr.row.LastID, gr.idBehind = maxID(id, gr.row.LastID), false
	}
	return err
}

// put moves the cursor to an offset; its ID follows. Nothing of what is pending changes.
func (gr *group) put(offset int64) error {
	id, err := gr.stream.idFloor(offset)
	if err != nil {
		return err
	}
	gr.row.LastOffset, gr.row.LastID, gr.rowDirty, gr.idBehind = max(offset, -1), id, true, false
	gr.row.EntriesRead = gr.ordinal()
	gr.unsettled = offset >= gr.stream.row.Next
	gr.beyond = gr.unsettled
	return nil
}

// putID moves the cursor to an ID; its offset follows.
func (gr *group) putID(id ID) error {
	offset := gr.stream.row.Next
	if next, ok := id.Next(); ok {
		var err error
		if offset, _, _, err = gr.stream.offsetOf(next); err != nil {
			return err
		}
	}
	gr.row.LastOffset, gr.row.LastID, gr.rowDirty, gr.idBehind = offset-1, id, true, false
	gr.unsettled, gr.beyond = gr.stream.row.LastID.Less(id), false
	return nil
}

// settle makes the cursor's two forms agree after the stream has grown: entries whose
// ID is not above the cursor's ID are passed, and so are offsets not above its offset.
func (gr *group) settle() error {
	if err := gr.catchUp(); err != nil {
		return err
	}
	row, st := &gr.row, &gr.stream.row
	if !gr.unsettled && !st.LastID.Less(row.LastID) && row.LastOffset < st.Next {
		return nil
	}
	gr.unsettled = true
	switch {
	case row.LastOffset >= st.Next:
		// A commit beyond the end: whatever is there is passed.
		gr.beyond = true
		gr.move(row.LastOffset, maxID(row.LastID, st.LastID))
		row.EntriesRead = gr.ordinal()
		return nil
	case !row.LastID.Less(st.LastID):
		// An ID beyond the last: whatever is there is passed.
		gr.move(st.Next-1, row.LastID)
		gr.unsettled = st.LastID.Less(row.LastID)
		return nil
	}
	next, _ := row.LastID.Next() // there is one: it is below the stream's last
	offset, _, _, err := gr.stream.offsetOf(next)
	if err != nil {
		return err
	}
	id := row.LastID
	if gr.beyond { // the stream has grown past the commit
		if id, err = gr.stream.idFloor(row.LastOffset); err != nil {
			return err
		}
	}
	gr.move(max(row.LastOffset, offset-1), maxID(id, row.LastID))
	if gr.beyond {
		row.EntriesRead = gr.ordinal()
	}
	gr.unsettled, gr.beyond = false, false
	return nil
}

// move sets the cursor without anything else; written with the next change, since
// settle would find the same again.
func (gr *group) move(offset int64, id ID) {
	if gr.row.LastOffset != offset || gr.row.LastID != id {
		gr.row.LastOffset, gr.row.LastID, gr.rowDirty, gr.lazy = offset, id, true, true
	}
}

func maxID(a, b ID) ID {
	if a.Less(b) {
		return b
	}
	return a
}

// acked follows the removal of n rows: the explicit commit is no longer fresh, and the
// IDs of entries that are gone need not be kept below what is still pending.
func (gr *group) acked(r *round, n int64) error {
	if n == 0 {
		return nil
	}
	gr.stale()
	return gr.stream.releaseGhosts(r)
}

// releaseGhosts drops the IDs that were kept for pending entries and that no group holds any more.
func (s *stream) releaseGhosts(r *round) error {
	if s.row.Ghosts == 0 {
		return nil
	}
	low := int64(math.MaxInt64)
	for _, gr := range s.groups {
		if o, ok := gr.pel.min(); ok {
			low = min(low, o)
		}
	}
	return s.dropGhostsBelow(r, low)
}

// pendingIn says whether any group holds something of [from, to]: then the IDs must outlive the block.
func (s *stream) pendingIn(from, to int64) bool {
	for _, gr := range s.groups {
		if gr.pel.any(from, to) {
			return true
		}
	}
	return false
}

// sortedGroups lists the stream's groups in byte order of the name.
func (s *stream) sortedGroups() []*group {
	out := make([]*group, 0, len(s.groups))
	for _, gr := range s.groups {
		out = append(out, gr)
	}
	slices.SortFunc(out, func(a, b *group) int { return compareStrings(a.name, b.name) })
	return out
}

// sortedConsumers lists the group's consumers in byte order of the name.
func (gr *group) sortedConsumers() []*consumer {
	out := make([]*consumer, 0, len(gr.consumers))
	for _, c := range gr.consumers {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *consumer) int { return compareStrings(a.name, b.name) })
	return out
}

func compareStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// corrupt reports a row that fits nothing.
func corrupt(what string, args ...any) error {
	return fmt.Errorf("%w: "+what, append([]any{storage.ErrCorrupt}, args...)...)
}
