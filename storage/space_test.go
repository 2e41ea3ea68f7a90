package storage

import (
	"bytes"
	"errors"
	"fmt"
	iofs "io/fs"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// openTiny opens a store of segments of 64 KiB.
func openTiny(t testing.TB, fs vfs.FS) *pebbleStore {
	t.Helper()
	s, err := OpenPebble("data", Options{Shards: 4, fs: fs, MemtableBytes: 256 << 10, segment: 64 << 10, importTable: 50 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*pebbleStore)
}

// blockValue is what the block at an offset holds: about 4 KiB that say which it is.
func blockValue(i int64) []byte { return bytes.Repeat(fmt.Appendf(nil, "block %04d ", i), 380) }

const testStream = StreamNo(1)<<48 | 1 // of shard 1

func putBlocks(t testing.TB, w Writer, from, to int64) {
	t.Helper()
	for i := from; i < to; i++ {
		b := w.Begin()
		b.Set(BlockKey(testStream, i), blockValue(i))
		if _, err := w.Commit(ctx, b); err != nil {
			t.Fatal(err)
		}
	}
}

func change(t testing.TB, w Writer, f func(Batch)) {
	t.Helper()
	b := w.Begin()
	f(b)
	if _, err := w.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
}

// trim deletes the blocks before an offset.
func trim(t testing.TB, w Writer, before int64) {
	t.Helper()
	change(t, w, func(b Batch) { b.DeleteRange(BlocksRange(testStream, 0, before)) })
}

// thin deletes all but every nth block of [0, to).
func thin(t testing.TB, w Writer, to, n int64) {
	t.Helper()
	change(t, w, func(b Batch) {
		for i := range to {
			if i%n != 0 {
				b.Delete(BlockKey(testStream, i))
			}
		}
	})
}

// clean has all that is unused removed: floors are passed and flushed, then references are counted.
func (s *pebbleStore) clean() error {
	if err := errors.Join(s.space.tend(), s.db.Flush(), s.space.tend()); err != nil {
		return err
	}
	return s.space.collect()
}

// segmentFiles counts the files of the log and the homes, and their bytes.
func segmentFiles(t testing.TB, fs vfs.FS) (logs, homes int, size int64) {
	t.Helper()
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		_, home, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		info, err := fs.Stat(fs.PathJoin("data", name))
		if errors.Is(err, iofs.ErrNotExist) {
			continue // the janitor was here
		}
		if err != nil {
			t.Fatal(err)
		}
		if size += info.Size(); home {
			homes++
		} else {
			logs++
		}
	}
	return logs, homes, size
}

// checkBlocks reads all blocks; want says which there are.
func checkBlocks(t testing.TB, v View, want func(i int64) bool, to int64) {
	t.Helper()
	it, err := v.Scan(BlocksRange(testStream, 0, to))
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	i := int64(0)
	for it.Next() {
		for ; !want(i); i++ {
		}
		k, _ := ParseKey(it.Key())
		value, err := it.Value()
		if err != nil || k.Offset != i || !bytes.Equal(value, blockValue(i)) {
			t.Fatalf("block %d where %d belongs: %d bytes, %v", k.Offset, i, len(value), err)
		}
		i++
	}
	for ; i < to && !want(i); i++ {
	}
	if err := it.Error(); err != nil || i != to {
		t.Fatalf("blocks end at %d of %d: %v", i, to, err)
	}
}

func checkStoreBlocks(t testing.TB, s Store, want func(i int64) bool, to int64) {
	t.Helper()
	v, err := shardOf(t, s, 1).View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	checkBlocks(t, v, want, to)
}

func TestATrimGivesTheDiskBack(t *testing.T) {
	fs := vfs.NewMem()
	s := openTiny(t, fs)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 500)
	before, _, size := segmentFiles(t, fs)
	if before < 20 || size < 500*4000 {
		t.Fatalf("%d segments of %d bytes", before, size)
	}
	trim(t, w, 480)
	if err := s.clean(); err != nil {
		t.Fatal(err)
	}
	logs, homes, size := segmentFiles(t, fs)
	if logs+homes > 4 || size > 4*64<<10 {
		t.Errorf("of %d segments %d and %d homes are left, %d bytes", before, logs, homes, size)
	}
	kept := func(i int64) bool { return i >= 480 }
	checkStoreBlocks(t, s, kept, 500)
	s.Close(ctx)
	s = openTiny(t, fs)
	checkStoreBlocks(t, s, kept, 500)
	s.Close(ctx)
}

// Of a few segments' worth nothing is flushed by itself: their records would be replayed, so they would stay.
func TestATrimGivesTheDiskBackWhereNothingMoreIsWritten(t *testing.T) {
	fs := vfs.NewMem()
	s := openTiny(t, fs)
	defer s.Close(ctx)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 100)
	before, _, _ := segmentFiles(t, fs)
	if before >= unflushedSegments || s.space.durable >= uint32(before) {
		t.Fatalf("%d segments, flushed up to %d", before, s.space.durable)
	}
	trim(t, w, 98)
	if err := s.space.collect(); err != nil {
		t.Fatal(err)
	}
	if logs, homes, size := segmentFiles(t, fs); logs+homes > 3 || size > 3*64<<10 {
		t.Errorf("of %d segments %d and %d homes are left, %d bytes", before, logs, homes, size)
	}
	checkStoreBlocks(t, s, func(i int64) bool { return i >= 98 }, 100)
}

// One block in five is kept: its segment is worth less than half of its room.
func TestSparseSegmentsAreMovedTogether(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := openTiny(t, fs)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 500)
	thin(t, w, 500, 5)
	if err := s.clean(); err != nil {
		t.Fatal(err)
	}
	logs, homes, size := segmentFiles(t, fs)
	if homes == 0 || logs > 2 || size > 2*100*4200 {
		t.Errorf("%d segments and %d homes, %d bytes", logs, homes, size)
	}
	kept := func(i int64) bool { return i%5 == 0 }
	checkStoreBlocks(t, s, kept, 500)
	// Again: homes are segments like others.
	change(t, w, func(b Batch) {
		for i := range int64(500) {
			if i%50 != 0 {
				b.Delete(BlockKey(testStream, i))
			}
		}
	})
	if err := s.clean(); err != nil {
		t.Fatal(err)
	}
	if _, homes, size := segmentFiles(t, fs); homes != 1 || size > 2*10*4200+64<<10 {
		t.Errorf("%d homes, %d bytes", homes, size)
	}
	clone := fs.CrashClone(vfs.CrashCloneCfg{}) // what was moved is durable without an fsync of anybody's
	s.Close(ctx)
	s = openTiny(t, clone)
	checkStoreBlocks(t, s, func(i int64) bool { return i%50 == 0 }, 500)
	s.Close(ctx)
}

func TestAViewKeepsTheSegmentsOfWhatItShows(t *testing.T) {
	fs := vfs.NewMem()
	s := openTiny(t, fs)
	defer s.Close(ctx)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 100)
	early, _ := s.shards[1].View()
	defer early.Close()
	change(t, w, func(b Batch) { b.Delete(BlockKey(testStream, 50)) })
	late, _ := s.shards[1].View()
	defer late.Close()
	trim(t, w, 99)
	for range 3 {
		if err := s.clean(); err != nil {
			t.Fatal(err)
		}
		checkBlocks(t, early, func(int64) bool { return true }, 100)
		checkBlocks(t, late, func(i int64) bool { return i != 50 }, 100)
	}
	after, _ := s.shards[1].View() // holds nothing back, and nothing back that comes later
	early.Close()
	s.space.tend()
	checkBlocks(t, late, func(i int64) bool { return i != 50 }, 100)
	late.Close()
	if err := s.space.tend(); err != nil {
		t.Fatal(err)
	}
	if logs, homes, size := segmentFiles(t, fs); logs+homes > 3 {
		t.Errorf("%d segments, %d homes, %d bytes after the views were closed", logs, homes, size)
	}
	checkBlocks(t, after, func(i int64) bool { return i == 99 }, 100)
	after.Close()
}

// Nothing is ever deleted, and there are no blocks: the log does not grow beyond what a replay may read.
func TestSmallRowsLeaveNoSegmentsBehind(t *testing.T) {
	fs := vfs.NewMem()
	s := openTiny(t, fs)
	defer s.Close(ctx)
	w := lead(t, s, 1)
	most := 0
	for i := range 20000 {
		put(t, w, 1, fmt.Sprint(i%500), strings.Repeat("small ", 30))
		if i%100 != 0 {
			continue
		}
		if err := s.space.tend(); err != nil {
			t.Fatal(err)
		}
		logs, homes, _ := segmentFiles(t, fs)
		if most = max(most, logs); homes > 0 {
			t.Fatalf("%d homes", homes)
		}
	}
	if number := s.wal.active.number; number < 60 || most > 30*rowsPart { // flushes lag on a busy machine
		t.Errorf("of %d segments up to %d at a time", number, most)
	}
	if err := errors.Join(s.space.tend(), s.db.Flush(), s.space.tend()); err != nil {
		t.Fatal(err)
	}
	if logs, _, _ := segmentFiles(t, fs); logs > 1 {
		t.Errorf("%d segments after a flush", logs)
	}
}

// Blocks alone fill no memtable: it is flushed for the log's sake.
func TestBlocksHaveTheMemtableFlushed(t *testing.T) {
	s := openTiny(t, vfs.NewMem())
	defer s.Close(ctx)
	w := lead(t, s, 1)
	for i := range int64(600) {
		putBlocks(t, w, i, i+1)
		if err := s.space.tend(); err != nil {
			t.Fatal(err)
		}
	}
	active := s.wal.active.number
	if active < 3*unflushedSegments {
		t.Fatalf("only %d segments", active)
	}
	within(t, "the flush", func() { // it was asked for
		for floor, err := uint32(0), error(nil); err == nil && floor+2*unflushedSegments < active && !t.Failed(); {
			runtime.Gosched()
			floor, err = s.durableFloor()
		}
	})
}

// noRoom makes one kind of operation on files of a kind fail as a full disk does.
type noRoom struct {
	kind   errorfs.OpKind
	suffix string
	armed  atomic.Bool
	hits   atomic.Int64
}

func (f *noRoom) MaybeError(op errorfs.Op) error {
	if f.armed.Load() && op.Kind == f.kind && strings.HasSuffix(op.Path, f.suffix) {
		f.hits.Add(1)
		return fmt.Errorf("a full disk: %w", syscall.ENOSPC)
	}
	return nil
}

func (f *noRoom) String() string { return f.suffix }

func TestAHomeWithoutRoomIsTriedAgain(t *testing.T) {
	for _, kind := range []errorfs.OpKind{errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileSync} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			mem := vfs.NewMem()
			full := &noRoom{kind: kind, suffix: homeSuffix}
			s := openTiny(t, errorfs.Wrap(mem, full))
			defer s.Close(ctx)
			w := lead(t, s, 1)
			putBlocks(t, w, 0, 200)
			thin(t, w, 200, 5)
			kept := func(i int64) bool { return i%5 == 0 }
			full.armed.Store(true)
			for range 3 {
				s.space.dirty.Store(false)
				if err := s.clean(); !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("collect: %v", err)
				}
				if !s.space.dirty.Load() {
					t.Error("nothing will be tried again")
				}
				checkStoreBlocks(t, s, kept, 200)
			}
			var out bytes.Buffer
			if _, err := s.shards[1].Export(ctx, &out); err != nil {
				t.Fatal(err)
			}
			if _, err := s.shards[1].Import(ctx, bytes.NewReader(out.Bytes())); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("import: %v", err)
			}
			if err := s.Failed(); err != nil || full.hits.Load() < 4 {
				t.Fatalf("%d failures, %v", full.hits.Load(), err)
			}
			logs, homes, _ := segmentFiles(t, mem)
			if homes > 0 || logs < 10 {
				t.Errorf("%d segments, %d homes", logs, homes)
			}
			full.armed.Store(false)
			if err := s.clean(); err != nil {
				t.Fatal(err)
			}
			logs, homes, _ = segmentFiles(t, mem)
			if homes == 0 || logs > 2 {
				t.Errorf("with room: %d segments, %d homes", logs, homes)
			}
			checkStoreBlocks(t, s, kept, 200)
		})
	}
}

// A move that would fill the disk is not begun: less is moved at a time, and what is wholly unused goes first.
func TestMovesLeaveRoomToWriters(t *testing.T) {
	mem := vfs.NewMem()
	s := openTiny(t, mem)
	defer s.Close(ctx)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 200)
	thin(t, w, 200, 5) // 13 KB or so of each segment stay
	trim(t, w, 100)
	kept := func(i int64) bool { return i >= 100 && i%5 == 0 }
	before, _, _ := segmentFiles(t, mem)

	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 12 << 10})
	if err := s.clean(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("collect: %v", err)
	}
	logs, homes, _ := segmentFiles(t, mem)
	if logs > before-5 || logs < 5 || homes > 0 {
		t.Fatalf("without room: of %d segments %d and %d homes", before, logs, homes)
	}

	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 60 << 10})
	for logs > 2 {
		s.space.dirty.Store(false)
		_, _, size := segmentFiles(t, mem)
		had := logs
		if err := s.clean(); err != nil {
			t.Fatal(err)
		}
		var after int64
		logs, _, after = segmentFiles(t, mem)
		if logs >= had || logs < had-4 || after >= size {
			t.Fatalf("a collect left %d of %d segments, %d of %d bytes", logs, had, after, size)
		}
		if logs > 2 && !s.space.dirty.Load() {
			t.Error("the rest will not be moved")
		}
	}
	checkStoreBlocks(t, s, kept, 200)
}

// Any other failure of what the janitor does stops writes.
func TestAFailingJanitorLatches(t *testing.T) {
	for _, c := range []*failOn{
		{kind: errorfs.OpCreate, suffix: homeSuffix},
		{kind: errorfs.OpFileWrite, suffix: homeSuffix},
		{kind: errorfs.OpFileSync, suffix: homeSuffix},
		{kind: errorfs.OpRemove, suffix: logSuffix},
		{kind: errorfs.OpFileReadAt, suffix: logSuffix},
	} {
		t.Run(fmt.Sprintf("%v %s", c.kind, c.suffix), func(t *testing.T) {
			mem := vfs.NewMem()
			s := openTiny(t, errorfs.Wrap(mem, errorfs.InjectorFunc(c.inject)))
			w := lead(t, s, 1)
			putBlocks(t, w, 0, 200)
			thin(t, w, 200, 5)
			c.armed.Store(true)
			s.clean()
			if err := s.Failed(); !errors.Is(err, ErrLatched) || !errors.Is(err, errDisk) {
				t.Errorf("%v", err)
			}
			b := w.Begin()
			b.Set(rec(1, "late"), nil)
			if _, err := w.Commit(ctx, b); !errors.Is(err, ErrLatched) {
				t.Errorf("commit: %v", err)
			}
			c.armed.Store(false)
			checkStoreBlocks(t, s, func(i int64) bool { return i%5 == 0 }, 200)
			if err := s.Close(ctx); !errors.Is(err, ErrLatched) {
				t.Errorf("close: %v", err)
			}
			s = openTiny(t, mem)
			checkStoreBlocks(t, s, func(i int64) bool { return i%5 == 0 }, 200)
			s.Close(ctx)
		})
	}
}

// Readers, a writer that trims and thins, imports beside them and a janitor that never rests: nobody misses a block.
func TestReadersMissNothingThatCollectRemoves(t *testing.T) {
	s := openTiny(t, vfs.NewMem())
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 60)
	var stop atomic.Bool
	var wg sync.WaitGroup
	var seen, moves atomic.Int64
	defer func() {
		stop.Store(true)
		wg.Wait()
	}()
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				v, err := s.shards[1].View()
				if err != nil {
					t.Error(err)
					return
				}
				it, _ := v.Scan(StreamRange(testStream))
				for it.Next() {
					k, _ := ParseKey(it.Key())
					value, err := it.Value()
					if err != nil || !bytes.Equal(value, blockValue(k.Offset)) {
						t.Errorf("block %d: %d bytes, %v", k.Offset, len(value), err)
						stop.Store(true)
						break
					}
					seen.Add(1)
				}
				it.Close()
				v.Close()
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			if err := s.clean(); err != nil {
				t.Error(err)
				return
			}
			moves.Add(1)
		}
	})
	wg.Go(func() { // a neighbour is replaced again and again
		data := generation(t, "x", 20)
		for !stop.Load() {
			if _, err := s.shards[2].Import(ctx, bytes.NewReader(data)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for r := int64(0); (r < 30 || moves.Load() < 15) && !t.Failed(); r++ {
		base := 60 + r*30
		putBlocks(t, w, base, base+30)
		change(t, w, func(b Batch) {
			for i := base - 30; i < base; i++ {
				if i%4 != 0 {
					b.Delete(BlockKey(testStream, i))
				}
			}
		})
		trim(t, w, base-60)
	}
	stop.Store(true)
	wg.Wait()
	if err := s.Close(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d blocks read, %d collects", seen.Load(), moves.Load())
}

// A move has read a reference, and the block was overwritten, or deleted, before it changes it: what is newer stands.
func TestAMoveLeavesWhatIsNewer(t *testing.T) {
	s := openTiny(t, vfs.NewMem())
	defer s.Close(ctx)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 3)
	sh := s.shards[1]
	if err := s.drain(sh); err != nil {
		t.Fatal(err)
	}
	var all []moved
	if err := s.space.eachPack(sh, func(first spot, members []packMember) error {
		for _, m := range members {
			old, _ := parseReference(m.value)
			nowhere := old
			nowhere.offset++
			all = append(all, moved{sh, first.at(m.low), old, nowhere})
		}
		return nil
	}); err != nil || len(all) != 3 {
		t.Fatal(len(all), err)
	}
	putBlocks(t, w, 1, 3)
	change(t, w, func(b Batch) { b.Delete(BlockKey(testStream, 0)) })
	if err := sh.refer(all); err != nil {
		t.Fatal(err)
	}
	checkStoreBlocks(t, s, func(i int64) bool { return i > 0 }, 3)
}

// After the latch Pebble flushes to memory: a floor that stands in such a table lets no segment go.
func TestAFloorInMemoryIsNone(t *testing.T) {
	mem := vfs.NewMem()
	s := openTiny(t, mem)
	w := lead(t, s, 1)
	for i := range 600 {
		put(t, w, 1, fmt.Sprint(i), strings.Repeat("small ", 100))
	}
	if err := s.space.tend(); err != nil {
		t.Fatal(err)
	}
	s.latch.set(errDisk)
	s.db.Flush()
	if floor, err := s.durableFloor(); err != nil || floor < 5 {
		t.Fatalf("the floor in memory: %d, %v", floor, err)
	}
	s.space.work.Lock()
	if err := errors.Join(s.space.lookAtFloor(), s.space.reap()); err != nil {
		t.Error(err)
	}
	s.space.work.Unlock()
	s.Close(ctx)
	s = openTiny(t, mem)
	defer s.Close(ctx)
	if at := s.shards[1].seq.Load(); at != 600 {
		t.Errorf("back at %d", at)
	}
}
