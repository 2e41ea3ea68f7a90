package engine

// Entries-read and lag, by the rules of Redis 8 (src/t_stream.c; unchanged in meaning
// since 8.0). Both are guesses where entries were deleted, and the guesses are what
// clients of Redis see, so they are followed to the letter.

// counters is what the rules look at.
type counters struct {
	length     int64
	added      int64
	first      ID // first living entry; zero when empty
	last       ID // last-generated
	maxDeleted ID
}

func (s *stream) counters() (counters, error) {
	_, first, _, err := s.firstEntry()
	return counters{s.row.Length, s.entriesAdded(), first, s.row.LastID, s.row.MaxDeleted}, err
}

// tombstones says whether an entry at or after an ID may have been deleted.
func (c *counters) tombstones(from ID) bool {
	return c.length > 0 && c.maxDeleted != (ID{}) && !c.maxDeleted.Less(from)
}

// estimate is how many entries had been added up to an ID; -1 unknown.
func (c *counters) estimate(id ID) int64 {
	switch {
	case c.added == 0:
		return 0
	case c.length == 0 && !c.last.Less(id):
		return c.added
	case id != (ID{}) && id.Less(c.maxDeleted):
		return -1
	case id == c.last:
		return c.added
	case c.last.Less(id):
		return -1
	case c.maxDeleted != (ID{}) && !c.maxDeleted.Less(c.first):
		return -1
	case id.Less(c.first):
		return c.added - c.length
	case id == c.first:
		return c.added - c.length + 1
	}
	return -1
}

// lag is how many entries a group has still to read; -1 unknown.
func (c *counters) lag(lastDelivered ID, entriesRead int64) int64 {
	switch {
	case c.added == 0 || c.length == 0:
		return 0
	case lastDelivered.Less(c.first) && c.maxDeleted.Less(c.first):
		return c.length
	case entriesRead >= 0 && !c.tombstones(lastDelivered):
		return c.added - entriesRead
	}
	if n := c.estimate(lastDelivered); n >= 0 {
		return c.added - n
	}
	return -1
}

// delivery is a run of living entries that a group reads on from its cursor: the first, the
// last and how many.
type delivery struct {
	counters
	cursor      ID
	read        int64
	first, last ID
	n           int64
}

func (gr *group) delivery(living [][2]int64) (d delivery, err error) {
	if d.counters, err = gr.stream.counters(); err != nil {
		return d, err
	}
	d.cursor, d.read = gr.row.LastID, gr.row.EntriesRead
	for _, r := range living {
		d.n += r[1] - r[0] + 1
	}
	if d.first, err = gr.stream.idOf(living[0][0]); err != nil {
		return d, err
	}
	d.last, err = gr.stream.idOf(living[len(living)-1][1])
	return d, err
}

// entriesRead is the counter after the delivery. Redis steps entry by entry: a known
// counter whose cursor has no tombstone behind it is raised by one, anything else is
// estimated from the entry. Behind the first entry only two estimates are ever
// known (see estimate): of the last entry of the stream, and none other. So the first
// and the last entry decide.
func (d *delivery) entriesRead() int64 {
	read := d.read
	if read >= 0 && !d.cursor.Less(d.counters.first) && !d.tombstones(d.cursor) {
		read++
	} else {
		read = d.estimate(d.first)
	}
	switch {
	case d.n == 1:
		return read
	case read >= 0 && !d.tombstones(d.first):
		return read + d.n - 1
	}
	return d.estimate(d.last)
}
