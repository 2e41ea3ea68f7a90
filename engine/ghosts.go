package engine

import (
	"sort"

	"weir/storage"
)

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
func (l *log) loadedGhosts() (map[int64]storage.GhostRow, error) {
	if l.row.Ghosts == 0 || int64(len(l.ghosts)) == l.row.Ghosts {
		return l.ghosts, nil
	}
	v, err := l.shard.st.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	lower, upper := storage.GhostRange(l.no, 0, maxOffset)
	it, err := v.Scan(lower, upper)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	if l.ghosts == nil {
		l.ghosts = make(map[int64]storage.GhostRow)
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
		if _, ok := l.ghosts[k.Offset]; !ok && k.Offset >= l.ghostFloor {
			l.ghosts[k.Offset] = row
		}
	}
	return l.ghosts, it.Error()
}

// eachGhost hands out the ID runs of ghosts in [from, to], cut to it, in offset order.
func (l *log) eachGhost(from, to int64, fn func(IDRun)) error {
	ghosts, err := l.loadedGhosts()
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
func (l *log) ghostOf(id ID) (int64, bool, error) {
	ghosts, err := l.loadedGhosts()
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
