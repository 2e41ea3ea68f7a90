package engine

import "weir/storage"

// Delete marks entries deleted (XDEL) and returns how many were living. A block of
// which nothing lives goes at once.
func (t *Turn) Delete(no StreamNo, ids []ID) (int64, error) {
	var r *round
	st, err := t.lockAhead(no, func() (st *stream, err error) {
		st, r, err = t.write(no)
		return st, err
	}, ids...)
	if err != nil {
		return 0, err
	}
	defer st.unlock()
	n := int64(0)
	for _, id := range ids {
		offset, exact, alive, err := st.offsetOf(id)
		if err != nil {
			return n, err
		}
		if !exact || !alive {
			continue
		}
		if err := st.deleteAt(r, offset); err != nil {
			return n, err
		}
		st.row.MaxDeleted = maxID(st.row.MaxDeleted, id)
		n++
	}
	if n > 0 {
		st.changed = true
	}
	return n, nil
}

// deleteAt marks the living entry at an offset.
func (s *stream) deleteAt(r *round, offset int64) error {
	if f := s.filling; f != nil && offset >= f.Base {
		s.closeBlock(f.round)
	}
	var b Block
	var marks Marks
	found := false
	err := s.eachBlock(offset, offset, func(x Block, m Marks) bool {
		b, marks, found = x, m, true
		return false
	})
	if err != nil || !found {
		return err
	}
	fresh := marks == nil
	marks = cloneMarks(marks).Set(int(offset - b.Base))
	s.row.Length--
	s.markDirty(r)
	if s.first.offset == offset {
		s.first.valid = false
	}
	if s.over == nil {
		s.over = make(map[int64]over)
	}
	if !anyLiving(&b, marks, s.row.Start) {
		return s.removeBlock(r, &b, !fresh)
	}
	if fresh {
		s.row.MarkedBlocks++
	}
	s.over[b.Base] = over{marks: marks, round: r}
	if i := s.tailIndex(b.Base); i < len(s.tail) && s.tail[i].Base == b.Base {
		s.remark(i, marks)
	}
	return r.batch.Set(storage.MarksKey(s.no, b.Base), marks)
}

// remark replaces a cached block by a copy with other marks; readers keep the old one.
func (s *stream) remark(i int, marks Marks) {
	old := s.tail[i]
	b := &tailBlock{Block: old.Block, marks: marks, stream: s, size: old.size}
	s.tail[i] = b
	s.shard.tail.replace(old, b)
}

func anyLiving(b *Block, m Marks, start int64) bool {
	for o := max(b.Base, start); o <= b.Last; o++ {
		if !m.Get(int(o - b.Base)) {
			return true
		}
	}
	return false
}

// removeBlock deletes a block of which nothing lives.
func (s *stream) removeBlock(r *round, b *Block, marked bool) error {
	if err := s.leaveGhosts(r, b.Base, b.Last+1); err != nil {
		return err
	}
	if marked {
		s.row.MarkedBlocks--
	}
	s.over[b.Base] = over{gone: true, round: r}
	if i := s.tailIndex(b.Base); i < len(s.tail) && s.tail[i].Base == b.Base {
		s.shard.tail.remove(s.tail[i], &s.shard.e.tail)
		s.tail = append(s.tail[:i], s.tail[i+1:]...)
	}
	s.row.Bytes = max(0, s.row.Bytes-int64(len(b.Payload)))
	if s.row.Head >= b.Base || s.row.Length == 0 {
		s.row.Head = b.Last + 1
	}
	if s.row.Length == 0 {
		s.row.Head = s.row.Next
	}
	if err := r.batch.Delete(storage.BlockKey(s.no, b.Base)); err != nil {
		return err
	}
	return r.batch.Delete(storage.MarksKey(s.no, b.Base))
}
