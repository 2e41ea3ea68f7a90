package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// crashLoad commits on every shard, at mixed levels, until told to stop. Batch seq
// of a shard holds the row seq; each tenth spans two shards.
type crashLoad struct {
	store   Store
	writers []Writer
	mu      []sync.Mutex // of the shard: its writer's goroutine, and a neighbour's together
	durable []atomic.Uint64
	every   int // one commit in so many is made durable
	steps   atomic.Int64
	stop    atomic.Bool
	wg      sync.WaitGroup
}

func startLoad(t *testing.T, s Store, seed uint64, every int) *crashLoad {
	n := s.Layout().Shards
	l := &crashLoad{store: s, every: every, mu: make([]sync.Mutex, n), durable: make([]atomic.Uint64, n)}
	for i := range n {
		l.writers = append(l.writers, lead(t, s, ShardID(i)))
	}
	for i := range n {
		l.wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for !l.stop.Load() {
				l.steps.Add(1)
				if err := l.step(i, rng); err != nil {
					t.Errorf("shard %d: %v", i, err)
					return
				}
			}
		})
	}
	return l
}

func crashRow(w Writer, id ShardID, seq uint64, partner string, size int) Batch {
	b := w.Begin()
	value := append(fmt.Appendf(nil, "%s|", partner), make([]byte, size)...)
	b.Set(BlockKey(StreamNo(id)<<48|1, int64(seq)), value)
	b.Set(rec(id, "last"), binary.BigEndian.AppendUint64(nil, seq))
	return b
}

func (l *crashLoad) step(i int, rng *rand.Rand) error {
	id := ShardID(i)
	size := rng.IntN(3000)
	if rng.IntN(10) == 0 {
		return l.together(i, (i+1)%len(l.writers), size)
	}
	l.mu[i].Lock()
	at, _ := l.writers[i].Commit(ctx, l.writers[i].Begin())
	pos, err := l.writers[i].Commit(ctx, crashRow(l.writers[i], id, at.Seq+1, "", size))
	l.mu[i].Unlock()
	if err != nil || rng.IntN(l.every) > 0 {
		return err
	}
	if err := l.writers[i].Durable(ctx, pos); err != nil {
		return err
	}
	l.ack(i, pos)
	return nil
}

func (l *crashLoad) ack(i int, pos Pos) {
	for {
		old := l.durable[i].Load()
		if old >= pos.Seq || l.durable[i].CompareAndSwap(old, pos.Seq) {
			return
		}
	}
}

func (l *crashLoad) together(i, j, size int) error {
	lo, hi := min(i, j), max(i, j)
	l.mu[lo].Lock()
	l.mu[hi].Lock()
	a, _ := l.writers[lo].Commit(ctx, l.writers[lo].Begin())
	b, _ := l.writers[hi].Commit(ctx, l.writers[hi].Begin())
	at, err := l.store.CommitTogether(ctx, []Batch{
		crashRow(l.writers[lo], ShardID(lo), a.Seq+1, fmt.Sprintf("%d:%d", hi, b.Seq+1), size),
		crashRow(l.writers[hi], ShardID(hi), b.Seq+1, fmt.Sprintf("%d:%d", lo, a.Seq+1), size),
	})
	l.mu[hi].Unlock()
	l.mu[lo].Unlock()
	if err == nil && size%l.every == 0 {
		if err = l.writers[lo].Durable(ctx, at[0]); err == nil {
			l.ack(lo, at[0])
			l.ack(hi, at[1])
		}
	}
	return err
}

// acked reads what has been promised up to now.
func (l *crashLoad) acked() []uint64 {
	out := make([]uint64, len(l.durable))
	for i := range out {
		out[i] = l.durable[i].Load()
	}
	return out
}

// checkRecovered reads a reopened store: each shard holds exactly the rows of its
// first seq batches, no fewer than were promised, and no half of a pair.
func checkRecovered(t *testing.T, s Store, acked []uint64) (beyond int) {
	t.Helper()
	seqs := make([]uint64, len(acked))
	for i := range acked {
		w := lead(t, s, ShardID(i))
		at, err := w.Commit(ctx, w.Begin())
		if err != nil {
			t.Fatal(err)
		}
		if seqs[i] = at.Seq; at.Seq < acked[i] {
			t.Errorf("shard %d: recovered %d, promised %d", i, at.Seq, acked[i])
		}
		beyond += int(at.Seq - acked[i])
	}
	for i := range acked {
		v, _ := shardOf(t, s, ShardID(i)).View()
		it, _ := v.Scan(BlocksRange(StreamNo(i)<<48|1, 0, 1<<60))
		var rows uint64
		for it.Next() {
			rows++
			k, err := ParseKey(it.Key())
			if err != nil || k.Offset != int64(rows) {
				t.Fatalf("shard %d: row %v where %d belongs: %v", i, k.Offset, rows, err)
			}
			value, err := it.Value()
			if err != nil {
				t.Fatal(err)
			}
			partner, _, _ := bytes.Cut(value, []byte("|"))
			if j, seq, ok := strings.Cut(string(partner), ":"); ok {
				other, _ := strconv.Atoi(j)
				need, _ := strconv.ParseUint(seq, 10, 64)
				if seqs[other] < need {
					t.Errorf("shard %d has %d of a pair, shard %d stands at %d, not %d", i, rows, other, seqs[other], need)
				}
			}
		}
		if rows != seqs[i] {
			t.Errorf("shard %d: %d rows at position %d", i, rows, seqs[i])
		}
		it.Close()
		v.Close()
	}
	return beyond
}

// A clone of the disk at a random moment of loss of power: some of what was not
// fsynced survives, in any order.
func TestWhatIsDurableSurvivesLossOfPower(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var torn atomic.Int64
	var beyond int
	for round := range rounds {
		fs := vfs.NewCrashableMem()
		s, err := OpenPebble("data", Options{Shards: 4, fs: fs, MemtableBytes: 256 << 10, segment: 200 << 10})
		if err != nil {
			t.Fatal(err)
		}
		l := startLoad(t, s, rng.Uint64(), []int{3, 300}[round%2])
		for until := int64(50 + rng.IntN(1500)); l.steps.Load() < until && !t.Failed(); {
			runtime.Gosched()
		}
		acked := l.acked() // before the clone: what it must hold
		percent := []int{0, 30, 70, 95, 100}[round%5]
		clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: newRand(rng)})
		l.stop.Store(true)
		l.wg.Wait()
		s.Close(ctx)

		again, err := OpenPebble("data", Options{fs: clone, MemtableBytes: 256 << 10, Logger: countTorn(&torn)})
		if err != nil {
			t.Fatalf("round %d, %d%% kept: %v", round, percent, err)
		}
		beyond += checkRecovered(t, again, acked)
		again.Close(ctx)
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d rounds: %d logs had a torn end, %d batches survived that nobody had been promised", rounds, torn.Load(), beyond)
}

// countTorn counts the openings that found the log torn.
func countTorn(n *atomic.Int64) *slog.Logger {
	return slog.New(slog.NewTextHandler(writerFunc(func(line []byte) {
		if bytes.Contains(line, []byte("torn end")) {
			n.Add(1)
		}
	}), nil))
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// newRand makes the kind of generator that CrashClone wants.
func newRand(rng *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), 1)) }

// The child commits at level written, prints the position after each, and kills
// itself. What it printed must be there.
func TestWhatIsWrittenSurvivesKill(t *testing.T) {
	if dir := os.Getenv("WEIR_CRASH_DIR"); dir != "" {
		killedChild(dir)
	}
	dir := t.TempDir()
	var printed uint64
	for range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestWhatIsWrittenSurvivesKill$")
		cmd.Env = append(os.Environ(), "WEIR_CRASH_DIR="+dir)
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("the child ended otherwise: %v\n%s", err, out)
		}
		lines := strings.Fields(string(out))
		printed, err = strconv.ParseUint(lines[len(lines)-1], 10, 64)
		if err != nil {
			t.Fatalf("%v in %q", err, out)
		}
		s, err := OpenPebble(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := lead(t, s, 5)
		if at, _ := w.Commit(ctx, w.Begin()); at.Seq != printed {
			t.Errorf("recovered %d, the child had been told %d", at.Seq, printed)
		}
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func killedChild(dir string) {
	s, err := OpenPebble(dir, Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	sh, _ := s.Shard(5)
	w, _ := sh.Lead(ctx)
	for i := range 200 {
		b := w.Begin()
		b.Set(rec(5, fmt.Sprint(i)), make([]byte, 100))
		pos, err := w.Commit(ctx, b)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(pos.Seq)
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// An import may take a shard back to a lower position; what was promised of the
// shard before must not keep the store from opening.
func TestAnImportSurvivesLossOfPower(t *testing.T) {
	fs := vfs.NewCrashableMem()
	s := openMemPebble(t, fs)
	w := lead(t, s, 2)
	put(t, w, 2, "a", "1")
	var early bytes.Buffer
	if _, err := shardOf(t, s, 2).Export(ctx, &early); err != nil {
		t.Fatal(err)
	}
	var pos Pos
	for i := range 30 {
		pos = put(t, w, 2, "later", fmt.Sprint(i))
	}
	if err := w.Durable(ctx, pos); err != nil {
		t.Fatal(err)
	}
	if _, err := shardOf(t, s, 2).Import(ctx, &early); err != nil {
		t.Fatal(err)
	}
	clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	bare := fs.CrashClone(vfs.CrashCloneCfg{})
	s.Close(ctx)
	for name, fs := range map[string]vfs.FS{"all": clone, "what was fsynced": bare} {
		s, err := OpenPebble("data", Options{fs: fs})
		if err != nil {
			t.Fatalf("%s kept: %v", name, err)
		}
		if got := records(t, s, 2); got != "a=1" {
			t.Errorf("%s kept: %s", name, got)
		}
		s.Close(ctx)
	}
}

// A log damaged below what was promised: opening must not pass silently.
func TestADamagedDurableLogIsNotOpened(t *testing.T) {
	fs := vfs.NewMem()
	s := openMemPebble(t, fs)
	w := lead(t, s, 0)
	var pos Pos
	for i := range 50 {
		pos = put(t, w, 0, fmt.Sprint(i), strings.Repeat("x", 200))
	}
	if err := w.Durable(ctx, pos); err != nil {
		t.Fatal(err)
	}
	clone := cloneDir(t, fs, "data")
	s.Close(ctx)
	f, err := clone.OpenReadWrite("data/"+segmentName(1, false), "test")
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte("damage"), 5000)
	f.Close()
	_, err = OpenPebble("data", Options{fs: clone})
	if err == nil || !strings.Contains(err.Error(), "shard 0 came back at batch") {
		t.Fatalf("opened: %v", err)
	}
	// The way out that the message names.
	if err := clone.Remove("data/" + markName); err != nil {
		t.Fatal(err)
	}
	s, err = OpenPebble("data", Options{fs: clone})
	if err != nil {
		t.Fatal(err)
	}
	w = lead(t, s, 0)
	if at, _ := w.Commit(ctx, w.Begin()); at.Seq == 0 || at.Seq >= pos.Seq {
		t.Errorf("what is left: %v", at)
	}
	s.Close(ctx)
}

// cloneDir copies a directory as it is, as a process's death leaves it.
func cloneDir(t *testing.T, fs vfs.FS, dir string) *vfs.MemFS {
	t.Helper()
	clone := vfs.NewMem()
	if ok, err := vfs.Clone(fs, clone, dir, dir); !ok || err != nil {
		t.Fatal(ok, err)
	}
	return clone
}
