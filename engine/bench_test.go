package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"weir/storage"
)

func openPebble(b *testing.B) *Engine {
	st, err := storage.OpenPebble(b.TempDir(), storage.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e, err := Open(context.Background(), st, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close(context.Background()); st.Close(context.Background()) })
	return e
}

func benchStream(b *testing.B, e *Engine, key string) StreamNo {
	t := e.Begin(Written)
	no, err := t.Create([]byte(key))
	if err == nil {
		err = t.Wait(context.Background())
	}
	if err != nil {
		b.Fatal(err)
	}
	return no
}

// BenchmarkAppendTurn: an event loop that evaluates n XADDs of 100 bytes into one turn.
func BenchmarkAppendTurn(b *testing.B) {
	for _, n := range []int{1, 50, 800} {
		for _, level := range []Level{Written, Durable} {
			b.Run(fmt.Sprintf("%d/level%d", n, level), func(b *testing.B) {
				e := openPebble(b)
				no := benchStream(b, e, "s")
				f := fields("f", strings.Repeat("v", 100))
				t := e.Begin(level)
				for i := 0; b.Loop(); i++ {
					t.Tick()
					for range n {
						if _, err := t.Append(no, AppendArgs{Auto: true, Fields: f}); err != nil {
							b.Fatal(err)
						}
					}
					if err := t.Wait(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*float64(n)/b.Elapsed().Seconds(), "entries/s")
			})
		}
	}
}

// BenchmarkAppendClients: n goroutines, one append and one wait each.
func BenchmarkAppendClients(b *testing.B) {
	for _, n := range []int{1, 16, 50} {
		for _, level := range []Level{Written, Durable} {
			b.Run(fmt.Sprintf("%d/level%d", n, level), func(b *testing.B) {
				e := openPebble(b)
				no := benchStream(b, e, "s")
				f := fields("f", strings.Repeat("v", 100))
				var wg sync.WaitGroup
				b.ResetTimer()
				for range n {
					wg.Go(func() {
						t := e.Begin(level)
						for range b.N / n {
							t.Append(no, AppendArgs{Auto: true, Fields: f})
							t.Wait(context.Background())
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			})
		}
	}
}

// BenchmarkAppendBatch: batches, one in flight.
func BenchmarkAppendBatch(b *testing.B) {
	for _, size := range []int{16 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			e := openPebble(b)
			no := benchStream(b, e, "s")
			b.SetBytes(int64(size))
			t := e.Begin(Written)
			for b.Loop() {
				data := make([]byte, size)
				if _, err := t.AppendBatch(no, BatchArgs{Data: data, Count: 16, MinTime: 1, MaxTime: 1}); err != nil {
					b.Fatal(err)
				}
				if err := t.Wait(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAppendSmallBatches: what an event loop of producers does: a dozen batches of one record, each to some
// partition of many, share a commit. Reported per batch.
func BenchmarkAppendSmallBatches(b *testing.B) {
	const together = 12
	for _, streams := range []int{1, 100} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			e := openPebble(b)
			nos := make([]StreamNo, streams)
			for i := range nos {
				nos[i] = benchStream(b, e, fmt.Sprint(i))
			}
			t := e.Begin(Written)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				data := make([]byte, 170)
				if _, err := t.AppendBatch(nos[i*37%streams], BatchArgs{Data: data, Count: 1, MinTime: 1, MaxTime: 1}); err != nil {
					b.Fatal(err)
				}
				if i%together < together-1 {
					continue
				}
				if err := t.Wait(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
