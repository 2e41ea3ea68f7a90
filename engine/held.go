package engine

import (
	"slices"
	"sort"
)

// HeldReader yields what a group holds and has handed out again (History, Claim, AutoClaim). Which entries those
// are is decided, and so is Count; their blocks are read as they are asked for:
//
//	decided under the lock        living  [0 4] [7 7] [9 99]   16 bytes for each range of offsets
//	                              gone    5-0 .. 6-0           the IDs, a run where they are even
//	read one at a time            the block that holds the next offset
//
// Why not the blocks at once? All that is pending may be more than memory. What is read is a snapshot of that moment: an entry
// that is deleted or trimmed meanwhile is shown as it was, as Redis shows it, which does both in one step.
//
// Close it: it holds a snapshot of what is cold. Not safe for concurrent use; it may outlive its turn. The nil reader is empty.
type HeldReader struct {
	living [][2]int64 // offsets; in order, but for Claim, whose order is that of its IDs
	gone   []IDRun    // in order of their offsets; none when living has no order
	count  int64

	ordered bool    // living is
	snap    *Reader // nil when nothing lives
	now     Run     // the whole block in hand
	one     [1]IDRun
}

// goneStretch is how many entries that are gone are told at a time.
const goneStretch = 256

// heldReader makes a reader of offsets that live as evaluated, and of IDs that are gone. Call with shard.mu held.
func (l *log) heldReader(living [][2]int64, gone []IDRun) (*HeldReader, error) {
	if len(living) == 0 && len(gone) == 0 {
		return nil, nil
	}
	h := &HeldReader{living: living, gone: gone}
	for i := range gone {
		h.count += int64(gone[i].Count)
	}
	if len(living) == 0 {
		return h, nil
	}
	lo, hi, last := living[0][0], living[0][1], int64(-1)
	h.ordered = true
	for _, s := range living {
		h.count += s[1] - s[0] + 1
		h.ordered, last = h.ordered && s[0] > last, s[1]
		lo, hi = min(lo, s[0]), max(hi, s[1])
	}
	var err error
	h.snap, err = l.snapshot(lo, hi, false)
	return h, err
}

// Count is the exact number of entries that Next yields in all.
func (h *HeldReader) Count() int64 {
	if h == nil {
		return 0
	}
	return h.count
}

// Next returns the next stretch; false at the end. It is valid until the call after it.
func (h *HeldReader) Next() (Held, bool, error) {
	switch {
	case h == nil || len(h.living) == 0 && len(h.gone) == 0:
		return Held{}, false, nil
	case len(h.living) == 0 || len(h.gone) > 0 && h.gone[0].Offset < h.living[0][0]:
		h.one[0] = h.nextGone()
		return Held{Gone: h.one[:]}, true, nil
	}
	s := &h.living[0]
	if h.now.Block.Payload == nil || s[0] < h.now.Block.Base || s[0] > h.now.Block.Last {
		if h.ordered {
			h.snap.letGo(s[0])
		}
		var err error
		if h.now, err = h.snap.blockAt(s[0], h.now.Block.Last+1); err != nil {
			return Held{}, false, err
		}
	}
	run := h.now
	run.From, run.To = s[0], min(s[1], run.Block.Last)
	if s[0] = run.To + 1; s[0] > s[1] {
		h.living = h.living[1:]
	}
	return Held{Run: run}, true, nil
}

func (h *HeldReader) nextGone() IDRun {
	g := &h.gone[0]
	run := *g
	if run.Count = min(run.Count, goneStretch); run.Count == g.Count {
		h.gone = h.gone[1:]
		return run
	}
	g.First, g.Offset, g.Count = g.At(run.Count), g.Offset+int64(run.Count), g.Count-run.Count
	return run
}

// Close gives the snapshot back. Closing twice is harmless.
func (h *HeldReader) Close() {
	if h == nil {
		return
	}
	h.snap.Close()
	h.living, h.gone, h.now = nil, nil, Run{}
}

// letGo gives up the warm blocks that end below an offset, which the tail may have dropped meanwhile.
func (r *Reader) letGo(offset int64) {
	for len(r.warm) > 0 && r.warm[0].Last < offset {
		r.warm[0] = nil
		r.warm = r.warm[1:]
	}
}

// blockAt is the block that holds an offset of the snapshot; next is the offset behind the one that was asked for last.
func (r *Reader) blockAt(offset, next int64) (Run, error) {
	if offset >= r.edge {
		i, found := slices.BinarySearchFunc(r.warm, offset, func(b *tailBlock, offset int64) int {
			switch {
			case b.Last < offset:
				return -1
			case b.Base > offset:
				return 1
			}
			return 0
		})
		if !found {
			return Run{}, corrupt("no block holds offset %d of stream %d", offset, r.no)
		}
		return Run{Block: r.warm[i].Block, Marks: r.warm[i].marks}, nil
	}
	if r.scan == nil {
		var err error
		if r.scan, err = newBlockScan(r.view, r.no, r.over); err != nil {
			return Run{}, err
		}
		next = -1
	}
	if offset != next { // else the scan stands there
		if err := r.scan.seek(offset); err != nil {
			return Run{}, err
		}
	}
	b, marks, ok, err := r.scan.next()
	if err != nil {
		return Run{}, err
	}
	if !ok || offset < b.Base || offset > b.Last {
		return Run{}, corrupt("no block holds offset %d of stream %d", offset, r.no)
	}
	return Run{Block: b, Marks: marks}, nil
}

// parted tells pending offsets, in order, into those that live and the IDs of those that are gone, one block in memory at a time.
func (l *log) parted(spans [][2]int64) (living [][2]int64, gone []IDRun, err error) {
	for _, s := range spans {
		if at := max(s[0], l.row.Head); l.dense() && at <= s[1] {
			if gone, err = l.appendGone(gone, s[0], at-1); err != nil {
				return nil, nil, err
			}
			living = addSpan(living, at, s[1])
			continue
		}
		ranges, err := l.livingRanges(s[0], s[1], 0)
		if err != nil {
			return nil, nil, err
		}
		if len(ranges) == 0 || ranges[0] != s {
			if gone, err = l.appendGone(gone, s[0], s[1], ranges...); err != nil {
				return nil, nil, err
			}
		}
		for _, r := range ranges {
			living = addSpan(living, r[0], r[1])
		}
	}
	return living, gone, nil
}

// appendGone appends the known IDs of [from, to] but for those that live.
func (l *log) appendGone(gone []IDRun, from, to int64, living ...[2]int64) ([]IDRun, error) {
	if from > to {
		return gone, nil
	}
	first := len(gone)
	err := l.eachID(from, to, func(r IDRun) {
		i := sort.Search(len(living), func(i int) bool { return living[i][1] >= r.Offset })
		for ; r.Count > 0; i++ {
			n := int64(r.Count)
			if i < len(living) {
				n = min(n, living[i][0]-r.Offset)
			}
			if n > 0 {
				gone = addIDs(gone, IDRun{Offset: r.Offset, First: r.First, Stride: r.Stride, Count: uint32(n)})
			}
			if i == len(living) {
				return
			}
			r = after(r, living[i][1]+1)
		}
	})
	if l.row.Ghosts > 0 {
		sortIDRuns(gone[first:])
	}
	return gone, err
}

// after is what a run has at or behind an offset.
func after(r IDRun, offset int64) IDRun {
	n := offset - r.Offset
	if n <= 0 {
		return r
	}
	if n >= int64(r.Count) {
		return IDRun{}
	}
	return IDRun{Offset: offset, First: r.At(uint32(n)), Stride: r.Stride, Count: r.Count - uint32(n)}
}

// Held makes a reader of those of the given offsets that live by now, in the order given: what ClaimOffsets told before. What was
// deleted since is left out, as Redis leaves out what XCLAIM finds deleted; it is pending until somebody claims it again. Close the reader.
func (t *Turn) Held(no StreamNo, offsets [][2]int64) (*HeldReader, error) {
	st, err := t.read(no)
	if err != nil {
		return nil, err
	}
	defer st.shard.mu.Unlock()
	var living [][2]int64
	for _, s := range offsets {
		ranges, err := st.livingRanges(s[0], s[1], 0)
		if err != nil {
			return nil, err
		}
		for _, r := range ranges {
			living = addSpan(living, r[0], r[1])
		}
	}
	return st.heldReader(living, nil)
}
