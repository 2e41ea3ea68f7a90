package engine

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"

	"weir/storage"
)

// A turn of more bytes than a round holds is committed as several, in order, and told once all are there.
func TestATurnLargerThanARoundIsCommittedInParts(t *testing.T) {
	e, st, _ := openMem(t)
	turn := e.Begin(Durable)
	no := must[StreamNo](t)(turn.Create([]byte("s")))
	big := bytes.Repeat([]byte("x"), 20<<20)
	for range 12 {
		must[Appended](t)(turn.Append(no, AppendArgs{Auto: true, Fields: [][]byte{[]byte("f"), big}}))
	}
	if n := len(e.shardOf(no).full); n < 2 {
		t.Fatalf("%d rounds were closed before the turn ended", n)
	}
	if err := turn.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, hw, _, err := e.Offsets(no); err != nil || hw != 12 {
		t.Fatalf("high watermark %d, %v", hw, err)
	}
	if err := checkStore(st); err != nil {
		t.Fatal(err)
	}
}

// refusing is a store whose commits fail while err is set.
type refusing struct {
	storage.Store
	err error
}

type refusingShard struct {
	storage.Shard
	s *refusing
}

type refusingWriter struct {
	storage.Writer
	s *refusing
}

func (s *refusing) Shard(id storage.ShardID) (storage.Shard, error) {
	sh, err := s.Store.Shard(id)
	return refusingShard{sh, s}, err
}

func (s refusingShard) Lead(ctx context.Context) (storage.Writer, error) {
	w, err := s.Shard.Lead(ctx)
	return refusingWriter{w, s.s}, err
}

func (w refusingWriter) Commit(ctx context.Context, b storage.Batch) (storage.Pos, error) {
	if w.s.err != nil {
		b.Discard()
		return storage.Pos{}, w.s.err
	}
	return w.Writer.Commit(ctx, b)
}

// A batch that the store finds too large fails with all that was evaluated on top of it; the disk is not at fault, so
// writes go on, and nobody ever sees what was not committed.
func TestARoundThatIsTooLargeFailsAloneAndLeavesNothing(t *testing.T) {
	st := &refusing{Store: storage.NewMem(1)}
	c := &clock{1000}
	e, err := Open(context.Background(), st, Options{NowMS: c.now})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	turn := e.Begin(Written)
	no := must[StreamNo](t)(turn.Create([]byte("s")))
	must[Appended](t)(turn.Append(no, AppendArgs{Auto: true, Fields: fields("f", "1")}))
	if err := turn.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	st.err = storage.ErrTooLarge
	must[Appended](t)(turn.Append(no, AppendArgs{Auto: true, Fields: fields("f", "2")}))
	sh := e.shardOf(no)
	first := sh.open
	sh.token <- struct{}{}
	first.seal()
	other := e.Begin(Written) // evaluated while the first is being committed
	must[Appended](t)(other.Append(no, AppendArgs{Auto: true, Fields: fields("f", "3")}))
	_, err = sh.w.Commit(context.Background(), first.batch)
	first.finishWritten(err)
	<-sh.token
	st.err = nil
	for _, x := range []*Turn{turn, other} {
		if err := x.Wait(context.Background()); !errors.Is(err, storage.ErrTooLarge) {
			t.Errorf("a turn of the failed rounds was told %v", err)
		}
	}
	got := must[Appended](t)(turn.Append(no, AppendArgs{Auto: true, Fields: fields("f", "4")}))
	if err := turn.Wait(context.Background()); err != nil || got.Base != 1 || e.Failed() != nil {
		t.Fatalf("the next append got offset %d, %v, latched %v", got.Base, err, e.Failed())
	}
	if err := checkStore(st); err != nil {
		t.Fatal(err)
	}
}

// A disk error latches: what was evaluated is never told nor seen, what was told stays, reads go on.
func TestADiskErrorStopsWritesAndLeavesReads(t *testing.T) {
	st := &refusing{Store: storage.NewMem(1)}
	e, err := Open(context.Background(), st, Options{NowMS: (&clock{1000}).now})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	turn := e.Begin(Written)
	no := must[StreamNo](t)(turn.Create([]byte("s")))
	must[Appended](t)(turn.Append(no, AppendArgs{Auto: true, Fields: fields("f", "1")}))
	if err := turn.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	st.err = errors.New("no space left")
	must[Appended](t)(turn.Append(no, AppendArgs{Auto: true, Fields: fields("f", "2")}))
	if err := turn.Wait(context.Background()); !errors.Is(err, ErrFailed) {
		t.Fatalf("the write was told %v", err)
	}
	if _, err := turn.Append(no, AppendArgs{Auto: true, Fields: fields("f", "3")}); !errors.Is(err, ErrFailed) {
		t.Fatalf("a later write was told %v", err)
	}
	if n, err := turn.Length(no); err != nil || n != 1 {
		t.Fatalf("length %d, %v", n, err)
	}
	if err := turn.Wait(context.Background()); err != nil {
		t.Fatalf("a read was told %v", err)
	}
}

// Small rounds of other shards go along with the one that somebody waits for; large ones wait for their own.
func TestSmallRoundsAreCommittedTogether(t *testing.T) {
	e, st, _ := openMem(t)
	turns := map[*shard]*Turn{}
	var nos []StreamNo
	for i := 0; len(turns) < 3; i++ {
		key := []byte{byte('a' + i)}
		s := e.shardOfKey(key)
		if turns[s] != nil {
			continue
		}
		turns[s] = e.Begin(Written)
		no := must[StreamNo](t)(turns[s].Create(key))
		data := fakeBatch(1)
		if len(turns) == 3 {
			data = make([]byte, 2*mateBytes)
		}
		must[Appended](t)(turns[s].AppendBatch(no, BatchArgs{Data: data, Count: 1}))
		nos = append(nos, no)
	}
	if err := turns[e.shardOf(nos[0])].Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{1, 1, 0} {
		if _, hw, _, err := e.Offsets(nos[i]); err != nil || hw != want {
			t.Errorf("stream %d: high watermark %d, %v", i, hw, err)
		}
	}
	if err := turns[e.shardOf(nos[2])].Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := checkStore(st); err != nil {
		t.Fatal(err)
	}
}

// Who asked for durable and left has nobody who waits for the fsync: it is done all the same, since readers see
// nothing of the round before.
func TestARoundWhoseWaiterIsGoneBecomesDurable(t *testing.T) {
	e, _, _ := openMem(t)
	gone := e.Begin(Durable)
	no := must[StreamNo](t)(gone.Create([]byte("s")))
	must[Appended](t)(gone.AppendBatch(no, BatchArgs{Data: fakeBatch(1), Count: 1}))
	left := gone.Ticket() // nobody waits for it
	other := e.Begin(Written)
	must[Appended](t)(other.AppendBatch(no, BatchArgs{Data: fakeBatch(1), Count: 1}))
	if err := other.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	for hw := int64(0); hw < 2; {
		runtime.Gosched()
		var err error
		if _, hw, _, err = e.Offsets(no); err != nil {
			t.Fatal(err)
		}
	}
	if err := left.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
}
