package engine

import (
	"context"
	"fmt"
	"testing"

	"weir/storage"
)

// clock is a hand-driven clock.
type clock struct{ ms int64 }

func (c *clock) now() int64 { return c.ms }

func openMem(t testing.TB) (*Engine, storage.Store, *clock) {
	t.Helper()
	st := storage.NewMem(4)
	c := &clock{1_700_000_000_000}
	e, err := Open(context.Background(), st, Options{NowMS: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	return e, st, c
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func fields(kv ...string) [][]byte {
	out := make([][]byte, len(kv))
	for i, s := range kv {
		out[i] = []byte(s)
	}
	return out
}

// ids reads all IDs that a reader yields.
func ids(t testing.TB, r *Reader, reverse bool) []string {
	t.Helper()
	defer r.Close()
	var out []string
	for {
		run, ok, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		var part []string
		for o := run.From; o <= run.To; o++ {
			if run.Living(o) {
				id, _ := run.Block.IDAt(o)
				part = append(part, id.String())
			}
		}
		if reverse {
			for i := len(part) - 1; i >= 0; i-- {
				out = append(out, part[i])
			}
		} else {
			out = append(out, part...)
		}
	}
	if int64(len(out)) != r.Count() {
		t.Fatalf("reader said %d entries and gave %d", r.Count(), len(out))
	}
	return out
}

func TestAPipelineSeesItsOwnWritesAndOthersSeeThemOnceCommitted(t *testing.T) {
	e, _, _ := openMem(t)
	turn := e.Begin(Written)
	no := must[StreamNo](t)(turn.Create([]byte("s")))
	for i := range 3 {
		must[Appended](t)(turn.Append(no, AppendArgs{ID: ID{MS: uint64(i + 1)}, Fields: fields("f", "v")}))
	}
	got := ids(t, must[*Reader](t)(turn.Range(no, RangeArgs{To: MaxID, Count: -1})), false)
	if fmt.Sprint(got) != "[1-0 2-0 3-0]" {
		t.Fatalf("the turn sees %v", got)
	}
	if f, err := e.Fetch(no, 0, 1<<20); err != nil || len(f.Blocks) != 0 || f.HighWater != 0 {
		t.Fatalf("before the commit a fetch sees %v %v", f, err)
	}
	if err := turn.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	f, err := e.Fetch(no, 0, 1<<20)
	if err != nil || len(f.Blocks) != 1 || f.HighWater != 3 || f.Blocks[0].To != 2 {
		t.Fatalf("after the commit a fetch sees %+v %v", f, err)
	}
}

// An idempotent producer that has been silent is forgotten, in memory and on disk: a sequence that would have been
// a gap is then taken.
func TestASilentProducerIsForgotten(t *testing.T) {
	e, st, c := openMem(t)
	turn := e.Begin(Written)
	no := must[StreamNo](t)(turn.Create([]byte("s")))
	produce := func(seq int32) error {
		_, err := turn.AppendBatch(no, BatchArgs{Data: fakeBatch(1), Count: 1, Producer: &ProducerBatch{ID: 7, FirstSeq: seq, LastSeq: seq}})
		if err != nil {
			return err
		}
		return turn.Wait(context.Background())
	}
	if err := produce(0); err != nil {
		t.Fatal(err)
	}
	if err := produce(5); err != ErrSequenceGap {
		t.Fatalf("a gap was told %v", err)
	}
	if n, err := turn.ExpireProducers(no, c.ms); n != 0 || err != nil {
		t.Fatalf("%d were forgotten too early, %v", n, err)
	}
	if n, err := turn.ExpireProducers(no, c.ms+1); n != 1 || err != nil {
		t.Fatalf("%d were forgotten, %v", n, err)
	}
	if err := turn.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	report, err := storage.Check(context.Background(), st)
	if err != nil || report.Producers != 0 || !report.Sound() {
		t.Fatalf("on disk: %+v, %v", report, err)
	}
	if err := produce(5); err != nil {
		t.Fatalf("the same sequence was told %v", err)
	}
}
