package main

import (
	"context"
	"fmt"
	"time"

	"weir/compat-tests/kafkawire"
	"weir/compat-tests/respwire"
)

// sameOnKafka checks that a stream that was only ever appended to reads the same
// through Kafka: offsets from 0, the field "value" as the record's value.
func sameOnKafka(ctx context.Context, sys *system, key string, entries []entry) findings {
	var found findings
	recs, err := readLog(ctx, sys.kafka, key, 0)
	if err != nil {
		found.add("through Kafka: %v", err)
		return found
	}
	if len(recs) != len(entries) {
		found.add("Kafka reads %d records, Redis %d entries", len(recs), len(entries))
		return found
	}
	for i, r := range recs {
		if r.Offset != int64(i) || string(r.Value) != entries[i].value {
			found.add("Kafka reads offset %d = %s where Redis reads %s = %s", r.Offset, r.Value, entries[i].id, entries[i].value)
			break
		}
	}
	return found
}

// rangePage is how many entries one XRANGE asks for.
const rangePage = 5000

// sameOnRedis checks that a partition that was only ever produced to reads the same
// through Redis, under T#p: as many entries, rising IDs, the value in a field.
func sameOnRedis(ctx context.Context, sys *system, topic string, partition int, recs []kafkawire.Record) error {
	c, err := respwire.Dial(ctx, sys.redis)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(checkLimit))
	key := fmt.Sprintf("%s#%d", topic, partition)
	n, err := c.Do("XLEN", key)
	if err != nil {
		return err
	}
	if n != int64(len(recs)) {
		return fmt.Errorf("%s: XLEN is %v, Kafka reads %d records", key, n, len(recs))
	}
	from, last := "-", id{}
	for at := 0; at < len(recs); {
		v, err := c.Do("XRANGE", key, from, "+", "COUNT", fmt.Sprint(rangePage))
		if err != nil {
			return err
		}
		page, ok := v.([]any)
		if !ok || len(page) == 0 {
			return fmt.Errorf("%s: XRANGE from %s answers %v after %d of %d entries", key, from, v, at, len(recs))
		}
		for _, e := range page {
			e, err := parseEntry(e)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			if at == len(recs) || e.value != string(recs[at].Value) || e.id.compare(last) <= 0 {
				return fmt.Errorf("%s: Redis reads %s = %s as entry %d of %d, after %s; Kafka reads otherwise", key, e.id, e.value, at, len(recs), last)
			}
			last = e.id
			at++
		}
		from = "(" + last.String()
	}
	return nil
}

// parseEntry reads an entry whose first field holds the value.
func parseEntry(v any) (e entry, err error) {
	defer func() {
		if r := recover(); r != nil { // a failed type assertion or index
			err = fmt.Errorf("%w: %v", errShape, v)
		}
	}()
	pair := v.([]any)
	return entry{parseID(pair[0].(string)), pair[1].([]any)[1].(string)}, nil
}
