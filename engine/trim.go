package engine

import (
	"weir/storage"
)

// Trimming moves the log start at once and the bytes later: blocks below it are
// deleted by range when enough of them have gathered, so that XADD MAXLEN on every
// append does not leave a range tombstone each.
const (
	sweepEntries = 1000
	sweepBytes   = 256 << 10
)

// Trim removes a prefix and returns how many living entries went.
func (t *Turn) Trim(no StreamNo, a TrimArgs) (int64, error) {
	ahead := t.trimAhead(no, a)
	st, r, err := t.write(no)
	if err != nil {
		return 0, err
	}
	defer st.unlock()
	st.ahead = ahead
	to, n, err := st.trimPoint(a)
	if err != nil || to <= st.row.Start {
		return 0, err
	}
	return n, st.trimTo(r, to, n)
}

// trimPoint decides the new log start and how many living entries lie below it.
func (l *log) trimPoint(a TrimArgs) (to, removed int64, err error) {
	switch a.Kind {
	case TrimBefore:
		to = min(a.Before, l.hw)
		if to <= l.row.Start {
			return to, 0, nil
		}
		removed, err = l.countBelow(to)
		return to, removed, err
	case TrimMinID:
		if to, _, _, err = l.offsetOf(a.MinID); err != nil {
			return 0, 0, err
		}
		if a.Approx {
			if to < l.row.Next {
				to -= to % max(a.NodeEntries, 1)
			}
			return l.approxPoint(to, a)
		}
		removed, err = l.countBelow(to)
		return to, removed, err
	}
	excess := l.row.Length - a.MaxLen
	if excess <= 0 {
		return 0, 0, nil
	}
	if a.Approx {
		return l.approxPoint(maxOffset, a)
	}
	to, err = l.nthLiving(excess)
	return to, excess, err
}

// approxPoint walks virtual nodes: NodeEntries consecutive offsets each, of which whole ones go,
// below limit, while the length stays at MaxLen or above (TrimMaxLen) and the entries removed within Limit.
func (l *log) approxPoint(limit int64, a TrimArgs) (to, removed int64, err error) {
	size := max(a.NodeEntries, 1)
	// The newest node may still be growing, but Redis removes it too when nothing is to stay.
	end := l.row.Next
	if a.Kind == TrimMinID {
		end = min(limit, l.row.Next)
	}
	to = l.row.Head
	if l.dense() {
		return l.approxDense(to, end, size, a)
	}
	for node := to - to%size; ; node += size {
		last := min(node+size, l.row.Next)
		if last > end || last <= node {
			return to, removed, nil
		}
		ranges, err := l.livingRanges(max(node, l.row.Head), last-1, 0)
		if err != nil {
			return 0, 0, err
		}
		live := int64(0)
		for _, x := range ranges {
			live += x[1] - x[0] + 1
		}
		if a.Kind == TrimMaxLen && l.row.Length-removed-live < a.MaxLen || a.Limit > 0 && removed+live > a.Limit {
			return to, removed, nil
		}
		if removed += live; live > 0 || last > l.row.Head {
			to = last
		}
		if a.Kind == TrimMaxLen && removed == l.row.Length {
			return to, removed, nil
		}
	}
}

// approxDense is approxPoint by arithmetic.
func (l *log) approxDense(head, end, size int64, a TrimArgs) (to, removed int64, err error) {
	most := end - head
	if a.Kind == TrimMaxLen {
		most = min(most, l.row.Length-a.MaxLen)
	}
	if a.Limit > 0 {
		most = min(most, a.Limit)
	}
	to = head + most
	if to < l.row.Next {
		to -= to % size
	}
	if to <= head {
		return head, 0, nil
	}
	return to, to - head, nil
}

// countBelow counts living entries below an offset.
func (l *log) countBelow(to int64) (int64, error) {
	if to <= l.row.Head {
		return 0, nil
	}
	if to >= l.row.Next {
		return l.row.Length, nil
	}
	if l.dense() {
		return to - l.row.Head, nil
	}
	ranges, err := l.livingRanges(l.row.Head, to-1, 0)
	n := int64(0)
	for _, x := range ranges {
		n += x[1] - x[0] + 1
	}
	return n, err
}

// nthLiving is the offset just behind the first n living entries.
func (l *log) nthLiving(n int64) (int64, error) {
	if n >= l.row.Length {
		return l.row.Next, nil
	}
	if l.dense() {
		return l.row.Head + n, nil
	}
	ranges, err := l.livingRanges(l.row.Head, l.row.Next-1, n)
	if err != nil || len(ranges) == 0 {
		return l.row.Start, err
	}
	return ranges[len(ranges)-1][1] + 1, nil
}

// trimTo moves the log start; removed living entries lie below it.
func (s *stream) trimTo(r *round, to, removed int64) error {
	s.row.Start = to
	s.row.Length -= removed
	s.row.Head = max(s.row.Head, to)
	if s.first.offset < to {
		s.first.valid = false
	}
	s.markDirty(r)
	garbage := to - s.row.Swept
	bytes := int64(0)
	if span := s.row.Next - s.row.Swept; span > 0 {
		bytes = int64(float64(s.row.Bytes) / float64(span) * float64(garbage))
	}
	if garbage >= sweepEntries || bytes >= sweepBytes || to == s.row.Next {
		return s.sweep(r)
	}
	return nil
}

// sweepAll removes everything of an empty stream.
func (s *stream) sweepAll(r *round) error {
	s.row.Start, s.row.Head = s.row.Next, s.row.Next
	return s.sweep(r)
}

// sweep deletes the blocks that end below the log start, with their index rows,
// leaving ghosts for what some group still holds pending there.
func (s *stream) sweep(r *round) error {
	to := s.row.Next // base of the first block that stays
	if s.filling != nil {
		s.closeBlock(s.filling.round)
	}
	firstID, any := ID{}, false
	if s.row.Start < s.row.Next {
		err := s.eachBlock(s.row.Start, maxOffset, func(b Block, _ Marks) bool {
			to, firstID, any = b.Base, b.FirstID, true
			return false
		})
		if err != nil {
			return err
		}
	}
	if to <= s.row.Swept {
		return nil
	}
	if err := s.leaveGhosts(r, s.row.Swept, to); err != nil {
		return err
	}
	if s.row.MarkedBlocks > 0 {
		err := s.eachBlock(s.row.Swept, to-1, func(b Block, m Marks) bool {
			if m != nil && b.Base < to {
				s.row.MarkedBlocks--
			}
			return b.Base < to
		})
		if err != nil {
			return err
		}
	}
	s.dropTailBelow(to)
	s.overlaySwept(to)
	lower, upper := storage.BlocksRange(s.no, 0, to)
	if err := r.batch.DeleteRange(lower, upper); err != nil {
		return err
	}
	idLower, idUpper := storage.IDRange(s.no)
	if any {
		idUpper = storage.IDKey(s.no, firstID)
	}
	if err := r.batch.DeleteRange(idLower, idUpper); err != nil {
		return err
	}
	if span := s.row.Next - s.row.Swept; span > 0 {
		s.row.Bytes -= int64(float64(s.row.Bytes) / float64(span) * float64(to-s.row.Swept))
	}
	s.row.Swept = to
	return s.sweepTimes(r)
}

// sweepTimes deletes time index rows that point below what was swept: without them a search begins at the log start.
func (s *stream) sweepTimes(r *round) error {
	lower, upper := storage.TimeRange(s.no)
	v, err := s.shard.st.View()
	if err != nil {
		return err
	}
	defer v.Close()
	it, err := v.Scan(lower, upper)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.SeekGE(nil); ok; ok = it.Next() {
		val, err := it.Value()
		if err != nil {
			return err
		}
		base, err := storage.ParseOffset(val)
		if err != nil {
			return err
		}
		if base >= s.row.Swept {
			break
		}
		if err := r.batch.Delete(it.Key()); err != nil {
			return err
		}
	}
	return it.Error()
}

// dropTailBelow takes blocks that end below an offset out of the tail.
func (s *stream) dropTailBelow(to int64) {
	for len(s.tail) > 0 && s.tail[0].Last < to {
		s.popTail(s.tail[0])
	}
}

// overlaySwept keeps marks and removals of swept blocks from speaking once the range is gone.
func (s *stream) overlaySwept(to int64) {
	for base := range s.over {
		if base < to {
			delete(s.over, base)
		}
	}
}
