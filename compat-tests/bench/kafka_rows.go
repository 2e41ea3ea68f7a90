package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/kafkawire"
	"weir/compat-tests/server"
)

// A shape is one kind of produce load.
type shape struct {
	partitions, conns int
	records, size     int // of a batch, of a record's value
	window            int // requests in flight on a connection
}

// topics numbers the topics of a run: a turn never meets another turn's data.
var topics atomic.Int32

// values returns n values of size random bytes, which no codec could shrink.
func values(n, size int) [][]byte {
	r := rand.New(rand.NewPCG(uint64(n), uint64(size)))
	out := make([][]byte, n)
	for i := range out {
		out[i] = make([]byte, size)
		for j := range out[i] {
			out[i][j] = byte(r.Uint32())
		}
	}
	return out
}

// produceRequest asks for one batch to one partition. Version 8 is the newest whose
// encoding is fixed, so that the error code stands at a known place.
func produceRequest(topic string, partition int, acks int16, set []byte) *kmsg.ProduceRequest {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = int32(partition), set
	tp := kmsg.NewProduceRequestTopic()
	tp.Topic, tp.Partitions = topic, []kmsg.ProduceRequestTopicPartition{p}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 8, acks, 30_000
	req.Topics = []kmsg.ProduceRequestTopic{tp}
	return req
}

// fetchRequest asks for up to size bytes of one partition, without a session.
func fetchRequest(topic string, partition int, offset int64, size int32) *kmsg.FetchRequest {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(partition), offset, size
	tp := kmsg.NewFetchRequestTopic()
	tp.Topic, tp.Partitions = topic, []kmsg.FetchRequestTopicPartition{p}
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, 500, 1, size
	req.SessionEpoch = -1
	req.Topics = []kmsg.FetchRequestTopic{tp}
	return req
}

// codeError is nil for code 0 and names the error otherwise.
func codeError(code int16) error {
	if err := kerr.ErrorForCode(code); err != nil {
		return fmt.Errorf("the broker answered: %w", err)
	}
	return nil
}

// newTopic creates a topic and returns its name once every partition takes a write.
func newTopic(ctx context.Context, srv *server.Server, partitions int) (string, error) {
	name := fmt.Sprintf("bench-%04d", topics.Add(1))
	c, err := kafkawire.Dial(ctx, srv.Kafka)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	tp := kmsg.NewCreateTopicsRequestTopic()
	tp.Topic, tp.NumPartitions, tp.ReplicationFactor = name, int32(partitions), 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 30_000
	req.Topics = []kmsg.CreateTopicsRequestTopic{tp}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	if err := codeError(resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); err != nil {
		return "", fmt.Errorf("creating %s: %w", name, err)
	}
	set := kafkawire.Batch(values(1, 1), time.Now(), kafkawire.NoProducer)
	for p := 0; p < partitions; {
		resp, err := c.Do(produceRequest(name, p, 1, set))
		if err != nil {
			return "", err
		}
		switch err := codeError(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode); {
		case err == nil:
			p++
		case ctx.Err() != nil:
			return "", err
		default: // not led yet
			time.Sleep(5 * time.Millisecond)
		}
	}
	return name, nil
}

// dropTopic deletes a turn's topic.
func dropTopic(ctx context.Context, srv *server.Server, name string) error {
	c, err := kafkawire.Dial(ctx, srv.Kafka)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 3, 30_000, []string{name}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	return codeError(resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode)
}

// produceTalkers encodes the load of a shape; each reply is worth one batch's
// records.
func produceTalkers(topic string, s shape, acks int16) []talker {
	vals := values(s.records, s.size)
	// correlation, topic count, name, partition count, partition; then the code
	codeAt := 4 + 4 + 2 + len(topic) + 4 + 4
	var out []talker
	for c := range s.conns {
		t := &kafkaTalker{window: s.window, headLen: codeAt + 2}
		t.look = func(head []byte) (float64, error) {
			if len(head) < codeAt+2 {
				return 0, fmt.Errorf("a produce reply of %d bytes", len(head))
			}
			return float64(s.records), codeError(int16(binary.BigEndian.Uint16(head[codeAt:])))
		}
		set := kafkawire.Batch(vals, time.Now(), kafkawire.NoProducer)
		for p := c % s.partitions; p < s.partitions; p += s.conns {
			t.frames = append(t.frames, kafkawire.Frame(produceRequest(topic, p, acks, set), 1, "bench"))
		}
		out = append(out, t)
	}
	return out
}

func unitsDone(talkers []talker) float64 {
	sum := 0.0
	for _, t := range talkers {
		sum += t.(*kafkaTalker).done
	}
	return sum
}

// produce is the load of a shape at an acks level.
func produce(s shape, acks int16) func(context.Context, *turn) (measure, error) {
	return func(ctx context.Context, t *turn) (measure, error) {
		topic, err := newTopic(ctx, t.srv, s.partitions)
		if err != nil {
			return measure{}, err
		}
		talkers := produceTalkers(topic, s, acks)
		m, err := kafkaTurn(t, talkers)
		if err != nil {
			return m, err
		}
		return m, dropTopic(ctx, t.srv, topic)
	}
}

func kafkaTurn(t *turn, talkers []talker) (measure, error) {
	l, err := newLoop(t.srv.Kafka, talkers)
	if err != nil {
		return measure{}, err
	}
	defer l.close()
	return t.drive(l, func() float64 { return unitsDone(talkers) })
}

const (
	fetchSize  = 1 << 20   // of one request
	fetchTotal = 128 << 20 // in the topic: fits weir's default tail cache and any page cache
)

// stock fills a topic with fetchTotal bytes and returns, per partition, an offset
// for each fetchSize of it.
func stock(ctx context.Context, srv *server.Server, topic string, s shape) ([][]int64, error) {
	c, err := kafkawire.Dial(ctx, srv.Kafka)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	set := kafkawire.Batch(values(s.records, s.size), time.Now(), kafkawire.NoProducer)
	starts := make([][]int64, s.partitions)
	for p := range starts {
		since := fetchSize // so that the first batch is a start
		for total := 0; total < fetchTotal/s.partitions; total += len(set) {
			resp, err := c.Do(produceRequest(topic, p, 1, set))
			if err != nil {
				return nil, err
			}
			part := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if err := codeError(part.ErrorCode); err != nil {
				return nil, err
			}
			if since += len(set); since > fetchSize {
				starts[p] = append(starts[p], part.BaseOffset)
				since = len(set)
			}
		}
		starts[p] = starts[p][:max(1, len(starts[p])-1)] // the last may be short
	}
	return starts, nil
}

// fetch reads a stocked topic round and round, one partition and fetchSize bytes a
// request. Units are megabytes.
func fetch(s shape) func(context.Context, *turn) (measure, error) {
	return func(ctx context.Context, t *turn) (measure, error) {
		topic, err := newTopic(ctx, t.srv, s.partitions)
		if err != nil {
			return measure{}, err
		}
		starts, err := stock(ctx, t.srv, topic, s)
		if err != nil {
			return measure{}, err
		}
		t.settle()
		// correlation, throttle, error, session, topic count, name, partition count,
		// partition; then code, high watermark, stable offset, log start, aborted,
		// preferred replica, length of the record set
		codeAt := 4 + 4 + 2 + 4 + 4 + 2 + len(topic) + 4 + 4
		lenAt := codeAt + 2 + 8 + 8 + 8 + 4 + 4
		var talkers []talker
		for c := range s.conns {
			k := &kafkaTalker{window: s.window, headLen: lenAt + 4}
			k.look = func(head []byte) (float64, error) {
				if len(head) < lenAt+4 {
					return 0, fmt.Errorf("a fetch reply of %d bytes", len(head))
				}
				if err := codeError(int16(binary.BigEndian.Uint16(head[codeAt:]))); err != nil {
					return 0, err
				}
				// Fewer bytes than asked for are legal (at the border between what is
				// in memory and what is not, say), none are not: there is more.
				size := int32(binary.BigEndian.Uint32(head[lenAt:]))
				if size <= 0 {
					return 0, fmt.Errorf("a fetch before the end of the log brought nothing")
				}
				return float64(size) / 1e6, nil
			}
			for i := range starts[0] {
				for p := c % s.partitions; p < s.partitions; p += s.conns {
					req := fetchRequest(topic, p, starts[p][min(i, len(starts[p])-1)], fetchSize)
					k.frames = append(k.frames, kafkawire.Frame(req, 1, "bench"))
				}
			}
			talkers = append(talkers, k)
		}
		m, err := kafkaTurn(t, talkers)
		if err != nil {
			return m, err
		}
		return m, dropTopic(ctx, t.srv, topic)
	}
}
