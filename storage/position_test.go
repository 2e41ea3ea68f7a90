package storage

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// rowPosition is the seq of the position row as Pebble has it; 0 when there is none.
func rowPosition(t *testing.T, s Store, id ShardID) uint64 {
	t.Helper()
	value, closer, err := s.(*pebbleStore).db.Get(PositionKey(id))
	if err != nil {
		return 0
	}
	defer closer.Close()
	pos, err := ParsePos(value)
	if err != nil {
		t.Fatal(err)
	}
	return pos.Seq
}

// shownPosition is the seq of the position row in a view, read both ways.
func shownPosition(t *testing.T, s Store, id ShardID) uint64 {
	t.Helper()
	v, err := shardOf(t, s, id).View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	pos, err := viewPos(id, v)
	if err != nil {
		t.Fatal(err)
	}
	it, err := v.Scan(ShardRange(id))
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	value, err := []byte(nil), error(nil)
	if it.SeekGE(PositionKey(id)) && isPositionKey(it.Key()) {
		value, err = it.Value()
	}
	if !bytes.Equal(value, AppendPos(nil, pos)) || err != nil {
		t.Fatalf("got %v, walked to %x, %v", pos, value, err)
	}
	return pos.Seq
}

// Commits do not write the position row, and nobody notices: not a view, an export, an opening.
func TestThePositionRowComesWithTheFloor(t *testing.T) {
	fs := vfs.NewMem()
	s := openMemPebble(t, fs)
	ps := s.(*pebbleStore)
	if err := ps.space.tend(); err != nil { // the first floor, now and not later
		t.Fatal(err)
	}
	w := lead(t, s, 3)
	for i := range 100 {
		put(t, w, 3, fmt.Sprint(i), "x")
	}
	if row, shown := rowPosition(t, s, 3), shownPosition(t, s, 3); row != 1 || shown != 100 {
		t.Errorf("the row says %d, a view %d", row, shown)
	}
	var out bytes.Buffer
	if pos, err := shardOf(t, s, 3).Export(ctx, &out); pos.Seq != 100 || err != nil {
		t.Errorf("exported at %v, %v", pos, err)
	}
	killed := openMemPebble(t, cloneDir(t, fs, "data"))
	if row, shown := rowPosition(t, killed, 3), shownPosition(t, killed, 3); row != 100 || shown != 100 {
		t.Errorf("replayed, the row says %d, a view %d", row, shown)
	}
	killed.Close(ctx)

	if _, err := ps.wal.seal(); err != nil {
		t.Fatal(err)
	}
	if err := ps.space.tend(); err != nil {
		t.Fatal(err)
	}
	if row := rowPosition(t, s, 3); row != 100 {
		t.Errorf("after the floor the row says %d", row)
	}
	put(t, w, 3, "more", "x")
	s.Close(ctx)
	s = openMemPebble(t, fs)
	defer s.Close(ctx)
	if pos := put(t, lead(t, s, 3), 3, "more", "y"); pos.Seq != 102 {
		t.Errorf("goes on at %v", pos)
	}
}

// Who deletes everything does not delete that.
func TestThePositionRowOutlivesItsShard(t *testing.T) {
	fs := vfs.NewMem()
	s := openMemPebble(t, fs)
	w := lead(t, s, 2)
	put(t, w, 2, "a", "1")
	b := w.Begin()
	b.DeleteRange(ShardRange(2))
	if _, err := w.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	b = w.Begin()
	b.Delete(PositionKey(2))
	if _, err := w.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	if got := shownPosition(t, s, 2); got != 3 {
		t.Errorf("a view says %d", got)
	}
	s.Close(ctx)
	s = openMemPebble(t, fs)
	defer s.Close(ctx)
	if got := shownPosition(t, s, 2); got != 3 {
		t.Errorf("reopened, a view says %d", got)
	}
}

// Tables are never ahead of the mark: a log that was damaged behind it would be replayed over them unseen.
func TestAFlushIsPromised(t *testing.T) {
	fs := vfs.NewMem()
	s := openMemPebble(t, fs)
	defer s.Close(ctx)
	w := lead(t, s, 1)
	for i := range 20 {
		put(t, w, 1, fmt.Sprint(i), "x")
	}
	if err := s.(*pebbleStore).db.Flush(); err != nil {
		t.Fatal(err)
	}
	p, err := readMark(fs, "data")
	if err != nil || len(p.seqs) < 2 || p.seqs[1] != 20 {
		t.Errorf("promised %v, %v", p, err)
	}
}
