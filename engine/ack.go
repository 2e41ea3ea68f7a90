package engine

// Ack, Reject, Release: what takes entries out of the PEL, or out of somebody's hands
// (dictionary 5, rule 2). Owners are not asked: XACK by anyone is an ack.

// Ack removes entries from the PEL and returns how many were there (XACK). A missing stream or group is 0, nil.
func (g Group) Ack(ids []ID) (int64, error) { return g.unpend(ids) }

// Reject archives entries: acked whatever their owner; returns how many were pending. A missing stream or
// group is 0, nil. (The dead-letter topic is the bridge's.)
func (g Group) Reject(ids []ID) (int64, error) { return g.unpend(ids) }

func (g Group) unpend(ids []ID) (int64, error) {
	gr, err := g.lock(false)
	if err == ErrNoStream || err == ErrNoGroup {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	st := gr.stream
	defer st.shard.mu.Unlock()
	var r *round
	var n int64
	for _, id := range ids {
		offset, ok, err := gr.pendingAt(id)
		if err != nil {
			return 0, err
		}
		if !ok {
			continue
		}
		if r == nil {
			if r, err = g.write(gr); err != nil {
				return 0, err
			}
		}
		n += gr.pel.remove(offset, offset)
	}
	if n == 0 {
		g.t.gate(st) // "not pending" may be the work of an ack that is not written yet
	}
	return n, gr.acked(r, n)
}

// pendingAt finds the offset of a pending entry by its ID, also when the entry is gone from the stream.
func (gr *group) pendingAt(id ID) (int64, bool, error) {
	if gr.pel.count == 0 {
		return 0, false, nil
	}
	offset, exact, _, err := gr.stream.offsetOf(id)
	if err != nil || !exact {
		return 0, false, err
	}
	_, ok := gr.pel.at(offset)
	return offset, ok, nil
}

// Release gives entries back without an owner (XNACK) and returns how many. retry overrides the count that the mode
// gives; force makes rows for living entries that are not pending. A released entry has delivery time 0, so
// that it satisfies every min-idle.
func (g Group) Release(ids []ID, mode ReleaseMode, retry *uint64, force bool) (int64, error) {
	gr, err := g.lock(true)
	if err != nil {
		return 0, err
	}
	st := gr.stream
	defer st.shard.mu.Unlock()
	var n int64
	for _, id := range ids {
		offset, exact, alive, err := st.offsetOf(id)
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
