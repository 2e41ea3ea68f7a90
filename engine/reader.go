package engine

import (
	"maps"

	"weir/storage"
)

// Reader yields runs of living entries in order (or in reverse order, runs newest
// first, each run still to be walked from its end). It holds a snapshot of what is
// cold: Close it. Not safe for concurrent use; it may outlive its turn.
type Reader struct {
	no      StreamNo
	lo, hi  int64
	reverse bool
	count   int64 // living entries in all
	left    int64

	warm []*tailBlock // the part of the tail in [lo, hi], copied pointers
	edge int64        // the first offset that warm answers for
	over map[int64]over
	view storage.View // nil when all is warm
	scan *blockScan
}

// snapshot makes a reader of the living entries in [lo, hi]. Call with shard.mu held.
func (l *log) snapshot(lo, hi int64, reverse bool) (*Reader, error) {
	r := &Reader{no: l.no, lo: max(lo, l.row.Head), hi: min(hi, l.row.Next-1), reverse: reverse, edge: l.tailBase()}
	if r.lo > r.hi {
		return r, nil
	}
	if from, to := l.tailIndex(r.lo), l.tailIndex(r.hi); from < len(l.tail) {
		to = min(to+1, len(l.tail))
		r.warm = append(r.warm, l.tail[from:to]...)
		if f := l.filling; f != nil && to == len(l.tail) {
			frozen := *f.tailBlock // its payload goes on growing
			r.warm[len(r.warm)-1] = &frozen
		}
	}
	if r.lo < r.edge {
		v, err := l.shard.st.View()
		if err != nil {
			return nil, err
		}
		r.view = v
		if len(l.over) > 0 {
			r.over = maps.Clone(l.over)
		}
	}
	return r, nil
}

// rangeReader makes a reader of at most limit living entries in [lo, hi] (limit < 0: all) with its
// exact count. Call with shard.mu held.
func (l *log) rangeReader(lo, hi, limit int64, reverse bool) (*Reader, error) {
	lo, hi = max(lo, l.row.Head), min(hi, l.row.Next-1)
	if limit >= 0 && hi-lo >= limit {
		var err error
		if lo, hi, err = l.clip(lo, hi, limit, reverse); err != nil {
			return nil, err
		}
	}
	r, err := l.snapshot(lo, hi, reverse)
	if err != nil || r.lo > r.hi {
		return r, err
	}
	if l.dense() {
		r.count = r.hi - r.lo + 1
	} else if r.count, err = r.countLiving(limit); err != nil {
		r.Close()
		return nil, err
	}
	if limit >= 0 {
		r.count = min(r.count, limit)
	}
	r.left = r.count
	return r, nil
}

// clip narrows [lo, hi] to about what limit entries take, so that blocks which the limit leaves out are not even copied.
func (l *log) clip(lo, hi, limit int64, reverse bool) (int64, int64, error) {
	dense := l.dense() // then offsets count entries
	for span := limit; ; span *= 4 {
		if span >= hi-lo {
			return lo, hi, nil
		}
		from, to := lo, lo+span-1
		if reverse {
			from, to = hi-span+1, hi
		}
		if dense || span == 0 {
			return from, to, nil
		}
		ranges, err := l.livingRanges(from, to, limit)
		n := int64(0)
		for _, x := range ranges {
			n += x[1] - x[0] + 1
		}
		if err != nil || n >= limit {
			return from, to, err
		}
	}
}

// countLiving walks once and rewinds; it stops at limit.
func (r *Reader) countLiving(limit int64) (int64, error) {
	r.left = maxOffset
	warm := r.warm
	n := int64(0)
	for limit < 0 || n < limit {
		run, ok, err := r.Next()
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		n += run.Count()
	}
	r.warm = warm
	if r.scan != nil {
		r.scan.close()
		r.scan = nil
	}
	return n, nil
}

// Count is the exact number of living entries that Next yields in all.
func (r *Reader) Count() int64 { return r.count }

// Next returns the next run; false at the end.
func (r *Reader) Next() (Run, bool, error) {
	if r.left <= 0 {
		return Run{}, false, nil
	}
	var run Run
	var ok bool
	var err error
	if r.reverse {
		if run, ok = r.nextWarm(); !ok {
			run, ok, err = r.nextCold()
		}
	} else if run, ok, err = r.nextCold(); err == nil && !ok {
		run, ok = r.nextWarm()
	}
	if err != nil || !ok {
		r.left = 0
		return Run{}, false, err
	}
	n := run.Count()
	if n > r.left {
		if n = r.left; r.reverse {
			run = run.last(n)
		} else {
			run = run.first(n)
		}
	}
	r.left -= n
	return run, true, nil
}

func (r *Reader) nextWarm() (Run, bool) {
	for len(r.warm) > 0 {
		var b *tailBlock
		if r.reverse {
			b, r.warm = r.warm[len(r.warm)-1], r.warm[:len(r.warm)-1]
		} else {
			b, r.warm = r.warm[0], r.warm[1:]
		}
		if run, ok := runOf(b.Block, b.marks, r.lo, r.hi); ok {
			return run, true
		}
	}
	return Run{}, false
}

func (r *Reader) nextCold() (Run, bool, error) {
	if r.view == nil {
		return Run{}, false, nil
	}
	if r.scan == nil {
		c, err := newBlockScan(r.view, r.no, r.over)
		if err != nil {
			return Run{}, false, err
		}
		r.scan = c
		c.until = min(r.hi, r.edge-1)
		if r.reverse {
			err = c.seekBack(min(r.hi, r.edge-1))
		} else {
			err = c.seek(r.lo)
		}
		if err != nil {
			return Run{}, false, err
		}
	}
	for {
		b, marks, ok, err := r.scan.next()
		if err != nil || !ok {
			return Run{}, false, err
		}
		if r.reverse && b.Last < r.lo {
			r.scan.valid = false
			return Run{}, false, nil
		}
		if run, ok := runOf(b, marks, r.lo, r.hi); ok {
			return run, true, nil
		}
	}
}

// Close gives the snapshot back. Closing twice is harmless.
func (r *Reader) Close() {
	if r == nil {
		return
	}
	if r.scan != nil {
		r.scan.close()
		r.scan = nil
	}
	if r.view != nil {
		r.view.Close()
		r.view = nil
	}
	r.warm, r.left = nil, 0
}

// Range reads living entries by ID, as evaluated.
func (t *Turn) Range(no StreamNo, a RangeArgs) (*Reader, error) {
	st, err := t.lockAhead(no, func() (*stream, error) { return t.read(no) }, a.From, a.To)
	if err != nil {
		return nil, err
	}
	defer st.unlock()
	lo, _, _, err := st.offsetOf(a.From)
	if err != nil {
		return nil, err
	}
	hi := st.row.Next - 1
	if a.To.Less(st.row.LastID) {
		off, exact, _, err := st.offsetOf(a.To)
		if err != nil {
			return nil, err
		}
		if hi = off; !exact {
			hi--
		}
	}
	return st.rangeReader(lo, hi, a.Count, a.Reverse)
}

// OffsetOf returns the smallest offset whose ID is >= id, as evaluated (the next offset when there is none), and
// whether an entry with exactly this ID lives.
func (t *Turn) OffsetOf(no StreamNo, id ID) (int64, bool, error) {
	st, err := t.read(no)
	if err != nil {
		return 0, false, err
	}
	defer st.shard.mu.Unlock()
	off, exact, alive, err := st.offsetOf(id)
	return off, exact && alive, err
}
