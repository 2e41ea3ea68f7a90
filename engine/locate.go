package engine

import (
	"bytes"

	"weir/storage"
)

// Finding entries: by ID, by offset, by time. All with shard.mu held, but for the looks of ahead.go; what is cold and not at
// hand is read there, one seek plus one block, since the answer decides a write.

// offsetOf finds the smallest offset, at or above the log start, whose ID is >= id: the next offset
// when there is none. exact: that entry has just this ID; alive: and is not
// deleted. An entry that is gone but still pending somewhere is found by its ghost (exact, not alive).
func (l *log) offsetOf(id ID) (offset int64, exact, alive bool, err error) {
	if id == (ID{}) { // no entry has it: the log start, without reading what may be a large block
		return l.row.Start, false, false, nil
	}
	if l.row.LastID.Less(id) {
		return l.row.Next, false, false, nil
	}
	b, marks, ok, err := l.blockOfID(id)
	if err != nil {
		return 0, false, false, err
	}
	offset = l.row.Next
	if ok {
		offset, exact = b.Find(id)
		alive = exact && offset >= l.row.Start && (marks == nil || !marks.Get(int(offset-b.Base)))
	}
	if l.row.Ghosts > 0 && !exact {
		if g, found, _, err := l.ghostOf(id); err != nil || found {
			return g, found, false, err
		}
	}
	if offset < l.row.Start && !exact {
		offset = l.row.Start
	}
	return offset, exact, alive, nil
}

// blockOfID is the first block whose LastID is >= id.
func (l *log) blockOfID(id ID) (Block, Marks, bool, error) {
	n := len(l.tail)
	if n > 0 && !id.Less(l.tail[0].FirstID) {
		i, j := 0, n // the first with LastID >= id
		if !id.Less(l.tail[n-1].FirstID) {
			i = n - 1
		}
		for i < j {
			m := int(uint(i+j) >> 1)
			if l.tail[m].LastID.Less(id) {
				i = m + 1
			} else {
				j = m
			}
		}
		if i == n {
			return Block{}, nil, false, nil
		}
		return l.tail[i].Block, l.tail[i].marks, true, nil
	}
	var found Block
	var marks Marks
	ok := false
	if l.row.Swept < l.tailBase() {
		hint, err := l.idHint(id)
		if err != nil {
			return Block{}, nil, false, err
		}
		from := max(hint, l.row.Swept)
		walk := func(b Block, m Marks) bool {
			if b.LastID.Less(id) {
				l.ahead.pass(b.Base)
				return true
			}
			l.ahead.stay()
			found, marks, ok = b, m, true
			return false
		}
		if err = l.eachCold(from, maxOffset, true, walk); err == nil && ok && found.Payload == nil {
			err = l.coldBlocks(found.Base, found.Base, walk)
		}
		if err != nil || ok {
			return found, marks, ok, err
		}
	}
	if n > 0 {
		return l.tail[0].Block, l.tail[0].marks, true, nil
	}
	return Block{}, nil, false, nil
}

// idHint is the base of a block at or before the one that holds an ID.
func (l *log) idHint(id ID) (int64, error) {
	lower, upper := storage.IDRange(l.no)
	key := storage.IDKey(l.no, id)
	return l.indexHint(lower, upper, append(key, 0))
}

// timeHint is the base of a block before which no timestamp is >= ms.
func (l *log) timeHint(ms int64) (int64, error) {
	lower, upper := storage.TimeRange(l.no)
	return l.indexHint(lower, upper, storage.TimeKey(l.no, ms))
}

// indexHint reads the last index row before a key; 0 when there is none.
func (l *log) indexHint(lower, upper, before []byte) (int64, error) {
	v, err := l.shard.st.View()
	if err != nil {
		return 0, err
	}
	defer v.Close()
	it, err := v.Scan(lower, upper)
	if err != nil {
		return 0, err
	}
	defer it.Close()
	if !it.SeekLT(before) {
		return 0, it.Error()
	}
	val, err := it.Value()
	if err != nil {
		return 0, err
	}
	return storage.ParseOffset(val)
}

// coldBlocks walks the store's blocks from the one that holds from to the one that holds to, or up to the tail, while fn says so.
func (l *log) coldBlocks(from, to int64, fn func(Block, Marks) bool) error {
	return l.eachCold(from, to, false, fn)
}

// eachCold is coldBlocks; heads: for who looks at the blocks' IDs, payloads may be missing.
func (l *log) eachCold(from, to int64, heads bool, fn func(Block, Marks) bool) error {
	v, err := l.shard.st.View()
	if err != nil {
		return err
	}
	defer v.Close()
	c, err := newBlockScan(v, l.no, l.over)
	if err != nil {
		return err
	}
	defer c.close()
	c.ahead, c.heads, c.until = l.ahead, heads, min(to, l.tailBase()-1)
	if err := c.seek(from); err != nil {
		return err
	}
	for {
		b, m, ok, err := c.next()
		if err != nil || !ok {
			return err
		}
		if b.Last >= from && !fn(b, m) {
			return nil
		}
	}
}

// eachBlock walks all blocks, cold and cached, that reach into [lo, hi], while fn says so.
func (l *log) eachBlock(lo, hi int64, fn func(Block, Marks) bool) error {
	more := true
	if lo < l.tailBase() && l.row.Swept < l.tailBase() {
		err := l.coldBlocks(max(lo, l.row.Swept), hi, func(b Block, m Marks) bool {
			more = fn(b, m)
			return more
		})
		if err != nil {
			return err
		}
	}
	for i := l.tailIndex(lo); more && i < len(l.tail) && l.tail[i].Base <= hi; i++ {
		more = fn(l.tail[i].Block, l.tail[i].marks)
	}
	return nil
}

// livingRanges lists the ranges of consecutive living offsets in [lo, hi], at most limit entries in all
// (limit <= 0: no limit).
func (l *log) livingRanges(lo, hi, limit int64) ([][2]int64, error) {
	lo, hi = max(lo, l.row.Head), min(hi, l.row.Next-1)
	if limit <= 0 {
		limit = maxOffset
	}
	if lo > hi {
		return nil, nil
	}
	if l.dense() {
		return [][2]int64{{lo, min(hi, lo+min(limit, maxOffset-lo)-1)}}, nil
	}
	var out [][2]int64
	add := func(from, to int64) {
		if n := len(out); n > 0 && out[n-1][1]+1 == from {
			out[n-1][1] = to
		} else {
			out = append(out, [2]int64{from, to})
		}
		limit -= to - from + 1
	}
	err := l.eachBlock(lo, hi, func(b Block, m Marks) bool {
		r, ok := runOf(b, m, lo, hi)
		if !ok {
			return true
		}
		if m == nil {
			add(r.From, cut(r.From, r.To, limit))
			return limit > 0
		}
		for o := r.From; o <= r.To && limit > 0; o++ {
			if r.Living(o) {
				add(o, o)
			}
		}
		return limit > 0
	})
	return out, err
}

// idRuns lists the IDs of all entries in [from, to] that are known: living, deleted in their block, or ghosts.
func (l *log) idRuns(from, to int64) ([]IDRun, error) {
	var runs []IDRun
	err := l.eachID(from, to, func(r IDRun) { runs = addIDs(runs, r) })
	if l.row.Ghosts > 0 {
		sortIDRuns(runs)
	}
	return runs, err
}

// eachID hands out the IDs of idRuns, those of ghosts first.
func (l *log) eachID(from, to int64, fn func(IDRun)) error {
	if l.row.Ghosts > 0 {
		if err := l.eachGhost(from, to, fn); err != nil {
			return err
		}
	}
	return l.eachBlock(from, to, func(b Block, _ Marks) bool {
		eachBlockID(&b, from, to, fn)
		return true
	})
}

// appendBlockIDs adds the ID runs of a block's entries in [from, to], deleted ones included.
func appendBlockIDs(runs []IDRun, b *Block, from, to int64) []IDRun {
	eachBlockID(b, from, to, func(r IDRun) { runs = addIDs(runs, r) })
	return runs
}

// eachBlockID hands out the IDs of a block's entries in [from, to], deleted ones included.
func eachBlockID(b *Block, from, to int64, fn func(IDRun)) {
	from, to = max(from, b.Base), min(to, b.Last)
	if from > to {
		return
	}
	if b.Kind == Batched {
		d := uint64(from - b.Base)
		first := ID{MS: b.FirstID.MS, Seq: b.FirstID.Seq + d*uint64(b.Stride)}
		fn(IDRun{Offset: from, First: first, Stride: b.Stride, Count: uint32(to - from + 1)})
		return
	}
	for it := b.Entries(); it.Next(); {
		if o := it.Offset(); o >= from && o <= to {
			fn(IDRun{Offset: o, First: it.ID(), Stride: 1, Count: 1})
		}
	}
}

// addIDs appends a run, joining it to the last where offsets and IDs go on evenly.
func addIDs(runs []IDRun, r IDRun) []IDRun {
	if n := len(runs); n > 0 && r.Count > 0 {
		p := &runs[n-1]
		if p.Offset+int64(p.Count) == r.Offset && p.First.MS == r.First.MS && r.First.Seq > p.First.Seq {
			step := r.First.Seq - p.At(p.Count-1).Seq
			if (p.Count == 1 || step == uint64(p.Stride)) && (r.Count == 1 || step == uint64(r.Stride)) && step > 0 && step <= 1<<31 {
				p.Stride = uint32(step)
				p.Count += r.Count
				return runs
			}
		}
	}
	return append(runs, r)
}

// idAt is the ID of the entry at an offset, if it is known, and whether it lives.
func (l *log) idAt(offset int64) (id ID, known, alive bool, err error) {
	err = l.eachBlock(offset, offset, func(b Block, m Marks) bool {
		if offset < b.Base || offset > b.Last {
			return false
		}
		id, known = b.IDAt(offset)
		alive = known && offset >= l.row.Start && (m == nil || !m.Get(int(offset-b.Base)))
		return false
	})
	if err == nil && !known && l.row.Ghosts > 0 {
		err = l.eachGhost(offset, offset, func(r IDRun) { id, known = r.First, true })
	}
	return id, known, alive, err
}

// firstEntry is the first living entry; false when there is none.
func (l *log) firstEntry() (int64, ID, bool, error) {
	if l.row.Length == 0 {
		return 0, ID{}, false, nil
	}
	if !l.first.valid {
		err := l.eachBlock(l.row.Head, maxOffset, func(b Block, m Marks) bool {
			r, ok := runOf(b, m, l.row.Head, maxOffset)
			if !ok {
				return true
			}
			id, _ := b.IDAt(r.From)
			l.first = firstLiving{true, r.From, id}
			return false
		})
		if err != nil {
			return 0, ID{}, false, err
		}
	}
	return l.first.offset, l.first.id, l.first.valid, nil
}

// lastLiving is the ID of the last living entry.
func (l *log) lastLiving() (ID, error) {
	r, err := l.snapshot(l.row.Head, maxOffset-1, true)
	if err != nil {
		return ID{}, err
	}
	defer r.Close()
	r.left = 1
	run, ok, err := r.Next()
	if err != nil || !ok {
		return ID{}, err
	}
	id, _ := run.Block.IDAt(run.To)
	return id, nil
}

// cloneMarks copies marks to change them: readers keep the old.
func cloneMarks(m Marks) Marks { return Marks(bytes.Clone(m)) }
