package bridge

import (
	"fmt"
	"strings"
	"testing"

	"weir/engine"
)

// runsOf reads all runs of a stream.
func runsOf(t testing.TB, h *house, no engine.StreamNo) []engine.Run {
	t.Helper()
	turn := h.eng.Begin(engine.Written)
	r, err := turn.Range(no, engine.RangeArgs{To: engine.MaxID, Count: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var runs []engine.Run
	for {
		run, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return runs
		}
		runs = append(runs, run)
	}
}

func TestEntriesComeForwardAndBackward(t *testing.T) {
	h := newHouse(t, Options{})
	h.key("t")
	topic, _ := h.Topic("t")
	no := topic.Streams[0]
	h.inTurn(func(turn *engine.Turn) {
		for i := range 6 {
			turn.Append(no, engine.AppendArgs{ID: engine.ID{MS: uint64(i + 1)}, Fields: pairs("n", fmt.Sprint(i), "m", "")})
		}
		turn.Delete(no, []engine.ID{{MS: 2}, {MS: 5}})
	})
	tell := func(reverse bool, cut func(*engine.Run)) string {
		var b strings.Builder
		for _, run := range runsOf(t, h, no) {
			cut(&run)
			if err := h.EachEntry(&run, reverse, func(e *Entry) bool {
				fmt.Fprintf(&b, "%d %s %s; ", e.Offset, e.ID, told(e.Fields))
				return e.Offset != 99
			}); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	whole := func(*engine.Run) {}
	if got, want := tell(false, whole), `0 1-0 "n"="0" "m"=""; 2 3-0 "n"="2" "m"=""; 3 4-0 "n"="3" "m"=""; 5 6-0 "n"="5" "m"=""; `; got != want {
		t.Error(got)
	}
	if got, want := tell(true, whole), `5 6-0 "n"="5" "m"=""; 3 4-0 "n"="3" "m"=""; 2 3-0 "n"="2" "m"=""; 0 1-0 "n"="0" "m"=""; `; got != want {
		t.Error(got)
	}
	middle := func(r *engine.Run) { r.From, r.To = 2, 4 }
	if got, want := tell(true, middle), `3 4-0 "n"="3" "m"=""; 2 3-0 "n"="2" "m"=""; `; got != want {
		t.Error(got)
	}
}

func TestNativeEntriesCostNoAllocation(t *testing.T) {
	h := newHouse(t, Options{})
	h.key("t")
	topic, _ := h.Topic("t")
	h.inTurn(func(turn *engine.Turn) {
		for range 90 {
			turn.Append(topic.Streams[0], engine.AppendArgs{Auto: true, Fields: pairs("a", "b", "c", "d")})
		}
	})
	runs := runsOf(t, h, topic.Streams[0])
	entries := 0
	count := func(*Entry) bool { entries++; return true }
	for _, reverse := range []bool{false, true} {
		// Not one per entry; a few when the collector (or the race detector) empties the pool.
		if n := testing.AllocsPerRun(200, func() {
			for i := range runs {
				if err := h.EachEntry(&runs[i], reverse, count); err != nil {
					t.Fatal(err)
				}
			}
		}); n > 10 {
			t.Errorf("reverse %v: %v allocations for 90 entries", reverse, n)
		}
	}
	if entries == 0 {
		t.Error("no entries")
	}
}
