package engine

import (
	"bytes"
	"context"
	"runtime"
	"testing"

	"weir/storage"
)

const (
	coldEntries = 400
	coldSize    = 64 << 10
	mostKept    = 3 << 20 // of 25 MB: a few blocks, and what else the verb leaves on the heap
)

// coldGroup makes a stream of 400 large entries, IDs 1-0 to 400-0, of which memory holds next to none, and a group
// at its beginning.
func coldGroup(t *testing.T) (*Turn, StreamNo, Group) {
	t.Helper()
	ctx := context.Background()
	e, err := Open(ctx, storage.NewMem(1), Options{TailCache: coldSize})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(ctx) })
	turn := e.Begin(Written)
	no, err := turn.Create([]byte("s"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range coldEntries {
		a := AppendArgs{ID: ID{MS: uint64(i + 1)}, Fields: [][]byte{[]byte("f"), bytes.Repeat([]byte{byte(i)}, coldSize)}}
		if _, err := turn.Append(no, a); err != nil {
			t.Fatal(err)
		}
		waitTurn(t, turn)
	}
	g := turn.Group(no, "g")
	if err := g.Create(GroupStart{}); err != nil {
		t.Fatal(err)
	}
	waitTurn(t, turn)
	e.shrinkTails()
	return turn, no, g
}

func coldIDs() []ID {
	all := make([]ID, coldEntries)
	for i := range all {
		all[i].MS = uint64(i + 1)
	}
	return all
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// What a group hands out is decided at once and read later: meanwhile offsets are kept, not blocks, and what is deleted and
// trimmed in between is shown as it was.
func TestWhatIsHandedOutIsNotKept(t *testing.T) {
	take := func(g Group, _ StreamNo) error {
		r, err := g.Deliver("c", DeliverArgs{Kind: RedisConsumer})
		r.Close()
		return err
	}
	backward := coldIDs()
	for i, j := 0, len(backward)-1; i < j; i, j = i+1, j-1 {
		backward[i], backward[j] = backward[j], backward[i]
	}
	claim := func(ids []ID) func(Group) (*HeldReader, error) {
		return func(g Group) (*HeldReader, error) {
			return g.Claim(ClaimArgs{Consumer: "d", Kind: RedisConsumer, Time: -1, IDs: ids, Force: true})
		}
	}
	for _, c := range []struct {
		name string
		verb func(Group) (*HeldReader, error)
		gone bool // tells entries that are gone
	}{
		{"history", func(g Group) (*HeldReader, error) { return g.History("c", ID{}, 0) }, true},
		{"claim", claim(coldIDs()), false},
		{"claim, newest first", claim(backward), false},
		{"autoclaim", func(g Group) (*HeldReader, error) {
			a, err := g.AutoClaim(AutoClaimArgs{Consumer: "d", Kind: RedisConsumer, Count: 1 << 40})
			return a.Held, err
		}, false},
	} {
		for _, holes := range []bool{false, true} {
			turn, no, g := coldGroup(t)
			if err := take(g, no); err != nil {
				t.Fatal(err)
			}
			want := int64(coldEntries)
			if holes { // 3, 6, 9, ...
				for i := 3; i <= coldEntries; i += 3 {
					if n, err := turn.Delete(no, []ID{{MS: uint64(i)}}); n != 1 || err != nil {
						t.Fatal(n, err)
					}
					if !c.gone {
						want--
					}
				}
			}
			waitTurn(t, turn)
			before := heapInUse()
			held, err := c.verb(g)
			if err != nil {
				t.Fatal(err)
			}
			waitTurn(t, turn)
			if kept := heapInUse() - before; kept > mostKept {
				t.Errorf("%s, holes %v: %d bytes are kept of %d", c.name, holes, kept, coldEntries*coldSize)
			}
			if held.Count() != want {
				t.Errorf("%s, holes %v: %d entries, want %d", c.name, holes, held.Count(), want)
			}
			turn.Delete(no, []ID{{MS: 10}, {MS: 11}})
			turn.Trim(no, TrimArgs{Kind: TrimMaxLen, MaxLen: 7})
			waitTurn(t, turn)
			if got := readHeldOut(t, held, before); got != want {
				t.Errorf("%s, holes %v: %d entries were read, want %d", c.name, holes, got, want)
			}
		}
	}
}

// readHeldOut reads all entries, in the middle of which memory is measured.
func readHeldOut(t *testing.T, held *HeldReader, before int64) (n int64) {
	t.Helper()
	defer held.Close()
	for {
		h, ok, err := held.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return n
		}
		had := n
		for _, r := range h.Gone {
			n += int64(r.Count)
		}
		if h.Gone == nil {
			n += h.Run.Count()
		}
		if had < held.Count()/2 && n >= held.Count()/2 {
			if kept := heapInUse() - before; kept > mostKept {
				t.Errorf("%d bytes are kept in the middle of reading", kept)
			}
		}
	}
}

// New entries are delivered without any of their blocks being kept.
func TestWhatIsDeliveredIsNotKept(t *testing.T) {
	turn, _, g := coldGroup(t)
	before := heapInUse()
	r, err := g.Deliver("c", DeliverArgs{Kind: RedisConsumer, Count: 1 << 50})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	waitTurn(t, turn)
	if kept := heapInUse() - before; kept > mostKept {
		t.Errorf("%d bytes are kept", kept)
	}
	if r.Count() != coldEntries {
		t.Errorf("%d entries", r.Count())
	}
}
