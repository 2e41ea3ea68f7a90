package clients

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// committed is the offset of a group as Kafka clients see it: the watermark.
func committed(t *testing.T, group, tp string) int64 {
	t.Helper()
	got := must[kadm.OffsetResponses](t)(admin(t).FetchOffsetsForTopics(within(t), group, tp))
	o, _ := got.Lookup(tp, 0)
	return o.At
}

// commit is an administrator's commit, outside of any generation.
func commit(t *testing.T, group, tp string, at int64) {
	t.Helper()
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: tp, At: at, LeaderEpoch: -1})
	if err := admin(t).CommitAllOffsets(within(t), group, os); err != nil {
		t.Fatalf("commit %d: %v", at, err)
	}
}

// owner starts a member of the group that fetches and never commits by itself.
func owner(t *testing.T, group, tp, instance string) *kgo.Client {
	t.Helper()
	return kafka(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp), kgo.DisableAutoCommit(), kgo.InstanceID(instance), kgo.ClientID(instance),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(100*time.Millisecond), kgo.FetchMaxWait(100*time.Millisecond))
}

// Rule 2: the watermark moves only when the lowest pending entry goes.
func TestAcksMoveTheWatermark(t *testing.T) {
	both(t)
	r := redisClient(t, 3)
	s := filled(t, r, 5)
	if ms := read(t, r, s, s, "ann", ">", 4); len(ms) != 4 {
		t.Fatalf("read %d", len(ms))
	}
	for _, step := range []struct {
		ack  string
		want int64
	}{{"", 0}, {"2-0", 0}, {"1-0", 2}, {"4-0", 2}, {"3-0", 4}} {
		if step.ack != "" {
			r.XAck(within(t), s, s, step.ack)
		}
		if got := committed(t, s, s); got != step.want {
			t.Errorf("after XACK %q the committed offset is %d, want %d", step.ack, got, step.want)
		}
	}
	rec := consume(t, kafka(t, kgo.ConsumerGroup(s), kgo.ConsumeTopics(s), kgo.DisableAutoCommit()), 1)[0]
	if rec.Offset != 4 {
		t.Errorf("a Kafka member resumes at %d, want 4", rec.Offset)
	}
}

// Rule 3: a commit acks everything below; beyond it moves the cursor; backwards it rewinds.
func TestCommitsAreAcks(t *testing.T) {
	both(t)
	r := redisClient(t, 3)
	s := filled(t, r, 6)
	read(t, r, s, s, "ann", ">", 4)
	commit(t, s, s, 2)
	equal(t, "a partial commit", pending(t, r, s), "3-0 ann 1", "4-0 ann 1")
	commit(t, s, s, 5)
	equal(t, "a commit beyond what was delivered", pending(t, r, s))
	if got := ids(read(t, r, s, s, "ann", ">", 1)); got != "6-0" {
		t.Errorf("then > delivers %q, want 6-0", got)
	}
	commit(t, s, s, 1)
	equal(t, "a rewind", pending(t, r, s))
	if got := committed(t, s, s); got != 1 {
		t.Errorf("after the rewind the committed offset is %d", got)
	}
	if got := ids(read(t, r, s, s, "bob", ">", 10)); got != "2-0 3-0 4-0 5-0 6-0" {
		t.Errorf("after the rewind > delivers %q", got)
	}
}

// Rules 6 and 8: what is pending passes to the member that gets the partition, and the member is a consumer.
func TestRebalanceClaims(t *testing.T) {
	both(t)
	r := redisClient(t, 3)
	s := filled(t, r, 4)
	read(t, r, s, s, "ann", ">", 2)
	m := owner(t, s, s, "till-1")
	rs := consume(t, m, 4)
	if rs[0].Offset != 0 {
		t.Errorf("the member starts at %d, the watermark is 0", rs[0].Offset)
	}
	eventually(t, "everything is pending with the member", func() bool {
		p, err := r.XPending(within(t), s, s).Result()
		return err == nil && p.Count == 4 && p.Consumers["till-1"] == 4
	})
	cs := must[[]redis.XInfoConsumer](t)(r.XInfoConsumers(within(t), s, s).Result())
	var names []string
	for _, c := range cs {
		names = append(names, fmt.Sprintf("%s %d", c.Name, c.Pending))
	}
	equal(t, "XINFO CONSUMERS", names, "ann 0", "till-1 4")
}

// Rule 7: while a Kafka member owns the partition, > finds nothing new; when it has
// gone, what it fetched and did not commit is delivered again.
func TestOnePartitionOneReader(t *testing.T) {
	both(t)
	ctx, r := within(t), redisClient(t, 3)
	tp := topic(t, 1, nil)
	group := name(t)
	k := kafka(t)
	for i := range 3 {
		produce(t, k, &kgo.Record{Topic: tp, Value: fmt.Appendf(nil, "%d", i)})
	}
	m := kafka(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(100*time.Millisecond))
	rs := consume(t, m, 3)
	if err := m.CommitRecords(ctx, rs[0]); err != nil {
		t.Fatal(err)
	}
	produce(t, k, &kgo.Record{Topic: tp, Value: []byte("3")})
	if got := read(t, r, tp, group, "ann", ">", 10); len(got) != 0 {
		t.Errorf("> beside a Kafka member: %v", got)
	}
	err := r.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "ann", Streams: []string{tp, ">"}, Block: 100 * time.Millisecond}).Err()
	if !errors.Is(err, redis.Nil) {
		t.Errorf("> with BLOCK beside a Kafka member: %v", err)
	}
	waiting := make(chan string, 1)
	sleeper := redisClient(t, 3)
	go func() {
		res, err := sleeper.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "ann", Streams: []string{tp, ">"}, Block: patience}).Result()
		if err != nil {
			waiting <- err.Error()
			return
		}
		waiting <- fmt.Sprint(res[0].Messages[0].Values["value"])
	}()
	m.Close()
	if got := <-waiting; got != "1" {
		t.Errorf("when the member has gone, > delivers from %s, want 1", got)
	}
}

// Rule 4: XGROUP SETID keeps what is pending; XGROUP CREATE at $ starts Kafka members there.
func TestCursorsAreShared(t *testing.T) {
	both(t)
	ctx, r := within(t), redisClient(t, 3)
	s := filled(t, r, 5)
	late, kafkaMade := s+"-late", s+"-kafka"
	must[string](t)(r.XGroupCreate(ctx, s, late, "$").Result())
	if got := committed(t, late, s); got != 5 {
		t.Errorf("a group made at $ has the committed offset %d", got)
	}
	must[string](t)(r.XGroupSetID(ctx, s, late, "3-0").Result())
	if got := committed(t, late, s); got != 3 {
		t.Errorf("set to 3-0 it is %d, want 3", got)
	}
	listed := must[kadm.ListedGroups](t)(admin(t).ListGroups(within(t)))
	if _, ok := listed[late]; !ok {
		t.Error("a group made by XGROUP is not listed")
	}
	commit(t, kafkaMade, s, 2)
	var names []string
	for _, g := range must[[]redis.XInfoGroup](t)(r.XInfoGroups(ctx, s).Result()) {
		names = append(names, strings.TrimPrefix(g.Name, s)+" "+g.LastDeliveredID)
	}
	equal(t, "XINFO GROUPS", names, " 0-0", "-kafka 2-0", "-late 3-0")
	if n := must[int64](t)(r.XGroupDestroy(ctx, s, kafkaMade).Result()); n != 1 {
		t.Errorf("DESTROY: %d", n)
	}
	if got := committed(t, kafkaMade, s); got != -1 {
		t.Errorf("destroyed, its committed offset is %d", got)
	}
}

// Lag and pending are two readings of one state.
func TestLagIsTheSameOnBothSides(t *testing.T) {
	both(t)
	r := redisClient(t, 3)
	s := filled(t, r, 10)
	read(t, r, s, s, "ann", ">", 6)
	r.XAck(within(t), s, s, "1-0", "2-0", "3-0", "4-0", "5-0", "6-0")
	g := must[[]redis.XInfoGroup](t)(r.XInfoGroups(within(t), s).Result())[0]
	lags := must[kadm.DescribedGroupLags](t)(admin(t).Lag(within(t), s))
	if lag := lags[s].Lag.Total(); lag != 4 || g.Lag != 4 {
		t.Errorf("Kafka says lag %d, Redis %d, want 4", lag, g.Lag)
	}
}
