package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A spot is that of the first block key at or after any bytes: what a sorted list of keys says, too.
func TestABoundFallsBetweenTheSameBlocks(t *testing.T) {
	const shard = 3
	rng := rand.New(rand.NewPCG(1, 2))
	var blocks [][]byte
	for _, stream := range []StreamNo{shard<<48 | 1, shard<<48 | 2, shard<<48 | 0xFFFF} {
		for _, base := range []int64{-1 << 63, -1, 0, 1, 63, 64, 255, 256, 1<<63 - 1} {
			blocks = append(blocks, BlockKey(stream, base))
		}
	}
	bounds := append([][]byte{}, blocks...)
	for _, key := range blocks {
		bounds = append(bounds, MarksKey(StreamNo(binary.BigEndian.Uint64(key[3:])), unordered(blockSpot(key).base)))
		for range 20 {
			b := bytes.Clone(key[:rng.IntN(len(key)+1)])
			if len(b) > 0 && rng.IntN(2) == 0 {
				b[len(b)-1] += byte(rng.IntN(3)) - 1
			}
			bounds = append(bounds, b, append(bytes.Clone(b), byte(rng.Uint32())))
		}
	}
	for _, n := range []ShardID{shard - 1, shard, shard + 1} {
		lower, upper := ShardRange(n)
		bounds = append(bounds, lower, upper, PositionKey(n), NextStreamKey(n), rec(n, "x"))
	}
	for _, bound := range bounds {
		at := spotAt(shard, bound)
		for _, key := range blocks {
			if before := bytes.Compare(key, bound) < 0; before != blockSpot(key).less(at) {
				t.Errorf("bound %x: spot %x, block %x before it: %v", bound, at, key, before)
			}
		}
	}
}

// change is a random change of a pack, and what it does to a map.
func randomChange(rng *rand.Rand) ([]byte, func(map[int]string)) {
	mask, entries := uint64(0), map[int]string{}
	if rng.IntN(2) == 0 {
		mask = rng.Uint64() & rng.Uint64()
	}
	for range rng.IntN(6) {
		entries[rng.IntN(packSpan)] = fmt.Sprint(rng.Uint32())
	}
	var lows []int
	for low := range entries {
		lows = append(lows, low)
	}
	slices.Sort(lows)
	b := appendPackHead(nil, mask)
	for _, low := range lows {
		b = appendMember(b, low, []byte(entries[low]))
	}
	return b, func(m map[int]string) {
		for low := range packSpan {
			if mask>>low&1 != 0 {
				delete(m, low)
			}
			if v, ok := entries[low]; ok {
				m[low] = v
			}
		}
	}
}

// merged merges changes, oldest first, from one end or the other.
func merged(t *testing.T, changes [][]byte, newer, base bool) []byte {
	t.Helper()
	first, rest := changes[len(changes)-1], slices.Clone(changes[:len(changes)-1])
	if newer {
		first, rest = changes[0], changes[1:]
	} else {
		slices.Reverse(rest)
	}
	m, err := packMerger.Merge(nil, bytes.Clone(first))
	for _, c := range rest {
		c := bytes.Clone(c)
		if newer {
			err = m.MergeNewer(c)
		} else {
			err = m.MergeOlder(c)
		}
		clear(c) // Pebble's own
	}
	if err != nil {
		t.Fatal(err)
	}
	value, closer, err := m.Finish(base)
	if err != nil {
		t.Fatal(err)
	}
	value = bytes.Clone(value)
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	return value
}

// However Pebble groups the changes of a pack, and twice as well as once: the last word on each block stands.
func TestChangesMergeInAnyGrouping(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var changes [][]byte
		want := map[int]string{}
		for range 1 + rng.IntN(6) {
			c, do := randomChange(rng)
			changes = append(changes, c)
			do(want)
		}
		from := rng.IntN(len(changes))
		changes = append(changes, changes[from:]...) // as a replay does
		for len(changes) > 1 && rng.IntN(4) > 0 {
			i := rng.IntN(len(changes) - 1)
			j := i + 2 + rng.IntN(len(changes)-i-1)
			one := merged(t, changes[i:j], rng.IntN(2) == 0, i == 0 && rng.IntN(2) == 0)
			changes = append(append(slices.Clone(changes[:i]), one), changes[j:]...)
		}
		members, mask, err := parsePack(nil, merged(t, changes, rng.IntN(2) == 0, true))
		if err != nil || len(members) != len(want) || mask != 0 {
			t.Fatalf("%d blocks of %d, mask %x, %v", len(members), len(want), mask, err)
		}
		for _, m := range members {
			if want[m.low] != string(m.value) {
				t.Fatalf("block %d is %s, want %s", m.low, m.value, want[m.low])
			}
		}
	}
}

func FuzzParsePack(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 8 {
		c, _ := randomChange(rng)
		f.Add(c)
	}
	f.Add([]byte{packPlain, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F})
	f.Fuzz(func(t *testing.T, data []byte) {
		members, mask, err := parsePack(nil, data)
		if err != nil {
			return
		}
		b := appendPackHead(nil, mask)
		for _, m := range members {
			b = appendMember(b, m.low, m.value)
		}
		again, mask2, err := parsePack(nil, b)
		if err != nil || mask2 != mask || len(again) != len(members) {
			t.Fatalf("%x became %x: %v", data, b, err)
		}
		for _, m := range members {
			if v, ok, err := findMember(data, m.low); !ok || err != nil || !bytes.Equal(v, m.value) {
				t.Fatalf("block %d of %x: %x, %v, %v", m.low, data, v, ok, err)
			}
		}
	})
}

// Single records become a row per 64 offsets, whatever the number of commits, and a queue that is emptied leaves none.
func TestSingleBlocksShareRows(t *testing.T) {
	s := openMemPebble(t, vfs.NewMem()).(*pebbleStore)
	defer s.Close(ctx)
	w := lead(t, s, 1)
	const n = 10 * packSpan
	for i := range int64(n) {
		change(t, w, func(b Batch) { b.Set(BlockKey(testStream, i), fmt.Appendf(nil, "block %d", i)) })
	}
	packs := func() (rows, blocks int) {
		t.Helper()
		sh := s.shards[1]
		if err := s.drain(sh); err != nil {
			t.Fatal(err)
		}
		if err := s.space.eachPack(sh, func(_ spot, members []packMember) error {
			rows, blocks = rows+1, blocks+len(members)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return rows, blocks
	}
	if rows, blocks := packs(); rows != 10 || blocks != n {
		t.Errorf("%d rows for %d blocks", rows, blocks)
	}
	// A pack that has become a base, as compactions make it, and whose blocks go one by one.
	if err := s.db.Compact(ctx, []byte{0}, []byte{0xFF, 0xFF, 0xFF}, false); err != nil {
		t.Fatal(err)
	}
	for i := range int64(n) {
		change(t, w, func(b Batch) { b.Delete(BlockKey(testStream, i)) })
	}
	if err := s.space.collect(); err != nil {
		t.Fatal(err)
	}
	if rows, blocks := packs(); rows != 0 || blocks != 0 {
		t.Errorf("%d rows with %d blocks stay of a queue that was emptied", rows, blocks)
	}
}

// What is pending keeps its segment, until the janitor comes; then the floor passes.
func TestTheFloorWaitsForWhatIsPending(t *testing.T) {
	s := openTiny(t, vfs.NewMem())
	defer s.Close(ctx)
	s.space.stop() // the test is the janitor
	s.space.quit, s.space.ended = make(chan struct{}), make(chan struct{})
	close(s.space.ended)
	w, other := lead(t, s, 1), lead(t, s, 2)
	change(t, w, func(b Batch) { b.Set(RecordKey(1, 1, []byte("first")), []byte("the position row comes with it")) })
	change(t, w, func(b Batch) { b.Set(BlockKey(testStream, 1), []byte("pending")) })
	before := s.wal.floor()
	for s.wal.active.number < before+3 {
		put(t, other, 2, "k", string(make([]byte, 1000)))
	}
	if floor := s.wal.floor(); floor != before {
		t.Fatalf("the floor passed a pending block: %d, %d before", floor, before)
	}
	if err := s.space.tend(); err != nil {
		t.Fatal(err)
	}
	if floor := s.wal.floor(); floor != s.wal.active.number {
		t.Fatalf("the floor stands at %d of %d", floor, s.wal.active.number)
	}
	if held := s.shards[1].pending.held; len(held) > 0 || s.shards[1].pending.size() > 0 {
		t.Fatalf("still pending: %d bytes, %d segments", s.shards[1].pending.size(), len(held))
	}
}

// A commit that finds its segment sealed by the time its rows come to Pebble keeps none of them back: who sealed it, and
// waits for it to become quiet, has drained the shard already.
func TestWhatComesLateIsNotPending(t *testing.T) {
	s := openMemPebble(t, vfs.NewMem()).(*pebbleStore)
	defer s.Close(ctx)
	w := lead(t, s, 1)
	change(t, w, func(b Batch) { b.Set(RecordKey(1, 1, []byte("first")), nil) })
	b := w.Begin().(*pebbleBatch)
	b.Set(BlockKey(testStream, 1), []byte("late"))
	b.addPosition(Pos{1, 2})
	g, err := s.wal.append(&write{rows: b.ops.Repr(), places: b.places})
	if err != nil {
		t.Fatal(err)
	}
	number, err := s.wal.seal()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.drain(s.shards...), s.handOver(b, g)); err != nil {
		t.Fatal(err)
	}
	s.wal.applied(g)
	if floor := s.wal.floor(); floor != number {
		t.Errorf("the floor stays at %d of %d", floor, number)
	}
}

// What a position row counts is in Pebble with it: a table that has the row, in a store whose log is gone, is not short of
// blocks that were promised.
func TestAPositionRowIsNotAheadOfItsBlocks(t *testing.T) {
	for name, also := range map[string]func(s *pebbleStore) error{
		"the first batch's": func(*pebbleStore) error { return nil },
		"a floor's":         func(s *pebbleStore) error { return s.space.raiseFloor(s.wal.active.number + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := openMemPebble(t, fs).(*pebbleStore)
			w := lead(t, s, 1)
			change(t, w, func(b Batch) { b.Set(BlockKey(testStream, 0), []byte("block")) })
			if name != "the first batch's" {
				change(t, w, func(b Batch) { b.Set(BlockKey(testStream, 1), []byte("block")) })
			}
			if err := errors.Join(also(s), s.db.Flush(), s.Close(ctx)); err != nil {
				t.Fatal(err)
			}
			names, _ := fs.List("data")
			for _, file := range names {
				if _, _, ok := parseSegmentName(file); ok {
					fs.Remove(fs.PathJoin("data", file))
				}
			}
			again, err := OpenPebble("data", Options{fs: &linkAlone{FS: fs}})
			if err != nil {
				return // it says that something is lost
			}
			defer again.Close(ctx)
			sh := again.(*pebbleStore).shards[1]
			v, err := sh.View()
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			for i := range int64(sh.seq.Load()) {
				if _, release, err := v.Get(BlockKey(testStream, i)); err != nil {
					t.Errorf("the store stands at %d, and block %d is not there: %v", sh.seq.Load(), i, err)
				} else {
					release()
				}
			}
		})
	}
}
