package engine

import "math"

// Commit: a Kafka offset is an ack of everything below it (dictionary 5, rule 3), and
// what the cursor does when the group's Kafka members have gone (rule 7).

// Commit acks everything below an offset and follows dictionary 5.3 for the rest; it makes the group when missing.
// Afterwards Committed answers this commit to the letter, until something is acked or a cursor set.
func (g Group) Commit(a CommitArgs) error {
	sh := g.t.e.shardOf(g.no)
	if sh == nil {
		return ErrNoStream
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st, err := sh.stream(g.no)
	if err != nil {
		return err
	}
	r, err := g.open(st)
	if err != nil {
		return err
	}
	gr := st.groups[g.name]
	if gr == nil {
		gr = st.newGroup(g.name)
		if err := gr.put(a.Offset - 1); err != nil {
			return err
		}
	}
	gr.mustWrite()
	if err := gr.settle(); err != nil {
		return err
	}
	if err := g.commitAt(gr, r, a.Offset); err != nil {
		return err
	}
	row := &gr.row
	row.Committed, row.CommitFresh, row.CommitOffset, row.CommitEpoch = true, true, a.Offset, a.Epoch
	row.CommitMetadata = append([]byte(nil), a.Metadata...)
	row.CommitTime, gr.rowDirty = g.t.now, true
	return nil
}

// commitAt moves the group to a commit of n.
func (g Group) commitAt(gr *group, r *round, n int64) error {
	removed := gr.pel.remove(math.MinInt64, n-1)
	switch last := gr.row.LastOffset; {
	case n > last+1:
		if err := gr.put(n - 1); err != nil {
			return err
		}
	case n <= last:
		held, err := gr.holdsAll(n, last, nil)
		if err != nil {
			return err
		}
		if !held { // a rewind: deliver it all anew
			removed += gr.pel.remove(n, math.MaxInt64)
			if err := gr.put(n - 1); err != nil {
				return err
			}
			g.t.touch(gr.stream)
		}
	}
	return gr.acked(r, removed)
}

// holdsAll says whether every living entry of [from, to] is pending, with an owner that may, when may is given.
func (gr *group) holdsAll(from, to int64, may func(*consumer) bool) (bool, error) {
	next, all := from, true
	var err error
	alive := func(lo, hi int64) bool {
		if lo > hi || err != nil {
			return false
		}
		var living [][2]int64
		living, err = gr.stream.livingRanges(lo, hi, 1)
		return len(living) > 0
	}
	gr.pel.each(from, to, func(s pelSpan) bool {
		if may != nil && !may(s.owner) || alive(next, s.first-1) {
			all = false
		}
		next = s.last + 1
		return all && err == nil
	})
	if all && err == nil && alive(next, to) {
		all = false
	}
	return all, err
}

// Committed is the group's Kafka offset on the stream: the last explicit commit while it is fresh, else the
// watermark. False when the group is not there, or no more than fetched by its members.
func (g Group) Committed() (Committed, bool, error) {
	gr, err := g.lock(true)
	if err == ErrNoGroup {
		return Committed{}, false, nil
	}
	if err != nil {
		return Committed{}, false, err
	}
	defer gr.stream.shard.mu.Unlock()
	if gr.provisional {
		return Committed{}, false, nil
	}
	if row := &gr.row; row.CommitFresh {
		return Committed{Offset: row.CommitOffset, Epoch: row.CommitEpoch, Metadata: row.CommitMetadata}, true, nil
	}
	if err := gr.settle(); err != nil {
		return Committed{}, false, err
	}
	return Committed{Offset: gr.watermark(), Epoch: -1}, true, nil
}

// SetReader says which Kafka member owns the partition ("" nobody): while one does, Deliver finds nothing. In memory; the
// bridge says it again after a restart. The group need not be there: the word holds for when it comes.
func (g Group) SetReader(consumer string) error {
	sh := g.t.e.shardOf(g.no)
	if sh == nil {
		return ErrNoStream
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	g.t.e.groups.setReader(g.name, g.no, consumer)
	st, err := sh.stream(g.no)
	if err != nil {
		g.t.e.groups.setReader(g.name, g.no, "")
		return err
	}
	if gr := st.groups[g.name]; gr != nil && gr.reader != consumer {
		gr.reader = consumer
		if consumer == "" {
			g.t.touch(st)
		}
	}
	return nil
}

// PutBack is dictionary 5.7's end: the group's last Kafka member is gone. If all that lives between the watermark and
// the cursor is pending with Kafka members, the cursor returns to the watermark and those entries are new again;
// otherwise what they held is released. Their consumers go, and so does a provisional group. A missing group is nil.
func (g Group) PutBack() error {
	g.t.e.groups.setReader(g.name, g.no, "")
	gr, err := g.lock(false)
	if err == ErrNoGroup {
		return nil
	}
	if err != nil {
		return err
	}
	st := gr.stream
	defer st.shard.mu.Unlock()
	gr.reader = ""
	g.t.touch(st)
	if gr.provisional {
		return st.dropGroup(gr, nil)
	}
	if err := gr.settle(); err != nil {
		return err
	}
	w, last := gr.watermark(), gr.row.LastOffset
	all, err := gr.holdsAll(w, last, (*consumer).kafka)
	if err != nil {
		return err
	}
	r, err := g.write(gr)
	if err != nil {
		return err
	}
	if all && w <= last {
		gr.pel.remove(w, last)
		if err := gr.put(w - 1); err != nil {
			return err
		}
	}
	gr.pel.change(math.MinInt64, math.MaxInt64, func(s pelSpan) (pelRow, bool) {
		return pelRow{count: s.count}, s.owner.kafka()
	})
	if all {
		for _, s := range gr.pel.spans(math.MinInt64, st.row.Start-1) {
			if s.owner == nil { // trimmed: nobody can be given it again
				gr.pel.remove(s.first, s.last)
			}
		}
	}
	for _, c := range gr.consumers {
		if c.kafka() {
			if err := gr.dropConsumer(c, r); err != nil {
				return err
			}
		}
	}
	return st.releaseGhosts(r)
}
