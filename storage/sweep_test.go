package storage

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// failFrom makes every operation fail from the nth on, or only the nth; n counts from the moment that it is armed.
type failFrom struct {
	mu    sync.Mutex
	armed bool
	n     int // of operations left before the failure
	once  bool
	hit   bool
}

func (f *failFrom) arm(n int, once bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.n, f.once, f.hit = true, n, once, false
}

func (f *failFrom) failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hit
}

func (f *failFrom) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || op.Kind == errorfs.OpFileClose || f.hit && f.once {
		return nil
	}
	if f.n--; f.n >= 0 {
		return nil
	}
	f.hit = true
	return errDisk
}

func (f *failFrom) String() string { return "fail" }

// openFiles counts the segments and marks that are open.
type openFiles struct {
	vfs.FS
	mu    sync.Mutex
	names map[string]int
}

func (o *openFiles) track(name string, f vfs.File, err error) (vfs.File, error) {
	if name = o.PathBase(name); err != nil || !strings.HasPrefix(name, segmentPrefix) {
		return f, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.names[name]++
	return &trackedFile{File: f, of: o, name: name}, nil
}

func (o *openFiles) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := o.FS.Open(name, opts...)
	return o.track(name, f, err)
}

func (o *openFiles) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := o.FS.Create(name, c)
	return o.track(name, f, err)
}

func (o *openFiles) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := o.FS.OpenReadWrite(name, c, opts...)
	return o.track(name, f, err)
}

type trackedFile struct {
	vfs.File
	of   *openFiles
	name string
}

func (f *trackedFile) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.of.names[f.name]--; f.of.names[f.name] == 0 {
		delete(f.of.names, f.name)
	}
	return f.File.Close()
}

// within fails the test when f hangs.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("%s hangs", what)
	}
}

// Every operation of an opening that replays fails in turn, alone or with all after it: the opening returns, leaves no
// file of ours open, and the next one finds everything.
func TestAnOpeningMayFailAnywhere(t *testing.T) {
	mem := vfs.NewMem()
	s := openTiny(t, mem)
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 60)
	trim(t, w, 20)
	disk := cloneDir(t, mem, "data")
	s.Close(ctx)
	kept := func(i int64) bool { return i >= 20 }
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, once := range []bool{true, false} {
		for n := 0; ; n += step {
			mem := cloneDir(t, disk, "data")
			fail, files := &failFrom{}, &openFiles{names: map[string]int{}}
			files.FS = errorfs.Wrap(mem, fail)
			fail.arm(n, once)
			within(t, "the opening", func() {
				s, err := OpenPebble("data", Options{fs: files, MemtableBytes: 64 << 10, segment: 64 << 10})
				if err == nil {
					s.Close(ctx)
				} else if !errors.Is(err, errDisk) && fail.failed() && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrLocked) {
					t.Errorf("operation %d: %v", n, err)
				}
			})
			if len(files.names) > 0 {
				t.Errorf("operation %d: left open: %v", n, files.names)
			}
			s := openTiny(t, mem)
			checkStoreBlocks(t, s, kept, 60)
			s.Close(ctx)
			if t.Failed() || !fail.failed() {
				t.Logf("%d operations", n)
				break
			}
		}
	}
}

// Every operation of a life with commits, collects, an import and a closing fails in turn, alone or with all after it:
// nobody hangs, and the next opening has what was acked.
func TestALifeMayFailAnywhere(t *testing.T) {
	export := func() []byte {
		s := openTiny(t, vfs.NewMem())
		defer s.Close(ctx)
		putBlocks(t, lead(t, s, 1), 0, 30)
		var out bytes.Buffer
		if _, err := s.shards[1].Export(ctx, &out); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}()
	step := 3
	if testing.Short() {
		step = 40
	}
	for _, once := range []bool{true, false} {
		for n := 0; ; n += step {
			mem := vfs.NewMem()
			fail := &failFrom{}
			s := openTiny(t, errorfs.Wrap(mem, fail))
			fail.arm(n, once)
			var acked lifeState
			within(t, "the life", func() {
				acked = life(t, s, export)
				s.Close(ctx)
			})
			s = openTiny(t, mem)
			acked.check(t, s, n)
			if t.Failed() {
				t.FailNow()
			}
			s.Close(ctx)
			if !fail.failed() {
				t.Logf("%d operations", n)
				break
			}
		}
	}
}

// lifeState is what a life has done when it ended.
type lifeState struct {
	blocks    int64 // acked at shard 1, from 0 on
	thinned   bool  // all but every fifth deleted of the first 60; trying means perhaps
	trying    bool
	imported  bool // shard 3 holds blocks by an import
	importing bool
}

// life does things until one fails.
func life(t *testing.T, s *pebbleStore, export []byte) (st lifeState) {
	sh := s.shards[1]
	w, err := sh.Lead(ctx)
	if err != nil {
		return st
	}
	set := func(i int64) error {
		b := w.Begin()
		b.Set(BlockKey(testStream, i), blockValue(i))
		_, err := w.Commit(ctx, b)
		return err
	}
	for i := range int64(60) {
		if err := set(i); err != nil {
			return st
		}
		st.blocks++
	}
	if err := s.clean(); err != nil {
		return st
	}
	b := w.Begin()
	for i := range int64(60) {
		if i%5 != 0 {
			b.Delete(BlockKey(testStream, i))
		}
	}
	st.trying = true
	if _, err := w.Commit(ctx, b); err != nil {
		return st
	}
	st.thinned = true
	if err := s.clean(); err != nil {
		return st
	}
	for i := int64(60); i < 70; i++ {
		if err := set(i); err != nil {
			return st
		}
		st.blocks++
	}
	st.importing = true
	if _, err := sh.Import(ctx, bytes.NewReader(export)); err != nil {
		return st
	}
	st.imported = true
	s.clean()
	return st
}

func (st lifeState) check(t *testing.T, s *pebbleStore, n int) {
	t.Helper()
	seq := int64(s.shards[1].seq.Load())
	if st.importing && seq == 30 {
		checkStoreBlocks(t, s, func(i int64) bool { return true }, 30)
		return
	}
	deletes := int64(0)
	if st.thinned || st.trying && seq > 60 {
		deletes = 1
	}
	blocks := seq - deletes
	if st.imported || blocks < st.blocks || blocks > st.blocks+1 {
		t.Fatalf("operation %d: back at %d, %+v", n, seq, st)
	}
	checkStoreBlocks(t, s, func(i int64) bool { return deletes == 0 || i >= 60 || i%5 == 0 }, blocks)
}

// A loss of power tears the log, and others cut the opening that follows: whatever an opening has seen stands, and nothing
// that was promised is lost.
func TestAnOpeningMayBeCutAnywhere(t *testing.T) {
	copies, ends := 0, map[int64]int{}
	for round := range 6 {
		first := newCrashAlong()
		first.rng = rand.New(rand.NewPCG(uint64(round), 3))
		s := openTiny(t, first.mem)
		w := lead(t, s, 1)
		putBlocks(t, w, 0, 40)
		if err := s.SyncAll(ctx); err != nil {
			t.Fatal(err)
		}
		putBlocks(t, w, 40, 120)
		along := newCrashAlong()
		along.mem = first.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 99, RNG: first.rng})
		s.Close(ctx)
		var end int64
		along.during(func() {
			s = openTiny(t, errorfs.Wrap(along.mem, along))
			end = int64(s.shards[1].seq.Load())
		})
		s.Close(ctx)
		ends[end]++
		for i, clone := range along.clones {
			s := openTiny(t, clone)
			seq := int64(s.shards[1].seq.Load())
			if seq != end || seq < 40 {
				t.Fatalf("round %d, copy %d: at %d, not %d", round, i, seq, end)
			}
			checkStoreBlocks(t, s, func(int64) bool { return true }, seq)
			s.Close(ctx)
		}
		copies += len(along.clones)
		last := along.mem.CrashClone(vfs.CrashCloneCfg{})
		s = openTiny(t, last)
		if seq := int64(s.shards[1].seq.Load()); seq != end {
			t.Fatalf("round %d: an opening showed %d batches, the next %d", round, end, seq)
		}
		s.Close(ctx)
	}
	t.Logf("%d copies; first openings came back at %v", copies, ends)
}

// Names may reach the disk in any order: an opening that changes Pebble's MANIFEST is cut around the change, many times.
func TestAnOpeningKeepsPebblesManifest(t *testing.T) {
	along := newCrashAlong()
	s := openTiny(t, along.mem)
	putBlocks(t, lead(t, s, 1), 0, 10)
	along.mem = along.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: along.rng})
	s.Close(ctx)
	along.times = 20
	along.at = func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpRemove && strings.Contains(op.Path, "marker.") || op.Kind == errorfs.OpFileSync && op.Path == "data"
	}
	along.during(func() { s = openTiny(t, errorfs.Wrap(along.mem, along)) })
	s.Close(ctx)
	for i, clone := range along.clones {
		s, err := OpenPebble("data", Options{fs: clone})
		if err != nil {
			t.Fatalf("copy %d of %d: %v", i, len(along.clones), err)
		}
		checkStoreBlocks(t, s, func(int64) bool { return true }, 10)
		s.Close(ctx)
	}
	t.Logf("%d copies", len(along.clones))
}
