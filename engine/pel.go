package engine

import "github.com/tidwall/btree"

// pel is a group's pending entries list, kept as ranges: runs of consecutive offsets
// with one owner, delivery time and delivery count.
//
//	offsets  0 ........ 999 | 1000 ..... 1999 | 2000 | 2001 .. 2009
//	ranges  [a  t=10 n=1   ][b  t=11 n=1     ]  gone  [a  t=12 n=2 ]
//
// A delivery of 10,000 entries is one range; the ack of one entry in its middle
// splits it; neighbours that are equal again become one. Why not a row per entry, as
// Redis keeps? A Kafka consumer holds whatever it fetched since its last commit, and
// that is a million entries as easily as ten.
//
// Offsets that were deleted before they were delivered are in no range; offsets that
// were deleted afterwards stay until somebody acks or claims them.
//
// dirty remembers which rows in storage differ from the ranges, so that a round
// writes the net change only: the key is a range's first offset, the value whether a
// row with that key is on disk. Owned by shard.mu, as everything below a stream.
type pel struct {
	ranges   btree.Map[int64, *pelRange] // by first offset
	times    btree.Map[int64, int]       // delivery time -> number of ranges; owned rows only
	count    int64                       // rows
	released int64                       // rows without an owner
	dirty    map[int64]bool
	hit      []*pelRange // scratch of overlapping
}

// pelRow is what is said of each entry of a range.
type pelRow struct {
	owner   *consumer // nil: released, nobody's
	time    int64     // delivery time, ms; 0 when released
	count   uint64    // deliveries
	claimed bool      // moved by a rebalance, not fetched by its new owner yet
}

// pelRange is the run [first, last].
type pelRange struct {
	first, last int64
	pelRow
	stored bool // storage has exactly this row
}

// pelSpan is a piece of a range, cut to what was asked for.
type pelSpan struct {
	first, last int64
	pelRow
}

// size is the number of entries of the span.
func (s *pelSpan) size() int64 { return s.last - s.first + 1 }

// min is the lowest pending offset; false when nothing is pending.
func (p *pel) min() (int64, bool) {
	first, _, ok := p.ranges.Min()
	return first, ok
}

// max is the highest pending offset; false when nothing is pending.
func (p *pel) max() (int64, bool) {
	_, r, ok := p.ranges.Max()
	if !ok {
		return 0, false
	}
	return r.last, true
}

// oldest is the smallest delivery time of an owned row, ms; -1 when there is none.
func (p *pel) oldest() int64 {
	if t, _, ok := p.times.Min(); ok {
		return t
	}
	return -1
}

// floor is the last range that begins at or below an offset, nil when there is none.
func (p *pel) floor(offset int64) (found *pelRange) {
	p.ranges.Descend(offset, func(_ int64, r *pelRange) bool {
		found = r
		return false
	})
	return found
}

// at is the row of an offset; false when it is not pending.
func (p *pel) at(offset int64) (pelRow, bool) {
	if r := p.floor(offset); r != nil && r.last >= offset {
		return r.pelRow, true
	}
	return pelRow{}, false
}

// any says whether something in [first, last] is pending.
func (p *pel) any(first, last int64) bool {
	r := p.floor(last)
	return r != nil && r.last >= first
}

// next is the lowest pending offset at or above an offset; false when there is none.
func (p *pel) next(offset int64) (int64, bool) {
	if r := p.floor(offset); r != nil && r.last >= offset {
		return offset, true
	}
	var first int64
	ok := false
	p.ranges.Ascend(offset, func(k int64, _ *pelRange) bool {
		first, ok = k, true
		return false
	})
	return first, ok
}

// each calls fn for the pieces of [first, last] in order until it returns false. fn must not change the pel.
func (p *pel) each(first, last int64, fn func(pelSpan) bool) {
	if first > last {
		return
	}
	from := first
	if r := p.floor(first); r != nil {
		from = r.first
	}
	p.ranges.Ascend(from, func(k int64, r *pelRange) bool {
		if k > last {
			return false
		}
		if r.last < first {
			return true
		}
		return fn(pelSpan{max(k, first), min(r.last, last), r.pelRow})
	})
}

// spans collects the pieces of [first, last].
func (p *pel) spans(first, last int64) (out []pelSpan) {
	p.each(first, last, func(s pelSpan) bool {
		out = append(out, s)
		return true
	})
	return out
}

// set makes [first, last] pending with one row, whatever was said of these offsets before.
func (p *pel) set(first, last int64, row pelRow) {
	if first > last {
		return
	}
	if _, top, ok := p.ranges.Max(); ok && first <= top.last {
		p.remove(first, last)
	}
	p.insert(first, last, row)
}

// insert adds a run that overlaps nothing, merging it with equal neighbours.
func (p *pel) insert(first, last int64, row pelRow) {
	p.tally(row, last-first+1)
	r := p.floor(first)
	if r != nil && r.last == first-1 && r.pelRow == row {
		p.touch(r)
		r.last = last
	} else {
		r = &pelRange{first: first, last: last, pelRow: row}
		p.put(r)
	}
	if right, ok := p.ranges.Get(last + 1); ok && right.pelRow == row {
		p.drop(right)
		r.last = right.last
	}
}

// remove takes [first, last] out and returns how many rows were there.
func (p *pel) remove(first, last int64) (n int64) {
	for _, r := range p.overlapping(first, last) {
		lo, hi := max(r.first, first), min(r.last, last)
		n += hi - lo + 1
		p.tally(r.pelRow, lo-hi-1)
		tail := pelRange{first: hi + 1, last: r.last, pelRow: r.pelRow}
		if r.first < lo {
			p.touch(r)
			r.last = lo - 1
		} else {
			p.drop(r)
		}
		if tail.first <= tail.last {
			p.put(&tail)
		}
	}
	clear(p.hit)
	return n
}

// overlapping collects the ranges that hold something of [first, last]; valid until the next call.
func (p *pel) overlapping(first, last int64) []*pelRange {
	p.hit = p.hit[:0]
	if first > last {
		return p.hit
	}
	from := first
	if r := p.floor(first); r != nil {
		from = r.first
	}
	p.ranges.Ascend(from, func(k int64, r *pelRange) bool {
		if k > last {
			return false
		}
		if r.last >= first {
			p.hit = append(p.hit, r)
		}
		return true
	})
	return p.hit
}

// change rewrites the rows in [first, last] that are pending; fn returns the new row, false to leave a piece alone.
// Returns how many rows were rewritten.
func (p *pel) change(first, last int64, fn func(pelSpan) (pelRow, bool)) (n int64) {
	for _, s := range p.spans(first, last) {
		if row, ok := fn(s); ok {
			p.remove(s.first, s.last)
			p.insert(s.first, s.last, row)
			n += s.size()
		}
	}
	return n
}

// put adds a new range to the tree.
func (p *pel) put(r *pelRange) {
	p.ranges.Set(r.first, r)
	if r.owner != nil {
		n, _ := p.times.Get(r.time)
		p.times.Set(r.time, n+1)
	}
	p.note(r.first, false)
}

// drop takes a range out of the tree; its rows are not uncounted.
func (p *pel) drop(r *pelRange) {
	p.ranges.Delete(r.first)
	if r.owner != nil {
		if n, _ := p.times.Get(r.time); n > 1 {
			p.times.Set(r.time, n-1)
		} else {
			p.times.Delete(r.time)
		}
	}
	if r.stored {
		p.note(r.first, true)
	} else if !p.dirty[r.first] {
		delete(p.dirty, r.first) // came and went within the round: nothing to write
	}
}

// touch notes that a range is about to change in place.
func (p *pel) touch(r *pelRange) {
	p.note(r.first, r.stored)
	r.stored = false
}

// note marks a key as differing from storage; onDisk says whether a row is there.
func (p *pel) note(first int64, onDisk bool) {
	if p.dirty == nil {
		p.dirty = make(map[int64]bool)
	}
	p.dirty[first] = p.dirty[first] || onDisk
}

// tally counts n rows in (or out, when negative).
func (p *pel) tally(row pelRow, n int64) {
	p.count += n
	if row.owner == nil {
		p.released += n
	} else {
		row.owner.pending += n
	}
}

// load adds a range that storage has. Ranges come in order of their offsets and do
// not overlap; false when they do. They are not merged: what storage has stays as it is
// until something changes it.
func (p *pel) load(first, last int64, row pelRow) bool {
	if _, top, ok := p.ranges.Max(); first > last || ok && first <= top.last {
		return false
	}
	p.tally(row, last-first+1)
	p.put(&pelRange{first: first, last: last, pelRow: row, stored: true})
	delete(p.dirty, first)
	return true
}

// flush hands out what differs from storage since the last flush: rows to set and keys to delete.
func (p *pel) flush(set func(*pelRange) error, del func(first int64) error) error {
	for first, onDisk := range p.dirty {
		r, ok := p.ranges.Get(first)
		switch {
		case ok && !r.stored:
			if err := set(r); err != nil {
				return err
			}
			r.stored = true
		case !ok && onDisk:
			if err := del(first); err != nil {
				return err
			}
		}
	}
	if len(p.dirty) > 1024 || cap(p.hit) > 1024 {
		p.dirty, p.hit = nil, nil // Go's maps do not shrink
	}
	clear(p.dirty)
	return nil
}
