package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkReadAckTurn: an event loop that evaluates n times XREADGROUP COUNT 10 and XACK of the ten before into one
// turn, on a stream of XADD entries of 100 bytes, from the tail.
func BenchmarkReadAckTurn(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			e := openPebble(b)
			no := benchStream(b, e, "s")
			f := fields("f", strings.Repeat("v", 100))
			t := e.Begin(Written)
			var ids []ID
			for i := range 500_000 {
				a, err := t.Append(no, AppendArgs{Auto: true, Fields: f})
				if err != nil {
					b.Fatal(err)
				}
				ids = append(ids, a.FirstID)
				if i%100 == 99 {
					waitTurn(b, t)
				}
			}
			g := t.Group(no, "g")
			if err := g.Create(GroupStart{EntriesRead: -1}); err != nil {
				b.Fatal(err)
			}
			waitTurn(b, t)
			b.ReportAllocs()
			at := 0
			for b.Loop() {
				t.Tick()
				for range n {
					if at+10 > len(ids) {
						if err := g.SetID(GroupStart{EntriesRead: -1}); err != nil {
							b.Fatal(err)
						}
						at = 0
					}
					r, err := g.Deliver(fmt.Sprint("c", at%50), DeliverArgs{Count: 10})
					if err != nil || r.Count() != 10 {
						b.Fatal(err, r)
					}
					for {
						if _, ok, err := r.Next(); err != nil || !ok {
							break
						}
					}
					r.Close()
					if _, err := g.Ack(ids[at : at+10]); err != nil {
						b.Fatal(err)
					}
					at += 10
				}
				waitTurn(b, t)
			}
			b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds(), "read+ack/s")
		})
	}
}

func waitTurn(tb testing.TB, t *Turn) {
	tb.Helper()
	if err := t.Wait(context.Background()); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkAckTrimmed: XACK of entries that were trimmed while they were pending, 100,000 of them.
func BenchmarkAckTrimmed(b *testing.B) {
	const entries = 100_000
	for b.Loop() {
		b.StopTimer()
		e := openPebble(b)
		no := benchStream(b, e, "s")
		t := e.Begin(Written)
		var ids []ID
		for i := range entries {
			a, err := t.Append(no, AppendArgs{ID: ID{MS: uint64(2*i + 1)}, Fields: fields("f", "v")})
			if err != nil {
				b.Fatal(err)
			}
			ids = append(ids, a.FirstID)
		}
		g := t.Group(no, "g")
		if err := g.Create(GroupStart{}); err != nil {
			b.Fatal(err)
		}
		r, err := g.Deliver("c", DeliverArgs{})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
		waitTurn(b, t)
		if _, err := t.Trim(no, TrimArgs{Kind: TrimMaxLen}); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for _, id := range ids {
			if n, err := g.Ack([]ID{id}); n != 1 || err != nil {
				b.Fatal(n, err)
			}
		}
		waitTurn(b, t)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/ack")
}
