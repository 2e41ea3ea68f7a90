package engine

import (
	"sort"

	"weir/storage"
)

// Delete marks entries deleted (XDEL) and returns how many were living. A block of
// which nothing lives goes at once.
func (t *Turn) Delete(no StreamNo, ids []ID) (int64, error) {
	st, r, err := t.write(no)
	if err != nil {
		return 0, err
	}
	defer st.shard.mu.Unlock()
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
	b := *old
	b.marks = marks
	old.gone = true // its place in the shard's queue is void; the copy takes a new one
	b.gone = false
	s.tail[i] = &b
	s.shard.tail.push(&b, &s.shard.e.tail)
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
		s.tail[i].gone = true
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

// Ghosts: the IDs of entries that a group holds pending although their block is
// gone. They live in the store only; there are few.

// leaveGhosts writes the IDs of the blocks in [from, to) that are about to go and hold something pending.
func (s *stream) leaveGhosts(r *round, from, to int64) error {
	if !s.pendingIn(from, to-1) {
		return nil
	}
	type ghost struct {
		base int64
		row  storage.GhostRow
	}
	var ghosts []ghost
	err := s.eachBlock(from, to-1, func(b Block, _ Marks) bool {
		if b.Base >= to {
			return false
		}
		if s.pendingIn(b.Base, b.Last) {
			ghosts = append(ghosts, ghost{b.Base, storage.GhostRow{Last: b.Last, Runs: appendBlockIDs(nil, &b, b.Base, b.Last)}})
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, g := range ghosts {
		if err := r.batch.Set(storage.GhostKey(s.no, g.base), g.row.Append(nil)); err != nil {
			return err
		}
		if s.ghosts == nil {
			s.ghosts = make(map[int64]storage.GhostRow)
		}
		s.ghosts[g.base] = g.row
		s.row.Ghosts++
	}
	if len(ghosts) > 0 {
		s.markDirty(r)
	}
	return nil
}

// loadedGhosts returns the stream's ghosts, reading them once.
func (s *stream) loadedGhosts() (map[int64]storage.GhostRow, error) {
	if s.row.Ghosts == 0 || int64(len(s.ghosts)) == s.row.Ghosts {
		return s.ghosts, nil
	}
	v, err := s.shard.st.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	lower, upper := storage.GhostRange(s.no, 0, maxOffset)
	it, err := v.Scan(lower, upper)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if s.ghosts == nil {
		s.ghosts = make(map[int64]storage.GhostRow)
	}
	for ok := it.SeekGE(nil); ok; ok = it.Next() {
		k, err := storage.ParseKey(it.Key())
		if err != nil {
			return nil, err
		}
		val, err := it.Value()
		if err != nil {
			return nil, err
		}
		row, err := storage.ParseGhostRow(val)
		if err != nil {
			return nil, err
		}
		if _, ok := s.ghosts[k.Offset]; !ok && k.Offset >= s.ghostFloor {
			s.ghosts[k.Offset] = row
		}
	}
	return s.ghosts, it.Error()
}

// eachGhost hands out the ID runs of ghosts in [from, to], cut to it, in offset order.
func (s *stream) eachGhost(from, to int64, fn func(IDRun)) error {
	ghosts, err := s.loadedGhosts()
	if err != nil {
		return err
	}
	var runs []IDRun
	for base, g := range ghosts {
		if base > to || g.Last < from {
			continue
		}
		for _, run := range g.Runs {
			lo, hi := max(run.Offset, from), min(run.Offset+int64(run.Count)-1, to)
			if lo <= hi {
				runs = append(runs, IDRun{Offset: lo, First: run.At(uint32(lo - run.Offset)), Stride: run.Stride, Count: uint32(hi - lo + 1)})
			}
		}
	}
	sortIDRuns(runs)
	for _, run := range runs {
		fn(run)
	}
	return nil
}

func sortIDRuns(runs []IDRun) {
	sort.Slice(runs, func(i, j int) bool { return runs[i].Offset < runs[j].Offset })
}

// ghostOf finds a ghost by its ID.
func (s *stream) ghostOf(id ID) (int64, bool, error) {
	ghosts, err := s.loadedGhosts()
	if err != nil {
		return 0, false, err
	}
	for _, g := range ghosts {
		for _, run := range g.Runs {
			if run.First.MS != id.MS || id.Seq < run.First.Seq {
				continue
			}
			d := id.Seq - run.First.Seq
			step := uint64(max(run.Stride, 1))
			if d%step == 0 && d/step < uint64(run.Count) {
				return run.Offset + int64(d/step), true, nil
			}
		}
	}
	return 0, false, nil
}

// dropGhostsBelow forgets ghosts that end below an offset: nothing there is pending any more.
func (s *stream) dropGhostsBelow(r *round, offset int64) error {
	ghosts, err := s.loadedGhosts()
	if err != nil {
		return err
	}
	for base, g := range ghosts {
		if g.Last < offset {
			delete(s.ghosts, base)
			s.row.Ghosts--
			s.ghostFloor = max(s.ghostFloor, base+1)
			if err := r.batch.Delete(storage.GhostKey(s.no, base)); err != nil {
				return err
			}
		}
	}
	s.markDirty(r)
	return nil
}
