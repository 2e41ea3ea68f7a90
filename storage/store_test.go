package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var ctx = context.Background()

// eachStore runs a test over the stores that must behave alike.
func eachStore(t *testing.T, f func(t *testing.T, s Store)) {
	open := map[string]func(t *testing.T) Store{
		"mem":    func(*testing.T) Store { return NewMem(4) },
		"pebble": func(t *testing.T) Store { return openMemPebble(t, vfs.NewMem()) },
		"shadow": func(t *testing.T) Store { return NewShadow(openMemPebble(t, vfs.NewMem()), NewMem(4)) },
	}
	for _, name := range []string{"mem", "pebble", "shadow"} {
		t.Run(name, func(t *testing.T) {
			s := open[name](t)
			defer func() {
				if err := s.Close(ctx); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			f(t, s)
		})
	}
}

func openMemPebble(t testing.TB, fs vfs.FS) Store {
	t.Helper()
	s, err := OpenPebble("data", Options{Shards: 4, fs: fs, MemtableBytes: 1 << 20, importTable: 50 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func shardOf(t testing.TB, s Store, id ShardID) Shard {
	t.Helper()
	sh, err := s.Shard(id)
	if err != nil {
		t.Fatal(err)
	}
	return sh
}

func lead(t testing.TB, s Store, id ShardID) Writer {
	t.Helper()
	w, err := shardOf(t, s, id).Lead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// rec is the key of a record named name in space 1 of a shard.
func rec(id ShardID, name string) []byte { return RecordKey(id, 1, []byte(name)) }

// put commits name=value pairs and returns the position.
func put(t testing.TB, w Writer, id ShardID, pairs ...string) Pos {
	t.Helper()
	b := w.Begin()
	for i := 0; i < len(pairs); i += 2 {
		if err := b.Set(rec(id, pairs[i]), []byte(pairs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	pos, err := w.Commit(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

// records returns the records of space 1 as "name=value ...".
func records(t testing.TB, s Store, id ShardID) string {
	t.Helper()
	v, err := shardOf(t, s, id).View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	return recordsOf(t, v, id)
}

func recordsOf(t testing.TB, v View, id ShardID) string {
	t.Helper()
	it, err := v.Scan(RecordsRange(id, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	var out bytes.Buffer
	for it.Next() {
		value, err := it.Value()
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := ParseRecordKey(it.Key())
		fmt.Fprintf(&out, "%s=%s ", name, value)
	}
	if err := it.Error(); err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSuffix(out.Bytes(), []byte(" ")))
}

func TestABatchIsAppliedInOrderAndNumbered(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		w := lead(t, s, 2)
		if p := put(t, w, 2, "a", "1", "b", "2", "c", "3"); p != (Pos{1, 1}) {
			t.Fatalf("first position %v", p)
		}
		b := w.Begin()
		b.DeleteRange(rec(2, "a"), rec(2, "c"))
		b.Set(rec(2, "b"), []byte("again"))
		b.SetTwo(rec(2, "d"), []byte("head"), []byte("+tail"))
		b.Delete(rec(2, "c"))
		b.DeleteRange(rec(2, "z"), rec(2, "a")) // upside down: nothing
		if p, err := w.Commit(ctx, b); err != nil || p != (Pos{1, 2}) {
			t.Fatalf("second: %v %v", p, err)
		}
		if got := records(t, s, 2); got != "b=again d=head+tail" {
			t.Fatal(got)
		}
		if p, err := w.Commit(ctx, w.Begin()); err != nil || p != (Pos{1, 2}) {
			t.Fatalf("an empty batch moved the position: %v %v", p, err)
		}
		if err := w.Durable(ctx, Pos{1, 2}); err != nil {
			t.Fatal(err)
		}
		v, _ := shardOf(t, s, 2).View()
		defer v.Close()
		if p, err := viewPos(2, v); err != nil || p != (Pos{1, 2}) {
			t.Fatalf("position row %v %v", p, err)
		}
		if _, _, err := v.Get(rec(2, "a")); err != ErrNotFound {
			t.Fatalf("a deleted row: %v", err)
		}
		value, release, err := v.Get(rec(2, "d"))
		if err != nil || string(value) != "head+tail" {
			t.Fatalf("%s %v", value, err)
		}
		release()
	})
}

func TestAViewDoesNotSeeWhatComesLater(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		w := lead(t, s, 0)
		put(t, w, 0, "a", "1")
		v, _ := shardOf(t, s, 0).View()
		put(t, w, 0, "a", "2", "b", "2")
		later, _ := shardOf(t, s, 0).View()
		b := w.Begin()
		lower, upper := RecordsRange(0, 1)
		b.DeleteRange(lower, upper)
		w.Commit(ctx, b)
		if got := recordsOf(t, v, 0); got != "a=1" {
			t.Errorf("first view: %s", got)
		}
		if got := recordsOf(t, later, 0); got != "a=2 b=2" {
			t.Errorf("second view: %s", got)
		}
		if got := records(t, s, 0); got != "" {
			t.Errorf("third view: %s", got)
		}
		v.Close()
		later.Close()
	})
}

func TestANewWriterFencesTheOneBefore(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		first := lead(t, s, 1)
		put(t, first, 1, "a", "1")
		b := first.Begin()
		b.Set(rec(1, "b"), nil)
		second := lead(t, s, 1)
		select {
		case <-first.Lost():
		default:
			t.Error("the first writer was not told")
		}
		if _, err := first.Commit(ctx, b); !errors.Is(err, ErrFenced) {
			t.Errorf("the first writer's commit: %v", err)
		}
		if p := put(t, second, 1, "c", "3"); p.Seq != 2 {
			t.Errorf("the second writer's position: %v", p)
		}
		if got := records(t, s, 1); got != "a=1 c=3" {
			t.Error(got)
		}
	})
}

func TestForeignKeysAreRefusedWithNothingWritten(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		w := lead(t, s, 1)
		for name, spoil := range map[string]func(Batch){
			"set":          func(b Batch) { b.Set(rec(2, "x"), nil) },
			"delete":       func(b Batch) { b.Delete(rec(0, "x")) },
			"delete range": func(b Batch) { b.DeleteRange(rec(1, "x"), rec(2, "x")) },
		} {
			b := w.Begin()
			b.Set(rec(1, "a"), nil)
			spoil(b)
			if _, err := w.Commit(ctx, b); !errors.Is(err, ErrForeignKey) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := records(t, s, 1); got != "" {
			t.Error(got)
		}
		if _, err := s.Shard(4); err == nil {
			t.Error("a fifth shard of four")
		}
	})
}

func TestSeveralShardsCommitAsOne(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		var batches []Batch
		for _, id := range []ShardID{3, 0, 2} {
			b := lead(t, s, id).Begin()
			b.Set(rec(id, "k"), fmt.Append(nil, id))
			batches = append(batches, b)
		}
		empty := lead(t, s, 1).Begin()
		at, err := s.CommitTogether(ctx, append(batches, empty))
		if err != nil || !slices.Equal(at, []Pos{{1, 1}, {1, 1}, {1, 1}, {1, 0}}) {
			t.Fatalf("%v %v", at, err)
		}
		for id := range ShardID(4) {
			want := fmt.Sprintf("k=%d", id)
			if id == 1 {
				want = ""
			}
			if got := records(t, s, id); got != want {
				t.Errorf("shard %d: %s", id, got)
			}
		}
		w := lead(t, s, 0)
		if _, err := s.CommitTogether(ctx, []Batch{w.Begin(), w.Begin()}); err == nil {
			t.Error("two batches of one shard")
		}
	})
}

// A walk that turns at every place must see what a sorted list shows.
func TestIteratorsTurnAtTheirEnds(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		w := lead(t, s, 0)
		rng := rand.New(rand.NewPCG(1, 2))
		var names []string
		b := w.Begin()
		for i := range 40 {
			name := fmt.Sprintf("%03d", i*2)
			names = append(names, name)
			b.Set(rec(0, name), []byte(name))
		}
		w.Commit(ctx, b)
		v, _ := shardOf(t, s, 0).View()
		defer v.Close()
		lo, hi := 5, 33 // rows outside the bounds must never show
		it, _ := v.Scan(rec(0, names[lo]), rec(0, names[hi]))
		defer it.Close()
		at := lo - 1 // index of the current row; lo-1 and hi are the ends
		for step := range 5000 {
			var ok bool
			switch rng.IntN(6) {
			case 0:
				k := rng.IntN(90)
				at = min(max((k+1)/2, lo), hi)
				ok = it.SeekGE(rec(0, fmt.Sprintf("%03d", k)))
			case 1:
				k := rng.IntN(90)
				at = max(min((k-1+2)/2-1, hi-1), lo-1)
				ok = it.SeekLT(rec(0, fmt.Sprintf("%03d", k)))
			case 2, 3:
				at = min(at+1, hi)
				ok = it.Next()
			default:
				at = max(at-1, lo-1)
				ok = it.Prev()
			}
			if ok != (at >= lo && at < hi) {
				t.Fatalf("step %d: moved %v, at %d", step, ok, at)
			}
			if ok && !bytes.HasSuffix(it.Key(), []byte(names[at])) {
				t.Fatalf("step %d: at %s, want %s", step, it.Key(), names[at])
			}
		}
	})
}

func TestAnExportImportsToTheSameBytes(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		w := lead(t, s, 3)
		for i := range 300 {
			put(t, w, 3, fmt.Sprint("k", i), string(bytes.Repeat([]byte{byte(i)}, i*7)))
		}
		var out bytes.Buffer
		pos, err := shardOf(t, s, 3).Export(ctx, &out)
		if err != nil || pos != (Pos{1, 300}) {
			t.Fatalf("%v %v", pos, err)
		}
		other := NewMem(4)
		put(t, lead(t, other, 3), 3, "stale", "row")
		if pos, err = shardOf(t, other, 3).Import(ctx, bytes.NewReader(out.Bytes())); err != nil || pos != (Pos{1, 300}) {
			t.Fatalf("%v %v", pos, err)
		}
		if err := Compare(s, other); err != nil {
			t.Fatal(err)
		}
		// Back over a store that went on: its writer is fenced, its rows are gone.
		put(t, w, 3, "later", "row")
		if _, err := shardOf(t, s, 3).Import(ctx, bytes.NewReader(out.Bytes())); err != nil {
			t.Fatal(err)
		}
		if err := Compare(s, other); err != nil {
			t.Fatal(err)
		}
		b := w.Begin()
		b.Set(rec(3, "x"), nil)
		if _, err := w.Commit(ctx, b); !errors.Is(err, ErrFenced) {
			t.Errorf("the old writer: %v", err)
		}
		if p := put(t, lead(t, s, 3), 3, "x", ""); p.Seq != 301 {
			t.Errorf("position after import: %v", p)
		}
	})
}

func TestADamagedExportChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s Store) {
		w := lead(t, s, 0)
		put(t, w, 0, "a", "1", "b", "2")
		var out bytes.Buffer
		shardOf(t, s, 0).Export(ctx, &out)
		put(t, w, 0, "c", "3")
		for cut := range out.Len() {
			if _, err := shardOf(t, s, 0).Import(ctx, bytes.NewReader(out.Bytes()[:cut])); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			bent := bytes.Clone(out.Bytes())
			bent[cut] ^= 0x10
			if _, err := shardOf(t, s, 0).Import(ctx, bytes.NewReader(bent)); err == nil {
				t.Fatalf("bent at %d", cut)
			}
		}
		if _, err := shardOf(t, s, 1).Import(ctx, bytes.NewReader(out.Bytes())); !errors.Is(err, ErrForeignKey) {
			t.Fatalf("into another shard: %v", err)
		}
		if got := records(t, s, 0); got != "a=1 b=2 c=3" {
			t.Fatal(got)
		}
		put(t, w, 0, "d", "4") // not fenced either
	})
}
