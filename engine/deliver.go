package engine

// Deliver: what puts entries into the PEL, or hands out again what is there (dictionary 5, rules 1 and 7).
//
//	XREADGROUP >           Deliver         written before the reply
//	XREADGROUP <id>        History         written before the reply: counts rise
//	Fetch by the owner     DeliverFetched  in memory, written with the next change
//
// Left out: weir.takeover.idle.ms, XREADGROUP CLAIM, share acquisition (limits, locks).

// Deliver hands out new entries (XREADGROUP `>`): nil Reader when there are none, or while a Kafka member
// owns the partition (dictionary 5.7). The consumer is made when it is missing. Close the Reader.
func (g Group) Deliver(consumer string, a DeliverArgs) (*Reader, error) {
	gr, err := g.lock(true)
	if err != nil {
		return nil, err
	}
	st := gr.stream
	defer st.shard.mu.Unlock()
	if _, err := g.touch(gr, consumer, a.Kind); err != nil {
		return nil, err
	}
	if gr.reader != "" {
		return nil, nil
	}
	if err := gr.settle(); err != nil {
		return nil, err
	}
	from := gr.row.LastOffset + 1
	living, err := st.livingRanges(from, st.row.Next-1, a.Count)
	if err != nil || len(living) == 0 {
		return nil, err
	}
	reader, err := st.livingReader(living)
	if err != nil {
		return nil, err
	}
	if err := g.deliver(gr, consumer, a, living); err != nil {
		reader.Close()
		return nil, err
	}
	return reader, nil
}

// livingReader makes a reader of all that lives between the ends of living, which is what livingRanges found there:
// nothing need be counted again.
func (s *stream) livingReader(living [][2]int64) (*Reader, error) {
	r, err := s.snapshot(living[0][0], living[len(living)-1][1], false)
	if err != nil {
		return nil, err
	}
	for _, l := range living {
		r.count += l[1] - l[0] + 1
	}
	r.left = r.count
	return r, nil
}

// deliver moves the cursor over living entries that are handed out and makes them pending.
func (g Group) deliver(gr *group, consumer string, a DeliverArgs, living [][2]int64) error {
	st, now := gr.stream, g.t.now
	d, err := gr.delivery(living)
	if err != nil {
		return err
	}
	read := d.entriesRead()
	last := living[len(living)-1][1]
	if _, err := g.write(gr); err != nil {
		return err
	}
	c := gr.consumers[consumer]
	if a.NoAck {
		gr.stale() // read is acked
	} else {
		for _, r := range living {
			gr.pel.set(r[0], r[1], pelRow{owner: c, time: now, count: 1})
		}
		c.active = now
	}
	if a.Count <= 0 || d.n < a.Count {
		last = st.row.Next - 1 // nothing lives behind it: drained means lag 0
	}
	gr.row.LastOffset, gr.row.LastID, gr.row.EntriesRead, gr.rowDirty = last, d.last, read, true
	return nil
}

// touch is what every read does to a consumer: it is made when missing, which is written, and seen now, which may wait.
func (g Group) touch(gr *group, name string, kind ConsumerKind) (*consumer, error) {
	if gr.consumers[name] == nil {
		if _, err := g.write(gr); err != nil {
			return nil, err
		}
	}
	c, _ := gr.consumer(name, kind, g.t.now)
	gr.lazy = true
	return c, nil
}

// DeliverFetched records that a Kafka member that owns the partition fetched the offsets [from, to]: kept in
// memory, written with the group's next change; nothing to wait for. Entries that are new to the group become
// pending; those that a rebalance claimed count one delivery more; others that are below
// the cursor stay as they are (acked, or somebody else's). A fetch that jumps over living entries is not
// recorded at all: the cursor would pass what nobody has read. A missing group is made, provisionally.
func (g Group) DeliverFetched(consumer string, kind ConsumerKind, from, to int64) error {
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
	to = min(to, st.row.Next-1)
	if from < 0 || from > to {
		return nil
	}
	gr := st.groups[g.name]
	if gr == nil {
		gr = st.newGroup(g.name)
		gr.provisional = true
		if err := gr.put(from - 1); err != nil {
			return err
		}
	}
	if gr.unsettled || !gr.idBehind {
		if err := gr.settle(); err != nil {
			return err
		}
	}
	fresh := gr.row.LastOffset + 1
	skipped, err := st.livingRanges(fresh, from-1, 1)
	if err != nil || len(skipped) > 0 {
		return err
	}
	living, err := st.livingRanges(max(fresh, from), to, 0)
	if err != nil {
		return err
	}
	c, _ := gr.consumer(consumer, kind, g.t.now)
	c.active, gr.lazy = g.t.now, true
	gr.pel.change(from, to, func(s pelSpan) (pelRow, bool) {
		return pelRow{owner: c, time: g.t.now, count: oneMore(s.count)}, s.claimed
	})
	for _, r := range living {
		gr.pel.set(r[0], r[1], pelRow{owner: c, time: g.t.now, count: 1})
	}
	if to >= fresh {
		gr.advance(to)
	}
	return nil
}

// maxCount is the most deliveries that are counted, Redis's LLONG_MAX.
const maxCount = 1<<63 - 1

func oneMore(count uint64) uint64 {
	if count >= maxCount {
		return maxCount
	}
	return count + 1
}

// History is XREADGROUP with an ID: the consumer's own pending entries with IDs greater than after, oldest first; living ones
// get a new time and one delivery more, those gone from the stream are told as they are. count <= 0: no limit. Close the reader.
func (g Group) History(consumer string, after ID, count int64) (*HeldReader, error) {
	next, ok := after.Next()
	gr, err := g.lockAhead(true, next)
	if err != nil {
		return nil, err
	}
	st := gr.stream
	defer st.unlock()
	c := gr.consumers[consumer]
	if c == nil || c.pending == 0 || !ok {
		return nil, nil
	}
	from, err := gr.pendingFrom(next)
	if err != nil {
		return nil, err
	}
	var spans [][2]int64
	left := count
	gr.pel.each(from, maxOffset, func(s pelSpan) bool {
		if s.owner != c {
			return true
		}
		if count > 0 {
			s.last = cut(s.first, s.last, left)
			left -= s.size()
		}
		spans = addSpan(spans, s.first, s.last)
		return count <= 0 || left > 0
	})
	living, gone, err := st.parted(spans)
	if err != nil {
		return nil, err
	}
	if len(living) > 0 {
		if _, err := g.write(gr); err != nil {
			return nil, err
		}
	}
	for _, s := range living {
		gr.pel.change(s[0], s[1], func(s pelSpan) (pelRow, bool) {
			return pelRow{owner: c, time: g.t.now, count: oneMore(s.count)}, true
		})
	}
	return st.heldReader(living, gone)
}
