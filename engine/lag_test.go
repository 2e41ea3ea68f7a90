package engine

import (
	"math/rand/v2"
	"testing"
)

// stepByStep is Redis's way of counting: entry by entry.
func stepByStep(c counters, cursor ID, read int64, ids []ID) int64 {
	for _, id := range ids {
		if read >= 0 && !cursor.Less(c.first) && !c.tombstones(cursor) {
			read++
		} else if c.added > 0 {
			read = c.estimate(id)
		}
		cursor = id
	}
	return read
}

// TestEntriesReadInOneStepIsEntryByEntry: what a delivery of many entries makes of
// entries-read is what delivering them one by one would have.
func TestEntriesReadInOneStepIsEntryByEntry(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	for range 200_000 {
		var ids []ID
		ms := uint64(rnd.IntN(3))
		for range 1 + rnd.IntN(5) {
			ms += 1 + uint64(rnd.IntN(3))
			ids = append(ids, ID{MS: ms})
		}
		c := counters{length: int64(len(ids)), first: ids[0], last: ids[len(ids)-1]}
		if rnd.IntN(3) == 0 {
			c.last.MS += uint64(rnd.IntN(2))
		}
		c.added = c.length + rnd.Int64N(4)
		if rnd.IntN(2) == 0 {
			c.maxDeleted = ID{MS: uint64(rnd.IntN(int(ms) + 3))}
		}
		from := rnd.IntN(len(ids))
		to := from + 1 + rnd.IntN(len(ids)-from)
		cursor := ID{}
		if from > 0 {
			cursor = ids[from-1]
		} else if rnd.IntN(2) == 0 {
			cursor.Seq = uint64(rnd.IntN(3))
		}
		read := rnd.Int64N(4) - 1
		d := delivery{counters: c, cursor: cursor, read: read, first: ids[from], last: ids[to-1], n: int64(to - from)}
		if got, want := d.entriesRead(), stepByStep(c, cursor, read, ids[from:to]); got != want {
			t.Fatalf("%+v\ncursor %v read %d deliver %v: %d, entry by entry %d", c, cursor, read, ids[from:to], got, want)
		}
	}
}

// TestLagRules walks the five rules of Redis 8.
func TestLagRules(t *testing.T) {
	id := func(ms uint64) ID { return ID{MS: ms} }
	for _, c := range []struct {
		name string
		counters
		cursor ID
		read   int64
		want   int64
	}{
		{"never used", counters{}, id(0), -1, 0},
		{"emptied", counters{length: 0, added: 5, last: id(5)}, id(2), -1, 0},
		{"cursor before the first, nothing deleted after", counters{length: 3, added: 5, first: id(3), last: id(5)}, id(0), -1, 3},
		{"counter known, no tombstone ahead", counters{length: 5, added: 5, first: id(1), last: id(5)}, id(2), 2, 3},
		{"tombstone ahead", counters{length: 4, added: 5, first: id(1), last: id(5), maxDeleted: id(4)}, id(2), 2, -1},
		{"tombstone behind", counters{length: 4, added: 5, first: id(1), last: id(5), maxDeleted: id(2)}, id(3), 3, 2},
		{"all read", counters{length: 4, added: 5, first: id(1), last: id(5), maxDeleted: id(2)}, id(5), -1, 0},
		{"in the middle, counter unknown", counters{length: 5, added: 5, first: id(1), last: id(5)}, id(3), -1, -1},
	} {
		if got := shownLag(c.lag(c.cursor, c.read)); got != c.want {
			t.Errorf("%s: lag %d, want %d", c.name, got, c.want)
		}
	}
}

// shownLag is a lag as tests write it: -1 unknown.
func shownLag(n int64) int64 {
	if n == UnknownLag {
		return -1
	}
	return n
}
