package bridge

import (
	"context"
	"testing"

	"weir/engine"
)

// Silent producers are forgotten also of partitions that the engine has not in memory: there may be more than it keeps.
func TestRetentionForgetsProducersOfIdleStreams(t *testing.T) {
	h := newHouse(t, Options{})
	topic := h.topic("t", 32)
	h.inTurn(func(turn *engine.Turn) {
		for _, no := range topic.Streams {
			who := engine.ProducerBatch{ID: 7}
			if _, err := turn.AppendBatch(no, engine.BatchArgs{Data: make([]byte, 100), Count: 1, MaxTime: h.now, Producer: &who}); err != nil {
				t.Fatal(err)
			}
		}
	})
	h.loadedStreams = 4
	h.reopen()
	left := func() (n int) {
		h.inTurn(func(turn *engine.Turn) {
			for _, no := range topic.Streams {
				all, err := turn.Producers(no)
				if err != nil {
					t.Fatal(err)
				}
				n += len(all)
			}
		})
		return n
	}
	for _, want := range []int{32, 0} {
		if err := h.Sweep(context.Background(), h.now); err != nil {
			t.Fatal(err)
		}
		if n := left(); n != want {
			t.Errorf("%d producers are known, not %d", n, want)
		}
		h.now += producerExpiry.Milliseconds() + 1
	}
}
