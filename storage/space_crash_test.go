package storage

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crashAlong copies a disk before each operation that changes it, as a crash at that moment would leave it: without
// what was not fsynced, with some of it, with all.
type crashAlong struct {
	mem    *vfs.MemFS
	at     func(errorfs.Op) bool // when; nil means always
	times  int                   // copies each time
	mu     sync.Mutex
	armed  bool
	rng    *rand.Rand
	clones []*vfs.MemFS
}

func (c *crashAlong) MaybeError(op errorfs.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed || op.Kind.ReadOrWrite() != errorfs.OpIsWrite || c.at != nil && !c.at(op) {
		return nil
	}
	for range c.times {
		c.clones = append(c.clones, c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.rng.IntN(3) * 50, RNG: c.rng}))
	}
	return nil
}

func (c *crashAlong) String() string { return "crashes" }

// during runs f with the disk being copied.
func (c *crashAlong) during(f func()) {
	set := func(on bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.armed = on
	}
	set(true)
	f()
	set(false)
}

func newCrashAlong() *crashAlong {
	return &crashAlong{times: 1, mem: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(1, 2))}
}

// Every copy that a crash in a collect leaves has all blocks, and can collect in its turn.
func TestACollectMayBeCutAnywhere(t *testing.T) {
	along := newCrashAlong()
	s := openTiny(t, errorfs.Wrap(along.mem, along))
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 120)
	thin(t, w, 120, 5)
	if err := s.SyncAll(ctx); err != nil {
		t.Fatal(err)
	}
	along.during(func() {
		for range 2 { // the second removes what the first has moved from
			if err := s.clean(); err != nil {
				t.Fatal(err)
			}
		}
	})
	s.Close(ctx)
	homes := 0
	for i, clone := range along.clones {
		s := openTiny(t, clone)
		kept := func(i int64) bool { return i%5 == 0 }
		checkStoreBlocks(t, s, kept, 120)
		if _, n, _ := segmentFiles(t, clone); n > 0 {
			homes++
		}
		if err := s.clean(); err != nil {
			t.Fatalf("clone %d: %v", i, err)
		}
		checkStoreBlocks(t, s, kept, 120)
		s.Close(ctx)
	}
	if t.Logf("%d copies, %d with a home", len(along.clones), homes); homes == 0 || homes == len(along.clones) {
		t.Error("the copies do not span the move")
	}
}

// An older export over newer commits: every copy that a crash leaves has the shard of before or that of the export, takes
// commits on top of it, and finds them again.
func TestAnImportOfBlocksMayBeCutAnywhere(t *testing.T) {
	along := newCrashAlong()
	s := openTiny(t, errorfs.Wrap(along.mem, along))
	w := lead(t, s, 1)
	putBlocks(t, w, 0, 40)
	var out bytes.Buffer
	old, err := s.shards[1].Export(ctx, &out)
	if err != nil {
		t.Fatal(err)
	}
	putBlocks(t, w, 40, 90)
	put(t, lead(t, s, 2), 2, "neighbour", "stays")
	if err := s.SyncAll(ctx); err != nil {
		t.Fatal(err)
	}
	along.during(func() {
		if _, err := s.shards[1].Import(ctx, bytes.NewReader(out.Bytes())); err != nil {
			t.Fatal(err)
		}
		putBlocks(t, lead(t, s, 1), 40, 42)
		if err := s.SyncAll(ctx); err != nil {
			t.Fatal(err)
		}
	})
	s.Close(ctx)
	seen := map[uint64]int{}
	for i, clone := range along.clones {
		s := openTiny(t, clone)
		seq := s.shards[1].seq.Load()
		if seen[seq]++; seq != 90 && (seq < old.Seq || seq > 42) {
			t.Fatalf("copy %d: at %d", i, seq)
		}
		all := func(int64) bool { return true }
		checkStoreBlocks(t, s, all, int64(seq)) // block n is batch n+1's
		putBlocks(t, lead(t, s, 1), int64(seq), int64(seq)+3)
		if got := records(t, s, 2); got != "neighbour=stays" {
			t.Fatalf("copy %d: the neighbour: %s", i, got)
		}
		clone = clone.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: along.rng})
		s.Close(ctx)
		s = openTiny(t, clone)
		checkStoreBlocks(t, s, all, int64(seq)+3)
		s.Close(ctx)
	}
	if t.Log(len(along.clones), seen); seen[90] == 0 || seen[40] == 0 {
		t.Error("the copies do not span the import")
	}
}

// scripted is what batch seq of a script does; on rows it does the same.
func scripted(seq uint64, b Batch, rows map[int64][]byte) {
	rng := rand.New(rand.NewPCG(seq, 9))
	at := int64(seq)
	set := func(i int64, value []byte) {
		if b != nil {
			b.Set(BlockKey(testStream, i), value)
		}
		if rows != nil {
			rows[i] = value
		}
	}
	remove := func(i int64) {
		if b != nil {
			b.Delete(BlockKey(testStream, i))
		}
		delete(rows, i)
	}
	set(at, blockValue(at)[:rng.IntN(4100)])
	switch rng.IntN(6) {
	case 0:
		for i := at - 20; i < at; i++ {
			if rng.IntN(3) > 0 {
				remove(i)
			}
		}
	case 1:
		set(at-1-rng.Int64N(20), blockValue(-at)) // where one may have been deleted
	case 2:
		lower := max(0, at-100)
		if b != nil {
			b.DeleteRange(BlocksRange(testStream, -30, lower))
		}
		for i := range rows {
			if i < lower {
				delete(rows, i)
			}
		}
	}
}

// A writer sets, overwrites, deletes and trims, a janitor that never rests collects beside him, and power is lost at some
// moment: what comes back is the script up to some batch, not before what was durable.
func TestCollectsBesideAWriterSurviveLossOfPower(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	collects := 0
	for round := range rounds {
		mem := vfs.NewCrashableMem()
		s := openTiny(t, &linkAlone{FS: mem})
		w := lead(t, s, 1)
		var stop atomic.Bool
		var durable, at atomic.Uint64
		var wg sync.WaitGroup
		wg.Go(func() {
			for seq := uint64(1); !stop.Load(); seq++ {
				b := w.Begin()
				scripted(seq, b, nil)
				pos, err := w.Commit(ctx, b)
				if err == nil && seq%50 == 0 {
					if err = w.Durable(ctx, pos); err == nil {
						durable.Store(seq)
					}
				}
				if err != nil || pos.Seq != seq {
					t.Errorf("batch %d: %v, %v", seq, pos, err)
					return
				}
				at.Store(seq)
			}
		})
		wg.Go(func() {
			for !stop.Load() {
				if err := s.clean(); err != nil {
					t.Error(err)
					return
				}
				collects++
			}
		})
		for until := uint64(300 + 97*round); at.Load() < until && !t.Failed(); {
			runtime.Gosched()
		}
		promised := durable.Load()
		clone := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 95, 100}[round%4], RNG: rand.New(rand.NewPCG(uint64(round), 4))})
		stop.Store(true)
		wg.Wait()
		s.Close(ctx)
		if t.Failed() {
			return
		}
		s = openTiny(t, clone)
		seq := s.shards[1].seq.Load()
		if seq < promised {
			t.Fatalf("round %d: back at %d of %d", round, seq, promised)
		}
		want := map[int64][]byte{}
		for i := range seq {
			scripted(i+1, nil, want)
		}
		for range 2 {
			v, _ := s.shards[1].View()
			it, _ := v.Scan(StreamRange(testStream))
			rows := 0
			for it.Next() {
				k, _ := ParseKey(it.Key())
				value, err := it.Value()
				if err != nil || !bytes.Equal(value, want[k.Offset]) {
					t.Fatalf("round %d, at %d: block %d: %d bytes of %d, %v", round, seq, k.Offset, len(value), len(want[k.Offset]), err)
				}
				rows++
			}
			if err := it.Error(); err != nil || rows != len(want) {
				t.Fatalf("round %d, at %d: %d blocks of %d, %v", round, seq, rows, len(want), err)
			}
			it.Close()
			v.Close()
			if err := s.clean(); err != nil {
				t.Fatal(err)
			}
		}
		s.Close(ctx)
	}
	t.Logf("%d collects", collects)
}
