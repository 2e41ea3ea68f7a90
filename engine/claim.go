package engine

import "math"

// Claim: what changes the owner of pending entries (dictionary 5, rules 5 and 6).
//
//	XCLAIM       Claim      by ID; may make rows (FORCE)
//	XAUTOCLAIM   AutoClaim  by idle time, in ID order, from a cursor
//	a rebalance  ClaimAll   everything, without counting a delivery

// Claim is XCLAIM: what was claimed, in the order of the IDs. An entry that is gone from the stream is dropped from the PEL
// instead. The consumer is made when it is missing. Close the reader.
func (g Group) Claim(a ClaimArgs) (*HeldReader, error) {
	gr, err := g.lockAhead(true, a.IDs...)
	if err != nil {
		return nil, err
	}
	st := gr.stream
	defer st.unlock()
	taken, err := g.claim(gr, &a)
	if err != nil {
		return nil, err
	}
	return st.heldReader(taken, nil)
}

// ClaimOffsets is Claim that tells the offsets of what was claimed, in the order of the IDs, as ranges: for who claims
// of several streams before he reads (Turn.Held).
func (g Group) ClaimOffsets(a ClaimArgs) ([][2]int64, error) {
	gr, err := g.lockAhead(true, a.IDs...)
	if err != nil {
		return nil, err
	}
	defer gr.stream.unlock()
	return g.claim(gr, &a)
}

// claim is Claim under the lock: the offsets of what was claimed.
func (g Group) claim(gr *group, a *ClaimArgs) ([][2]int64, error) {
	st := gr.stream
	if err := gr.catchUp(); err != nil {
		return nil, err
	}
	if a.LastID != nil && gr.row.LastID.Less(*a.LastID) {
		if _, err := g.write(gr); err != nil {
			return nil, err
		}
		if err := gr.putID(*a.LastID); err != nil {
			return nil, err
		}
		gr.stale()
	}
	c, err := g.touch(gr, a.Consumer, a.Kind)
	if err != nil {
		return nil, err
	}
	var taken [][2]int64
	var dropped int64
	var r *round
	for _, id := range a.IDs {
		offset, exact, alive, err := st.heldAt(id)
		if err != nil {
			return nil, err
		}
		row, pending := gr.pel.at(offset)
		pending = pending && exact
		if !alive && !pending || alive && !gr.claimable(row, pending, a, g.t.now) {
			continue
		}
		if r == nil {
			if r, err = g.write(gr); err != nil {
				return nil, err
			}
		}
		if !alive {
			dropped += gr.pel.remove(offset, offset)
			continue
		}
		if !pending {
			row.count = 1 // made by FORCE as if it had been delivered once
		}
		gr.pel.set(offset, offset, claimedRow(c, row.count, a, g.t.now))
		c.active = g.t.now
		taken = addSpan(taken, offset, offset)
	}
	return taken, gr.acked(r, dropped)
}

// claimable says whether a living entry is claimed: one that is pending and has been idle long enough, or is
// nobody's, or with FORCE one that is not pending.
func (gr *group) claimable(row pelRow, pending bool, a *ClaimArgs, now int64) bool {
	if !pending {
		return a.Force
	}
	return row.owner == nil || a.MinIdle <= 0 || now-row.time >= a.MinIdle
}

// claimedRow is the row of an entry after XCLAIM.
func claimedRow(c *consumer, count uint64, a *ClaimArgs, now int64) pelRow {
	row := pelRow{owner: c, time: now, count: count}
	if a.Time >= 0 && a.Time <= now {
		row.time = a.Time
	}
	switch {
	case a.RetryCount != nil:
		row.count = min(*a.RetryCount, maxCount)
	case !a.JustID:
		row.count = oneMore(count)
	}
	return row
}

// AutoClaim is XAUTOCLAIM. Entries that are gone from the stream are dropped from the PEL, told, and count against Count.
// Close AutoClaimed.Held.
func (g Group) AutoClaim(a AutoClaimArgs) (AutoClaimed, error) {
	gr, err := g.lockAhead(true, a.Start)
	if err != nil {
		return AutoClaimed{}, err
	}
	st := gr.stream
	defer st.unlock()
	c, err := g.touch(gr, a.Consumer, a.Kind)
	if err != nil {
		return AutoClaimed{}, err
	}
	from, err := gr.pendingFrom(a.Start)
	if err != nil {
		return AutoClaimed{}, err
	}
	found, err := gr.idleFrom(from, &a, g.t.now)
	if err != nil {
		return AutoClaimed{}, err
	}
	var out AutoClaimed
	for _, d := range found.dead {
		if out.Deleted, err = st.appendGone(out.Deleted, d[0], d[1]); err != nil {
			return AutoClaimed{}, err
		}
	}
	if next, ok := gr.pel.next(found.next); ok {
		if out.Next, err = st.idOf(next); err != nil {
			return AutoClaimed{}, err
		}
	}
	if err := g.claimFound(gr, c, &a, &found); err != nil {
		return AutoClaimed{}, err
	}
	out.Held, err = st.heldReader(found.take, nil)
	return out, err
}

// claimFound acts on what idleFrom has found.
func (g Group) claimFound(gr *group, c *consumer, a *AutoClaimArgs, found *idleFound) error {
	if len(found.take) == 0 && len(found.dead) == 0 {
		return nil
	}
	r, err := g.write(gr)
	if err != nil {
		return err
	}
	for _, s := range found.take {
		gr.pel.change(s[0], s[1], func(p pelSpan) (pelRow, bool) {
			row := pelRow{owner: c, time: g.t.now, count: p.count}
			if !a.JustID {
				row.count = oneMore(row.count)
			}
			return row, true
		})
		c.active = g.t.now
	}
	var dropped int64
	for _, s := range found.dead {
		dropped += gr.pel.remove(s[0], s[1])
	}
	return gr.acked(r, dropped)
}

// idleFound is what a scan for idle entries came upon.
type idleFound struct {
	take [][2]int64 // living, idle long enough
	dead [][2]int64 // gone from the stream
	next int64      // first offset that was not looked at
}

// scanPerCount is how many pending entries XAUTOCLAIM looks at for each that it may claim.
const scanPerCount = 10

// idleFrom looks at pending entries from an offset on, at most 10 for each of a.Count, until a.Count are found.
func (gr *group) idleFrom(from int64, a *AutoClaimArgs, now int64) (idleFound, error) {
	out := idleFound{next: from}
	count, attempts := a.Count, int64(math.MaxInt64)
	if count <= attempts/scanPerCount {
		attempts = count * scanPerCount
	}
	var err error
	gr.pel.each(from, maxOffset, func(s pelSpan) bool {
		s.last = cut(s.first, s.last, attempts)
		idle := s.owner == nil || a.MinIdle <= 0 || now-s.time >= a.MinIdle
		most := attempts // entries that may have to be told apart
		if idle {
			most = min(most, count)
		}
		var living [][2]int64
		if living, err = gr.stream.livingRanges(s.first, s.last, most); err != nil {
			return false
		}
		look := func(first, last int64, dead bool) bool {
			if dead || idle {
				last = cut(first, last, count)
				count -= last - first + 1
			}
			if dead {
				out.dead = addSpan(out.dead, first, last)
			} else if idle {
				out.take = addSpan(out.take, first, last)
			}
			attempts -= last - first + 1
			out.next = last + 1
			return count > 0 && attempts > 0
		}
		for _, l := range living {
			if s.first < l[0] && !look(s.first, l[0]-1, true) || !look(l[0], l[1], false) {
				return false
			}
			s.first = l[1] + 1
		}
		return s.first > s.last || look(s.first, s.last, true)
	})
	return out, err
}

// ClaimAll moves all that is pending, whoever holds it, to a Kafka member without raising counts (dictionary 5.6), makes the
// member's consumer, and drops the consumers of other Kafka members: they hold nothing any more.
func (g Group) ClaimAll(consumer string, kind ConsumerKind) error {
	gr, err := g.lock(false)
	if err != nil {
		return err
	}
	defer gr.stream.shard.mu.Unlock()
	provisional := gr.provisional
	var r *round
	if !provisional { // nothing of a provisional group is written, nor its member's coming
		if r, err = g.write(gr); err != nil {
			return err
		}
	}
	c, _ := gr.consumer(consumer, kind, g.t.now)
	gr.pel.change(math.MinInt64, math.MaxInt64, func(s pelSpan) (pelRow, bool) {
		return pelRow{owner: c, time: g.t.now, count: s.count, claimed: true}, true
	})
	for _, old := range gr.consumers {
		if old != c && old.kafka() { // it holds nothing now
			if err := gr.dropConsumer(old, r); err != nil {
				return err
			}
		}
	}
	return nil
}
