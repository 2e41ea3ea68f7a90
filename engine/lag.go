package engine

// Entries-read and lag, by the rules of Redis 8 (src/t_stream.c; unchanged in meaning
// since 8.0). Both are guesses where entries were deleted, and the guesses are what
// clients of Redis see, so they are followed to the letter.

import "math"

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

// UnknownLag is a lag that cannot be told. A known one may be negative, as in Redis: an entries-read that was set too
// high goes on from there.
const UnknownLag = math.MinInt64

// lag is how many entries a group has still to read, or UnknownLag.
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
	return UnknownLag
}

// delivery is a run of n living entries that a group reads on from its cursor.
type delivery struct {
	counters
	cursor      ID
	read        int64 // entries-read before
	first, last ID    // of what is delivered; first may be zero when steady
	n           int64
}

// steady says that the counter goes on by one with each entry, whatever their IDs are: there is no tombstone
// behind the cursor, hence none behind an entry after it.
func (d *delivery) steady() bool {
	return d.read >= 0 && !d.cursor.Less(d.counters.first) && !d.tombstones(d.cursor)
}

// delivery describes what is about to be delivered to the group.
func (gr *group) delivery(living [][2]int64) (d delivery, err error) {
	if d.counters, err = gr.stream.counters(); err != nil {
		return d, err
	}
	d.cursor, d.read = gr.row.LastID, gr.row.EntriesRead
	for _, r := range living {
		d.n += r[1] - r[0] + 1
	}
	if d.last, err = gr.stream.idOf(living[len(living)-1][1]); err != nil {
		return d, err
	}
	switch {
	case d.n == 1:
		d.first = d.last
	case !d.steady():
		d.first, err = gr.stream.idOf(living[0][0])
	}
	return d, err
}

// entriesRead is the counter after the delivery. Redis steps entry by entry: a known
// counter whose cursor has no tombstone behind it is raised by one, anything else is
// estimated from the entry. Behind the first entry only one estimate is ever known (see
// estimate): that of the last entry of the stream. So the first and the last decide.
func (d *delivery) entriesRead() int64 {
	if d.steady() {
		return d.read + d.n
	}
	read := d.estimate(d.first)
	switch {
	case d.n == 1:
		return read
	case read >= 0 && !d.tombstones(d.first):
		return read + d.n - 1
	}
	return d.estimate(d.last)
}
