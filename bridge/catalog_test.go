package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"weir/engine"
	"weir/storage"
)

// house is a bridge over a store in memory that can be closed and opened again.
type house struct {
	t   testing.TB
	st  storage.Store
	eng *engine.Engine
	*Bridge
	o   Options
	now int64

	loadedStreams int // of the engine; 0: its default
}

func newHouse(t testing.TB, o Options) *house {
	h := &house{t: t, st: storage.NewMem(4), o: o, now: 1_700_000_000_000}
	h.o.NowMS = func() int64 { return h.now }
	h.o.RetentionCheck = -1
	h.open()
	t.Cleanup(h.close)
	return h
}

func (h *house) open() {
	h.t.Helper()
	var err error
	if h.eng, err = engine.Open(context.Background(), h.st, engine.Options{NowMS: h.o.NowMS, LoadedStreams: h.loadedStreams}); err != nil {
		h.t.Fatal(err)
	}
	if h.Bridge, err = Open(context.Background(), h.eng, h.o); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) close() {
	h.Bridge.Close(context.Background())
	h.eng.Close(context.Background())
}

func (h *house) reopen() {
	h.t.Helper()
	h.close()
	h.open()
}

// inTurn runs verbs and commits them.
func (h *house) inTurn(fn func(t *engine.Turn)) {
	h.t.Helper()
	turn := h.eng.Begin(engine.Written)
	fn(turn)
	if err := turn.Wait(context.Background()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) key(key string) {
	h.t.Helper()
	h.inTurn(func(t *engine.Turn) {
		if _, err := h.CreateKey(t, []byte(key)); err != nil {
			h.t.Fatal(err)
		}
	})
}

func (h *house) topic(name string, partitions int32) *Topic {
	h.t.Helper()
	t, err := h.CreateTopic(context.Background(), NewTopic{Name: name, Partitions: partitions, Replication: 1}, false)
	if err != nil {
		h.t.Fatal(err)
	}
	return t
}

// where says what a key names.
func (h *house) where(key string) string {
	r, ok := h.Resolve([]byte(key))
	if !ok {
		return "nothing"
	}
	return fmt.Sprintf("%s/%d of %d", r.Topic.Name, r.Partition, len(r.Streams))
}

func (h *house) expect(key, want string) {
	h.t.Helper()
	if got := h.where(key); got != want {
		h.t.Errorf("%s is %s, not %s", key, got, want)
	}
}

func TestKeysNameTopicsAndPartitions(t *testing.T) {
	h := newHouse(t, Options{})
	h.key("orders")
	h.topic("many", 3)
	h.key("x#3")
	for range 2 {
		h.expect("orders", "orders/0 of 1")
		h.expect("orders#0", "orders/0 of 1")
		h.expect("orders#1", "nothing")
		h.expect("many", "many/-1 of 3")
		h.expect("many#0", "many/0 of 1")
		h.expect("many#2", "many/2 of 1")
		h.expect("many#3", "nothing")
		h.expect("x#3", "x#3/0 of 1")
		h.expect("x", "nothing")
		h.reopen()
	}
	ctx := context.Background()
	// A topic that would hide x#3 is refused, by number of partitions.
	if _, err := h.CreateTopic(ctx, NewTopic{Name: "x", Partitions: 4, Replication: 1}, false); !errors.Is(err, ErrInvalidTopic) || !strings.Contains(err.Error(), "x#3") {
		t.Error(err)
	}
	h.topic("x", 3)
	if err := h.GrowTopic(ctx, "x", 4, nil, false); !errors.Is(err, ErrInvalidPartitions) || !strings.Contains(err.Error(), "x#3") {
		t.Error(err)
	}
	h.key("y#0")
	turn := h.eng.Begin(engine.Written)
	if _, err := h.CreateKey(turn, []byte("y")); !errors.Is(err, ErrShadowed) {
		t.Error(err)
	}
	// A partition cannot be dropped by its key.
	if _, err := h.DropKey(turn, []byte("many#1")); !errors.Is(err, ErrPartitionKey) {
		t.Error(err)
	}
	if was, err := h.DropKey(turn, []byte("many")); !was || err != nil {
		t.Error(was, err)
	}
	if was, err := h.DropKey(turn, []byte("many")); was || err != nil {
		t.Error(was, err)
	}
	if err := turn.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	h.expect("many#1", "nothing")
	h.reopen()
	h.expect("many#1", "nothing")
	h.expect("many", "nothing")
}

func TestATopicKeepsIDConfigsAndStreams(t *testing.T) {
	h := newHouse(t, Options{})
	made, err := h.CreateTopic(context.Background(), NewTopic{Name: "t", Partitions: 2, Replication: 1, Configs: []ConfigValue{{"weir.key.field", new("user")}}}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.GrowTopic(context.Background(), "t", 5, nil, false); err != nil {
		t.Fatal(err)
	}
	h.reopen()
	again, ok := h.TopicByID(made.ID)
	if !ok || again.Name != "t" || len(again.Streams) != 5 || again.Streams[1] != made.Streams[1] || again.Configs["weir.key.field"] != "user" || again.settings.keyField != "user" {
		t.Errorf("%+v", again)
	}
	if err := h.DeleteTopic(context.Background(), again); err != nil {
		t.Fatal(err)
	}
	if fresh := h.topic("t", 2); fresh.ID == made.ID || fresh.Streams[0] == made.Streams[0] {
		t.Error("a topic made anew is the old one")
	}
	if err := h.DeleteTopic(context.Background(), again); !errors.Is(err, ErrUnknownTopic) {
		t.Error("the old snapshot deleted the new topic:", err)
	}
	if made.ID[6]>>4 != 4 || made.ID[8]>>6 != 2 {
		t.Errorf("topic ID %x is no UUID of version 4", made.ID)
	}
}

func TestOpenMendsWhatACrashLeft(t *testing.T) {
	h := newHouse(t, Options{})
	h.topic("whole", 3)
	maimed := h.topic("maimed", 3)
	h.inTurn(func(turn *engine.Turn) {
		turn.Append(maimed.Streams[0], engine.AppendArgs{Auto: true, Fields: pairs("a", "b")})
		// A deletion that lost a stream before its record; a creation that never got a record.
		turn.Drop(maimed.Streams[1])
		if _, err := turn.Create([]byte("orphan")); err != nil {
			t.Fatal(err)
		}
	})
	h.reopen()
	streams := 0
	if err := h.eng.EachStream(func(no engine.StreamNo, key []byte) error {
		streams++
		if string(key) == "orphan" {
			t.Error("the orphan lives")
		}
		return nil
	}); err != nil || streams != 6 {
		t.Error(streams, err)
	}
	again, _ := h.Topic("maimed")
	if again.ID != maimed.ID || again.Streams[0] != maimed.Streams[0] || again.Streams[1] == maimed.Streams[1] {
		t.Errorf("%+v", again)
	}
	for p, want := range []int64{1, 0, 0} {
		if ends, err := h.Ends(again.Streams[p]); err != nil || ends.Next != want {
			t.Errorf("partition %d: %+v %v", p, ends, err)
		}
	}
}

func TestDropAllLeavesNothing(t *testing.T) {
	h := newHouse(t, Options{})
	h.key("a")
	h.topic("b", 4)
	h.inTurn(func(turn *engine.Turn) {
		if err := h.DropAll(turn); err != nil {
			t.Fatal(err)
		}
	})
	for range 2 {
		if n := h.TopicCount(); n != 0 || len(h.Topics()) != 0 {
			t.Error(n, "topics")
		}
		h.reopen()
	}
}

func TestProducerIDsAreNeverGivenTwice(t *testing.T) {
	h := newHouse(t, Options{})
	seen := make(map[int64]bool)
	for i := range 2500 {
		if i == 1700 || i == 1800 {
			h.reopen()
		}
		id, err := h.NextProducerID(context.Background())
		if err != nil || seen[id] || id < 0 {
			t.Fatal(id, err)
		}
		seen[id] = true
	}
}

func TestTheClusterKeepsItsID(t *testing.T) {
	h := newHouse(t, Options{})
	id := h.ClusterID()
	h.reopen()
	if len(id) != 22 || h.ClusterID() != id {
		t.Error(id, h.ClusterID())
	}
}

func TestSettingsOfBrokersAndGroupsLast(t *testing.T) {
	h := newHouse(t, Options{})
	ctx := context.Background()
	h.topic("t", 1)
	set := func(r Resource, name, value string) {
		t.Helper()
		if err := h.AlterConfigs(ctx, r, []ConfigChange{{name, SetConfig, &value}}, false, false); err != nil {
			t.Fatal(err)
		}
	}
	set(Resource{BrokerResource, ""}, "message.max.bytes", "1000")
	set(Resource{GroupResource, "g"}, "share.auto.offset.reset", "earliest")
	for range 2 {
		topic, _ := h.Topic("t")
		if topic.BatchRules(0).MaxBytes != 1000 {
			t.Error("the broker's default does not reach the topic")
		}
		got, err := h.DescribeConfigs(Resource{GroupResource, "g"}, []string{"share.auto.offset.reset"})
		if err != nil || *got[0].Value != "earliest" || got[0].Source != FromGroup {
			t.Error(got, err)
		}
		h.reopen()
	}
}

func TestTopicsOfRedisKeepTheirEntries(t *testing.T) {
	h := newHouse(t, Options{})
	h.key("redis")
	h.topic("kafka", 1)
	for _, name := range []string{"redis", "kafka"} {
		topic, _ := h.Topic(name)
		h.inTurn(func(turn *engine.Turn) {
			turn.Append(topic.Streams[0], engine.AppendArgs{Auto: true, Fields: pairs("a", "b")})
		})
	}
	h.now += 8 * day
	if err := h.Sweep(context.Background(), h.now); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"redis": 0, "kafka": 1} {
		topic, _ := h.Topic(name)
		if ends, err := h.Ends(topic.Streams[0]); err != nil || ends.Start != want {
			t.Errorf("%s: %+v %v", name, ends, err)
		}
	}
}

func TestRetentionTakesWholeBlocksFromTheFront(t *testing.T) {
	h := newHouse(t, Options{})
	ctx := context.Background()
	topic := h.topic("t", 1)
	no := topic.Streams[0]
	// One block per commit: ten of them, a second apart, 100 KB each.
	for range 10 {
		h.now += 1000
		h.inTurn(func(turn *engine.Turn) {
			turn.Append(no, engine.AppendArgs{Auto: true, Fields: pairs("v", strings.Repeat("x", 100_000))})
		})
	}
	set := func(name, value string) {
		t.Helper()
		if err := h.AlterConfigs(ctx, Resource{TopicResource, "t"}, []ConfigChange{{name, SetConfig, &value}}, false, false); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(want int64) {
		t.Helper()
		if err := h.Sweep(ctx, h.now); err != nil {
			t.Fatal(err)
		}
		if ends, err := h.Ends(no); err != nil || ends.Start != want || ends.Next != 10 {
			t.Errorf("%+v %v, not from %d", ends, err, want)
		}
	}
	sweep(0)
	set("retention.ms", "7000") // the entry of 7 s ago may stay
	sweep(2)
	sweep(2)
	set("retention.bytes", "400000") // at least as many stay, and what trimming has not swept off the disk may count
	sweep(5)
	set("cleanup.policy", "compact") // no deletion then
	set("retention.ms", "0")
	h.now += 1000
	sweep(5)
	set("cleanup.policy", "delete")
	sweep(10)
}

func FuzzTopicRecord(f *testing.F) {
	f.Add(appendTopicRecord(nil, &Topic{ID: [16]byte{1}, Streams: []engine.StreamNo{1, 1 << 60}, Configs: map[string]string{"a": "b", "c": ""}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := parseTopicRecord(data)
		if err != nil {
			return
		}
		back := appendTopicRecord(nil, &Topic{ID: rec.id, Streams: rec.streams, Configs: rec.configs})
		again, err := parseTopicRecord(back)
		if err != nil || len(again.streams) != len(rec.streams) || len(again.configs) != len(rec.configs) {
			t.Fatalf("%x became %x: %v", data, back, err)
		}
	})
}

func FuzzConfigRecord(f *testing.F) {
	f.Add(appendConfigRecord(nil, map[string]string{"a": "b"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		configs, err := parseConfigRecord(data)
		if err != nil {
			return
		}
		if again, err := parseConfigRecord(appendConfigRecord(nil, configs)); err != nil || len(again) != len(configs) {
			t.Fatal(again, err)
		}
	})
}
