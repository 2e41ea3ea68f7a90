package bridge

// Reading one stream, or several as one sequence by ID.
//
//	one source:   run ──EachEntry──► fn                     nothing is copied
//	N sources:    run ─► buffer of entries ┐
//	              run ─► buffer of entries ┼─ smallest ID ─► fn
//	              run ─► buffer of entries ┘
//
// Why are the merged entries buffered a run at a time, and runs not cut where another partition comes in between?
// Entries of busy partitions alternate, and a run cut to one entry would decode its whole block for that one.

import (
	"errors"
	"slices"

	"weir/engine"
)

// errShortRead says that a reader ended before its own count: the reply's header has been told by then.
var errShortRead = errors.New("bridge: entries ended before their count")

// EntryReader yields entries in order. Entries whose Fields are nil are gone from the stream and known by ID only. It may hold snapshots:
// Close it. It may outlive its turn. Not safe for concurrent use. The zero value is empty.
type EntryReader struct {
	b       *Bridge
	left    int64 // entries not yielded yet
	count   int64
	reverse bool
	one     entrySource   // when there is one
	many    []entrySource // when there are several
	picks   []pick        // whose entry comes next; nil: the one with the smallest ID
	now     engine.Held   // the stretch being yielded; here, so that it need not be allocated
}

// pick is an entry of one of several sources.
type pick struct {
	source int32
	offset int64
}

// entrySource is a sequence of runs: of the engine's reader, or of what a group holds. One of the three is set.
type entrySource struct {
	reader *engine.Reader
	held   *engine.HeldReader
	gone   []engine.IDRun // known by ID only

	buf []Entry // merging only: the entries of the newest run, not yielded yet
}

// next is the next stretch; false at the end.
func (s *entrySource) next() (engine.Held, bool, error) {
	if s.reader != nil {
		run, ok, err := s.reader.Next()
		return engine.Held{Run: run}, ok, err
	}
	if s.held != nil {
		return s.held.Next()
	}
	if len(s.gone) == 0 {
		return engine.Held{}, false, nil
	}
	n := min(len(s.gone), mergeStretch)
	h := engine.Held{Gone: s.gone[:n]}
	s.gone = s.gone[n:]
	return h, true, nil
}

func (s *entrySource) close() {
	if s.reader != nil {
		s.reader.Close()
	}
	s.held.Close()
	*s = entrySource{}
}

func heldCountOf(h *engine.Held) (n int64) {
	if h.Gone == nil {
		return h.Run.Count()
	}
	return idCount(h.Gone)
}

// idCount is how many IDs runs hold.
func idCount(runs []engine.IDRun) (n int64) {
	for i := range runs {
		n += int64(runs[i].Count)
	}
	return n
}

// closeAll closes sources that are not read after all.
func closeAll(sources []entrySource) {
	for i := range sources {
		sources[i].close()
	}
}

// readOne reads an engine reader as it is.
func readOne(b *Bridge, rd *engine.Reader, reverse bool) EntryReader {
	n := rd.Count()
	return EntryReader{b: b, left: n, count: n, reverse: reverse, one: entrySource{reader: rd}}
}

// readHeld reads what a group holds, in the order given.
func readHeld(b *Bridge, held *engine.HeldReader) EntryReader {
	n := held.Count()
	return EntryReader{b: b, left: n, count: n, one: entrySource{held: held}}
}

// readIDs reads IDs alone, in the order given.
func readIDs(runs []engine.IDRun) EntryReader {
	n := idCount(runs)
	return EntryReader{left: n, count: n, one: entrySource{gone: runs}}
}

// readMerged reads several sources, each in order, by ID; most < 0: all of them.
func readMerged(b *Bridge, sources []entrySource, total, most int64, reverse bool) EntryReader {
	if most >= 0 {
		total = min(total, most)
	}
	return EntryReader{b: b, left: total, count: total, reverse: reverse, many: sources}
}

// Count is the exact number of entries that it yields in all.
func (e *EntryReader) Count() int64 { return e.count }

// Close gives back what it holds. Closing twice is harmless.
func (e *EntryReader) Close() {
	e.one.close()
	closeAll(e.many)
	e.many, e.picks, e.left = nil, nil, 0
}

// nextStretch is the next stretch of the one source.
func (e *EntryReader) nextStretch() error {
	var ok bool
	var err error
	if e.now, ok, err = e.one.next(); err != nil {
		return err
	}
	if !ok {
		return errShortRead
	}
	e.left -= heldCountOf(&e.now)
	return nil
}

// Next calls fn for the entries of the next run, or about as many of several partitions, until fn returns false; more is false when all
// have been yielded. Entries are valid during the call. After an error it is of no use. That a damaged run yields fewer than Count
// promised is for the caller to notice, who counts what it writes anyway.
func (e *EntryReader) Next(fn func(*Entry) bool) (more bool, err error) {
	if e.left == 0 {
		return false, nil
	}
	if e.many != nil {
		return e.nextMerged(fn)
	}
	if err := e.nextStretch(); err != nil {
		return false, err
	}
	err = eachHeld(e.b, &e.now, e.reverse, fn)
	return e.left > 0, err
}

// mergeStretch is how many merged entries one call of Next yields at most.
const mergeStretch = 256

func (e *EntryReader) nextMerged(fn func(*Entry) bool) (bool, error) {
	for range mergeStretch {
		first, err := e.first()
		if err != nil {
			return false, err
		}
		x := &first.buf[0]
		first.buf = first.buf[1:]
		e.left--
		if !fn(x) || e.left == 0 {
			break
		}
	}
	return e.left > 0, nil
}

// first is the source whose turn it is, its next entry in its buffer.
func (e *EntryReader) first() (first *entrySource, err error) {
	for len(e.picks) > 0 { // one that its source has not was deleted before the source was read
		p := e.picks[0]
		e.picks = e.picks[1:]
		s := &e.many[p.source]
		if err := e.fill(s); err != nil {
			return nil, err
		}
		if len(s.buf) > 0 && s.buf[0].Offset == p.offset {
			return s, nil
		}
	}
	for i := range e.many {
		s := &e.many[i]
		if err := e.fill(s); err != nil {
			return nil, err
		}
		if len(s.buf) > 0 && (first == nil || e.before(s.buf[0].ID, first.buf[0].ID)) {
			first = s
		}
	}
	if first == nil {
		err = errShortRead
	}
	return first, err
}

func (e *EntryReader) before(a, b engine.ID) bool {
	if e.reverse {
		return b.Less(a)
	}
	return a.Less(b)
}

// fill reads a source's next run into its buffer when that is empty. A source without entries stays empty.
func (e *EntryReader) fill(s *entrySource) error {
	for len(s.buf) == 0 {
		h, ok, err := s.next()
		if !ok || err != nil {
			return err
		}
		err = eachHeld(e.b, &h, e.reverse, func(x *Entry) bool {
			kept := *x
			kept.Fields = slices.Clone(x.Fields)
			s.buf = append(s.buf, kept)
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachHeld calls fn for the entries of a stretch; those that are gone have nil Fields.
func eachHeld(b *Bridge, h *engine.Held, reverse bool, fn func(*Entry) bool) error {
	if h.Gone == nil {
		return b.EachEntry(&h.Run, reverse, fn)
	}
	for _, run := range h.Gone {
		for i := range run.Count {
			if !fn(&Entry{ID: run.At(i), Offset: run.Offset + int64(i)}) {
				return nil
			}
		}
	}
	return nil
}

// NextIDs is Next for the IDs alone, without decoding any entry (JUSTID). Not for merged or reverse readers.
func (e *EntryReader) NextIDs(fn func(engine.ID)) (more bool, err error) {
	if e.left == 0 {
		return false, nil
	}
	if err := e.nextStretch(); err != nil {
		return false, err
	}
	if e.now.Gone == nil {
		eachID(&e.now.Run, fn)
	}
	for _, run := range e.now.Gone {
		for i := range run.Count {
			fn(run.At(i))
		}
	}
	return e.left > 0, nil
}

// eachID calls fn for the IDs of a run's living entries, oldest first.
func eachID(run *engine.Run, fn func(engine.ID)) {
	if run.Block.Kind == engine.Batched {
		for o := run.From; o <= run.To; o++ {
			if run.Living(o) {
				id := run.Block.FirstID
				id.Seq += uint64(o-run.Block.Base) * uint64(run.Block.Stride)
				fn(id)
			}
		}
		return
	}
	for it := run.Block.Entries(); it.Next() && it.Offset() <= run.To; {
		if it.Offset() >= run.From && run.Living(it.Offset()) {
			fn(it.ID())
		}
	}
}

// Range reads living entries between two IDs, both inclusive; by ID over all partitions.
func (r *Route) Range(b *Bridge, t *engine.Turn, a engine.RangeArgs) (EntryReader, error) {
	if !r.Whole() {
		rd, err := t.Range(r.Stream(), a)
		if err != nil {
			return EntryReader{}, err
		}
		return readOne(b, rd, a.Reverse), nil
	}
	return r.rangeEach(b, t, func(int) (engine.RangeArgs, bool) { return a, true }, a.Count, a.Reverse)
}

// settleMS is how old an entry of a whole topic is before ReadAfter shows it. Partitions give their IDs each for itself: an entry may come
// into being with an ID below one that another partition gave in the same millisecond, and who goes on after the
// greater one would never see it. Once the clock has moved on by this much no smaller ID is given any more, for a turn
// takes its clock, and appends, within it. An entry whose ID is ahead of the clock waits for the clock.
//
// Why not an order that the topic gives? It would tie all partitions to one lock, and batches of Kafka producers, which are most of
// what such topics get, besides. Ranges (XRANGE) show what there is; groups have a cursor for each partition and need no such care.
const settleMS = 5

// ReadAfter reads entries with IDs greater than after, or, when each is not empty, than each partition's own (a partition beyond them
// came later and is read from its beginning). count < 0: no limit. Of several partitions what is not settled yet is not shown.
func (r *Route) ReadAfter(b *Bridge, t *engine.Turn, after engine.ID, each []engine.ID, count int64) (EntryReader, error) {
	from := func(p int) (engine.RangeArgs, bool) {
		a := engine.RangeArgs{To: engine.MaxID, Count: count}
		last := after
		if len(each) > 0 {
			if p >= len(each) {
				return a, true
			}
			last = each[p]
		}
		var ok bool
		a.From, ok = last.Next()
		return a, ok
	}
	if !r.Whole() {
		a, ok := from(0)
		if !ok {
			return EntryReader{}, nil
		}
		return r.Range(b, t, a)
	}
	settled := engine.ID{MS: uint64(max(t.Now()-settleMS, 0)), Seq: ^uint64(0)}
	return r.rangeEach(b, t, func(p int) (engine.RangeArgs, bool) {
		a, ok := from(p)
		a.To = settled
		return a, ok && !settled.Less(a.From)
	}, count, false)
}

// Unsettled is in how many ms ReadAfter has more to show than now, if nobody appends; 0: not at all. At most a second, after which
// to ask again.
func (r *Route) Unsettled(t *engine.Turn, after engine.ID, each []engine.ID) (int64, error) {
	if !r.Whole() {
		return 0, nil
	}
	const longest = 1000
	soonest := int64(longest + 1)
	for p, no := range r.Streams {
		from := engine.ID{MS: uint64(max(t.Now()-settleMS+1, 0))}
		last := after
		if len(each) > p {
			last = each[p]
		}
		if next, ok := last.Next(); !ok {
			continue
		} else if from.Less(next) {
			from = next
		}
		rd, err := t.Range(no, engine.RangeArgs{From: from, To: engine.MaxID, Count: 1})
		if err != nil {
			return 0, err
		}
		run, ok, err := rd.Next()
		rd.Close()
		if err != nil {
			return 0, err
		}
		if ok {
			eachID(&run, func(id engine.ID) {
				soonest = min(soonest, int64(min(id.MS+settleMS-uint64(t.Now()), longest)))
			})
		}
	}
	if soonest > longest {
		return 0, nil
	}
	return max(soonest, 1), nil
}

// rangeEach merges a range of each partition; args says false for those that have nothing.
func (r *Route) rangeEach(b *Bridge, t *engine.Turn, args func(p int) (engine.RangeArgs, bool), most int64, reverse bool) (EntryReader, error) {
	sources := make([]entrySource, 0, len(r.Streams))
	var total int64
	for p, no := range r.Streams {
		a, ok := args(p)
		if !ok {
			continue
		}
		rd, err := t.Range(no, a)
		if err != nil {
			closeAll(sources)
			return EntryReader{}, err
		}
		total += rd.Count()
		sources = append(sources, entrySource{reader: rd})
	}
	return readMerged(b, sources, total, most, reverse), nil
}
