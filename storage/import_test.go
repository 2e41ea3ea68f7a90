package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// generation is an export of shard 2 whose rows all say the same.
func generation(t *testing.T, name string, rows int) []byte {
	t.Helper()
	s := NewMem(4)
	w := lead(t, s, 2)
	for i := range rows {
		put(t, w, 2, fmt.Sprintf("row %05d", i), name+strings.Repeat(".", 500))
	}
	var out bytes.Buffer
	if _, err := shardOf(t, s, 2).Export(ctx, &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// whichGeneration says of what generation all rows are, and how many there are.
func whichGeneration(t *testing.T, s Store) (name string, rows int) {
	t.Helper()
	for _, pair := range strings.Fields(strings.ReplaceAll(records(t, s, 2), "row ", "")) {
		_, value, _ := strings.Cut(pair, "=")
		value = strings.TrimRight(value, ".")
		if rows++; name != "" && name != value {
			t.Fatalf("rows of %s and of %s", name, value)
		}
		name = value
	}
	return name, rows
}

// linkAlone keeps Link and CrashClone apart: MemFS's Link takes its read lock twice,
// and dies of a clone that comes in between.
type linkAlone struct {
	vfs.FS
	mu sync.Mutex
}

func (l *linkAlone) Link(from, to string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.FS.Link(from, to)
}

// The disk is cloned all the way through an import: what comes back is the old shard
// or the new one, whole, and no table lies about.
func TestAnImportIsAllOrNothing(t *testing.T) {
	mem := vfs.NewCrashableMem()
	fs := &linkAlone{FS: mem}
	s := openMemPebble(t, fs)
	before, after := generation(t, "old", 300), generation(t, "new", 200)
	if _, err := shardOf(t, s, 2).Import(ctx, bytes.NewReader(before)); err != nil {
		t.Fatal(err)
	}
	put(t, lead(t, s, 1), 1, "neighbour", "stays")
	s.SyncAll(ctx)
	done := make(chan error)
	go func() {
		_, err := shardOf(t, s, 2).Import(ctx, bytes.NewReader(after))
		done <- err
	}()
	var clones []*vfs.MemFS
	rng := rand.New(rand.NewPCG(1, 2))
	for running := true; running; {
		select {
		case err := <-done:
			if running = false; err != nil {
				t.Fatal(err)
			}
		default:
		}
		if len(clones) < 60 || !running {
			fs.mu.Lock()
			clones = append(clones, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng}))
			fs.mu.Unlock()
		}
	}
	s.Close(ctx)
	seen := map[string]int{}
	for i, clone := range clones {
		s := openMemPebble(t, clone)
		name, rows := whichGeneration(t, s)
		if name == "old" && rows != 300 || name == "new" && rows != 200 || name == "" {
			t.Fatalf("clone %d: %d rows of %q", i, rows, name)
		}
		if got := records(t, s, 1); got != "neighbour=stays" {
			t.Fatalf("clone %d: the neighbour: %q", i, got)
		}
		seen[name]++
		names, _ := clone.List("data")
		if left := strings.Join(names, " "); strings.Contains(left, importPrefix) {
			t.Fatalf("clone %d: left over: %s", i, left)
		}
		s.Close(ctx)
	}
	if last := len(clones) - 1; seen["new"] == 0 {
		t.Errorf("clone %d was taken after the import: %v", last, seen)
	}
	t.Log(seen)
}

func TestAnImportThatTheDiskRefusesChangesNothing(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync} {
		fail := &failOn{kind: kind, suffix: importPrefix}
		mem := vfs.NewMem()
		fs := errorfs.Wrap(mem, errorfs.InjectorFunc(fail.inject))
		s := openMemPebble(t, fs)
		put(t, lead(t, s, 2), 2, "row 1", "old")
		fail.armed.Store(true)
		_, err := shardOf(t, s, 2).Import(ctx, bytes.NewReader(generation(t, "new", 200)))
		if !errors.Is(err, ErrLatched) && !errors.Is(err, errDisk) {
			t.Errorf("%v: %v", kind, err)
		}
		if name, rows := whichGeneration(t, s); name != "old" || rows != 1 {
			t.Errorf("%v: %d rows of %q", kind, rows, name)
		}
		s.Close(ctx)
		s = openMemPebble(t, mem)
		if name, rows := whichGeneration(t, s); name != "old" || rows != 1 {
			t.Errorf("%v, reopened: %d rows of %q", kind, rows, name)
		}
		s.Close(ctx)
	}
}

func TestAnImportDoesWithoutLinks(t *testing.T) {
	fail := &failOn{kind: errorfs.OpLink}
	fail.armed.Store(true)
	s := openMemPebble(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(fail.inject)))
	defer s.Close(ctx)
	if _, err := shardOf(t, s, 2).Import(ctx, bytes.NewReader(generation(t, "new", 200))); err != nil {
		t.Fatal(err)
	}
	if name, rows := whichGeneration(t, s); name != "new" || rows != 200 || fail.hits.Load() == 0 {
		t.Errorf("%d rows of %q", rows, name)
	}
}

// While a view is open the old shard stays to be seen in it.
func TestAViewSurvivesAnImport(t *testing.T) {
	s := openMemPebble(t, vfs.NewMem())
	defer s.Close(ctx)
	put(t, lead(t, s, 2), 2, "row 1", "old")
	v, _ := shardOf(t, s, 2).View()
	defer v.Close()
	if _, err := shardOf(t, s, 2).Import(ctx, bytes.NewReader(generation(t, "new", 200))); err != nil {
		t.Fatal(err)
	}
	if got := recordsOf(t, v, 2); got != "row 1=old" {
		t.Error(got)
	}
	if name, rows := whichGeneration(t, s); name != "new" || rows != 200 {
		t.Errorf("%d rows of %q", rows, name)
	}
	// An export of nothing empties the shard.
	var empty bytes.Buffer
	shardOf(t, NewMem(4), 2).Export(ctx, &empty)
	if pos, err := shardOf(t, s, 2).Import(ctx, &empty); err != nil || pos.Seq != 0 {
		t.Fatal(pos, err)
	}
	if got := records(t, s, 2); got != "" {
		t.Error(got)
	}
}
