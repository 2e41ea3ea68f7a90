package engine

import "weir/storage"

// Ack, Reject, Release: what takes entries out of the PEL, or out of somebody's hands
// (dictionary 5, rule 2). Owners are not asked: XACK by anyone is an ack.

// Ack removes entries from the PEL and returns how many were there (XACK). A missing stream or group is 0, nil.
func (g Group) Ack(ids []ID) (int64, error) { return g.unpend(ids) }

// Reject archives entries: acked whatever their owner; returns how many were pending. A missing stream or
// group is 0, nil. (The dead-letter topic is the bridge's.)
func (g Group) Reject(ids []ID) (int64, error) { return g.unpend(ids) }

func (g Group) unpend(ids []ID) (int64, error) {
	gr, err := g.lockAhead(false, ids...)
	if err == ErrNoStream || err == ErrNoGroup {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	st := gr.stream
	defer st.unlock()
	if gr.pel.count == 0 {
		g.t.gate(st)
		return 0, nil
	}
	find := idFinder{s: st}
	spans := make([][2]int64, 0, 8)
	for _, id := range ids {
		offset, exact, err := find.offset(id)
		if err != nil {
			return 0, err
		}
		if exact && gr.pel.any(offset, offset) {
			spans = addSpan(spans, offset, offset)
		}
	}
	if len(spans) == 0 {
		g.t.gate(st) // "not pending" may be the work of an ack that is not written yet
		return 0, nil
	}
	r, err := g.write(gr)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, s := range spans {
		n += gr.pel.remove(s[0], s[1]) // an ID that was named twice is counted once
	}
	return n, gr.acked(r, n)
}

// idFinder finds the offsets of IDs, faster when they come in ascending order: a client acks
// what it read, and walking a block once for ten entries is a tenth of walking it ten times.
type idFinder struct {
	s    *stream
	it   storage.EntryIter // stands at an entry of a native block while walking
	last ID                // the block's last ID
	walk bool
}

// offset finds an entry that lives, or is gone but pending somewhere.
func (f *idFinder) offset(id ID) (offset int64, exact bool, err error) {
	if !f.walk || f.last.Less(id) || id.Less(f.it.ID()) {
		if err := f.enter(id); err != nil {
			return 0, false, err
		}
	}
	for f.walk && f.it.ID().Less(id) {
		f.walk = f.it.Next()
	}
	if f.walk && f.it.ID() == id {
		return f.it.Offset(), true, nil
	}
	offset, exact, _, err = f.s.heldAt(id)
	return offset, exact, err
}

// heldAt is offsetOf for what may be pending: also of an ID above the stream's last, which XSETID has set below what some
// group still holds of entries that are gone. A cursor that is put there is beyond the end all the same.
func (s *stream) heldAt(id ID) (offset int64, exact, alive bool, err error) {
	if s.row.Ghosts > 0 && s.row.LastID.Less(id) {
		if g, found, _, err := s.ghostOf(id); err != nil || found {
			return g, found, false, err
		}
	}
	return s.offsetOf(id)
}

// enter begins to walk the native block that an ID falls into, if there is one.
func (f *idFinder) enter(id ID) error {
	f.walk = false
	if f.s.row.LastID.Less(id) {
		return nil
	}
	b, _, ok, err := f.s.blockOfID(id)
	if err != nil || !ok || b.Kind != Entries || id.Less(b.FirstID) {
		return err
	}
	f.it, f.last = b.Entries(), b.LastID
	f.walk = f.it.Next()
	return nil
}

// Release gives entries back without an owner (XNACK) and returns how many. retry overrides the count that the mode
// gives; force makes rows for living entries that are not pending. A released entry has delivery time 0, so
// that it satisfies every min-idle.
func (g Group) Release(ids []ID, mode ReleaseMode, retry *uint64, force bool) (int64, error) {
	gr, err := g.lockAhead(true, ids...)
	if err != nil {
		return 0, err
	}
	st := gr.stream
	defer st.unlock()
	var n int64
	for _, id := range ids {
		offset, exact, alive, err := st.heldAt(id)
		if err != nil {
			return n, err
		}
		row, ok := gr.pel.at(offset)
		if !exact || !ok && !(force && alive) {
			continue
		}
		if _, err := g.write(gr); err != nil {
			return n, err
		}
		gr.pel.set(offset, offset, pelRow{count: released(row.count, mode, retry)})
		n++
	}
	if n > 0 {
		g.t.touch(st)
	}
	return n, nil
}

// released is the delivery count of an entry after its release.
func released(count uint64, mode ReleaseMode, retry *uint64) uint64 {
	switch {
	case retry != nil:
		return min(*retry, maxCount)
	case mode == ReleaseFatal:
		return maxCount
	case mode == ReleaseSilent && count > 0:
		return count - 1
	}
	return count
}
