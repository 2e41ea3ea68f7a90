package bridge

import "weir/engine"

// LeaderEpoch is every partition's leader epoch: constant on a single node.
const LeaderEpoch = 0

// Ends are a log's ends.
type Ends struct {
	Start     int64 // log start offset
	HighWater int64 // what consumers see up to
	Next      int64 // log end offset
}

// Ends answers a partition's ends. ErrNoStream.
func (l *logs) Ends(no engine.StreamNo) (Ends, error) {
	start, hw, next, err := l.eng.Offsets(no)
	return Ends{start, hw, next}, err
}

// OffsetAtTime finds the first record that consumers see with a timestamp of at least ms; false when there is none.
func (l *logs) OffsetAtTime(t *Topic, no engine.StreamNo, ms int64) (offset, timestamp int64, ok bool, err error) {
	run, ok, err := l.eng.BlockAtTime(no, ms)
	for ok && err == nil {
		if offset, timestamp, ok, err = l.firstIn(&run, ms); ok || err != nil {
			return offset, timestamp, ok, err
		}
		// The record that reached ms is deleted: a later block has the answer.
		run, ok, err = l.nextRun(no, run.Block.Last+1)
	}
	return 0, 0, false, err
}

// nextRun is the first block at or after an offset.
func (l *logs) nextRun(no engine.StreamNo, offset int64) (engine.Run, bool, error) {
	f, err := l.eng.Fetch(no, offset, 1)
	if err == engine.ErrOffsetRange {
		return engine.Run{}, false, nil
	}
	if err != nil || len(f.Blocks) == 0 {
		return engine.Run{}, false, err
	}
	return f.Blocks[0], true, nil
}

// MaxTimeOffset finds the first record with the largest timestamp (ListOffsets -3); false in an empty log.
func (l *logs) MaxTimeOffset(no engine.StreamNo) (offset, timestamp int64, ok bool, err error) {
	run, ok, err := l.eng.MaxTimeBlock(no)
	if !ok || err != nil {
		return 0, 0, false, err
	}
	timestamp = -1
	found := false
	err = l.eachTime(&run, func(at, ms int64) bool {
		if !found || ms > timestamp {
			offset, timestamp, found = at, ms, true
		}
		return true
	})
	return offset, timestamp, found, err
}

// firstIn is the first living record of a run that reaches ms.
func (l *logs) firstIn(run *engine.Run, ms int64) (offset, timestamp int64, ok bool, err error) {
	err = l.eachTime(run, func(at, time int64) bool {
		if time >= ms {
			offset, timestamp, ok = at, time, true
		}
		return !ok
	})
	return offset, timestamp, ok, err
}

// eachTime calls fn with offset and record timestamp of a run's living records.
func (l *logs) eachTime(run *engine.Run, fn func(offset, ms int64) bool) error {
	inside := func(offset int64) bool {
		return offset >= run.From && offset <= run.To && run.Living(offset)
	}
	if run.Block.Kind == engine.Entries {
		it := run.Block.Entries()
		for it.Next() {
			if inside(it.Offset()) && !fn(it.Offset(), recordTime(it.ID())) {
				return nil
			}
		}
		return it.Err()
	}
	if l.o.Codec == nil {
		return errNoCodec
	}
	return l.o.Codec.Decode(run.Block.Payload, int(max(run.From-run.Block.Base, 0)), func(i int, r *Record) bool {
		offset := run.Block.Base + int64(i)
		return !inside(offset) || fn(offset, r.Timestamp)
	})
}

// recordTime is the timestamp of an entry that Redis wrote: its ID's ms.
func recordTime(id engine.ID) int64 { return int64(min(id.MS, 1<<63-1)) }
