package engine

import "weir/storage"

// Pending: the PEL as both sides read it. A row is an offset; its entry may be living,
// deleted inside its block, or gone with its block (a ghost keeps the ID).

// addSpan appends [first, last] to spans, joining it to the last where offsets go on.
func addSpan(spans [][2]int64, first, last int64) [][2]int64 {
	if n := len(spans); n > 0 && spans[n-1][1]+1 == first {
		spans[n-1][1] = last
		return spans
	}
	return append(spans, [2]int64{first, last})
}

// cut is the end of the first n offsets of [first, last].
func cut(first, last, n int64) int64 {
	if last-first >= n {
		return first + n - 1
	}
	return last
}

// idOf is the ID of an entry that is known to exist, or have existed; zero when it is not known.
func (l *log) idOf(offset int64) (ID, error) {
	id, _, _, err := l.idAt(offset)
	return id, err
}

// idFloor is the ID of the last entry at or below an offset: the ID that a cursor at this offset has. Zero when
// there is none; the stream's last ID at or beyond the end.
func (l *log) idFloor(offset int64) (ID, error) {
	if offset >= l.row.Next-1 && l.row.Next > 0 {
		return l.row.LastID, nil
	}
	if offset < 0 {
		return ID{}, nil
	}
	if id, known, _, err := l.idAt(offset); err != nil || known {
		return id, err
	}
	r, err := l.rangeReader(0, offset, 1, true)
	if err != nil {
		return ID{}, err
	}
	defer r.Close()
	run, ok, err := r.Next()
	if err != nil || !ok {
		return ID{}, err
	}
	id, _ := run.Block.IDAt(run.To)
	return id, nil
}

// pendingFrom is an offset that parts the PEL at an ID: what is pending below has smaller IDs, what is
// pending from there on has not.
func (gr *group) pendingFrom(id ID) (int64, error) {
	s := gr.stream
	offset, _, _, err := s.offsetOf(id)
	if err != nil {
		return 0, err
	}
	low, ok := gr.pel.min()
	if !ok || id == (ID{}) {
		if id == (ID{}) {
			offset = 0
		}
		return offset, nil
	}
	if s.row.Ghosts > 0 && low < offset {
		// A deleted block leaves its pending entries as ghosts, and offsetOf finds them by their very ID only.
		ghost, _, ok, err := s.ghostOf(id)
		if err != nil {
			return 0, err
		}
		if ok {
			offset = min(offset, ghost)
		}
	}
	low, edge := max(low, s.row.Swept), min(offset, s.row.Start)
	if low >= edge {
		return offset, nil
	}
	// Trimmed entries are pending whose blocks are still there: offsetOf does not look below the log start.
	runs, err := s.idRuns(low, edge-1)
	if err != nil {
		return 0, err
	}
	for _, r := range runs {
		for i := range r.Count {
			if !r.At(i).Less(id) {
				return r.Offset + int64(i), nil
			}
		}
	}
	return offset, nil
}

// PendingSummary is XPENDING's short form.
func (g Group) PendingSummary() (PendingSummary, error) {
	gr, err := g.lock(true)
	if err != nil {
		return PendingSummary{}, err
	}
	st := gr.stream
	defer st.shard.mu.Unlock()
	out := PendingSummary{Count: gr.pel.count}
	low, ok := gr.pel.min()
	if !ok {
		return out, nil
	}
	high, _ := gr.pel.max()
	if out.Min, err = st.idOf(low); err != nil {
		return out, err
	}
	if out.Max, err = st.idOf(high); err != nil {
		return out, err
	}
	for _, c := range gr.sortedConsumers() {
		if c.pending > 0 {
			out.Consumers = append(out.Consumers, ConsumerPending{c.name, c.pending})
		}
	}
	return out, nil
}

// Pending is XPENDING's long form: rows in ID order, gone entries included. A released row has no consumer, an Idle of
// -1, and passes every MinIdle. Count <= 0, or a consumer that is not there: nothing.
func (g Group) Pending(a PendingArgs) ([]HeldDetail, error) {
	gr, err := g.lock(true)
	if err != nil {
		return nil, err
	}
	defer gr.stream.shard.mu.Unlock()
	var only *consumer
	if a.Consumer != nil {
		if only = gr.consumers[*a.Consumer]; only == nil {
			return nil, nil
		}
	}
	if a.Count <= 0 || a.To.Less(a.From) {
		return nil, nil
	}
	from, err := gr.pendingFrom(a.From)
	if err != nil {
		return nil, err
	}
	to := int64(maxOffset)
	if next, ok := a.To.Next(); ok {
		if to, err = gr.pendingFrom(next); err != nil {
			return nil, err
		}
		to--
	}
	var spans []pelSpan
	left := a.Count
	gr.pel.each(from, to, func(s pelSpan) bool {
		if only != nil && s.owner != only || a.MinIdle > 0 && s.owner != nil && g.t.now-s.time < a.MinIdle {
			return true
		}
		s.last = cut(s.first, s.last, left)
		left -= s.size()
		spans = append(spans, s)
		return left > 0
	})
	return gr.stream.details(spans, g.t.now)
}

// details spells spans of the PEL out, entry by entry.
func (l *log) details(spans []pelSpan, now int64) ([]HeldDetail, error) {
	var out []HeldDetail
	for i := range spans {
		span := &spans[i]
		runs, err := l.idRuns(span.first, span.last)
		if err != nil {
			return nil, err
		}
		d := HeldDetail{Idle: -1, Count: span.count}
		if span.owner != nil {
			d.Consumer, d.Idle = span.owner.name, max(0, now-span.time)
		}
		for _, r := range runs {
			out = appendDetails(out, d, r)
		}
	}
	return out, nil
}

func appendDetails(out []HeldDetail, d HeldDetail, r storage.IDRun) []HeldDetail {
	for i := range r.Count {
		d.ID, d.Offset = r.At(i), r.Offset+int64(i)
		out = append(out, d)
	}
	return out
}
