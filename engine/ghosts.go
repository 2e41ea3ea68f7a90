package engine

import (
	"sort"

	"github.com/tidwall/btree"

	"weir/storage"
)

// ghosts are the IDs of entries that some group holds pending although their block is
// gone: one row per block, by the block's first offset. They are read from the store
// when first asked for. A stream that is trimmed faster than it is acked has as many as
// it had blocks, so they are searched, not walked.
type ghosts struct {
	rows       btree.Map[int64, storage.GhostRow]
	floor      int64 // rows below are deleted, perhaps not in the store yet
	disordered bool  // IDs do not rise with offsets: XSETID has let them begin again
}

// add takes a row in.
func (g *ghosts) add(base int64, row storage.GhostRow) {
	if len(row.Runs) == 0 {
		return
	}
	g.rows.Descend(base-1, func(_ int64, below storage.GhostRow) bool {
		g.disordered = g.disordered || !lastOf(below).Less(row.Runs[0].First)
		return false
	})
	g.rows.Ascend(base+1, func(_ int64, above storage.GhostRow) bool {
		g.disordered = g.disordered || !lastOf(row).Less(above.Runs[0].First)
		return false
	})
	g.rows.Set(base, row)
}

// lastOf is the highest ID of a row.
func lastOf(row storage.GhostRow) ID {
	r := row.Runs[len(row.Runs)-1]
	return r.At(r.Count - 1)
}

// from finds the first ghost whose ID is >= id; ok is false when there is none, exact says that it has just this ID.
func (g *ghosts) from(id ID) (offset int64, exact, ok bool) {
	i := 0
	if !g.disordered {
		i = sort.Search(g.rows.Len(), func(i int) bool {
			_, row, _ := g.rows.GetAt(i)
			return !lastOf(row).Less(id)
		})
	}
	for ; i < g.rows.Len(); i++ {
		_, row, _ := g.rows.GetAt(i)
		if o, at, found := ghostFrom(row, id); found && (at == id || !g.disordered) {
			return o, at == id, true
		} else if found && !ok {
			offset, ok = o, true // disordered: an exact one may come yet
		}
	}
	return offset, false, ok
}

// ghostFrom finds the first ID of a row that is >= id.
func ghostFrom(row storage.GhostRow, id ID) (offset int64, at ID, found bool) {
	i := sort.Search(len(row.Runs), func(i int) bool { return !row.Runs[i].At(row.Runs[i].Count - 1).Less(id) })
	if i == len(row.Runs) {
		return 0, ID{}, false
	}
	r := row.Runs[i]
	k := uint32(sort.Search(int(r.Count), func(k int) bool { return !r.At(uint32(k)).Less(id) }))
	return r.Offset + int64(k), r.At(k), true
}

// loadedGhosts returns the stream's ghosts, reading them once.
func (l *log) loadedGhosts() (*ghosts, error) {
	g := &l.ghosts
	if l.row.Ghosts == 0 || int64(g.rows.Len()) == l.row.Ghosts {
		return g, nil
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
		if _, ok := g.rows.Get(k.Offset); !ok && k.Offset >= g.floor {
			g.add(k.Offset, row)
		}
	}
	return g, it.Error()
}

// ghostOf finds the first ghost whose ID is >= id, as ghosts.from does.
func (l *log) ghostOf(id ID) (offset int64, exact, ok bool, err error) {
	g, err := l.loadedGhosts()
	if err != nil {
		return 0, false, false, err
	}
	offset, exact, ok = g.from(id)
	return offset, exact, ok, nil
}

// eachGhost hands out the ID runs of ghosts in [from, to], cut to it, in offset order.
func (l *log) eachGhost(from, to int64, fn func(IDRun)) error {
	g, err := l.loadedGhosts()
	if err != nil {
		return err
	}
	begin := from
	g.rows.Descend(from, func(base int64, _ storage.GhostRow) bool {
		begin = base
		return false
	})
	g.rows.Ascend(begin, func(base int64, row storage.GhostRow) bool {
		if base > to {
			return false
		}
		for _, run := range row.Runs {
			lo, hi := max(run.Offset, from), min(run.Offset+int64(run.Count)-1, to)
			if lo <= hi {
				fn(IDRun{Offset: lo, First: run.At(uint32(lo - run.Offset)), Stride: run.Stride, Count: uint32(hi - lo + 1)})
			}
		}
		return true
	})
	return nil
}

func sortIDRuns(runs []IDRun) {
	sort.Slice(runs, func(i, j int) bool { return runs[i].Offset < runs[j].Offset })
}

// leaveGhosts writes the IDs of the blocks in [from, to) that are about to go and hold something pending.
func (s *stream) leaveGhosts(r *round, from, to int64) error {
	if !s.pendingIn(from, to-1) {
		return nil
	}
	g, err := s.loadedGhosts()
	if err != nil {
		return err
	}
	var rows []storage.GhostRow
	err = s.eachBlock(from, to-1, func(b Block, _ Marks) bool {
		if b.Base >= to {
			return false
		}
		if s.pendingIn(b.Base, b.Last) {
			rows = append(rows, storage.GhostRow{Last: b.Last, Runs: appendBlockIDs(nil, &b, b.Base, b.Last)})
		}
		return true
	})
	if err != nil {
		return err
	}
	for _, row := range rows {
		base := row.Runs[0].Offset
		if err := r.batch.Set(storage.GhostKey(s.no, base), row.Append(nil)); err != nil {
			return err
		}
		g.add(base, row)
		s.row.Ghosts++
	}
	if len(rows) > 0 {
		s.markDirty(r)
	}
	return nil
}

// dropGhostsBelow forgets ghosts that end below an offset: nothing there is pending any more.
func (s *stream) dropGhostsBelow(r *round, offset int64) error {
	g, err := s.loadedGhosts()
	if err != nil {
		return err
	}
	for {
		base, row, ok := g.rows.Min()
		if !ok || row.Last >= offset {
			return nil
		}
		g.rows.Delete(base)
		g.floor = max(g.floor, base+1)
		s.row.Ghosts--
		s.markDirty(r)
		if err := r.batch.Delete(storage.GhostKey(s.no, base)); err != nil {
			return err
		}
	}
}
