package kafkaproto

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/bridge"
)

// Everything at once, as a client library does it: idempotent producers with batches in flight, fetch sessions, a group
// of three, and every record is stored once and seen.
func TestProducersAndAGroupOfFranzGo(t *testing.T) {
	addr, s := newWeir(t, bridge.Options{})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if _, err := s.b.CreateTopic(ctx, bridge.NewTopic{Name: "t", Partitions: 8, Replication: 1}, false); err != nil {
		t.Fatal(err)
	}
	client := func(o ...kgo.Opt) *kgo.Client {
		c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, o...)...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const producers, each = 3, 1000
	seen := make(map[string]int)
	var mu sync.Mutex
	all := make(chan struct{})
	var members sync.WaitGroup
	for range 3 {
		members.Add(1)
		c := client(kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		go func() {
			defer members.Done()
			defer c.Close()
			for {
				got := c.PollFetches(ctx)
				if got.IsClientClosed() || ctx.Err() != nil {
					return
				}
				mu.Lock()
				got.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
				done := len(seen) == producers*each
				if done {
					select {
					case <-all:
					default:
						close(all)
					}
				}
				mu.Unlock()
				select {
				case <-all:
					return
				default:
				}
			}
		}()
	}
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	var sent sync.WaitGroup
	for p := range producers {
		sent.Add(1)
		c := client(kgo.ProducerBatchCompression(codecs[p]), kgo.DefaultProduceTopic("t"))
		go func() {
			defer sent.Done()
			defer c.Close()
			for i := range each {
				r := &kgo.Record{Key: fmt.Append(nil, i), Value: fmt.Appendf(nil, "%d-%d", p, i)}
				c.Produce(ctx, r, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			if err := c.Flush(ctx); err != nil {
				t.Error(err)
			}
		}()
	}
	sent.Wait()
	select {
	case <-all:
	case <-ctx.Done():
		mu.Lock()
		t.Errorf("%d records of %d", len(seen), producers*each)
		mu.Unlock()
		close(all)
	}
	cancel() // members that wait for records return
	members.Wait()
	// A rebalance while records flow may deliver some again (at least once), but never lose one.
	for p := range producers {
		for i := range each {
			if v := fmt.Sprintf("%d-%d", p, i); seen[v] == 0 {
				t.Fatalf("record %s is lost", v)
			}
		}
	}
	if stored := storedRecords(t, s, "t"); stored != producers*each {
		t.Errorf("%d records are stored of %d", stored, producers*each)
	}
}

// storedRecords adds up the log ends of a topic's partitions.
func storedRecords(t *testing.T, s *Server, name string) (stored int64) {
	t.Helper()
	topic, _ := s.b.Topic(name)
	for _, no := range topic.Streams {
		ends, err := s.b.Ends(no)
		if err != nil {
			t.Fatal(err)
		}
		stored += ends.Next
	}
	return stored
}
