package clients

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// read is one XREADGROUP without blocking; nothing new is an empty slice.
func read(t *testing.T, cl *redis.Client, s, group, consumer, id string, count int64) []redis.XMessage {
	t.Helper()
	res, err := cl.XReadGroup(within(t), &redis.XReadGroupArgs{Group: group, Consumer: consumer, Streams: []string{s, id}, Count: count, Block: -1}).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		t.Fatalf("XREADGROUP %s %s: %v", group, id, err)
	}
	return res[0].Messages
}

// filled makes a stream of n entries 1-0 to n-0 with a group at its head that has the
// same name: on weir a group of one name is one group to Kafka clients, whatever the stream.
func filled(t *testing.T, cl *redis.Client, n int) string {
	t.Helper()
	s := name(t)
	must[string](t)(cl.XGroupCreateMkStream(within(t), s, s, "0").Result())
	for i := range n {
		add(t, cl, s, fmt.Sprintf("%d-0", i+1), "n", i+1)
	}
	return s
}

// pending returns "id consumer deliveries" of every pending entry.
func pending(t *testing.T, cl *redis.Client, s string) (rows []string) {
	t.Helper()
	for _, p := range must[[]redis.XPendingExt](t)(cl.XPendingExt(within(t), &redis.XPendingExtArgs{Stream: s, Group: s, Start: "-", End: "+", Count: 100}).Result()) {
		rows = append(rows, fmt.Sprintf("%s %s %d", p.ID, p.Consumer, p.RetryCount))
	}
	return rows
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The life of entries: delivered, acked, claimed with and without the count, claimed by a scan.
func TestPendingClaimAck(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx := within(t)
		s := filled(t, cl, 5)
		read(t, cl, s, s, "ann", ">", 3)
		read(t, cl, s, s, "bob", ">", 3)
		equal(t, "delivered", pending(t, cl, s), "1-0 ann 1", "2-0 ann 1", "3-0 ann 1", "4-0 bob 1", "5-0 bob 1")
		if n := cl.XAck(ctx, s, s, "2-0", "2-0", "9-0").Val(); n != 1 {
			t.Errorf("XACK: %d", n)
		}
		must[[]redis.XMessage](t)(cl.XClaim(ctx, &redis.XClaimArgs{Stream: s, Group: s, Consumer: "cy", Messages: []string{"1-0"}}).Result())
		must[[]string](t)(cl.XClaimJustID(ctx, &redis.XClaimArgs{Stream: s, Group: s, Consumer: "cy", Messages: []string{"4-0"}}).Result())
		equal(t, "claimed", pending(t, cl, s), "1-0 cy 2", "3-0 ann 1", "4-0 cy 1", "5-0 bob 1")
		got, next, err := cl.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: s, Group: s, Consumer: "dan", Start: "0", Count: 2}).Result()
		if err != nil || next != "4-0" || ids(got) != "1-0 3-0" {
			t.Errorf("XAUTOCLAIM: %v, next %s, %v", ids(got), next, err)
		}
		just, next, err := cl.XAutoClaimJustID(ctx, &redis.XAutoClaimArgs{Stream: s, Group: s, Consumer: "eve", Start: next, MinIdle: 0}).Result()
		if err != nil || next != "0-0" || fmt.Sprint(just) != "[4-0 5-0]" {
			t.Errorf("XAUTOCLAIM JUSTID: %v, next %s, %v", just, next, err)
		}
		equal(t, "after both scans", pending(t, cl, s), "1-0 dan 3", "3-0 dan 2", "4-0 eve 1", "5-0 eve 1")
		if n := cl.XGroupDelConsumer(ctx, s, s, "dan").Val(); n != 2 {
			t.Errorf("DELCONSUMER dropped %d", n)
		}
		p := must[*redis.XPending](t)(cl.XPending(ctx, s, s).Result())
		if p.Count != 2 || p.Lower != "4-0" || p.Higher != "5-0" || len(p.Consumers) != 1 || p.Consumers["eve"] != 2 {
			t.Errorf("XPENDING: %+v", p)
		}
	})
}

// C58: what was deleted comes back in the history as an ID without fields.
func TestDeletedWhilePending(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx := within(t)
		s := filled(t, cl, 3)
		read(t, cl, s, s, "ann", ">", 2)
		cl.XDel(ctx, s, "1-0")
		got := read(t, cl, s, s, "ann", "0", 10)
		if ids(got) != "1-0 2-0" || got[0].Values != nil || got[1].Values["n"] != "2" {
			t.Errorf("history: %v", got)
		}
		if got := ids(read(t, cl, s, s, "ann", "1-0", 1)); got != "2-0" {
			t.Errorf("history after 1-0: %s", got)
		}
		// C59 and C85: the ghost goes with its first claim.
		if got := must[[]redis.XMessage](t)(cl.XClaim(ctx, &redis.XClaimArgs{Stream: s, Group: s, Consumer: "bob", Messages: []string{"1-0"}}).Result()); len(got) != 0 {
			t.Errorf("claimed a ghost: %v", got)
		}
		if rows := pending(t, cl, s); len(rows) != 1 {
			t.Errorf("pending after the claim: %v", rows)
		}
		cl.XTrimMaxLen(ctx, s, 0)
		msgs, _, gone, err := cl.XAutoClaimWithDeleted(ctx, &redis.XAutoClaimArgs{Stream: s, Group: s, Consumer: "bob", Start: "0"}).Result()
		if err != nil || len(msgs) != 0 || fmt.Sprint(gone) != "[2-0]" {
			t.Errorf("XAUTOCLAIM of a trimmed entry: %v, deleted %v, %v", msgs, gone, err)
		}
		if rows := pending(t, cl, s); len(rows) != 0 {
			t.Errorf("pending at the end: %v", rows)
		}
	})
}

// C63: without a pending list the position moves and nothing stays behind.
func TestNoAck(t *testing.T) {
	eachProtocol(t, func(t *testing.T, cl *redis.Client) {
		ctx := within(t)
		s := filled(t, cl, 2)
		must[[]redis.XStream](t)(cl.XReadGroup(ctx, &redis.XReadGroupArgs{Group: s, Consumer: "ann", Streams: []string{s, ">"}, NoAck: true}).Result())
		if p := must[*redis.XPending](t)(cl.XPending(ctx, s, s).Result()); p.Count != 0 {
			t.Errorf("pending: %+v", p)
		}
		if g := must[[]redis.XInfoGroup](t)(cl.XInfoGroups(ctx, s).Result())[0]; g.LastDeliveredID != "2-0" || g.Consumers != 1 || g.Lag != 0 {
			t.Errorf("group: %+v", g)
		}
	})
}

// C83: a consumer that died in mid-batch walks its history in steps, then goes on with new entries.
func TestHistoryInSteps(t *testing.T) {
	cl := redisClient(t, 3)
	s := filled(t, cl, 12)
	read(t, cl, s, s, "ann", ">", 10)
	var back []string
	for id := "0"; ; {
		got := read(t, cl, s, s, "ann", id, 3)
		if len(got) == 0 {
			break
		}
		for _, m := range got {
			back = append(back, m.ID)
		}
		id = got[len(got)-1].ID
	}
	equal(t, "history", back, "1-0", "2-0", "3-0", "4-0", "5-0", "6-0", "7-0", "8-0", "9-0", "10-0")
	if a, b := ids(read(t, cl, s, s, "ann", "0", 3)), ids(read(t, cl, s, s, "ann", "0", 3)); a != "1-0 2-0 3-0" || a != b {
		t.Errorf("from 0 twice: %s, then %s", a, b)
	}
	if got := ids(read(t, cl, s, s, "ann", ">", 10)); got != "11-0 12-0" {
		t.Errorf("new entries: %s", got)
	}
}

// C82: the loop of a listener survives the loss of its stream.
func TestListenerSurvivesStreamLoss(t *testing.T) {
	cl := redisClient(t, 3)
	ctx := within(t)
	s := filled(t, cl, 1)
	got, lost := make(chan string, 10), make(chan error, 1000)
	loop, stop := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		for loop.Err() == nil {
			res, err := cl.XReadGroup(loop, &redis.XReadGroupArgs{Group: s, Consumer: "ann", Streams: []string{s, ">"}, Block: 100 * time.Millisecond}).Result()
			switch {
			case err == nil:
				for _, m := range res[0].Messages {
					got <- m.ID
				}
			case !errors.Is(err, redis.Nil) && loop.Err() == nil:
				select {
				case lost <- err:
				default:
				}
			}
		}
	})
	if id := <-got; id != "1-0" {
		t.Fatalf("first came %s", id)
	}
	cl.Del(ctx, s)
	if err := <-lost; !starts(err, "NOGROUP ") {
		t.Errorf("the stream is gone: %v", err)
	}
	must[string](t)(cl.XGroupCreateMkStream(ctx, s, s, "0").Result())
	add(t, cl, s, "7-0", "a", "1")
	if id := <-got; id != "7-0" {
		t.Errorf("after re-creation came %s", id)
	}
	stop()
	done.Wait()
}

// Four workers, one of which dies with work in hand; a scan finds it, and every entry is done.
func TestWorkersShareADeadColleaguesWork(t *testing.T) {
	const n = 400
	cl := redisClient(t, 3)
	ctx := within(t)
	s := name(t)
	must[string](t)(cl.XGroupCreateMkStream(ctx, s, s, "0").Result())
	var mu sync.Mutex
	done := map[string]int{}
	finish := func(cl *redis.Client, ms []redis.XMessage) {
		for _, m := range ms {
			mu.Lock()
			done[m.Values["n"].(string)]++
			mu.Unlock()
			cl.XAck(ctx, s, s, m.ID)
		}
	}
	if _, err := cl.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range n {
			p.XAdd(ctx, &redis.XAddArgs{Stream: s, Values: []any{"n", i}})
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := read(t, cl, s, s, "dead", ">", 37); len(got) != 37 { // and it is never heard of again
		t.Fatalf("the dead worker had %d", len(got))
	}
	var workers sync.WaitGroup
	for w := range 3 {
		own := redisClient(t, 2+w%2)
		workers.Go(func() {
			for {
				ms, err := own.XReadGroup(ctx, &redis.XReadGroupArgs{Group: s, Consumer: fmt.Sprintf("w%d", w), Streams: []string{s, ">"}, Count: 7, Block: 50 * time.Millisecond}).Result()
				if err == nil {
					finish(own, ms[0].Messages)
					continue
				}
				claimed, _, err := own.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: s, Group: s, Consumer: fmt.Sprintf("w%d", w), MinIdle: 50 * time.Millisecond, Start: "0", Count: 10}).Result()
				if err != nil || len(claimed) == 0 {
					return
				}
				finish(own, claimed)
			}
		})
	}
	workers.Wait()
	if len(done) != n {
		t.Errorf("%d of %d entries done", len(done), n)
	}
	if p := must[*redis.XPending](t)(cl.XPending(ctx, s, s).Result()); p.Count != 0 {
		t.Errorf("still pending: %+v", p)
	}
}
