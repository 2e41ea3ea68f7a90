package storage

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

var discard = slog.New(slog.DiscardHandler)

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeFile(t testing.TB, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(data)); err != nil { // which may bend it
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// The last record is cut at every byte, and each of its bytes is bent in turn. Beyond the mark it is the torn end of a
// crash: all before it is there, and it is not. Below the mark it was promised: the store is not opened, or it tells when
// the value is read.
func TestADamagedLastRecord(t *testing.T) {
	for _, promised := range []bool{false, true} {
		mem := vfs.NewMem()
		s := openMemPebble(t, mem).(*pebbleStore)
		w := lead(t, s, 1)
		putBlocks(t, w, 0, 2)
		put(t, w, 1, "before", "kept")
		if err := s.SyncAll(ctx); err != nil {
			t.Fatal(err)
		}
		start := s.wal.active.size.Load()
		change(t, w, func(b Batch) {
			b.Set(BlockKey(testStream, 2), append([]byte{referenceKind}, make([]byte, referenceLen-1)...)) // a small bulk
			b.Set(rec(1, "last"), []byte("it"))
		})
		if promised {
			if err := s.SyncAll(ctx); err != nil {
				t.Fatal(err)
			}
		}
		path := "data/" + s.wal.active.name()
		clone := cloneDir(t, mem, "data")
		s.Close(ctx)
		log := readFile(t, clone, path)
		if at := int64(len(log)); at-start < 80 || at-start > 300 {
			t.Fatalf("a record of %d bytes", at-start)
		}
		for at := start; at < int64(len(log)); at++ {
			bent := bytes.Clone(log)
			bent[at] ^= 1 << (at % 8)
			damagedLastRecord(t, clone, path, bent, promised, fmt.Sprintf("byte %d of the record bent", at-start))
			damagedLastRecord(t, clone, path, log[:at], promised, fmt.Sprintf("cut to %d bytes", at-start))
		}
	}
}

func damagedLastRecord(t *testing.T, disk vfs.FS, path string, log []byte, promised bool, name string) {
	t.Helper()
	fs := cloneDir(t, disk, "data")
	writeFile(t, fs, path, log)
	opened, err := OpenPebble("data", Options{Shards: 4, fs: fs, MemtableBytes: 1 << 20})
	if promised && errors.Is(err, ErrCorrupt) {
		return
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer opened.Close(ctx)
	v, _ := shardOf(t, opened, 1).View()
	defer v.Close()
	_, _, err = v.Get(BlockKey(testStream, 2))
	if promised {
		if !errors.Is(err, ErrCorrupt) || !errors.Is(opened.Failed(), ErrLatched) {
			t.Fatalf("%s: opened, and read: %v, %v", name, err, opened.Failed())
		}
		return
	}
	if got := recordsOf(t, v, 1); err != ErrNotFound || got != "before=kept" {
		t.Fatalf("%s: %v, %s", name, err, got)
	}
	checkBlocks(t, v, func(i int64) bool { return i < 2 }, 2)
	if pos := put(t, lead(t, opened, 1), 1, "next", ""); pos.Seq != 4 {
		t.Fatalf("%s: then %v", name, pos)
	}
}

// Below the mark a replay does not read values, so the damage of one is found by who reads it.
func TestADamagedValueBelowTheMarkIsFoundByItsReader(t *testing.T) {
	mem := vfs.NewMem()
	s := openMemPebble(t, mem).(*pebbleStore)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 3)
	if err := s.SyncAll(ctx); err != nil {
		t.Fatal(err)
	}
	path := "data/" + s.wal.active.name()
	clone := cloneDir(t, mem, "data")
	s.Close(ctx)
	log := readFile(t, clone, path)
	log[bytes.Index(log, []byte("block 0001"))+1000]++
	writeFile(t, clone, path, log)
	s = openMemPebble(t, clone).(*pebbleStore)
	defer s.Close(ctx)
	v, _ := s.shards[1].View()
	defer v.Close()
	for i, want := range []error{nil, ErrCorrupt, nil} {
		value, release, err := v.Get(BlockKey(testStream, int64(i)))
		if !errors.Is(err, want) {
			t.Fatalf("block %d: %v", i, err)
		}
		if err == nil {
			if !bytes.Equal(value, blockValue(int64(i))) {
				t.Errorf("block %d: %d bytes", i, len(value))
			}
			release()
		}
	}
	if err := s.Failed(); !errors.Is(err, ErrLatched) || !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

// A store refused for what it has lost is left as it was: mended, it opens with all of it.
func TestARefusedStoreCanBeMended(t *testing.T) {
	mem := vfs.NewMem()
	s := openTiny(t, mem)
	putBlocks(t, lead(t, s, 1), 0, 60)
	if err := s.SyncAll(ctx); err != nil {
		t.Fatal(err)
	}
	clone := cloneDir(t, mem, "data")
	s.Close(ctx)
	path := "data/" + segmentName(2, false)
	sound := readFile(t, clone, path)
	bent := bytes.Clone(sound)
	bent[segmentHeaderLen+5]++ // in the first record
	for _, broken := range [][]byte{bent, sound[:0], sound[:len(sound)/2]} {
		writeFile(t, clone, path, broken)
		for range 2 {
			if _, err := OpenPebble("data", Options{fs: clone}); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("opened: %v", err)
			}
		}
		writeFile(t, clone, path, sound)
		again := cloneDir(t, clone, "data")
		s = openTiny(t, again)
		checkStoreBlocks(t, s, func(int64) bool { return true }, 60)
		s.Close(ctx)
	}
}

// An opening has rows to flush, and the disk fails: it returns, with the disk's error, and nothing is lost.
func TestAnOpeningOnAFailingDiskReturns(t *testing.T) {
	for _, c := range []*failOn{
		{kind: errorfs.OpCreate, suffix: ".sst"},
		{kind: errorfs.OpFileWrite, suffix: ".sst"},
		{kind: errorfs.OpFileSyncData, suffix: ".sst"},
		{kind: errorfs.OpFileSync, suffix: "MANIFEST"},
		{kind: errorfs.OpFileSyncData, suffix: logSuffix},
		{kind: errorfs.OpCreate, suffix: logSuffix},
		{kind: errorfs.OpFileWrite, suffix: logSuffix},
		{kind: errorfs.OpFileReadAt, suffix: logSuffix},
		{kind: errorfs.OpFileWriteAt, suffix: markName},
	} {
		t.Run(fmt.Sprintf("%v %s", c.kind, c.suffix), func(t *testing.T) {
			for _, fresh := range []bool{true, false} {
				c.armed.Store(false)
				mem := vfs.NewMem()
				blocks := int64(0)
				if !fresh {
					blocks = 100
					s := openTiny(t, mem)
					putBlocks(t, lead(t, s, 1), 0, blocks)
					clone := cloneDir(t, mem, "data")
					s.Close(ctx)
					mem = clone
				}
				c.armed.Store(true)
				failed := make(chan error, 1)
				go func() {
					s, err := OpenPebble("data", Options{Shards: 4, fs: errorfs.Wrap(mem, errorfs.InjectorFunc(c.inject)), MemtableBytes: 256 << 10})
					if err == nil {
						s.Close(ctx)
					}
					failed <- err
				}()
				select {
				case err := <-failed:
					if !errors.Is(err, errDisk) && !(fresh && c.kind == errorfs.OpFileReadAt && err == nil) {
						t.Errorf("opened: %v", err)
					}
				case <-time.After(20 * time.Second):
					t.Fatal("the opening hangs")
				}
				s := openTiny(t, mem)
				checkStoreBlocks(t, s, func(int64) bool { return true }, blocks)
				s.Close(ctx)
			}
		})
	}
}

// A directory where Pebble's own log was in use, as in format 1, is refused before Pebble touches it.
func TestAStoreOfFormat1IsLeftAlone(t *testing.T) {
	fs := vfs.NewMem()
	db, err := pebble.Open("data", &pebble.Options{FS: fs, FormatMajorVersion: pebble.FormatValueSeparation, Logger: pebbleLog{&pebbleStore{log: discard}}})
	if err != nil {
		t.Fatal(err)
	}
	db.Set(StoreKey(), append([]byte{1, 0, 16}, make([]byte, 16)...), pebble.Sync)
	db.Set(rec(1, "old"), []byte("row"), pebble.Sync)
	db.Close()
	before := directory(t, fs)
	for range 2 {
		if _, err := OpenPebble("data", Options{fs: fs}); !errors.Is(err, ErrFormat) {
			t.Fatalf("opened: %v", err)
		}
	}
	if after := directory(t, fs); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// directory lists the files and sums of a store.
func directory(t *testing.T, fs vfs.FS) string {
	t.Helper()
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, name := range names {
		data := readFile(t, fs, "data/"+name)
		out = append(out, fmt.Sprintf("%s %d %08x", name, len(data), crc32.Checksum(data, castagnoli)))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// Files that no segment was given the name of are nobody's business.
func TestFilesThatAreNoSegmentsAreLeftAlone(t *testing.T) {
	fs := vfs.NewMem()
	s := openTiny(t, fs)
	putBlocks(t, lead(t, s, 1), 0, 20)
	s.Close(ctx)
	strange := []string{"weir-1.seg", "weir-00000000001.seg", "weir-0000000000.seg", "weir-4294967295.seg", "weir-4294967296.home",
		"weir-0000000001.seg.bak", "weir-0000000001", "weir-000000000x.seg", "weir-.home", "weir--000000001.seg", "weir-0000000001.home.seg"}
	for _, name := range strange {
		writeFile(t, fs, "data/"+name, []byte("strange"))
	}
	s = openTiny(t, fs)
	checkStoreBlocks(t, s, func(int64) bool { return true }, 20)
	trim(t, lead(t, s, 1), 20)
	if err := s.clean(); err != nil {
		t.Fatal(err)
	}
	s.Close(ctx)
	for _, name := range strange {
		if got := readFile(t, fs, "data/"+name); string(got) != "strange" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// The highest home was removed, the process ended, its number was given to a log segment, and a loss of power brought the
// home back: the log's is read.
func TestOfTwoFilesWithOneNumberTheLogIsMeant(t *testing.T) {
	fs := vfs.NewMem()
	s := openTiny(t, fs)
	putBlocks(t, lead(t, s, 1), 0, 20)
	number := s.wal.active.number
	clone := cloneDir(t, fs, "data")
	s.Close(ctx)
	home := "data/" + segmentName(number, true)
	writeFile(t, clone, home, append(segmentHeader(number), "what was a block once"...))
	s = openTiny(t, clone)
	checkStoreBlocks(t, s, func(int64) bool { return true }, 20)
	if _, err := clone.Stat(home); err == nil {
		t.Error("the home is still there")
	}
	s.Close(ctx)
}

// Somebody took the log away: what is written from now on is not lost below a floor of before.
func TestAStoreWithoutItsLogKeepsWhatIsNew(t *testing.T) {
	fs := vfs.NewMem()
	s := openTiny(t, fs)
	w := lead(t, s, 1)
	for i := range 1000 {
		put(t, w, 1, fmt.Sprint(i), strings.Repeat("x", 500))
	}
	if err := errors.Join(s.space.tend(), s.db.Flush()); err != nil {
		t.Fatal(err)
	}
	s.Close(ctx)
	names, _ := fs.List("data")
	for _, name := range names {
		if strings.HasPrefix(name, segmentPrefix) && strings.HasSuffix(name, logSuffix) || name == markName {
			fs.Remove("data/" + name)
		}
	}
	s = openTiny(t, fs)
	pos := put(t, lead(t, s, 1), 1, "new", "row")
	s.Close(ctx)
	s = openTiny(t, fs)
	defer s.Close(ctx)
	if at := s.shards[1].seq.Load(); at != pos.Seq {
		t.Errorf("back at %d, not %d", at, pos.Seq)
	}
}

// readCounter counts the bytes that are read of the log.
type readCounter struct {
	vfs.FS
	bytes *atomic.Int64
}

func (c readCounter) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := c.FS.Open(name, o...)
	if err == nil && strings.HasSuffix(name, logSuffix) {
		f = countedFile{f, c.bytes}
	}
	return f, err
}

type countedFile struct {
	vfs.File
	bytes *atomic.Int64
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.bytes.Add(int64(len(p)))
	return f.File.ReadAt(p, off)
}

// Below the mark an opening steps over values, beyond it reads them; of segments below the floor it reads no more
// than the head.
func TestAnOpeningReadsNoValuesThatWereDurable(t *testing.T) {
	const size, n = 100 << 10, 60
	for _, c := range []struct {
		name           string
		durable, flush bool
		atLeast        int64
		atMost         int64
	}{
		{"beyond the mark", false, false, n * size, 2 * n * size},
		{"below the mark", true, false, 0, n*8<<10 + 2*readAhead},
		{"below the floor", true, true, 0, 4 << 10},
	} {
		mem := vfs.NewMem()
		s, err := OpenPebble("data", Options{Shards: 4, fs: mem, segment: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		w := lead(t, s, 1)
		value := bytes.Repeat([]byte{1}, size)
		for i := range int64(n) {
			change(t, w, func(b Batch) { b.Set(BlockKey(testStream, i), value) })
		}
		ps := s.(*pebbleStore)
		if c.durable {
			s.SyncAll(ctx)
		}
		if c.flush {
			ps.wal.seal()
			if err := errors.Join(ps.space.tend(), ps.db.Flush()); err != nil {
				t.Fatal(err)
			}
		}
		clone := cloneDir(t, mem, "data")
		s.Close(ctx)
		var read atomic.Int64
		s, err = OpenPebble("data", Options{fs: readCounter{clone, &read}})
		if err != nil {
			t.Fatal(err)
		}
		if got := read.Load(); got < c.atLeast || got > c.atMost {
			t.Errorf("%s: %d bytes read, want %d to %d", c.name, got, c.atLeast, c.atMost)
		}
		s.Close(ctx)
	}
}

// A record's offsets have 32 bits: shards that commit as one may not bring more.
func TestACommitOfManyShardsHasABound(t *testing.T) {
	s, err := OpenPebble("data", Options{Shards: 4, fs: vfs.NewMem(), maxBatch: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	var batches []Batch
	for i := range ShardID(4) {
		b := lead(t, s, i).Begin()
		if err := b.Set(BlockKey(StreamNo(i)<<48|1, 0), make([]byte, 60<<10)); err != nil {
			t.Fatal(err)
		}
		batches = append(batches, b)
	}
	if _, err := s.CommitTogether(ctx, batches); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if at, err := s.CommitTogether(ctx, batches[:3]); err != nil || at[0].Seq != 1 {
		t.Errorf("%v %v", at, err)
	}
}

// A segment's header is torn as the rest may be; one that is whole, and of a newer form, is refused.
func TestATornHeaderEndsTheLog(t *testing.T) {
	mem := vfs.NewMem()
	s := openMemPebble(t, mem).(*pebbleStore)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 3)
	if err := s.SyncAll(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.wal.seal(); err != nil {
		t.Fatal(err)
	}
	put(t, w, 1, "beyond", "the header")
	path := "data/" + s.wal.active.name()
	clone := cloneDir(t, mem, "data")
	s.Close(ctx)
	log := readFile(t, clone, path)
	for at := range segmentHeaderLen {
		for _, bent := range []byte{log[at] ^ 1, log[at] ^ 0x80, 0xFF} {
			fs := cloneDir(t, clone, "data")
			writeFile(t, fs, path, append(append(bytes.Clone(log[:at]), bent), log[at+1:]...))
			s := openMemPebble(t, fs).(*pebbleStore)
			if seq := s.shards[1].seq.Load(); seq != 3 {
				t.Errorf("byte %d bent to %02x: back at %d", at, bent, seq)
			}
			checkStoreBlocks(t, s, func(int64) bool { return true }, 3)
			s.Close(ctx)
		}
	}
	newer := segmentHeader(2)[:segmentHeaderLen-4]
	newer[len(segmentMagic)]++
	writeFile(t, clone, path, append(appendChecksum(newer, 0), log[segmentHeaderLen:]...))
	if _, err := OpenPebble("data", Options{fs: clone}); !errors.Is(err, ErrFormat) {
		t.Errorf("a newer form: %v", err)
	}
}
