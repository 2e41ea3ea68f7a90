package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

var errDisk = errors.New("the disk is full")

// failOn makes every operation of a kind on files with a suffix fail once armed.
type failOn struct {
	kind   errorfs.OpKind
	suffix string
	armed  atomic.Bool
	hits   atomic.Int64
}

func (f *failOn) inject(op errorfs.Op) error {
	if f.armed.Load() && op.Kind == f.kind && strings.Contains(op.Path, f.suffix) {
		f.hits.Add(1)
		return errDisk
	}
	return nil
}

// The failures of a disk, one after another: whatever fails, writes stop with
// ErrLatched, nobody hangs or dies, reads go on, and a reopening finds what was
// acked.
func TestAFailingDiskStopsWritesAndNothingElse(t *testing.T) {
	for _, c := range []*failOn{
		{kind: errorfs.OpFileWrite, suffix: logSuffix},
		{kind: errorfs.OpFileSyncData, suffix: logSuffix},
		{kind: errorfs.OpCreate, suffix: logSuffix},
		{kind: errorfs.OpFileWrite, suffix: ".sst"},
		{kind: errorfs.OpFileSyncData, suffix: ".sst"},
		{kind: errorfs.OpCreate, suffix: ".sst"},
		{kind: errorfs.OpFileWrite, suffix: "MANIFEST"},
		{kind: errorfs.OpFileSync, suffix: "MANIFEST"},
		{kind: errorfs.OpFileSync, suffix: "data"}, // the directory, among others
		{kind: errorfs.OpFileWriteAt, suffix: markName},
	} {
		t.Run(fmt.Sprintf("%v %s", c.kind, c.suffix), func(t *testing.T) { failingDisk(t, c) })
	}
}

func failingDisk(t *testing.T, c *failOn) {
	mem := vfs.NewCrashableMem()
	s, err := OpenPebble("data", Options{Shards: 4, fs: errorfs.Wrap(mem, errorfs.InjectorFunc(c.inject)), MemtableBytes: 64 << 10, segment: 128 << 10})
	if err != nil {
		t.Fatal(err)
	}
	var acked, durable [4]atomic.Uint64
	var writers [4]Writer
	for i := range writers {
		writers[i] = lead(t, s, ShardID(i))
	}
	write := func(i int, until func(seq uint64) bool) error {
		for {
			at, err := writers[i].Commit(ctx, writers[i].Begin())
			if err != nil {
				return err
			}
			if until(at.Seq) {
				return nil
			}
			pos, err := writers[i].Commit(ctx, crashRow(writers[i], ShardID(i), at.Seq+1, "", 1500))
			if err != nil {
				return err
			}
			acked[i].Store(pos.Seq)
			if pos.Seq%20 != 0 {
				continue
			}
			if err := writers[i].Durable(ctx, pos); err != nil {
				return err
			}
			durable[i].Store(pos.Seq)
		}
	}
	for i := range writers {
		if err := write(i, func(seq uint64) bool { return seq >= 300 }); err != nil {
			t.Fatal(err)
		}
	}
	c.armed.Store(true)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			// Bounded: ten thousand batches are 15 MB, sixty memtables.
			err := write(i, func(seq uint64) bool { return seq > 10000 })
			if !errors.Is(err, ErrLatched) || !errors.Is(err, errDisk) {
				t.Errorf("shard %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if c.hits.Load() == 0 {
		t.Fatal("the failure was never met")
	}
	afterFailure(t, s, writers[:], acked[:])
	checkReopened(t, mem, acked[:], durable[:])
}

// afterFailure uses a latched store: reads go on, writes do not, Close returns.
func afterFailure(t *testing.T, s Store, writers []Writer, acked []atomic.Uint64) {
	t.Helper()
	if err := s.Failed(); !errors.Is(err, ErrLatched) {
		t.Errorf("Failed: %v", err)
	}
	for i, w := range writers {
		if _, err := w.Commit(ctx, crashRow(w, ShardID(i), 1, "", 1)); !errors.Is(err, ErrLatched) {
			t.Errorf("a later commit: %v", err)
		}
		if err := w.Durable(ctx, Pos{1, 1 << 40}); !errors.Is(err, ErrLatched) {
			t.Errorf("a later fsync: %v", err)
		}
		v, err := shardOf(t, s, ShardID(i)).View()
		if err != nil {
			t.Fatal(err)
		}
		it, err := v.Scan(BlocksRange(StreamNo(i)<<48|1, 0, 1<<60))
		if err != nil {
			t.Fatal(err)
		}
		var rows uint64
		for it.Next() {
			if _, err := it.Value(); err != nil {
				t.Fatal(err)
			}
			rows++
		}
		if err := it.Error(); err != nil || rows < acked[i].Load() {
			t.Errorf("shard %d: reads show %d of %d rows, %v", i, rows, acked[i].Load(), err)
		}
		it.Close()
		v.Close()
	}
	closed, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := s.Close(closed); !errors.Is(err, ErrLatched) {
		t.Errorf("close: %v", err)
	}
}

// checkReopened opens the disk once as the process's death leaves it, once as a loss
// of power does.
func checkReopened(t *testing.T, mem *vfs.MemFS, acked, durable []atomic.Uint64) {
	t.Helper()
	for name, want := range map[string][]atomic.Uint64{"death": acked, "loss of power": durable} {
		fs := mem
		if name != "death" {
			fs = mem.CrashClone(vfs.CrashCloneCfg{})
		}
		seqs := make([]uint64, len(want))
		for i := range want {
			seqs[i] = want[i].Load()
		}
		s, err := OpenPebble("data", Options{fs: fs, MemtableBytes: 256 << 10})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		checkRecovered(t, s, seqs)
		if err := s.Close(ctx); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

// A damaged table: the read that meets it fails, writes stop, other rows are read on.
func TestADamagedTableStopsWrites(t *testing.T) {
	for _, kind := range []string{".sst", logSuffix} {
		mem := vfs.NewMem()
		s := openMemPebble(t, mem)
		w := lead(t, s, 1)
		for i := range 200 {
			b := w.Begin()
			b.Set(BlockKey(StreamNo(1)<<48|1, int64(i)), []byte(strings.Repeat(fmt.Sprint(i), 1000)))
			if _, err := w.Commit(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.(*pebbleStore).db.Flush(); err != nil {
			t.Fatal(err)
		}
		s.Close(ctx)
		damage(t, mem, kind)

		s, err := OpenPebble("data", Options{fs: mem})
		if kind == ".sst" { // the positions are in it: the store cannot be opened at all
			if !errors.Is(err, ErrCorrupt) || strings.Contains(err.Error(), "\n") {
				t.Errorf("open: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		put(t, lead(t, s, 0), 0, "still", "sound")
		v, _ := shardOf(t, s, 1).View()
		it, err := v.Scan(ShardRange(1))
		for err == nil && it.Next() {
			_, err = it.Value()
		}
		if err == nil {
			err = it.Error()
		}
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: read: %v", kind, err)
		}
		it.Close()
		v.Close()
		if _, err := shardOf(t, s, 0).Lead(ctx); !errors.Is(err, ErrLatched) {
			t.Errorf("%s: a writer of a latched store: %v", kind, err)
		}
		if !errors.Is(s.Failed(), ErrLatched) || !errors.Is(s.Failed(), ErrCorrupt) {
			t.Errorf("%s: %v", kind, s.Failed())
		}
		if got := records(t, s, 0); got != "still=sound" {
			t.Errorf("%s: %s", kind, got)
		}
		s.Close(ctx)
	}
}

// damage bends bytes in the middle of every file of a kind.
func damage(t *testing.T, fs vfs.FS, suffix string) {
	t.Helper()
	names, _ := fs.List("data")
	bent := 0
	for _, n := range names {
		if !strings.HasSuffix(n, suffix) {
			continue
		}
		f, err := fs.OpenReadWrite("data/"+n, "test")
		if err != nil {
			t.Fatal(err)
		}
		at := int64(40)
		if info, err := f.Stat(); err == nil && suffix == logSuffix {
			at = info.Size() / 2
		}
		f.WriteAt([]byte("damage"), at)
		f.Close()
		bent++
	}
	if bent == 0 {
		t.Fatalf("no %s in %v", suffix, names)
	}
}
