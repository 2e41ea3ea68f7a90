package clients

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// patience bounds every wait of this package: far longer than any step takes, so
// that only something that will never happen runs into it.
const patience = 30 * time.Second

var (
	run     = time.Now().UnixMilli()
	counter atomic.Int64
)

// name returns a topic, key or group name that no other test and no other run uses.
func name(t *testing.T) string {
	base := strings.NewReplacer("/", "-", " ", "-", "#", "-", "=", "-", ",", "-").Replace(t.Name())
	return fmt.Sprintf("%s-%d-%d", base, run, counter.Add(1))
}

func kafkaAddr(t *testing.T) string {
	t.Helper()
	addr := os.Getenv("KAFKA")
	if addr == "" {
		t.Skip("KAFKA is not set")
	}
	return addr
}

func redisAddr(t *testing.T) string {
	t.Helper()
	addr := os.Getenv("REDIS")
	if addr == "" {
		t.Skip("REDIS is not set")
	}
	return addr
}

// both skips a test that needs the two protocols over one log.
func both(t *testing.T) {
	t.Helper()
	kafkaAddr(t)
	redisAddr(t)
	if os.Getenv("PEER") != "" {
		t.Skip("the peers are two logs")
	}
}

// within returns a context that ends with the test or when patience does.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	return ctx
}

// kafka returns a client that is closed with the test.
func kafka(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(kafkaAddr(t)), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func admin(t *testing.T) *kadm.Client {
	t.Helper()
	return kadm.NewClient(kafka(t))
}

// topic creates a topic and returns its name.
func topic(t *testing.T, partitions int32, configs map[string]*string) string {
	t.Helper()
	n := name(t)
	if _, err := admin(t).CreateTopic(within(t), partitions, 1, configs, n); err != nil {
		t.Fatalf("creating %s: %v", n, err)
	}
	return n
}

// redisClient returns a client of protocol 2 or 3 that is closed with the test.
func redisClient(t *testing.T, protocol int) *redis.Client {
	t.Helper()
	cl := redis.NewClient(&redis.Options{Addr: redisAddr(t), Protocol: protocol, ReadTimeout: patience, ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { cl.Close() })
	return cl
}

// produce writes the records in order and fails the test if any is refused.
func produce(t *testing.T, cl *kgo.Client, rs ...*kgo.Record) {
	t.Helper()
	if err := cl.ProduceSync(within(t), rs...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

// consume polls until n records have come or patience ends, and returns what came.
func consume(t *testing.T, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var got []*kgo.Record
	for len(got) < n {
		fs := cl.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatalf("%d of %d records, then: %v", len(got), n, err)
		}
		fs.EachError(func(topic string, p int32, err error) { t.Fatalf("fetch of %s/%d: %v", topic, p, err) })
		got = append(got, fs.Records()...)
	}
	return got
}

// from returns a client that reads the partitions of a topic from an offset.
func from(t *testing.T, topic string, at map[int32]int64, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	offsets := map[int32]kgo.Offset{}
	for p, o := range at {
		offsets[p] = kgo.NewOffset().At(o)
	}
	return kafka(t, append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))...)
}

// eventually asks until the answer is yes or patience ends. The pause is between
// questions to another process, never a guess of how long something takes.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

func ptr[T any](v T) *T { return &v }
