package clients

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// eachProtocol runs a test over RESP2 and over RESP3.
func eachProtocol(t *testing.T, test func(t *testing.T, cl *redis.Client)) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("RESP%d", protocol), func(t *testing.T) { test(t, redisClient(t, protocol)) })
	}
}

func add(t *testing.T, cl *redis.Client, key, id string, pairs ...any) string {
	t.Helper()
	got, err := cl.XAdd(within(t), &redis.XAddArgs{Stream: key, ID: id, Values: pairs}).Result()
	if err != nil {
		t.Fatalf("XADD %s %s: %v", key, id, err)
	}
	return got
}

// ids returns the IDs of messages, in order.
func ids(ms []redis.XMessage) string {
	var s []string
	for _, m := range ms {
		s = append(s, m.ID)
	}
	return strings.Join(s, " ")
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// starts says whether an error is a reply that begins so.
func starts(err error, prefix string) bool {
	return err != nil && strings.HasPrefix(err.Error(), prefix)
}

func TestStreamRangesAndReads(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx, s := within(t), name(t)
		add(t, cl, s, "1-0", "uno", "un")
		add(t, cl, s, "2-0", "dos", "deux")
		add(t, cl, s, "3-0", "tres", "troix", "quatro", "quatre")
		if n := must[int64](t)(cl.XLen(ctx, s).Result()); n != 3 {
			t.Errorf("XLEN %d", n)
		}
		want := []redis.XMessage{{ID: "3-0", Values: map[string]any{"tres": "troix", "quatro": "quatre"}}, {ID: "2-0", Values: map[string]any{"dos": "deux"}}}
		got := must[[]redis.XMessage](t)(cl.XRevRangeN(ctx, s, "+", "-", 2).Result())
		for i := range want {
			if got[i].ID != want[i].ID || !reflect.DeepEqual(got[i].Values, want[i].Values) {
				t.Errorf("XREVRANGE %d: %v, want %v", i, got[i], want[i])
			}
		}
		if got := ids(must[[]redis.XMessage](t)(cl.XRange(ctx, s, "(1-0", "+").Result())); got != "2-0 3-0" {
			t.Errorf("XRANGE (1-0 +: %s", got)
		}
		read := must[[]redis.XStream](t)(cl.XRead(ctx, &redis.XReadArgs{Streams: []string{s, "0"}, Count: 2}).Result())
		if len(read) != 1 || read[0].Stream != s || ids(read[0].Messages) != "1-0 2-0" {
			t.Errorf("XREAD: %v", read)
		}
		if _, err := cl.XRead(ctx, &redis.XReadArgs{Streams: []string{s, "$"}, Block: 10 * time.Millisecond}).Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("XREAD at the end: %v", err)
		}
		if _, err := cl.XAdd(ctx, &redis.XAddArgs{Stream: s + "-no", NoMkStream: true, Values: []string{"a", "b"}}).Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("XADD NOMKSTREAM: %v", err)
		}
	})
}

// A thousand commands in one write come back as a thousand replies in order.
func TestPipelineOfAThousand(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx, s := within(t), name(t)
		cmds, err := cl.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range 1000 {
				p.XAdd(ctx, &redis.XAddArgs{Stream: s, Values: []any{"n", i}})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		all := must[[]redis.XMessage](t)(cl.XRange(ctx, s, "-", "+").Result())
		if len(all) != 1000 {
			t.Fatalf("%d entries", len(all))
		}
		for i, m := range all {
			if id := cmds[i].(*redis.StringCmd).Val(); id != m.ID || m.Values["n"] != fmt.Sprint(i) {
				t.Fatalf("reply %d is %s, the entry is %v", i, id, m)
			}
		}
	})
}

// Approximate trimming by whole nodes of a hundred entries; exact trimming to the entry.
func TestTrimming(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx, s := within(t), name(t)
		_, err := cl.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range 1000 {
				p.XAdd(ctx, &redis.XAddArgs{Stream: s, ID: fmt.Sprintf("%d-0", i+1), MaxLen: 555, Approx: true, Values: []any{"xitem", i}})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := cl.XLen(ctx, s).Val(); n != 600 {
			t.Errorf("MAXLEN ~ 555 leaves %d, want 600", n)
		}
		if n := must[int64](t)(cl.XTrimMaxLen(ctx, s, 10).Result()); n != 590 {
			t.Errorf("MAXLEN 10 removed %d", n)
		}
		if n := must[int64](t)(cl.XTrimMinID(ctx, s, "996").Result()); n != 5 {
			t.Errorf("MINID 996 removed %d", n)
		}
		if n := must[int64](t)(cl.XTrimMaxLenApprox(ctx, s, 1, 0).Result()); n != 0 {
			t.Errorf("MAXLEN ~ 1 of one node removed %d", n)
		}
	})
}

// C64: IDs are never used twice, however fast entries come and go.
func TestIDsAreNeverUsedTwice(t *testing.T) {
	cl := redisClient(t, 3)
	ctx, s := within(t), name(t)
	add(t, cl, s, "5-0", "a", "1")
	cl.XDel(ctx, s, "5-0")
	if err := cl.XAdd(ctx, &redis.XAddArgs{Stream: s, ID: "5-0", Values: []string{"a", "1"}}).Err(); !starts(err, "ERR The ID specified in XADD is equal or smaller") {
		t.Errorf("the deleted ID again: %v", err)
	}
	last := ""
	for range 200 {
		id := add(t, cl, s, "*", "a", "1")
		if before(id, last) || id == last {
			t.Fatalf("%s after %s", id, last)
		}
		cl.XDel(ctx, s, id)
		last = id
	}
	if n := cl.Exists(ctx, s).Val(); n != 1 {
		t.Errorf("the empty stream is gone")
	}
}

// before compares two IDs as pairs of numbers.
func before(a, b string) bool {
	parse := func(id string) (ms, seq uint64) {
		_, _ = fmt.Sscanf(id, "%d-%d", &ms, &seq)
		return ms, seq
	}
	am, as := parse(a)
	bm, bs := parse(b)
	return am < bm || am == bm && as < bs
}

// C76: XINFO in every form as go-redis reads it, nil counters included.
func TestXInfoInEveryForm(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx, s := within(t), name(t)
		for i := range 5 {
			add(t, cl, s, fmt.Sprintf("%d-0", i+1), "n", i)
		}
		must[string](t)(cl.XGroupCreate(ctx, s, "all", "0").Result())
		must[string](t)(cl.XGroupCreate(ctx, s, "mid", "2-0").Result())
		must[[]redis.XStream](t)(cl.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "all", Consumer: "ann", Streams: []string{s, ">"}, Count: 3}).Result())
		cl.XAck(ctx, s, "all", "1-0")
		cl.XDel(ctx, s, "5-0")
		info := must[*redis.XInfoStream](t)(cl.XInfoStream(ctx, s).Result())
		if info.Length != 4 || info.Groups != 2 || info.LastGeneratedID != "5-0" || info.MaxDeletedEntryID != "5-0" || info.EntriesAdded != 5 || info.FirstEntry.ID != "1-0" || info.LastEntry.ID != "4-0" || info.RecordedFirstEntryID != "1-0" {
			t.Errorf("XINFO STREAM: %+v", info)
		}
		full := must[*redis.XInfoStreamFull](t)(cl.XInfoStreamFull(ctx, s, 2).Result())
		if full.Length != 4 || len(full.Entries) != 2 || len(full.Groups) != 2 || full.EntriesAdded != 5 {
			t.Fatalf("XINFO STREAM FULL COUNT 2: %+v", full)
		}
		g := full.Groups[0]
		if g.Name != "all" || g.LastDeliveredID != "3-0" || g.EntriesRead != 3 || g.PelCount != 2 || len(g.Pending) != 2 || len(g.Consumers) != 1 {
			t.Errorf("group in FULL: %+v", g)
		}
		if c := g.Consumers[0]; c.Name != "ann" || c.PelCount != 2 || len(c.Pending) != 2 || c.Pending[0].ID != "2-0" || c.Pending[0].DeliveryCount != 1 || time.Since(c.SeenTime).Abs() > time.Minute || time.Since(c.ActiveTime).Abs() > time.Minute {
			t.Errorf("consumer in FULL: %+v", c)
		}
		groups := must[[]redis.XInfoGroup](t)(cl.XInfoGroups(ctx, s).Result())
		if len(groups) != 2 || groups[0].Name != "all" || groups[0].Pending != 2 || groups[0].Consumers != 1 || groups[0].EntriesRead != 3 || groups[1].Name != "mid" || groups[1].LastDeliveredID != "2-0" {
			t.Errorf("XINFO GROUPS: %+v", groups)
		}
		consumers := must[[]redis.XInfoConsumer](t)(cl.XInfoConsumers(ctx, s, "all").Result())
		if len(consumers) != 1 || consumers[0].Name != "ann" || consumers[0].Pending != 2 || consumers[0].Idle > time.Minute {
			t.Errorf("XINFO CONSUMERS: %+v", consumers)
		}
	})
}

// C54: the replies of group creation that frameworks match on.
func TestGroupCreationReplies(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx, s := within(t), name(t)
		if err := cl.XGroupCreate(ctx, s, "g", "$").Err(); !starts(err, "ERR The XGROUP subcommand requires the key to exist") {
			t.Errorf("no key: %v", err)
		}
		must[string](t)(cl.XGroupCreateMkStream(ctx, s, "g", "$").Result())
		if err := cl.XGroupCreateMkStream(ctx, s, "g", "$").Err(); err == nil || err.Error() != "BUSYGROUP Consumer Group name already exists" {
			t.Errorf("again: %v", err)
		}
		if err := cl.XGroupSetID(ctx, s, "none", "0").Err(); !starts(err, "NOGROUP ") {
			t.Errorf("SETID of no group: %v", err)
		}
		for _, want := range []int64{1, 0} {
			if n := must[int64](t)(cl.XGroupCreateConsumer(ctx, s, "g", "ann").Result()); n != want {
				t.Errorf("CREATECONSUMER: %d, want %d", n, want)
			}
		}
		for _, want := range []int64{1, 0} {
			if n := must[int64](t)(cl.XGroupDestroy(ctx, s, "g").Result()); n != want {
				t.Errorf("DESTROY: %d, want %d", n, want)
			}
		}
		if n := must[int64](t)(cl.XAck(ctx, s, "g", "1-0").Result()); n != 0 {
			t.Errorf("XACK of no group: %d", n)
		}
	})
}

// C46: a group that is not there fails at once; one that is there waits its time.
func TestNoGroupFailsNow(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx, s := within(t), name(t)
		read := func() (time.Duration, error) {
			start := time.Now()
			err := cl.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{s, ">"}, Count: 10, Block: 700 * time.Millisecond}).Err()
			return time.Since(start), err
		}
		if took, err := read(); !starts(err, "NOGROUP ") || took > 400*time.Millisecond {
			t.Errorf("no group: %v after %v", err, took)
		}
		if n := cl.Exists(ctx, s).Val(); n != 0 {
			t.Error("the read created the key")
		}
		must[string](t)(cl.XGroupCreateMkStream(ctx, s, "g", "0").Result())
		if took, err := read(); !errors.Is(err, redis.Nil) || took < 690*time.Millisecond || took > 5*time.Second {
			t.Errorf("an empty stream: %v after %v", err, took)
		}
	})
}

// Fifty sleepers with COUNT 1, fifty entries in one pipeline: one entry each.
func TestFiftySleepersGetOneEach(t *testing.T) {
	ctx, s := within(t), name(t)
	cl := redisClient(t, 3)
	must[string](t)(cl.XGroupCreateMkStream(ctx, s, "g", "$").Result())
	got := make(chan string, 50)
	for i := range 50 {
		sleeper := redisClient(t, 2+i%2)
		go func() {
			res, err := sleeper.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: fmt.Sprint(i), Streams: []string{s, ">"}, Count: 1, Block: patience}).Result()
			if err != nil {
				got <- err.Error()
				return
			}
			got <- ids(res[0].Messages)
		}()
	}
	waiting := func() (n int) {
		for line := range strings.SplitSeq(cl.Info(ctx, "clients").Val(), "\r\n") {
			if v, ok := strings.CutPrefix(line, "blocked_clients:"); ok {
				_, _ = fmt.Sscan(v, &n)
			}
		}
		return n
	}
	eventually(t, "fifty wait", func() bool { return waiting() >= 50 })
	_, err := cl.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 50 {
			p.XAdd(ctx, &redis.XAddArgs{Stream: s, ID: fmt.Sprintf("%d-0", i+1), Values: []any{"n", i}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for range 50 {
		seen[<-got] = true
	}
	if len(seen) != 50 || !seen["1-0"] || !seen["50-0"] {
		t.Errorf("%d different replies: %v", len(seen), seen)
	}
	if p := must[*redis.XPending](t)(cl.XPending(ctx, s, "g").Result()); p.Count != 50 || len(p.Consumers) != 50 {
		t.Errorf("pending: %+v", p)
	}
}

// A client that leaves while it waits takes nothing with it.
func TestSleeperThatLeftGetsNothing(t *testing.T) {
	ctx, s := within(t), name(t)
	cl := redisClient(t, 3)
	must[string](t)(cl.XGroupCreateMkStream(ctx, s, "g", "$").Result())
	gone, leave := context.WithCancel(ctx)
	sleeper := redisClient(t, 3)
	done := make(chan struct{})
	go func() {
		defer close(done)
		sleeper.XReadGroup(gone, &redis.XReadGroupArgs{Group: "g", Consumer: "gone", Streams: []string{s, ">"}, Block: patience})
	}()
	eventually(t, "the sleeper is known", func() bool {
		cs, err := cl.XInfoConsumers(ctx, s, "g").Result()
		return err == nil && len(cs) == 1
	})
	leave()
	sleeper.Close()
	<-done
	eventually(t, "its connection is closed", func() bool {
		return !strings.Contains(cl.ClientList(ctx).Val(), "cmd=xreadgroup")
	})
	add(t, cl, s, "1-0", "a", "1")
	res := must[[]redis.XStream](t)(cl.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "here", Streams: []string{s, ">"}, Block: -1}).Result())
	if ids(res[0].Messages) != "1-0" {
		t.Errorf("the next reader got %v", res)
	}
}
