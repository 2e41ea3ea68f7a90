package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"weir/storage"
)

// TestCompetingConsumersGetEachEntryOnce: many turns at once read one group, some acking, some dying
// with what they hold; producers go on. Each entry is handed out once, and once more by a claim.
func TestCompetingConsumersGetEachEntryOnce(t *testing.T) {
	const producers, consumers, entries = 2, 6, 400
	e, err := Open(context.Background(), storage.NewMem(2), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	turn := e.Begin(Written)
	no, err := turn.Create([]byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := turn.Group(no, "g").Create(GroupStart{EntriesRead: -1}); err != nil {
		t.Fatal(err)
	}
	waitTurn(t, turn)
	var produced, done sync.WaitGroup
	for range producers {
		produced.Go(func() {
			turn := e.Begin(Durable)
			for range entries {
				if _, err := turn.Append(no, AppendArgs{Auto: true, Fields: [][]byte{[]byte("f"), []byte("v")}}); err != nil {
					t.Error(err)
				}
				waitTurn(t, turn)
			}
		})
	}
	var mu sync.Mutex
	seen := map[ID]int{}
	all := make(chan struct{})
	for i := range consumers {
		done.Go(func() {
			turn := e.Begin(Written)
			for {
				last := false
				select {
				case <-all:
					last = true
				default:
				}
				ids := readSome(t, turn.Group(no, "g"), fmt.Sprint("c", i))
				if i%2 == 0 && len(ids) > 0 {
					if n, err := turn.Group(no, "g").Ack(ids); err != nil || n != int64(len(ids)) {
						t.Errorf("acked %d of %d: %v", n, len(ids), err)
					}
				}
				waitTurn(t, turn)
				mu.Lock()
				for _, id := range ids {
					seen[id]++
				}
				mu.Unlock()
				if last && len(ids) == 0 {
					return
				}
			}
		})
	}
	produced.Wait()
	close(all)
	done.Wait()
	if len(seen) != producers*entries {
		t.Errorf("%d entries were delivered of %d", len(seen), producers*entries)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%v was delivered %d times", id, n)
		}
	}
	out, err := turn.Group(no, "g").AutoClaim(AutoClaimArgs{Consumer: "heir", Count: producers * entries})
	if err != nil {
		t.Fatal(err)
	}
	out.Held.Close()
	s, err := turn.Group(no, "g").PendingSummary()
	if err != nil || len(out.Deleted) > 0 || s.Count > 0 && (len(s.Consumers) != 1 || s.Consumers[0].Name != "heir") {
		t.Errorf("after the claim: %+v, deleted %v, %v", s, out.Deleted, err)
	}
	waitTurn(t, turn)
	st, err := turn.read(no)
	if err != nil {
		t.Fatal(err)
	}
	defer st.shard.mu.Unlock()
	if err := countsAgree(st); err != nil {
		t.Error(err)
	}
}

// readSome is XREADGROUP COUNT 3: the IDs.
func readSome(t *testing.T, g Group, consumer string) (out []ID) {
	r, err := g.Deliver(consumer, DeliverArgs{Count: 3})
	if err != nil {
		t.Error(err)
		return nil
	}
	if r == nil {
		return nil
	}
	defer r.Close()
	for {
		run, ok, err := r.Next()
		if err != nil {
			t.Error(err)
		}
		if err != nil || !ok {
			return out
		}
		for o := run.From; o <= run.To; o++ {
			id, _ := run.Block.IDAt(o)
			out = append(out, id)
		}
	}
}

// TestADeliveryWaitsForWhatItHandsOut: an entry whose writer asked for durable is not told to anybody before it
// is, though the reader asked for less.
func TestADeliveryWaitsForWhatItHandsOut(t *testing.T) {
	e, err := Open(context.Background(), storage.NewMem(1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	writer, reader := e.Begin(Durable), e.Begin(Written)
	no, err := writer.Create([]byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Group(no, "g").Create(GroupStart{EntriesRead: -1}); err != nil {
		t.Fatal(err)
	}
	waitTurn(t, writer)
	if _, err := writer.Append(no, AppendArgs{Auto: true, Fields: [][]byte{[]byte("f"), []byte("v")}}); err != nil {
		t.Fatal(err)
	}
	if got := readSome(t, reader.Group(no, "g"), "c"); len(got) != 1 {
		t.Fatalf("the evaluated entry was not read: %v", got)
	}
	if len(reader.needs) != 1 || reader.needs[0].level != Durable {
		t.Fatalf("the reader waits for %+v", reader.needs)
	}
	waitTurn(t, reader)
	waitTurn(t, writer)
	// Reading nothing writes nothing: there is no round to wait for.
	if got := readSome(t, reader.Group(no, "g"), "c"); len(got) != 0 || reader.Pending() {
		t.Fatalf("read %v, waits %v", got, reader.Pending())
	}
	if n, err := reader.Group(no, "g").Ack([]ID{{MS: 1}}); n != 0 || err != nil || reader.Pending() {
		t.Fatalf("acked %d %v, waits %v", n, err, reader.Pending())
	}
}
