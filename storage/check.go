package storage

// Check reads every row of a store and holds it against what rows promise each
// other. It is for tests, for `weir check`, and for the hour after a bad disk; it
// changes nothing and knows the engine's rules only as far as they show in rows.
//
// One walk in key order sees a stream's row, then consumers, groups, pending,
// producers, time index, ghosts, ID index, and blocks last; so what blocks must
// agree with is collected first (check_stream.go): numbers and ranges, no entries.

import (
	"context"
	"errors"
	"fmt"
)

// maxProblems bounds Report.Problems.
const maxProblems = 100

// Problem is one broken promise.
type Problem struct {
	Shard  ShardID
	Stream StreamNo // 0 when it is about no stream
	Offset int64    // -1 when it is about no offset
	What   string
}

// String is one line.
func (p Problem) String() string {
	s := fmt.Sprintf("shard %d", p.Shard)
	if p.Stream != 0 {
		s += fmt.Sprintf(", stream %d", uint64(p.Stream)&(1<<48-1))
	}
	if p.Offset >= 0 {
		s += fmt.Sprintf(", offset %d", p.Offset)
	}
	return s + ": " + p.What
}

// Report is what Check found: the first 100 problems, and totals of what was read.
type Report struct {
	Problems []Problem
	More     int // problems beyond those listed

	Rows, Bytes    int64 // bytes of keys and values
	Records        int64
	Streams        int64
	Blocks         int64
	Entries        int64 // living
	Deleted        int64 // marked
	Groups         int64
	Consumers      int64
	PendingRuns    int64
	PendingEntries int64
	Producers      int64
	IndexRows      int64
	Ghosts         int64
}

// Sound reports whether no problem was found.
func (r *Report) Sound() bool { return len(r.Problems) == 0 }

// Check reads the whole store, one view per shard. The error is about reading; what
// is wrong with the rows is in the report.
func Check(ctx context.Context, s Store) (Report, error) {
	c := &checker{}
	for i := range s.Layout().Shards {
		if err := c.shard(ctx, s, ShardID(i)); err != nil {
			return c.report, fmt.Errorf("check shard %d: %w", i, err)
		}
	}
	return c.report, nil
}

// checker walks shard by shard.
type checker struct {
	report     Report
	id         ShardID
	view       View   // of the shard
	nextStream uint64 // of the shard
	position   bool   // the shard's position row was seen
	stream     *streamCheck
}

func (c *checker) problem(stream StreamNo, offset int64, format string, args ...any) {
	if len(c.report.Problems) >= maxProblems {
		c.report.More++
		return
	}
	c.report.Problems = append(c.report.Problems, Problem{c.id, stream, offset, fmt.Sprintf(format, args...)})
}

func (c *checker) shard(ctx context.Context, s Store, id ShardID) error {
	it, v, done, err := scanShard(s, id)
	if err != nil {
		return err
	}
	defer done()
	c.view = v
	c.id, c.nextStream, c.position, c.stream = id, 0, false, nil
	rows := c.report.Rows
	for it.Next() {
		value, err := it.Value()
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				return err
			}
			c.problem(0, -1, "row %x cannot be read: %v", it.Key(), err)
			continue
		}
		c.report.Rows++
		c.report.Bytes += int64(len(it.Key()) + len(value))
		c.row(it.Key(), value)
		if c.report.Rows%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	c.endStream()
	if c.report.Rows > rows && !c.position {
		c.problem(0, -1, "rows without a position row")
	}
	return it.Error()
}

// row takes one row of the shard.
func (c *checker) row(key, value []byte) {
	k, err := ParseKey(key)
	if err != nil {
		c.problem(0, -1, "%v", err)
		return
	}
	if k.Stream != 0 || k.Kind >= KindStream && k.Kind <= KindMarks {
		c.streamRow(k, value)
		return
	}
	c.endStream()
	switch k.Kind {
	case KindPosition:
		c.position = true
		if p, err := ParsePos(value); err != nil || p.Seq == 0 || p.Epoch == 0 {
			c.problem(0, -1, "position row %x", value)
		}
	case KindNextStream:
		next, err := ParseNextStream(value)
		if err != nil || next == 0 || next >= 1<<48 {
			c.problem(0, -1, "row of the next stream %x", value)
		}
		c.nextStream = next
	case KindRecord:
		c.report.Records++
	default:
		c.problem(0, -1, "a %v row within a shard", k.Kind)
	}
}

func (c *checker) streamRow(k Key, value []byte) {
	if c.stream == nil || c.stream.no != k.Stream {
		c.endStream()
		c.stream = newStreamCheck(c, k.Stream)
		if n := uint64(k.Stream) & (1<<48 - 1); n == 0 || n >= c.nextStream {
			c.problem(k.Stream, -1, "its number is not below that of the next stream, %d", c.nextStream)
		}
	}
	if err := c.stream.take(k, value); err != nil {
		c.problem(k.Stream, c.stream.offsetOf(k), "%v", err)
	}
}

func (c *checker) endStream() {
	if c.stream != nil {
		c.stream.end()
		c.stream = nil
	}
}
