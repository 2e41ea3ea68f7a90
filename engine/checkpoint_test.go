package engine

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"

	"weir/storage"
)

// storedRow is a stream's row as the store has it, without the blocks above it.
func storedRow(t *testing.T, s *shard, no StreamNo) storage.StreamRow {
	t.Helper()
	v := must[storage.View](t)(s.st.View())
	defer v.Close()
	val, release, err := v.Get(storage.StreamKey(no))
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	return must[storage.StreamRow](t)(storage.ParseStreamRow(val))
}

// Appends leave the stream's row behind; whoever loads the stream makes it what it was, to the last field.
func TestALoadedStreamIsWhatAppendsMadeOfIt(t *testing.T) {
	e, _, _ := openMem(t)
	turn := e.Begin(Written)
	no := must[StreamNo](t)(turn.Create([]byte("s")))
	s := e.shardOf(no)
	rng := rand.New(rand.NewPCG(1, 2))
	behind := 0
	for i := range 2000 {
		ms := int64(rng.IntN(1000))
		switch rng.IntN(40) {
		case 0: // nothing lives: the next append begins anew
			must[int64](t)(turn.Trim(no, TrimArgs{Kind: TrimMaxLen}))
		case 1:
			must[int64](t)(turn.Trim(no, TrimArgs{Kind: TrimMaxLen, MaxLen: 5}))
		case 2, 3, 4, 5, 6, 7, 8, 9:
			must[Appended](t)(turn.AppendBatch(no, BatchArgs{Data: make([]byte, 100+rng.IntN(3000)), Count: 1 + rng.Int32N(50), MinTime: ms, MaxTime: ms + 7}))
		default:
			for range rng.IntN(5) {
				must[Appended](t)(turn.Append(no, AppendArgs{Auto: true, Fields: [][]byte{[]byte("k"), make([]byte, rng.IntN(300))}}))
			}
		}
		if err := turn.Wait(context.Background()); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		was := s.streams[no].row
		s.mu.Unlock()
		loaded := must[*stream](t)(loadStream(s, no))
		if !reflect.DeepEqual(loaded.row, was) {
			t.Fatalf("step %d: loaded %+v\nthere was %+v", i, loaded.row, was)
		}
		if storedRow(t, s, no).Next < was.Next {
			behind++
		}
		if loaded.sinceRow.blocks > checkpointBlocks || loaded.sinceRow.bytes > checkpointBytes+4096 {
			t.Fatalf("step %d: the row lacks %+v", i, loaded.sinceRow)
		}
	}
	if behind < 1000 {
		t.Errorf("the row was behind %d times of 2000: it is written with every append", behind)
	}
}
