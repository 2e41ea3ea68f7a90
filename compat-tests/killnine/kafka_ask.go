package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/kafkawire"
)

// The questions that checks and actors ask on the Kafka port, one connection each.
// Every version is one that both weir and Kafka 4.4 have.

// dialKafka connects with a deadline for all that follows.
func dialKafka(ctx context.Context, addr string) (*kafkawire.Conn, error) {
	c, err := kafkawire.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(checkLimit))
	return c, nil
}

// asKafka sends one request on a connection of its own.
func asKafka[T kmsg.Response](ctx context.Context, addr string, req kmsg.Request) (resp T, err error) {
	c, err := dialKafka(ctx, addr)
	if err != nil {
		return resp, err
	}
	defer c.Close()
	return doKafka[T](c, req)
}

// doKafka sends one request on c.
func doKafka[T kmsg.Response](c *kafkawire.Conn, req kmsg.Request) (resp T, err error) {
	r, err := c.Do(req)
	if err != nil {
		return resp, err
	}
	return r.(T), nil
}

// createRequest makes a topic; retention is its retention.ms, 0 for the default.
func createRequest(topic string, partitions int, retention int64) *kmsg.CreateTopicsRequest {
	tp := kmsg.NewCreateTopicsRequestTopic()
	tp.Topic, tp.NumPartitions, tp.ReplicationFactor = topic, int32(partitions), 1
	if retention != 0 {
		cfg := kmsg.NewCreateTopicsRequestTopicConfig()
		cfg.Name, cfg.Value = "retention.ms", kmsg.StringPtr(fmt.Sprint(retention))
		tp.Configs = append(tp.Configs, cfg)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 30_000
	req.Topics = append(req.Topics, tp)
	return req
}

// ensureTopic makes a topic unless it is there, and waits until it can be used.
func ensureTopic(ctx context.Context, addr, topic string, partitions int) error {
	resp, err := asKafka[*kmsg.CreateTopicsResponse](ctx, addr, createRequest(topic, partitions, 0))
	if err != nil {
		return err
	}
	if code := resp.Topics[0].ErrorCode; code != 0 && code != kerr.TopicAlreadyExists.Code {
		return fmt.Errorf("creating %s: %w", topic, kerr.ErrorForCode(code))
	}
	return waitLed(ctx, addr, topic, partitions)
}

// waitLed waits until every partition has its leader and answers ListOffsets: Kafka
// needs a moment for that after a creation and after a start.
func waitLed(ctx context.Context, addr, topic string, partitions int) error {
	for began := time.Now(); ; pause(ctx, 20*time.Millisecond) {
		var err error
		for p := 0; p < partitions && err == nil; p++ {
			_, err = listOffset(ctx, addr, topic, p, -1)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Since(began) > checkLimit/2 {
			return fmt.Errorf("%s is not led: %w", topic, err)
		}
	}
}

// listOffset asks for the offset at a timestamp: -1 the end, -2 the start.
func listOffset(ctx context.Context, addr, topic string, partition int, at int64) (int64, error) {
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp = int32(partition), at
	tp := kmsg.NewListOffsetsRequestTopic()
	tp.Topic, tp.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{p}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 6, -1
	req.Topics = append(req.Topics, tp)
	resp, err := asKafka[*kmsg.ListOffsetsResponse](ctx, addr, req)
	if err != nil {
		return 0, err
	}
	got := resp.Topics[0].Partitions[0]
	return got.Offset, kerr.ErrorForCode(got.ErrorCode)
}

// readLog fetches a partition from its start to its end.
func readLog(ctx context.Context, addr, topic string, partition int) ([]kafkawire.Record, error) {
	start, err := listOffset(ctx, addr, topic, partition, -2)
	if err != nil {
		return nil, fmt.Errorf("log start of %s/%d: %w", topic, partition, err)
	}
	end, err := listOffset(ctx, addr, topic, partition, -1)
	if err != nil {
		return nil, fmt.Errorf("log end of %s/%d: %w", topic, partition, err)
	}
	c, err := dialKafka(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out []kafkawire.Record
	for next := start; next < end; {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(partition), next, 4<<20
		tp := kmsg.NewFetchRequestTopic()
		tp.Topic, tp.Partitions = topic, []kmsg.FetchRequestTopicPartition{p}
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, 1000, 1, 4<<20
		req.SessionEpoch = -1
		req.Topics = append(req.Topics, tp)
		resp, err := doKafka[*kmsg.FetchResponse](c, req)
		if err != nil {
			return out, err
		}
		got := resp.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
			return out, fmt.Errorf("fetch of %s/%d at %d: %w", topic, partition, next, err)
		}
		recs, err := kafkawire.Records(got.RecordBatches)
		if err != nil {
			return out, fmt.Errorf("fetch of %s/%d at %d: %w", topic, partition, next, err)
		}
		before := next
		for _, r := range recs {
			if r.Offset >= next {
				out = append(out, r)
				next = r.Offset + 1
			}
		}
		if next == before {
			return out, fmt.Errorf("fetch of %s/%d at %d brings nothing, but the log ends at %d", topic, partition, next, end)
		}
	}
	return out, nil
}

// produceRequest asks for one batch to one partition.
func produceRequest(topic string, partition int, acks int16, set []byte) *kmsg.ProduceRequest {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = int32(partition), set
	tp := kmsg.NewProduceRequestTopic()
	tp.Topic, tp.Partitions = topic, []kmsg.ProduceRequestTopicPartition{p}
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 30_000
	req.Topics = append(req.Topics, tp)
	return req
}

// answerOf takes the one partition of a produce reply apart.
func answerOf(resp kmsg.Response) (base int64, err error) {
	p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return p.BaseOffset, kerr.ErrorForCode(p.ErrorCode)
}
