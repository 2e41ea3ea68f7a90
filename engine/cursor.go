package engine

// XGROUP: groups come and go, their cursors are put, their consumers come and go (dictionary 5, rule 4).

// Create makes a group. ErrGroupExists.
func (g Group) Create(at GroupStart) error {
	st, err := g.t.lockAhead(g.no, func() (*stream, error) { return g.t.read(g.no) }, at.lookup()...)
	if err != nil {
		return err
	}
	defer st.unlock()
	if st.groups[g.name] != nil {
		return ErrGroupExists
	}
	if _, err := g.open(st); err != nil {
		return err
	}
	gr := st.newGroup(g.name)
	gr.mustWrite()
	return gr.start(at)
}

// SetID moves last_delivered (XGROUP SETID): pending entries stay, and one that is delivered again changes owner and
// restarts its count. Parked readers are not woken, as in Redis.
func (g Group) SetID(at GroupStart) error {
	gr, err := g.lockAhead(false, at.lookup()...)
	if err != nil {
		return err
	}
	defer gr.stream.unlock()
	if _, err := g.write(gr); err != nil {
		return err
	}
	gr.stale()
	return gr.start(at)
}

// lookup is the ID that start looks up, if it does.
func (at GroupStart) lookup() []ID {
	next, ok := at.ID.Next()
	if at.Last || !ok {
		return nil
	}
	return []ID{next}
}

// start puts the cursor where XGROUP says.
func (gr *group) start(at GroupStart) error {
	id, row := at.ID, &gr.stream.row
	if at.Last {
		id = row.LastID
	}
	if err := gr.putID(id); err != nil {
		return err
	}
	gr.row.EntriesRead = max(-1, min(at.EntriesRead, gr.stream.entriesAdded()))
	return nil
}

// Destroy drops a group with all that is pending; false when there is none. Readers that are parked there hear of it.
func (g Group) Destroy() (bool, error) {
	gr, err := g.lock(false)
	if err == ErrNoGroup {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	st := gr.stream
	defer st.shard.mu.Unlock()
	var r *round
	if !gr.provisional {
		if r, err = g.open(st); err != nil {
			return false, err
		}
	}
	if err := st.dropGroup(gr, r); err != nil {
		return false, err
	}
	g.t.touch(st)
	if r == nil {
		return true, nil
	}
	return true, st.releaseGhosts(r)
}

// ConsumerCreate makes a consumer; false when it is there.
func (g Group) ConsumerCreate(consumer string, kind ConsumerKind) (bool, error) {
	gr, err := g.lock(true)
	if err != nil {
		return false, err
	}
	defer gr.stream.shard.mu.Unlock()
	if gr.consumers[consumer] != nil {
		return false, nil
	}
	if _, err := g.write(gr); err != nil {
		return false, err
	}
	gr.consumer(consumer, kind, g.t.now)
	return true, nil
}

// ConsumerDelete drops a consumer and what is pending under its name, which is neither pending nor delivered again
// then; returns how many.
func (g Group) ConsumerDelete(consumer string) (int64, error) {
	gr, err := g.lock(true)
	if err != nil {
		return 0, err
	}
	defer gr.stream.shard.mu.Unlock()
	c := gr.consumers[consumer]
	if c == nil {
		return 0, nil
	}
	r, err := g.write(gr)
	if err != nil {
		return 0, err
	}
	var n int64
	for _, s := range gr.pel.spans(0, maxOffset) {
		if s.owner == c {
			n += gr.pel.remove(s.first, s.last)
		}
	}
	if err := gr.dropConsumer(c, r); err != nil {
		return n, err
	}
	return n, gr.acked(r, n)
}

// ConsumerTouch creates the consumer if missing and sets its seen time (every XREADGROUP, XCLAIM, XAUTOCLAIM call
// since 7.2). The time alone is not worth a write: it goes with the group's next change.
func (g Group) ConsumerTouch(consumer string, kind ConsumerKind) error {
	gr, err := g.lock(false)
	if err != nil {
		return err
	}
	defer gr.stream.shard.mu.Unlock()
	_, err = g.touch(gr, consumer, kind)
	return err
}
