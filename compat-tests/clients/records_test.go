package clients

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// sameRecord compares what a client wrote with what it read; nil and empty differ.
func sameRecord(t *testing.T, want, got *kgo.Record) {
	t.Helper()
	same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	if !same(want.Key, got.Key) || !same(want.Value, got.Value) {
		t.Fatalf("offset %d: wrote %q=%q, read %q=%q", got.Offset, want.Key, want.Value, got.Key, got.Value)
	}
	if !slices.EqualFunc(want.Headers, got.Headers, func(a, b kgo.RecordHeader) bool { return a.Key == b.Key && same(a.Value, b.Value) }) {
		t.Fatalf("offset %d: wrote headers %v, read %v", got.Offset, want.Headers, got.Headers)
	}
	if !want.Timestamp.Equal(got.Timestamp) {
		t.Fatalf("offset %d: wrote time %v, read %v", got.Offset, want.Timestamp, got.Timestamp)
	}
}

// variety returns n records with every shape of key, value and header. They are young: retention, which looks every
// second here, takes what is older than a week.
func variety(topic string, n int) []*kgo.Record {
	base := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	rs := make([]*kgo.Record, n)
	for i := range rs {
		r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "key-%d", i), Value: bytes.Repeat([]byte{byte(i)}, i%300+1), Timestamp: base.Add(time.Duration(i) * time.Millisecond)}
		switch i % 7 {
		case 1:
			r.Key = nil
		case 2:
			r.Value = nil
		case 3:
			r.Key, r.Value = []byte{}, []byte{}
		case 4:
			r.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: []byte("2")}, {Key: "", Value: []byte{}}}
		case 5:
			r.Headers = []kgo.RecordHeader{{Key: "null", Value: nil}, {Key: "bytes", Value: []byte{0, 255, 10}}}
		}
		rs[i] = r
	}
	return rs
}

// C43: all codecs, null and empty kept apart.
func TestEveryCodecComesBackAsItWent(t *testing.T) {
	codecs := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
	for codec, c := range codecs {
		t.Run(codec, func(t *testing.T) {
			tp := topic(t, 1, nil)
			want := variety(tp, 700)
			produce(t, kafka(t, kgo.ProducerBatchCompression(c), kgo.ProducerLinger(5*time.Millisecond)), want...)
			got := consume(t, from(t, tp, map[int32]int64{0: 0}), len(want))
			for i := range want {
				if got[i].Offset != int64(i) {
					t.Fatalf("record %d has offset %d", i, got[i].Offset)
				}
				sameRecord(t, want[i], got[i])
			}
		})
	}
}

// C04: clients pinned to old and new releases all produce and consume.
func TestEveryReleaseOfTheProtocolWorks(t *testing.T) {
	releases := map[string]*kversion.Versions{"v1.0": kversion.V1_0_0(), "v2.4": kversion.V2_4_0(), "v2.8": kversion.V2_8_0(), "v3.6": kversion.V3_6_0(), "v3.8": kversion.V3_8_0(), "v4.1": kversion.V4_1_0(), "newest": kversion.Stable()}
	for release, v := range releases {
		t.Run(release, func(t *testing.T) {
			tp := topic(t, 1, nil)
			want := variety(tp, 100)
			produce(t, kafka(t, kgo.MaxVersions(v), kgo.ProducerBatchCompression(kgo.GzipCompression())), want...)
			for _, r := range want {
				r.Timestamp = r.Timestamp.Truncate(time.Millisecond)
			}
			got := consume(t, kafka(t, kgo.MaxVersions(v), kgo.ConsumerGroup(tp), kgo.ConsumeTopics(tp), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), len(want))
			for i := range want {
				sameRecord(t, want[i], got[i])
			}
		})
	}
}

func TestIdempotentProducerKeepsOrderAndCount(t *testing.T) {
	const n, partitions = 20_000, 4
	tp := topic(t, partitions, nil)
	cl := kafka(t, kgo.ProducerBatchMaxBytes(4096), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range n {
		cl.Produce(within(t), &kgo.Record{Topic: tp, Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d", i)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Errorf("produce: %v", err)
			}
		})
	}
	if err := cl.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	next := [partitions]int{0, 1, 2, 3}
	for _, r := range consume(t, from(t, tp, map[int32]int64{0: 0, 1: 0, 2: 0, 3: 0}), n) {
		if want := fmt.Sprint(next[r.Partition]); string(r.Value) != want {
			t.Fatalf("partition %d offset %d holds %s, not %s", r.Partition, r.Offset, r.Value, want)
		}
		next[r.Partition] += partitions
	}
	ends, err := admin(t).ListEndOffsets(within(t), tp)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset != n/partitions {
			t.Errorf("partition %d ends at %d, not %d", o.Partition, o.Offset, n/partitions)
		}
	})
}

func TestEveryLevelOfAcknowledgement(t *testing.T) {
	for level, acks := range map[string]kgo.Acks{"none": kgo.NoAck(), "leader": kgo.LeaderAck(), "all": kgo.AllISRAcks()} {
		t.Run(level, func(t *testing.T) {
			tp := topic(t, 1, nil)
			cl := kafka(t, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite())
			for i := range 50 {
				produce(t, cl, &kgo.Record{Topic: tp, Value: fmt.Appendf(nil, "%d", i)})
			}
			for i, r := range consume(t, from(t, tp, map[int32]int64{0: 0}), 50) {
				if string(r.Value) != fmt.Sprint(i) {
					t.Fatalf("offset %d holds %s", r.Offset, r.Value)
				}
			}
		})
	}
}

// C09: an offset is found by time, inside a batch too.
func TestTimeFindsTheOffset(t *testing.T) {
	tp := topic(t, 1, nil)
	cl, adm := kafka(t), admin(t)
	at := func(ms int64) *kgo.Record {
		return &kgo.Record{Topic: tp, Value: []byte("v"), Timestamp: time.UnixMilli(ms)}
	}
	empty, err := adm.ListOffsetsAfterMilli(within(t), 0, tp)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := empty.Lookup(tp, 0); o.Err != nil || o.Offset != 0 {
		t.Fatalf("time 0 on an empty topic: %+v", o) // kadm turns -1 into the end
	}
	produce(t, cl, at(1000), at(1001))
	produce(t, cl, at(2000), at(2001))
	for ms, want := range map[int64][2]int64{0: {0, 1000}, 1000: {0, 1000}, 1001: {1, 1001}, 1500: {2, 2000}, 2001: {3, 2001}} {
		got, err := adm.ListOffsetsAfterMilli(within(t), ms, tp)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := got.Lookup(tp, 0); o.Offset != want[0] || o.Timestamp != want[1] {
			t.Errorf("time %d: offset %d of time %d, want %v", ms, o.Offset, o.Timestamp, want)
		}
	}
	newest, err := adm.ListMaxTimestampOffsets(within(t), tp)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := newest.Lookup(tp, 0); o.Offset != 3 || o.Timestamp != 2001 {
		t.Errorf("largest timestamp: %+v, want offset 3 of 2001", o)
	}
}

// fetchOnce sends one raw Fetch of partition 0 and returns that partition's answer.
func fetchOnce(t *testing.T, cl *kgo.Client, tp string, offset int64, maxBytes int32) kmsg.FetchResponseTopicPartition {
	t.Helper()
	meta, err := kadm.NewClient(cl).Metadata(within(t), tp)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 200, 1, maxBytes
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.TopicID = tp, meta.Topics[tp].ID
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.FetchOffset, fp.PartitionMaxBytes, fp.CurrentLeaderEpoch, fp.LogStartOffset = offset, maxBytes, -1, -1
	ft.Partitions = append(ft.Partitions, fp)
	req.Topics = append(req.Topics, ft)
	resp, err := cl.Broker(1).Request(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	r := resp.(*kmsg.FetchResponse)
	if len(r.Topics) != 1 || len(r.Topics[0].Partitions) != 1 {
		t.Fatalf("fetch at %d answers %d topics, error %v", offset, len(r.Topics), kerr.ErrorForCode(r.ErrorCode))
	}
	return r.Topics[0].Partitions[0]
}

// C11 and C28: the edges of the log, and the middle of a batch.
func TestFetchAtTheEdges(t *testing.T) {
	tp := topic(t, 1, nil)
	cl := kafka(t)
	for range 4 {
		produce(t, cl, &kgo.Record{Topic: tp, Value: []byte("v")})
	}
	var below kadm.Offsets
	below.Add(kadm.Offset{Topic: tp, Partition: 0, At: 3})
	if res, err := admin(t).DeleteRecords(within(t), below); err != nil || res.Error() != nil {
		t.Fatal(err, res.Error())
	}
	for offset, want := range map[int64]error{0: kerr.OffsetOutOfRange, 2: kerr.OffsetOutOfRange, 3: nil, 4: nil, 5: kerr.OffsetOutOfRange} {
		p := fetchOnce(t, cl, tp, offset, 1<<20)
		if err := kerr.ErrorForCode(p.ErrorCode); !errors.Is(err, want) {
			t.Errorf("fetch at %d: %v, want %v", offset, err, want)
		}
		if has := len(p.RecordBatches) > 0; has != (offset == 3) {
			t.Errorf("fetch at %d returns %d bytes", offset, len(p.RecordBatches))
		}
		if p.LogStartOffset != 3 && want == nil {
			t.Errorf("fetch at %d says the log starts at %d", offset, p.LogStartOffset)
		}
	}
	for range 2 { // two batches of two
		produce(t, cl, &kgo.Record{Topic: tp, Value: []byte("a")}, &kgo.Record{Topic: tp, Value: []byte("b")})
	}
	for _, offset := range []int64{4, 5, 6, 7} {
		got := consume(t, from(t, tp, map[int32]int64{0: offset}), int(8-offset))
		if got[0].Offset != offset {
			t.Errorf("reading from %d starts at %d", offset, got[0].Offset)
		}
	}
}

// C30: a limit smaller than the first batch still returns that batch whole.
func TestSmallFetchesMakeProgress(t *testing.T) {
	tp := topic(t, 1, nil)
	cl := kafka(t)
	big := make([]byte, 130_000)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(big)
	for range 3 {
		produce(t, cl, &kgo.Record{Topic: tp, Value: big})
	}
	if p := fetchOnce(t, cl, tp, 1, 512); len(p.RecordBatches) < 130_000 || len(p.RecordBatches) > 140_000 {
		t.Errorf("a fetch of 512 bytes returned %d", len(p.RecordBatches))
	}
	for _, r := range consume(t, from(t, tp, map[int32]int64{0: 0}, kgo.FetchMaxBytes(512), kgo.FetchMaxPartitionBytes(512)), 3) {
		if !bytes.Equal(r.Value, big) {
			t.Fatalf("offset %d: %d bytes differ", r.Offset, len(r.Value))
		}
	}
}

// C25: max.message.bytes is enforced and nothing is appended.
func TestTooLargeIsRefused(t *testing.T) {
	tp := topic(t, 1, map[string]*string{"max.message.bytes": ptr("51200")})
	cl := kafka(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	err := cl.ProduceSync(within(t), &kgo.Record{Topic: tp, Value: make([]byte, 200_000)}).FirstErr()
	if !errors.Is(err, kerr.MessageTooLarge) {
		t.Fatalf("200,000 bytes into 51,200: %v", err)
	}
	produce(t, cl, &kgo.Record{Topic: tp, Value: make([]byte, 40_000)})
	if r := consume(t, from(t, tp, map[int32]int64{0: 0}), 1)[0]; r.Offset != 0 || len(r.Value) != 40_000 {
		t.Fatalf("offset %d holds %d bytes", r.Offset, len(r.Value))
	}
}

// C23: nonsense partitions are answered per partition and hurt nobody.
func TestNonsensePartitions(t *testing.T) {
	tp := topic(t, 1, nil)
	cl := kafka(t, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxVersions(kversion.V2_8_0()))
	for _, p := range []int32{-1, 7} {
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MaxBytes = 100, 1<<20
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic = tp
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.PartitionMaxBytes = p, 1<<20
		ft.Partitions = append(ft.Partitions, fp)
		req.Topics = append(req.Topics, ft)
		resp, err := cl.Broker(1).Request(within(t), req)
		if err != nil {
			t.Fatalf("partition %d: %v", p, err)
		}
		if code := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode; code != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("fetch of partition %d: %v", p, kerr.ErrorForCode(code))
		}
	}
	produce(t, cl, &kgo.Record{Topic: tp, Value: []byte("alive")})
}

// C40: who creates topics by naming them, and which names cannot be.
func TestAutoCreation(t *testing.T) {
	fresh := name(t)
	produce(t, kafka(t, kgo.AllowAutoTopicCreation()), &kgo.Record{Topic: fresh, Value: []byte("v")})
	absent := name(t)
	adm := admin(t)
	if _, err := adm.Metadata(within(t), absent); err != nil {
		t.Fatal(err)
	}
	topics, err := adm.ListTopics(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if !topics.Has(fresh) || topics.Has(absent) {
		t.Errorf("produced topic listed: %v; asked-for topic listed: %v", topics.Has(fresh), topics.Has(absent))
	}
	for _, bad := range []string{"a/b", "..", ".", strings.Repeat("x", 250)} {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = true
		mt := kmsg.NewMetadataRequestTopic()
		mt.Topic = kmsg.StringPtr(bad)
		req.Topics = append(req.Topics, mt)
		resp, err := req.RequestWith(within(t), kafka(t, kgo.AllowAutoTopicCreation()))
		if err != nil {
			t.Fatal(err)
		}
		if code := resp.Topics[0].ErrorCode; code != kerr.InvalidTopicException.Code {
			t.Errorf("metadata of %.10q: %v", bad, kerr.ErrorForCode(code))
		}
	}
}

// A consumer that waits at the end is answered as soon as a record comes.
func TestLongPollEndsWithTheRecord(t *testing.T) {
	tp := topic(t, 1, nil)
	cl := kafka(t)
	reader := from(t, tp, map[int32]int64{0: 0}, kgo.FetchMaxWait(20*time.Second))
	got := make(chan []*kgo.Record, 1)
	go func() { got <- reader.PollFetches(within(t)).Records() }()
	produce(t, cl, &kgo.Record{Topic: tp, Value: []byte("now")})
	select {
	case rs := <-got:
		if len(rs) != 1 || string(rs[0].Value) != "now" {
			t.Fatalf("got %d records", len(rs))
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the long poll outlived the record that it waited for")
	}
}

// The epoch asked about ends where the log does; one that is to come is unknown.
func TestOffsetForLeaderEpoch(t *testing.T) {
	tp := topic(t, 1, nil)
	produce(t, kafka(t), &kgo.Record{Topic: tp, Value: []byte("v")}, &kgo.Record{Topic: tp, Value: []byte("v")})
	adm := admin(t)
	meta, err := adm.Metadata(within(t), tp)
	if err != nil {
		t.Fatal(err)
	}
	epoch := meta.Topics[tp].Partitions[0].LeaderEpoch
	var req kadm.OffsetForLeaderEpochRequest
	req.Add(tp, 0, epoch)
	res, err := adm.OffsetForLeaderEpoch(within(t), req)
	if err != nil {
		t.Fatal(err)
	}
	if o := res[tp][0]; o.Err != nil || o.EndOffset != 2 || o.LeaderEpoch != epoch {
		t.Errorf("epoch %d ends at %+v, want offset 2", epoch, o)
	}
}
