package engine

import (
	"context"
	"fmt"
	"testing"
)

// fillStream appends n batches of a KiB each, committed one by one.
func fillStream(t *testing.T, e *Engine, key string, n int) StreamNo {
	t.Helper()
	turn := e.Begin(Written)
	no := must[StreamNo](t)(turn.Create([]byte(key)))
	for range n {
		data := make([]byte, 1<<10)
		must[Appended](t)(turn.AppendBatch(no, BatchArgs{Data: data, Count: 1, MinTime: 1, MaxTime: 1}))
		if err := turn.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		e.shrinkTails() // what its goroutine does, in time
	}
	return no
}

// cached counts a stream's blocks in memory.
func cached(e *Engine, no StreamNo) int {
	s := e.shardOf(no)
	s.mu.Lock()
	defer s.mu.Unlock()
	st, err := s.stream(no)
	if err != nil {
		return 0
	}
	return len(st.tail)
}

func TestTheTailCacheBelongsToTheNewestWhereverTheyAre(t *testing.T) {
	e, _, _ := openMem(t)
	e.tail.cap = 100 * (1<<10 + tailOverhead)
	old := fillStream(t, e, "old", 60)
	busy := fillStream(t, e, "busy", 100)
	e.shrinkTails()
	if n := cached(e, busy); n != 100 {
		t.Errorf("the busy stream has %d of its 100 newest blocks in memory", n)
	}
	if n := cached(e, old); n != 0 {
		t.Errorf("the old stream keeps %d blocks", n)
	}
	f, err := e.Fetch(old, 0, 1<<20)
	if err != nil || len(f.Blocks) != 60 {
		t.Errorf("a fetch of what is cold gave %d blocks, %v", len(f.Blocks), err)
	}
}

func TestAFetchGoesOnFromTheStoreIntoTheTail(t *testing.T) {
	e, _, _ := openMem(t)
	e.tail.cap = 10 * (1<<10 + tailOverhead)
	no := fillStream(t, e, "s", 30)
	e.shrinkTails()
	if n := cached(e, no); n != 10 {
		t.Fatalf("%d blocks are cached", n)
	}
	f, err := e.Fetch(no, 15, 1<<20)
	if err != nil || len(f.Blocks) != 15 {
		t.Errorf("a fetch over the border gave %d blocks, %v", len(f.Blocks), err)
	}
	if f, err = e.Fetch(no, 15, 8<<10); err != nil || len(f.Blocks) != 8 {
		t.Errorf("a fetch of 8 KiB over the border gave %d blocks, %v", len(f.Blocks), err)
	}
}

// What is trimmed, deleted or dropped gives its memory back at once.
func TestWhatIsGoneLeavesTheTail(t *testing.T) {
	ctx := context.Background()
	for name, lose := range map[string]func(*Turn, StreamNo) error{
		"drop": func(t *Turn, no StreamNo) error { _, err := t.Drop(no); return err },
		"trim": func(t *Turn, no StreamNo) error {
			_, err := t.Trim(no, TrimArgs{Kind: TrimMaxLen})
			return err
		},
		"delete": func(t *Turn, no StreamNo) error {
			for {
				st, err := t.Stat(no)
				if err != nil || st.Length == 0 {
					return err
				}
				if _, err := t.Delete(no, []ID{st.FirstID}); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(fmt.Sprint(name), func(t *testing.T) {
			e, _, _ := openMem(t)
			no := fillStream(t, e, "s", 20)
			turn := e.Begin(Written)
			if err := lose(turn, no); err != nil {
				t.Fatal(err)
			}
			if err := turn.Wait(ctx); err != nil {
				t.Fatal(err)
			}
			if used := e.tail.used.Load(); used != 0 {
				t.Errorf("%d bytes are still counted", used)
			}
			for _, s := range e.shards {
				if s.tail.first != nil {
					t.Error("a block is still queued")
				}
			}
		})
	}
}

// KIP-74: a consumer always gets on, however little it asks for, from the store as from the tail.
func TestAFetchOfNoBytesStillBringsOneBlock(t *testing.T) {
	for _, room := range []int64{1, 1 << 20} {
		e, _, _ := openMem(t)
		e.tail.cap = room
		no := fillStream(t, e, "s", 3)
		if f, err := e.Fetch(no, 1, 0); err != nil || len(f.Blocks) != 1 || f.Blocks[0].From != 1 {
			t.Errorf("tail of %d bytes: %d blocks, %v", room, len(f.Blocks), err)
		}
	}
}
