package engine

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"weir/storage"
)

// Many streams, few of them in memory: each is what it was when it is asked for again, and what is not in the store yet
// stays.
func TestIdleStreamsAreLetGo(t *testing.T) {
	ctx := context.Background()
	const shards, most, n = 2, 8, 400
	e, err := Open(ctx, storage.NewMem(shards), Options{LoadedStreams: most})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(ctx)
	loaded := func() (n int) {
		for _, s := range e.shards {
			s.mu.Lock()
			n += len(s.streams)
			s.mu.Unlock()
		}
		return n
	}
	turn := e.Begin(Written)
	var all []StreamNo
	for i := range n {
		no, err := turn.Create(fmt.Appendf(nil, "stream %d", i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, no)
		for range 3 {
			if _, err := turn.Append(no, AppendArgs{Auto: true, Fields: [][]byte{[]byte("stream"), fmt.Append(nil, i)}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := turn.Group(no, "g").Create(GroupStart{}); err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 { // those in between are in no store yet
			if got := loaded(); got < 50 {
				t.Fatalf("%d streams are loaded, of 50 that nobody has committed", got)
			}
			if err := turn.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 3 {
		for i := range n {
			no := all[i*7%n]
			stat, err := turn.Stat(no)
			if err != nil || string(stat.Key) != fmt.Sprintf("stream %d", i*7%n) || stat.Length != 3+int64(round) || stat.Groups != 1 {
				t.Fatalf("stream %d: %+v, %v", i*7%n, stat, err)
			}
			if _, err := turn.Append(no, AppendArgs{Auto: true, Fields: [][]byte{{}, {}}}); err != nil {
				t.Fatal(err)
			}
			if err := turn.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if got := loaded(); got > most {
			t.Fatalf("round %d: %d streams are loaded, %d at most", round, got, most)
		}
	}
	// A consumer that finds nothing is seen, which is written late: it keeps no stream.
	for range 4 {
		for _, no := range all {
			g := turn.Group(no, "g")
			if err := g.SetID(GroupStart{Last: true}); err != nil {
				t.Fatal(err)
			}
			if err := turn.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Deliver("worker", DeliverArgs{}); err != nil {
				t.Fatal(err)
			}
			turn.Tick()
		}
	}
	for s := range e.shards {
		// Whoever leads the last of those rounds has the token.
		e.shards[s].token <- struct{}{}
		<-e.shards[s].token
	}
	if got := loaded(); got > 4*most {
		t.Fatalf("%d streams whose consumers were seen are loaded, %d at most", got, most)
	}
	if used := e.tail.used.Load(); used > most*1024 {
		t.Errorf("the tail cache counts %d bytes of streams that have gone", used)
	}
}

// A stream that was let go is not kept by those that were written in the same round.
func TestAStreamThatIsLetGoIsForgotten(t *testing.T) {
	ctx := context.Background()
	for _, level := range []Level{Written, Durable} {
		e, err := Open(ctx, storage.NewMem(1), Options{})
		if err != nil {
			t.Fatal(err)
		}
		turn := e.Begin(level)
		var all []StreamNo
		for _, key := range []string{"goes", "stays"} {
			no, err := turn.Create([]byte(key))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, no)
		}
		if err := turn.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		s := e.shards[0]
		s.mu.Lock()
		goes := weak.Make(s.streams[all[0]])
		s.let(all[0], s.streams[all[0]])
		s.mu.Unlock()
		runtime.GC()
		if goes.Value() != nil {
			t.Errorf("level %v: still in memory", level)
		}
		if err := e.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
