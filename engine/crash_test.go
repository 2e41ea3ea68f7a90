package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"weir/storage"
)

// ledger is what clients were told, and at which level.
type ledger struct {
	mu      sync.Mutex
	grown   *sync.Cond
	entries []told
	acked   map[string]map[ID]Level // group -> acknowledged IDs
	commits map[string]int64        // Kafka group -> highest acknowledged commit (they only go up)
	begun   map[string]int64        // Kafka group -> highest commit ever sent
}

type told struct {
	stream int
	offset int64
	id     ID
	level  Level
}

const crashStreams = 6

var (
	crashSeeds  = uint64(6)
	crashRounds = 4
)

// crashActor writes, reads and acknowledges until told to stop.
func crashActor(e *Engine, nos []StreamNo, l *ledger, actor int, stop <-chan struct{}) error {
	rng := rand.New(rand.NewPCG(uint64(actor), 3))
	ctx := context.Background()
	turn := e.Begin(Written)
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		level := Written
		if rng.IntN(4) == 0 {
			level = Durable
		}
		turn.SetLevel(level)
		turn.Tick()
		i := rng.IntN(len(nos))
		switch rng.IntN(8) {
		case 0:
			if err := crashDeliver(turn, nos[i], fmt.Sprint("g", i), fmt.Sprint("c", actor), level, l); err != nil {
				return err
			}
		case 1:
			if err := crashCommit(turn, nos[i], fmt.Sprint("k", i), l, level); err != nil {
				return err
			}
		default:
			var mine []told
			for range 1 + rng.IntN(5) { // a pipeline, over two streams
				j := (i + rng.IntN(2)) % len(nos)
				var got Appended
				var err error
				if rng.IntN(3) == 0 {
					got, err = turn.AppendBatch(nos[j], BatchArgs{Data: fakeBatch(3), Count: 3, MinTime: 1, MaxTime: 2})
				} else {
					got, err = turn.Append(nos[j], AppendArgs{Auto: true, Fields: fields("f", "v")})
				}
				if err != nil {
					return err
				}
				mine = append(mine, told{j, got.Base, got.FirstID, level})
			}
			if err := turn.Wait(ctx); err != nil {
				return err
			}
			l.mu.Lock()
			l.entries = append(l.entries, mine...)
			l.grown.Signal()
			l.mu.Unlock()
		}
	}
}

func crashDeliver(turn *Turn, no StreamNo, group, consumer string, level Level, l *ledger) error {
	g := turn.Group(no, group)
	if err := g.ConsumerTouch(consumer, RedisConsumer); err != nil {
		return err
	}
	r, err := g.Deliver(consumer, DeliverArgs{Count: 5})
	if err != nil {
		return err
	}
	var got []ID
	for r != nil {
		run, ok, err := r.Next()
		if err != nil || !ok {
			r.Close()
			if err != nil {
				return err
			}
			break
		}
		for o := run.From; o <= run.To; o++ {
			id, _ := run.Block.IDAt(o)
			got = append(got, id)
		}
	}
	if len(got) > 2 {
		got = got[:len(got)-1] // one stays pending
	}
	if _, err := g.Ack(got); err != nil {
		return err
	}
	if err := turn.Wait(context.Background()); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acked[group] == nil {
		l.acked[group] = map[ID]Level{}
	}
	for _, id := range got {
		l.acked[group][id] = level
	}
	return nil
}

func crashCommit(turn *Turn, no StreamNo, group string, l *ledger, level Level) error {
	st, err := turn.Stat(no)
	if err != nil {
		return err
	}
	l.mu.Lock()
	n := max(l.begun[group], st.HighWater)
	l.begun[group] = n
	l.mu.Unlock()
	if err := turn.Group(no, group).Commit(CommitArgs{Offset: n, Epoch: -1}); err != nil {
		return err
	}
	if err := turn.Wait(context.Background()); err != nil {
		return err
	}
	if level == Durable {
		l.mu.Lock()
		l.commits[group] = max(l.commits[group], n)
		l.mu.Unlock()
	}
	return nil
}

func TestWhatWasToldSurvivesACrash(t *testing.T) {
	for seed := range crashSeeds {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) { crashOnce(t, seed) })
	}
}

func crashOnce(t *testing.T, seed uint64) {
	ctx := context.Background()
	disk := storage.NewCrashDisk()
	st, err := disk.Open(storage.Options{Shards: 4, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, st, Options{TailCache: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	turn := e.Begin(Durable)
	var nos []StreamNo
	for i := range crashStreams {
		no := must[StreamNo](t)(turn.Create([]byte(fmt.Sprint("s", i))))
		nos = append(nos, no)
		if err := turn.Group(no, fmt.Sprint("g", i)).Create(GroupStart{EntriesRead: -1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := turn.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	l := &ledger{acked: map[string]map[ID]Level{}, commits: map[string]int64{}, begun: map[string]int64{}}
	l.grown = sync.NewCond(&l.mu)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for a := range 8 {
		wg.Go(func() {
			if err := crashActor(e, nos, l, a, stop); err != nil {
				t.Error(err)
				l.grown.Signal()
			}
		})
	}
	for round := range crashRounds {
		l.mu.Lock()
		for len(l.entries) < (round+1)*600 && !t.Failed() {
			l.grown.Wait()
		}
		l.mu.Unlock()
		// The ledger is read before the disk is copied: everything in it was told by then.
		before := l.copy()
		crashed, level := disk.AfterKill(), Written
		if round%2 == 1 {
			crashed, level = disk.AfterPowerLoss(seed*10+uint64(round), int(seed%3)*40), Durable
		}
		compareAfterCrash(t, crashed, nos, before, level)
	}
	close(stop)
	wg.Wait()
	if err := e.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := st.Close(ctx); err != nil {
		t.Error(err)
	}
}

func (l *ledger) copy() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &ledger{entries: append([]told(nil), l.entries...), acked: map[string]map[ID]Level{}, commits: map[string]int64{}}
	for g, m := range l.acked {
		c.acked[g] = map[ID]Level{}
		for id, level := range m {
			c.acked[g][id] = level
		}
	}
	for g, n := range l.commits {
		c.commits[g] = n
	}
	return c
}

// compareAfterCrash opens the crashed disk and looks for everything that was told at a level that survives.
func compareAfterCrash(t *testing.T, disk *storage.CrashDisk, nos []StreamNo, l *ledger, level Level) {
	t.Helper()
	ctx := context.Background()
	st, err := disk.Open(storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close(ctx)
	e, err := Open(ctx, st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(ctx)
	turn := e.Begin(Written)
	for _, x := range l.entries {
		if x.level < level {
			continue
		}
		off, alive, err := turn.OffsetOf(nos[x.stream], x.id)
		if err != nil || !alive || off != x.offset {
			t.Fatalf("stream %d: %v was told at offset %d; after the crash: offset %d, there %v, %v", x.stream, x.id, x.offset, off, alive, err)
		}
	}
	for i, no := range nos {
		// Nothing is given twice: the next append stands above all that was told.
		got := must[Appended](t)(turn.Append(no, AppendArgs{Auto: true, Fields: fields("after", "crash")}))
		for _, x := range l.entries {
			if x.level >= level && x.stream == i && (x.offset >= got.Base || !x.id.Less(got.FirstID)) {
				t.Fatalf("stream %d: %v at %d given again as %v at %d", i, x.id, x.offset, got.FirstID, got.Base)
			}
		}
		compareGroups(t, turn, no, fmt.Sprint("g", i), fmt.Sprint("k", i), l, level)
	}
	if err := checkStore(st); err != nil {
		t.Fatal(err)
	}
}

func compareGroups(t *testing.T, turn *Turn, no StreamNo, redis, kafka string, l *ledger, level Level) {
	t.Helper()
	g := turn.Group(no, redis)
	rows := must[[]HeldDetail](t)(g.Pending(PendingArgs{To: MaxID, Count: 1 << 40}))
	for _, row := range rows {
		if told, acked := l.acked[redis][row.ID]; acked && told >= level {
			t.Fatalf("group %s: %v was acknowledged and is pending after the crash", redis, row.ID)
		}
	}
	sum := int64(0)
	for _, c := range must[[]ConsumerStat](t)(g.Consumers()) {
		sum += c.Pending
	}
	if sum != int64(len(rows)) {
		t.Fatalf("group %s: %d pending, but its consumers hold %d", redis, len(rows), sum)
	}
	if want, ok := l.commits[kafka]; ok {
		c, there, err := turn.Group(no, kafka).Committed()
		if err != nil || !there || c.Offset < want {
			t.Fatalf("group %s: committed %d was told; after the crash: %d %v %v", kafka, want, c.Offset, there, err)
		}
	}
}
