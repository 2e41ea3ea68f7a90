package bridge

import (
	"context"
	"testing"

	"weir/engine"
	"weir/storage"
)

// What group traffic costs: a member that commits after each small fetch, and one that only sends heartbeats.
func BenchmarkMember(b *testing.B) {
	ctx := context.Background()
	eng, err := engine.Open(ctx, storage.NewMem(4), engine.Options{})
	if err != nil {
		b.Fatal(err)
	}
	br, err := Open(ctx, eng, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer eng.Close(ctx)
	defer br.Close(ctx)
	if _, err := br.CreateTopic(ctx, NewTopic{Name: "t", Partitions: 1, Replication: 1}, false); err != nil {
		b.Fatal(err)
	}
	no, _ := br.streamOf(TopicPartition{"t", 0})
	turn := eng.Begin(engine.Written)
	for range 100_000 {
		if _, err := turn.Append(no, engine.AppendArgs{Auto: true, Fields: [][]byte{[]byte("k"), []byte("v")}}); err != nil {
			b.Fatal(err)
		}
	}
	if err := turn.Wait(ctx); err != nil {
		b.Fatal(err)
	}
	me := br.JoinGroup(ctx, joinAs(""))
	br.SyncGroup(ctx, &SyncRequest{Group: "g", MemberID: me.MemberID, Generation: 1, Assignments: []Assignment{
		{me.MemberID, assignment(TopicPartition{"t", 0})},
	}})
	b.Run("heartbeat", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := br.Heartbeat(&HeartbeatRequest{Group: "g", MemberID: me.MemberID, Generation: 1}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("nobody's fetch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			br.MemberFetched("x", "/127.0.0.1", no, 0, 9)
		}
	})
	from := int64(0)
	b.Run("fetch 10, commit", func(b *testing.B) {
		b.ReportAllocs()
		r := CommitRequest{Group: "g", MemberID: me.MemberID, Generation: 1, Partitions: make([]PartitionCommit, 1)}
		for b.Loop() {
			br.MemberFetched("c", "/127.0.0.1", no, from, from+9)
			from = (from + 10) % 100_000
			r.Partitions[0] = PartitionCommit{TopicPartition: TopicPartition{"t", 0}, Offset: from, Epoch: -1}
			if errs, err := br.CommitOffsets(&r); err != nil || errs[0] != nil {
				b.Fatal(err)
			}
		}
	})
}
