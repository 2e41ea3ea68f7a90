package clients

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Dictionary 4: the topic's settings say how other fields become a record.
func TestTopicSettingsShapeTheRecord(t *testing.T) {
	both(t)
	tp := topic(t, 1, map[string]*string{"weir.key.field": ptr("user"), "weir.value.format": ptr("headers")})
	add(t, redisClient(t, 3), tp, "*", "user", "ann", "amount", "12", "amount", "13")
	r := consume(t, from(t, tp, map[int32]int64{0: 0}), 1)[0]
	if string(r.Key) != "ann" || r.Value != nil {
		t.Errorf("the record is %q=%q", r.Key, r.Value)
	}
	if got := headers(r); !slices.Contains(got, "amount=12") || !slices.Contains(got, "amount=13") {
		t.Errorf("its headers are %v", got)
	}
}

// Dictionary 2: the key T of a topic with partitions is one stream to a Redis worker: it reads, acks and claims over all.
func TestHashRoutedKeyIsOneStreamToWorkers(t *testing.T) {
	both(t)
	const n = 40
	ctx, r := within(t), redisClient(t, 3)
	tp := topic(t, 4, nil)
	must[string](t)(r.XGroupCreate(ctx, tp, tp, "0").Result())
	k := kafka(t)
	for i := range n {
		produce(t, k, &kgo.Record{Topic: tp, Key: fmt.Appendf(nil, "%d", i), Value: []byte("v")})
	}
	seen := map[string]string{}
	for len(seen) < n {
		ms := read(t, r, tp, tp, "ann", ">", 7)
		if len(ms) == 0 {
			t.Fatalf("nothing new after %d of %d", len(seen), n)
		}
		for _, m := range ms {
			if _, twice := seen[m.ID]; twice {
				t.Errorf("%s delivered twice", m.ID)
			}
			seen[m.ID] = m.Values["key"].(string)
		}
	}
	if p := must[*redis.XPending](t)(r.XPending(ctx, tp, tp).Result()); p.Count != n || p.Consumers["ann"] != n {
		t.Errorf("pending: %+v", p)
	}
	claimed := map[string]bool{}
	for start := "0-0"; ; {
		ms, next, err := r.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: tp, Group: tp, Consumer: "bob", Start: start, Count: 9}).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			claimed[m.ID] = true
		}
		if start = next; next == "0-0" {
			break
		}
	}
	if len(claimed) != n {
		t.Errorf("XAUTOCLAIM walked over %d of %d", len(claimed), n)
	}
	for id := range seen {
		if acked := must[int64](t)(r.XAck(ctx, tp, tp, id).Result()); acked != 1 {
			t.Errorf("XACK %s: %d", id, acked)
		}
	}
	lags := must[kadm.DescribedGroupLags](t)(admin(t).Lag(within(t), tp))
	if lag := lags[tp].Lag.Total(); lag != 0 {
		t.Errorf("drained, the lag is %d", lag)
	}
	if n := must[int64](t)(r.XLen(ctx, tp).Result()); n != 40 {
		t.Errorf("XLEN of the topic: %d", n)
	}
}

// Rule 5: a rebalance does not raise the delivery count; the fetch by the new owner does.
func TestCountRisesWithTheFetch(t *testing.T) {
	both(t)
	r := redisClient(t, 3)
	s := filled(t, r, 2)
	read(t, r, s, s, "ann", ">", 2)
	m := owner(t, s, s, "till-2")
	consume(t, m, 2)
	eventually(t, "both entries count two deliveries", func() bool {
		return fmt.Sprint(pending(t, r, s)) == "[1-0 till-2 2 2-0 till-2 2]"
	})
}

// A group that XGROUP made is a group to Kafka's administrators, who can describe and delete it.
func TestRedisGroupsAreKafkaGroups(t *testing.T) {
	both(t)
	ctx, r, adm := within(t), redisClient(t, 3), admin(t)
	s := filled(t, r, 3)
	read(t, r, s, s, "ann", ">", 1)
	described := must[kadm.DescribedGroups](t)(adm.DescribeGroups(ctx, s))
	if g := described[s]; g.Err != nil || g.State != "Empty" || len(g.Members) != 0 {
		t.Errorf("described: %+v", g)
	}
	deleted := must[kadm.DeleteGroupResponses](t)(adm.DeleteGroups(ctx, s))
	if deleted[s].Err != nil {
		t.Errorf("deleting it: %v", deleted[s].Err)
	}
	if gs := must[[]redis.XInfoGroup](t)(r.XInfoGroups(ctx, s).Result()); len(gs) != 0 {
		t.Errorf("XINFO GROUPS: %+v", gs)
	}
}

// Dictionary 2: a Redis key that Kafka would not let one create is readable under its own name.
func TestRedisNamesAreTopicNames(t *testing.T) {
	both(t)
	r := redisClient(t, 3)
	s := name(t) + ":events"
	add(t, r, s, "*", "value", "v")
	if topics := must[kadm.TopicDetails](t)(admin(t).ListTopics(within(t))); !topics.Has(s) {
		t.Errorf("%s is not listed", s)
	}
	if rec := consume(t, from(t, s, map[int32]int64{0: 0}), 1)[0]; string(rec.Value) != "v" {
		t.Errorf("read %q", rec.Value)
	}
	produce(t, kafka(t), &kgo.Record{Topic: s, Value: []byte("w")})
	equal(t, "fields", fields(t, s), "[value v]", "[value w]")
	hidden := "\xff\xfe" + name(t)
	add(t, r, hidden, "*", "value", "v")
	if topics := must[kadm.TopicDetails](t)(admin(t).ListTopics(within(t))); topics.Has(hidden) {
		t.Error("a key that is not UTF-8 is listed as a topic")
	}
}
