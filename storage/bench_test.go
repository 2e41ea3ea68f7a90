package storage

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func benchPebble(b *testing.B) Store {
	b.Helper()
	dir, err := os.MkdirTemp("", "weir-bench")
	if err != nil {
		b.Fatal(err)
	}
	s, err := OpenPebble(dir, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		s.Close(ctx)
		os.RemoveAll(dir)
	})
	return s
}

// One writer, a batch of one value and one row of 80 bytes, as an append is.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{100, 1 << 10, 5 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("value=%d", size), func(b *testing.B) {
			s := benchPebble(b)
			w := lead(b, s, 3)
			head, tail, row := make([]byte, 20), make([]byte, size-20), make([]byte, 80)
			for i := range tail {
				tail[i] = byte(i * i >> 3)
			}
			n := StreamNo(3)<<48 | 7
			streamKey := StreamKey(n)
			b.SetBytes(int64(size + 80))
			b.ReportAllocs()
			var longest time.Duration
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				batch := w.Begin()
				batch.SetTwo(BlockKey(n, int64(i)), head, tail)
				batch.Set(streamKey, row)
				if _, err := w.Commit(ctx, batch); err != nil {
					b.Fatal(err)
				}
				longest = max(longest, time.Since(began))
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
		})
	}
}

// Each shard has its writer; they share Pebble's pipeline.
func BenchmarkCommitManyShards(b *testing.B) {
	s := benchPebble(b)
	value := make([]byte, 5<<10)
	next := make(chan ShardID, DefaultShards)
	for i := range DefaultShards {
		next <- ShardID(i)
	}
	b.SetBytes(int64(len(value)))
	b.ReportAllocs()
	b.SetParallelism(DefaultShards / 2)
	b.RunParallel(func(pb *testing.PB) {
		id := <-next
		defer func() { next <- id }()
		w := lead(b, s, id)
		n := StreamNo(id) << 48
		for i := int64(0); pb.Next(); i++ {
			batch := w.Begin()
			batch.Set(BlockKey(n, i), value)
			if _, err := w.Commit(ctx, batch); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// Commit and wait for the fsync; with more writers, one fsync serves several.
func BenchmarkDurable(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := benchPebble(b)
			value := make([]byte, 5<<10)
			next := make(chan ShardID, DefaultShards)
			for i := range DefaultShards {
				next <- ShardID(i)
			}
			b.SetParallelism(max(1, writers/2))
			if writers == 1 {
				b.SetParallelism(1)
			}
			b.RunParallel(func(pb *testing.PB) {
				id := <-next
				defer func() { next <- id }()
				w := lead(b, s, id)
				n := StreamNo(id) << 48
				for i := int64(0); pb.Next(); i++ {
					batch := w.Begin()
					batch.Set(BlockKey(n, i), value)
					pos, err := w.Commit(ctx, batch)
					if err == nil {
						err = w.Durable(ctx, pos)
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(s.(Measured).Metrics().Syncs)/float64(b.N), "fsyncs/op")
		})
	}
}

// Opening an empty directory, and one that is there already.
func BenchmarkOpen(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			dir, _ := os.MkdirTemp("", "weir-bench")
			s, err := OpenPebble(dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			s.Close(ctx)
			os.RemoveAll(dir)
			b.StartTimer()
		}
	})
	b.Run("existing", func(b *testing.B) {
		dir, _ := os.MkdirTemp("", "weir-bench")
		defer os.RemoveAll(dir)
		for b.Loop() {
			s, err := OpenPebble(dir, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			s.Close(ctx)
			b.StartTimer()
		}
	})
}

// A walk over a block of 100 small entries, as XRANGE and XREADGROUP do it.
func BenchmarkEntries(b *testing.B) {
	block := entriesBlock(100)
	b.ReportAllocs()
	bytes := 0
	for b.Loop() {
		it := block.Entries()
		for it.Next() {
			for range it.Pairs() * 2 {
				bytes += len(it.Field())
			}
		}
		if it.Err() != nil {
			b.Fatal(it.Err())
		}
	}
	b.SetBytes(int64(len(block.Payload)))
	_ = bytes
}

// entriesBlock makes a block of n entries of two pairs each.
func entriesBlock(n int) Block {
	b := Block{Kind: Entries, Base: 1000, Last: 1000 + int64(n) - 1, FirstID: ID{1718600000000, 3}}
	id := b.FirstID
	for i := range n {
		prev := id
		if i > 0 {
			id.Seq++
		}
		if i > 0 && i%7 == 0 {
			id = ID{MS: id.MS + uint64(i), Seq: uint64(i % 3)}
		}
		b.Payload = AppendEntry(b.Payload, prev, i == 0, id,
			[][]byte{[]byte("name"), fmt.Append(nil, "value ", i), []byte("other"), make([]byte, 60)})
	}
	b.LastID = id
	b.MinTime, b.MaxTime = int64(b.FirstID.MS), int64(id.MS)
	return b
}

// What a cold fetch costs beside the disk: a view, a walk to one block, its header.
func BenchmarkColdRead(b *testing.B) {
	s := benchPebble(b)
	w := lead(b, s, 3)
	n := StreamNo(3)<<48 | 7
	block := entriesBlock(40)
	head := block.AppendHeader(nil)
	const blocks = 20000
	for i := range int64(blocks) {
		batch := w.Begin()
		batch.SetTwo(BlockKey(n, i*40), head, block.Payload)
		if _, err := w.Commit(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
	sh := shardOf(b, s, 3)
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for i := int64(0); b.Loop(); i++ {
			v, _ := sh.View()
			value, release, err := v.Get(BlockKey(n, i*7919%blocks*40))
			if err != nil || len(value) == 0 {
				b.Fatal(err)
			}
			release()
			v.Close()
		}
	})
	b.Run("seek", func(b *testing.B) {
		b.ReportAllocs()
		for i := int64(0); b.Loop(); i++ {
			v, _ := sh.View()
			it, err := v.Scan(BlocksRange(n, 0, 1<<60))
			if err != nil || !it.SeekLT(BlockKey(n, i*7919%blocks*40+9)) {
				b.Fatal(err)
			}
			value, _ := it.Value()
			if _, err := ParseBlock(0, value); err != nil {
				b.Fatal(err)
			}
			it.Close()
			v.Close()
		}
	})
	b.Run("scan", func(b *testing.B) {
		b.SetBytes(int64(len(block.Payload)))
		v, _ := sh.View()
		defer v.Close()
		it, _ := v.Scan(BlocksRange(n, 0, 1<<60))
		defer it.Close()
		for b.Loop() {
			if !it.Next() && !it.SeekGE(nil) {
				b.Fatal(it.Error())
			}
			if _, err := it.Value(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
