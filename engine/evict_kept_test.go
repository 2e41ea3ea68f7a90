package engine

import (
	"context"
	"runtime"
	"testing"

	"weir/storage"
)

// What only memory has of a stream: it is let go when that is nothing, and else written first.

// keeper is an engine of one shard, and streams of five entries each.
func keeper(t *testing.T, st storage.Store, streams int) (*Engine, *Turn, []StreamNo) {
	t.Helper()
	e, err := Open(context.Background(), st, Options{LoadedStreams: 4})
	if err != nil {
		t.Fatal(err)
	}
	turn := e.Begin(Written)
	var all []StreamNo
	for i := range streams {
		no, err := turn.Create([]byte{byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, no)
		grow(t, turn, no, 5)
	}
	return e, turn, all
}

func grow(t *testing.T, turn *Turn, no StreamNo, entries int) {
	t.Helper()
	for range entries {
		if _, err := turn.Append(no, AppendArgs{Auto: true, Fields: [][]byte{{}, {}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := turn.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// letGo loads the others until the first stream has gone.
func letGo(t *testing.T, e *Engine, turn *Turn, all []StreamNo) {
	t.Helper()
	s := e.shards[0]
	for range 100_000 {
		runtime.Gosched() // to who leads a late round
		for _, no := range all[1:] {
			if _, err := turn.Stat(no); err != nil {
				t.Fatal(err)
			}
		}
		if err := turn.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		if !s.loaded(all[0]) {
			return
		}
	}
	t.Fatal("an idle stream stays in memory")
}

// A Kafka consumer that never commits leaves no trace, and its partition is not kept in memory for it.
func TestAProvisionalGroupThatWentKeepsNoStream(t *testing.T) {
	e, turn, all := keeper(t, storage.NewMem(1), 20)
	defer e.Close(context.Background())
	g := turn.Group(all[0], "g")
	for _, err := range []error{g.SetReader("m"), g.DeliverFetched("m", ClassicMember, 0, 0), g.PutBack()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	letGo(t, e, turn, all)
}

// A commit beyond the end, which the stream outgrows in memory or out of it: the group's ID and lag follow.
func TestACommitBeyondTheEndOutlivesItsStreamsLeave(t *testing.T) {
	e, turn, all := keeper(t, storage.NewMem(1), 20)
	defer e.Close(context.Background())
	no := all[0]
	g := turn.Group(no, "g")
	if err := g.Commit(CommitArgs{Offset: 10}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{2, 5} { // to 7 and 12 entries
		letGo(t, e, turn, all)
		grow(t, turn, no, n)
	}
	letGo(t, e, turn, all)
	stat, err := g.Stat()
	if err != nil {
		t.Fatal(err)
	}
	run, err := turn.Range(no, RangeArgs{From: stat.LastID, To: stat.LastID, Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	found, ok, err := run.Next()
	if err != nil || !ok || found.From != 9 || stat.LastOffset != 9 || stat.Lag != 2 || stat.EntriesRead != 10 {
		t.Errorf("%+v, whose ID is that of offset %d: %v, %v", stat, found.From, ok, err)
	}
}

// What a Kafka member has fetched is in memory only; an engine that is closed writes it, though nothing else is to be written.
func TestCloseWritesWhatWasFetched(t *testing.T) {
	ctx, st := context.Background(), storage.NewMem(1)
	e, turn, all := keeper(t, st, 1)
	g := turn.Group(all[0], "g")
	if err := g.Create(GroupStart{}); err != nil {
		t.Fatal(err)
	}
	if err := turn.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if err := g.DeliverFetched("m", ClassicMember, 0, 2); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(ctx); err != nil {
		t.Fatal(err)
	}
	e, err := Open(ctx, st, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(ctx)
	if stat, err := e.Begin(Written).Group(all[0], "g").Stat(); err != nil || stat.LastOffset != 2 || stat.Pending != 3 {
		t.Errorf("%+v, %v", stat, err)
	}
}
