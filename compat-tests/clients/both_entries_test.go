package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// raw sends one command and returns its reply as go-redis decodes it over RESP2,
// where fields stay an ordered list.
func raw(t *testing.T, args ...any) any {
	t.Helper()
	v, err := redisClient(t, 2).Do(within(t), args...).Result()
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// fields returns the field list of every entry of a stream, as Redis shows it.
func fields(t *testing.T, key string) (all []string) {
	t.Helper()
	for _, e := range raw(t, "XRANGE", key, "-", "+").([]any) {
		all = append(all, fmt.Sprint(e.([]any)[1]))
	}
	return all
}

// Dictionary 4: a produced record is an entry of key, value and headers.
func TestProducedRecordsAreEntries(t *testing.T) {
	both(t)
	tp := topic(t, 1, nil)
	for codec, c := range map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "zstd": kgo.ZstdCompression(), "gzip": kgo.GzipCompression(), "lz4": kgo.Lz4Compression(), "snappy": kgo.SnappyCompression()} {
		produce(t, kafka(t, kgo.ProducerBatchCompression(c)),
			&kgo.Record{Topic: tp, Key: []byte("k"), Value: []byte(codec)},
			&kgo.Record{Topic: tp, Value: []byte("v")},
			&kgo.Record{Topic: tp, Key: []byte("k")},
			&kgo.Record{Topic: tp},
			&kgo.Record{Topic: tp, Key: []byte{}, Value: []byte{}, Headers: []kgo.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}}})
		all := fields(t, tp)
		equal(t, codec, all[len(all)-5:], "[key k value "+codec+"]", "[value v]", "[key k]", "[value ]", "[key  value  header:a 1 header:a 2]")
	}
}

// Dictionary 4: entries of key, value and header:* are records to the letter; others are JSON.
func TestAddedEntriesAreRecords(t *testing.T) {
	both(t)
	cl, s := redisClient(t, 3), name(t)
	add(t, cl, s, "*", "key", "k", "value", "v")
	add(t, cl, s, "*", "value", "only", "header:h", "1", "header:h", "2")
	add(t, cl, s, "*", "key", "k", "amount", "12", "currency", "EUR")
	add(t, cl, s, "*", "bytes", "\xff\x00")
	rs := consume(t, from(t, s, map[int32]int64{0: 0}), 4)
	var got []string
	for _, r := range rs {
		got = append(got, fmt.Sprintf("%d %s %s %v", r.Offset, r.Key, r.Value, headers(r)))
	}
	equal(t, "records", got,
		"0 k v []",
		"1  only [h=1 h=2]",
		`2 k {"amount":"12","currency":"EUR"} []`,
		`3  {"bytes":{"base64":"/wA="}} []`)
	if rs[1].Key != nil {
		t.Errorf("an absent key is %q, not null", rs[1].Key)
	}
}

func headers(r *kgo.Record) (hs []string) {
	for _, h := range r.Headers {
		hs = append(hs, h.Key+"="+string(h.Value))
	}
	return hs
}

// One log: writes of both sides come in one order, with dense offsets and rising IDs.
func TestOneOrderForBothSides(t *testing.T) {
	both(t)
	tp := topic(t, 1, nil)
	k, r := kafka(t), redisClient(t, 3)
	for i := range 20 {
		if i%3 == 0 {
			produce(t, k, &kgo.Record{Topic: tp, Value: fmt.Appendf(nil, "%d", i)})
		} else {
			add(t, r, tp, "*", "value", i)
		}
	}
	for i, rec := range consume(t, from(t, tp, map[int32]int64{0: 0}), 20) {
		if rec.Offset != int64(i) || string(rec.Value) != fmt.Sprint(i) {
			t.Errorf("offset %d holds %s, want %d", rec.Offset, rec.Value, i)
		}
	}
	last := ""
	for i, m := range must[[]redis.XMessage](t)(r.XRange(within(t), tp, "-", "+").Result()) {
		if m.Values["value"] != fmt.Sprint(i) || before(m.ID, last) {
			t.Errorf("entry %d is %v after %s", i, m, last)
		}
		last = m.ID
	}
}

// A fetch that waits is woken by XADD, and XREAD BLOCK by a produce.
func TestEachSideWakesTheOther(t *testing.T) {
	both(t)
	tp := topic(t, 1, nil)
	reader := from(t, tp, map[int32]int64{0: 0}, kgo.FetchMaxWait(patience/2))
	got := make(chan []*kgo.Record, 1)
	go func() { got <- reader.PollFetches(within(t)).Records() }()
	sleeper := redisClient(t, 3)
	read := make(chan string, 1)
	go func() {
		res, err := sleeper.XRead(within(t), &redis.XReadArgs{Streams: []string{tp, "0"}, Block: patience}).Result()
		if err != nil {
			read <- err.Error()
			return
		}
		read <- fmt.Sprint(res[0].Messages[0].Values)
	}()
	add(t, redisClient(t, 3), tp, "*", "value", "wake")
	if rs := <-got; len(rs) != 1 || string(rs[0].Value) != "wake" {
		t.Errorf("the fetch got %d records", len(rs))
	}
	if v := <-read; v != "map[value:wake]" {
		t.Errorf("the XREAD got %s", v)
	}
}

// Dictionary 2: topics are keys; partitions are T#p; the hash-routed key spreads as murmur2 does.
func TestPartitionsAreStreams(t *testing.T) {
	both(t)
	tp := topic(t, 3, nil)
	ctx, r := within(t), redisClient(t, 3)
	if kind := r.Type(ctx, tp).Val(); kind != "stream" {
		t.Errorf("TYPE of a topic: %s", kind)
	}
	k := kafka(t)
	where := map[string]int32{}
	for i := range 30 {
		rec := &kgo.Record{Topic: tp, Key: fmt.Appendf(nil, "key-%d", i), Value: []byte("kafka")}
		produce(t, k, rec)
		where[string(rec.Key)] = rec.Partition
	}
	for key := range where {
		add(t, r, tp, "*", "key", key, "value", "redis")
	}
	var total int64
	for p := range 3 {
		part := fmt.Sprintf("%s#%d", tp, p)
		total += r.XLen(ctx, part).Val()
		for _, m := range must[[]redis.XMessage](t)(r.XRange(ctx, part, "-", "+").Result()) {
			if w := where[m.Values["key"].(string)]; w != int32(p) {
				t.Errorf("%v is in partition %d, Kafka's client put that key in %d", m.Values, p, w)
			}
			var ms, seq uint64
			_, _ = fmt.Sscanf(m.ID, "%d-%d", &ms, &seq)
			if seq%4096 != uint64(p) {
				t.Errorf("ID %s in partition %d", m.ID, p)
			}
		}
	}
	if total != 60 {
		t.Errorf("%d entries over the partitions", total)
	}
	if err := r.XAdd(ctx, &redis.XAddArgs{Stream: tp, ID: "99999999999999-0", Values: []string{"a", "b"}}).Err(); err == nil {
		t.Error("an explicit ID on the hash-routed key was taken")
	}
	keys := must[[]string](t)(r.Keys(ctx, tp+"*").Result())
	equal(t, "KEYS", keys, tp)
	if err := r.Del(ctx, tp+"#1").Err(); err == nil {
		t.Error("DEL of a partition was taken")
	}
	if n := must[int64](t)(r.Del(ctx, tp).Result()); n != 1 {
		t.Errorf("DEL of the topic: %d", n)
	}
	if topics, _ := admin(t).ListTopics(within(t)); topics.Has(tp) {
		t.Error("the deleted topic is still listed")
	}
}

// Trimming and deleting are seen by both: log start, gaps, skipped records.
func TestTrimsAndDeletesAreShared(t *testing.T) {
	both(t)
	ctx, r, adm := within(t), redisClient(t, 3), admin(t)
	s := name(t)
	var at []string
	for i := range 10 {
		at = append(at, add(t, r, s, "*", "value", i))
	}
	r.XDel(ctx, s, at[4], at[5])
	var got []string
	for _, rec := range consume(t, from(t, s, map[int32]int64{0: 0}), 8) {
		got = append(got, fmt.Sprintf("%d=%s", rec.Offset, rec.Value))
	}
	equal(t, "after XDEL", got, "0=0", "1=1", "2=2", "3=3", "6=6", "7=7", "8=8", "9=9")
	if rec := consume(t, from(t, s, map[int32]int64{0: 4}), 1)[0]; rec.Offset != 6 {
		t.Errorf("a fetch at the gap returns %d", rec.Offset)
	}
	r.XTrimMinID(ctx, s, at[3])
	starts := must[kadm.ListedOffsets](t)(adm.ListStartOffsets(ctx, s))
	if o, _ := starts.Lookup(s, 0); o.Offset != 3 {
		t.Errorf("after XTRIM MINID the log starts at %d", o.Offset)
	}
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: s, At: 8})
	must[kadm.DeleteRecordsResponses](t)(adm.DeleteRecords(ctx, os))
	if got := ids(must[[]redis.XMessage](t)(r.XRange(ctx, s, "-", "+").Result())); got != strings.Join(at[8:], " ") {
		t.Errorf("after DeleteRecords: %s", got)
	}
	if n := r.XLen(ctx, s).Val(); n != 2 {
		t.Errorf("XLEN %d", n)
	}
}
