package resp

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"weir/bridge"
	"weir/engine"
	"weir/storage"
)

// TestRouted plays testdata/routed/*.txt: keys of topics with several partitions, which Redis does not have. To the lines of
// TestTranscripts come, with a clock that stands still unless told:
//
//	topic name=orders partitions=3      makes (or grows) a topic
//	clock ms=1000                       the time
func TestRouted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "routed", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var clock atomic.Int64
			clock.Store(1000)
			b := openBridgeAt(t, clock.Load)
			addr := serve(t, New(b, Options{Loops: 1}))
			st := newStage(t, addr)
			defer st.close()
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "topic":
					var name string
					var n int
					d.ScanArgs(t, "name", &name)
					d.ScanArgs(t, "partitions", &n)
					return makeTopic(b, name, int32(n))
				case "clock":
					var ms int
					d.ScanArgs(t, "ms", &ms)
					clock.Store(int64(ms))
					return ""
				}
				return st.play(t, d)
			})
		})
	}
}

// openBridgeAt is openBridge with a clock.
func openBridgeAt(t testing.TB, now func() int64) *bridge.Bridge {
	t.Helper()
	ctx := context.Background()
	st := storage.NewMem(16)
	eng, err := engine.Open(ctx, st, engine.Options{NowMS: now})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bridge.Open(ctx, eng, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close(ctx)
		eng.Close(ctx)
		st.Close(ctx)
	})
	return b
}

func makeTopic(b *bridge.Bridge, name string, n int32) string {
	ctx := context.Background()
	if _, ok := b.Topic(name); ok {
		if err := b.GrowTopic(ctx, name, n, nil, false); err != nil {
			return err.Error() + "\n"
		}
		return "grown to " + strconv.Itoa(int(n)) + "\n"
	}
	t, err := b.CreateTopic(ctx, bridge.NewTopic{Name: name, Partitions: n, Replication: bridge.Default}, false)
	if err != nil {
		return err.Error() + "\n"
	}
	return strconv.Itoa(len(t.Streams)) + " partitions\n"
}

// TestRoutedTrimKeepsTheNewest: after random appends, deletions and exact trimming a topic of several partitions holds what one
// stream would hold, by ID; whether the cut is counted or searched for (bridge/fan_trim.go).
func TestRoutedTrimKeepsTheNewest(t *testing.T) {
	var clock atomic.Int64
	clock.Store(1000)
	b := openBridgeAt(t, clock.Load)
	c := dial(t, serve(t, New(b, Options{Loops: 1})))
	makeTopic(b, "t", 5)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var model []engine.ID
	for step := range 60 {
		for range rnd.IntN(150) {
			if rnd.IntN(3) == 0 {
				clock.Add(rnd.Int64N(3))
			}
			// Keys are skewed, so that partitions are of different sizes.
			id, ok := parseID([]byte(c.do("XADD", "t", "*", "key", itoa(int64(rnd.IntN(1+rnd.IntN(20)))), "v", "1").text), 0)
			if !ok {
				t.Fatal("XADD")
			}
			model = append(model, id)
		}
		slices.SortFunc(model, engine.ID.Compare)
		for range rnd.IntN(10) {
			if len(model) > 0 {
				i := rnd.IntN(len(model))
				if got := ask(c, "XDEL t %v", model[i]); got != "1" {
					t.Fatalf("XDEL: %s", got)
				}
				model = slices.Delete(model, i, i+1)
			}
		}
		keep := rnd.IntN(len(model) + 20)
		gone := max(len(model)-keep, 0)
		if got := ask(c, "XTRIM t MAXLEN %d", keep); got != itoa(int64(gone)) {
			t.Fatalf("step %d: XTRIM MAXLEN %d of %d removed %s", step, keep, len(model), got)
		}
		model = model[gone:]
		v := c.do("XRANGE", "t", "-", "+")
		if len(v.elems) != len(model) {
			t.Fatalf("step %d: %d entries, want %d", step, len(v.elems), len(model))
		}
		for i, e := range v.elems {
			if e.elems[0].text != model[i].String() {
				t.Fatalf("step %d: entry %d is %s, want %v", step, i, e.elems[0].text, model[i])
			}
		}
	}
}

// TestRoutedApproximateTrimming: `~` takes whole nodes of each partition, never below MAXLEN in all, and does take them.
func TestRoutedApproximateTrimming(t *testing.T) {
	b := openBridge(t)
	c := dial(t, serve(t, New(b, Options{Loops: 1})))
	makeTopic(b, "t", 3)
	ask(c, "CONFIG SET stream-node-max-entries 10")
	for i := range 2000 {
		ask(c, "XADD t MAXLEN ~ 100 * key %d v 1", i%7)
		n, _ := strconv.Atoi(ask(c, "XLEN t"))
		if n > 200 || i >= 100 && n < 100 {
			t.Fatalf("%d entries after %d", n, i+1)
		}
	}
}

// TestRoutedGroupTakesEachEntryOnce: many readers of a topic's group, on several loops, with entries coming while they wait: each
// entry is delivered once, and all of them are.
func TestRoutedGroupTakesEachEntryOnce(t *testing.T) {
	b := openBridge(t)
	addr := serve(t, New(b, Options{Loops: 2}))
	makeTopic(b, "t", 4)
	c := dial(t, addr)
	c.want("XGROUP CREATE t g 0", "+OK")
	const entries, readers = 2000, 8
	got := make(chan string, entries)
	var done sync.WaitGroup
	for i := range readers {
		r := dial(t, addr)
		done.Go(func() {
			for {
				v := r.do("XREADGROUP", "GROUP", "g", "c"+itoa(int64(i)), "COUNT", "3", "BLOCK", "0", "STREAMS", "t", ">")
				if v.kind == '-' { // the topic is gone
					return
				}
				for _, e := range v.elems[0].elems[1].elems {
					got <- e.elems[1].elems[3].text
				}
			}
		})
	}
	for i := range entries {
		c.do("XADD", "t", "*", "key", itoa(int64(i%13)), "v", itoa(int64(i)))
	}
	seen := map[string]bool{}
	for len(seen) < entries {
		select {
		case v := <-got:
			if seen[v] {
				t.Fatalf("%s was delivered twice", v)
			}
			seen[v] = true
		case <-time.After(patience):
			t.Fatalf("%d of %d entries were delivered", len(seen), entries)
		}
	}
	c.want("DEL t", "1")
	done.Wait()
}

// TestRoutedTailMissesNothing: whoever follows a whole topic by the last ID it saw sees every entry, while several writers add to all
// partitions in the same milliseconds.
func TestRoutedTailMissesNothing(t *testing.T) {
	b := openBridge(t)
	addr := serve(t, New(b, Options{Loops: 2}))
	makeTopic(b, "t", 4)
	const writers, each = 3, 1500
	var done sync.WaitGroup
	for w := range writers {
		c := dial(t, addr)
		done.Go(func() {
			for i := range each {
				c.do("XADD", "t", "*", "key", itoa(int64(i)), "v", itoa(int64(w*each+i)))
			}
		})
	}
	c := dial(t, addr)
	last := "0"
	seen := map[string]bool{}
	for len(seen) < writers*each {
		v := c.do("XREAD", "BLOCK", "5000", "STREAMS", "t", last)
		if v.null {
			t.Fatalf("%d of %d entries were seen", len(seen), writers*each)
		}
		for _, e := range v.elems[0].elems[1].elems {
			last = e.elems[0].text
			seen[e.elems[1].elems[3].text] = true
		}
	}
	done.Wait()
}
