package clients

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// redisWorker reads and acknowledges for a group over all partitions until it is stopped.
func (l *ledger) redisWorker(ctx context.Context, cl *redis.Client, tp, group, name string) {
	for ctx.Err() == nil {
		res, err := cl.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: name, Streams: []string{tp, ">"}, Count: 5, Block: 50 * time.Millisecond}).Result()
		switch {
		case err == nil:
			for _, m := range res[0].Messages {
				l.mu.Lock()
				l.seen[m.Values["value"].(string)]++
				l.mu.Unlock()
				if err := cl.XAck(context.WithoutCancel(ctx), tp, group, m.ID).Err(); err != nil {
					l.t.Errorf("XACK: %v", err)
				}
			}
		case !errors.Is(err, redis.Nil) && ctx.Err() == nil:
			l.t.Errorf("%s: %v", name, err)
		}
	}
}

// Rules 6 and 7 under load: Kafka members come and go in a group that Redis workers work for as well. Nothing is lost,
// and when all is quiet nothing is left.
func TestMixedWorkersLoseNothing(t *testing.T) {
	both(t)
	const rounds, per = 5, 200
	tp, group := topic(t, 2, nil), name(t)
	r := redisClient(t, 3)
	must[string](t)(r.XGroupCreate(within(t), tp, group, "0").Result())
	l := newLedger(t)
	hands := []*redis.Client{redisClient(t, 2), redisClient(t, 3)}
	working, cancel := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	stop := func() { cancel(); workers.Wait() }
	t.Cleanup(stop) // runs before the workers' clients are closed
	for i, cl := range hands {
		workers.Go(func() { l.redisWorker(working, cl, tp, group, fmt.Sprintf("redis-%d", i)) })
	}
	k := kafka(t)
	for round := range rounds {
		write := func(from, to int) {
			for i := from; i < to; i++ {
				value := fmt.Sprintf("%d-%d", round, i)
				if i%2 == 0 {
					produce(t, k, &kgo.Record{Topic: tp, Key: []byte(value), Value: []byte(value)})
				} else {
					add(t, r, tp, "*", "key", value, "value", value)
				}
			}
		}
		write(0, per/3)
		name, la, opts := fmt.Sprintf("a%d", round), l, []kgo.Opt(nil)
		if round%2 == 1 {
			// This member does nothing with what it fetches and never commits: all of it must come back to others.
			la = newLedger(t)
			opts = append(opts, kgo.DisableAutoCommit(), kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
				la.give(name, lost[tp])
			}))
		}
		a := la.join(name, group, tp, opts...)
		write(per/3, 2*per/3)
		b := l.join(fmt.Sprintf("b%d", round), group, tp)
		eventually(t, "both members have a partition", func() bool {
			return la.held(a.name) == 1 && l.held(b.name) == 1
		})
		write(2*per/3, per)
		a.stop()
		<-a.done
		a.cl.LeaveGroup()
		b.leave()
	}
	eventually(t, "every record is seen", func() bool { return l.count() == rounds*per })
	eventually(t, "nothing is pending and nothing is left", func() bool {
		p, err := r.XPending(within(t), tp, group).Result()
		lags, lerr := admin(t).Lag(within(t), group)
		return err == nil && lerr == nil && p.Count == 0 && total(lags, group) == 0
	})
	stop()
	if n := must[int64](t)(r.XLen(within(t), tp).Result()); n != rounds*per {
		t.Errorf("%d entries written, %d there", rounds*per, n)
	}
}

func total(lags kadm.DescribedGroupLags, group string) int64 {
	l := lags[group]
	return l.Lag.Total()
}
