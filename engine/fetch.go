package engine

import (
	"maps"
)

// Fetched answers Fetch.
type Fetched struct {
	Blocks    []Run // whole blocks from the one that holds the offset on; From cuts what is trimmed, Marks say what is deleted
	Start     int64 // log start offset
	HighWater int64
	Next      int64 // log end offset, evaluated
}

// Fetch reads blocks by offset, below the high watermark, without a turn (Kafka's
// side). At least one block is returned when there is one, whatever maxBytes says
// (KIP-74). A block that is deleted whole is skipped: the blocks begin at the next
// existing entry at or after offset. ErrOffsetRange (with Start, HighWater and Next set)
// when offset < Start or > Next.
func (e *Engine) Fetch(no StreamNo, offset int64, maxBytes int) (Fetched, error) {
	st, err := e.lock(no)
	if err != nil {
		return Fetched{}, err
	}
	s := st.shard
	f := Fetched{Start: st.row.Start, HighWater: max(st.hw, min(st.row.Start, st.row.Next)), Next: st.row.Next}
	if offset < f.Start || offset > f.Next {
		s.mu.Unlock()
		return f, ErrOffsetRange
	}
	if offset >= st.hw {
		s.mu.Unlock()
		return f, nil
	}
	if offset >= st.tailBase() {
		st.fetchWarm(&f, offset, maxBytes)
		s.mu.Unlock()
		return f, nil
	}
	// Cold: the rows are read without the lock. What is published is in the store, or in the tail.
	edge, hw := st.tailBase(), st.hw
	v, err := s.st.View()
	var over map[int64]over
	if len(st.over) > 0 {
		over = maps.Clone(st.over)
	}
	s.mu.Unlock()
	if err != nil {
		return f, err
	}
	defer v.Close()
	c, err := newBlockScan(v, no, over)
	if err != nil {
		return f, err
	}
	defer c.close()
	if err := c.seek(offset); err != nil {
		return f, err
	}
	left := maxBytes
	for left > 0 || len(f.Blocks) == 0 {
		b, m, ok, err := c.next()
		if err != nil {
			return f, err
		}
		if !ok || b.Base >= edge || b.Last >= hw {
			break
		}
		if b.Last < offset {
			continue
		}
		if left -= len(b.Payload); left < 0 && len(f.Blocks) > 0 {
			return f, nil
		}
		f.Blocks = append(f.Blocks, wholeRun(b, m, f.Start))
	}
	if (left > 0 || len(f.Blocks) == 0) && edge < hw {
		err = e.fetchOn(&f, no, edge, left)
	}
	return f, err
}

// fetchOn goes on into the tail where a cold read has ended. If the tail begins later by now,
// what was read is enough; if nothing was (all of it deleted), it is asked anew.
func (e *Engine) fetchOn(f *Fetched, no StreamNo, edge int64, left int) error {
	st, err := e.lock(no)
	if err != nil {
		return nil // gone meanwhile: what was read was there
	}
	joins := st.tailBase() <= edge
	if joins {
		st.fetchWarm(f, edge, left)
	}
	st.shard.mu.Unlock()
	if joins {
		return nil
	}
	if len(f.Blocks) > 0 {
		return nil
	}
	more, err := e.Fetch(no, edge, left)
	*f = more
	return err
}

func wholeRun(b Block, m Marks, start int64) Run {
	return Run{Block: b, Marks: m, From: max(b.Base, start), To: b.Last}
}

// fetchWarm collects published blocks of the tail. Call with shard.mu held.
func (l *log) fetchWarm(f *Fetched, offset int64, maxBytes int) {
	left := maxBytes
	for i := l.tailIndex(offset); i < len(l.tail); i++ {
		b := l.tail[i]
		if b.Last >= l.hw {
			return
		}
		if left -= len(b.Payload); left < 0 && len(f.Blocks) > 0 {
			return
		}
		f.Blocks = append(f.Blocks, wholeRun(b.Block, b.marks, l.row.Start))
		if left <= 0 {
			return
		}
	}
}

// Offsets answers the log's ends without a turn.
func (e *Engine) Offsets(no StreamNo) (start, highWater, next int64, err error) {
	st, err := e.lock(no)
	if err != nil {
		return 0, 0, 0, err
	}
	defer st.shard.mu.Unlock()
	return st.row.Start, max(st.hw, min(st.row.Start, st.row.Next)), st.row.Next, nil
}

// LeaderEpoch is the stream's leader epoch.
func (e *Engine) LeaderEpoch(no StreamNo) (int32, error) {
	st, err := e.lock(no)
	if err != nil {
		return 0, err
	}
	defer st.shard.mu.Unlock()
	return st.row.LeaderEpoch, nil
}

// BlockAtTime finds the first block, at or after the log start and below the high
// watermark, with a living entry and a record timestamp >= ms. The caller looks inside it.
// False when there is none.
func (e *Engine) BlockAtTime(no StreamNo, ms int64) (Run, bool, error) {
	st, err := e.lock(no)
	if err != nil {
		return Run{}, false, err
	}
	defer st.shard.mu.Unlock()
	from := st.row.Head
	if hint, err := st.timeHint(ms); err != nil {
		return Run{}, false, err
	} else if hint > from {
		from = hint
	}
	return st.firstWhere(from, func(b *Block) bool { return b.MaxTime >= ms })
}

// BlockAfter finds the first block with a living entry at or after an offset, below the high watermark: where a
// search that found nothing in BlockAtTime's block goes on.
func (e *Engine) BlockAfter(no StreamNo, offset, ms int64) (Run, bool, error) {
	st, err := e.lock(no)
	if err != nil {
		return Run{}, false, err
	}
	defer st.shard.mu.Unlock()
	return st.firstWhere(max(offset, st.row.Head), func(b *Block) bool { return b.MaxTime >= ms })
}

// MaxTimeBlock is the first block that holds the largest timestamp of living entries' blocks (ListOffsets -3).
func (e *Engine) MaxTimeBlock(no StreamNo) (Run, bool, error) {
	st, err := e.lock(no)
	if err != nil {
		return Run{}, false, err
	}
	defer st.shard.mu.Unlock()
	if st.row.Length == 0 {
		return Run{}, false, nil
	}
	if st.row.MaxTimeBase >= st.row.Head && st.dense() {
		return st.firstWhere(st.row.MaxTimeBase, func(b *Block) bool { return b.MaxTime >= st.row.MaxTime })
	}
	// The block that held it may be gone: look at all that is left.
	best := int64(-1)
	_, _, err = st.firstWhere(st.row.Head, func(b *Block) bool { best = max(best, b.MaxTime); return false })
	if err != nil {
		return Run{}, false, err
	}
	return st.firstWhere(st.row.Head, func(b *Block) bool { return b.MaxTime >= best })
}

// firstWhere is the first published block from an offset on that has a living entry and fits.
func (l *log) firstWhere(from int64, fits func(*Block) bool) (run Run, ok bool, err error) {
	err = l.eachBlock(from, l.hw-1, func(b Block, m Marks) bool {
		if b.Last >= l.hw {
			return false
		}
		if r, living := runOf(b, m, from, b.Last); living && fits(&b) {
			run, ok = r, true
			return false
		}
		return true
	})
	return run, ok, err
}
