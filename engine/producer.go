package engine

import (
	"math"

	"weir/storage"
)

// producerWindow is how many batches of an idempotent producer are remembered (KIP-98).
const producerWindow = 5

// producers are the idempotent producers of a stream, by ID. nil until there is one.
type producers map[int64]*storage.ProducerRow

func (ps *producers) load(id int64, value []byte) error {
	row, err := storage.ParseProducerRow(value)
	if err != nil {
		return err
	}
	*ps.of(id) = row
	return nil
}

// of returns a producer's row, making an empty one.
func (ps *producers) of(id int64) *storage.ProducerRow {
	if *ps == nil {
		*ps = make(producers)
	}
	p := (*ps)[id]
	if p == nil {
		p = &storage.ProducerRow{}
		(*ps)[id] = p
	}
	return p
}

// check decides whether a batch is new, a duplicate (with the offset that it
// was given), or refused.
func (ps producers) check(b *ProducerBatch) (dup bool, base int64, err error) {
	p := ps[b.ID]
	if p == nil {
		// Any first sequence is taken when nothing is known: what was known may have been
		// trimmed with the log or forgotten (Kafka does the same since KIP-360).
		return false, 0, nil
	}
	switch {
	case b.Epoch < p.Epoch:
		return false, 0, ErrProducerFenced
	case b.Epoch > p.Epoch:
		if b.FirstSeq != 0 {
			return false, 0, ErrSequenceGap
		}
		return false, 0, nil
	}
	for _, old := range p.Batches {
		if old.FirstSeq == b.FirstSeq && old.LastSeq == b.LastSeq {
			return true, old.Base, nil
		}
	}
	if n := len(p.Batches); n > 0 {
		if next := nextSequence(p.Batches[n-1].LastSeq); b.FirstSeq != next {
			return false, 0, ErrSequenceGap
		}
	}
	return false, 0, nil
}

// nextSequence follows a sequence number; they wrap to 0 after 2^31-1.
func nextSequence(seq int32) int32 {
	if seq == math.MaxInt32 {
		return 0
	}
	return seq + 1
}

// note remembers an appended batch and returns the row to store.
func (ps *producers) note(b *ProducerBatch, base, now int64) *storage.ProducerRow {
	p := ps.of(b.ID)
	if b.Epoch != p.Epoch {
		p.Batches = p.Batches[:0]
	}
	p.Epoch, p.Touched = b.Epoch, now
	if len(p.Batches) == producerWindow {
		copy(p.Batches, p.Batches[1:])
		p.Batches = p.Batches[:producerWindow-1]
	}
	p.Batches = append(p.Batches, storage.ProducerBatch{FirstSeq: b.FirstSeq, LastSeq: b.LastSeq, Base: base, Time: now})
	return p
}

// ProducerStat is an idempotent producer on a stream.
type ProducerStat struct {
	ID      int64
	Epoch   int16
	LastSeq int32
	Touched int64 // ms of the last append
}

// Producers lists the stream's idempotent producers (DescribeProducers).
func (t *Turn) Producers(no StreamNo) ([]ProducerStat, error) {
	st, err := t.read(no)
	if err != nil {
		return nil, err
	}
	defer st.shard.mu.Unlock()
	out := make([]ProducerStat, 0, len(st.producers))
	for id, p := range st.producers {
		stat := ProducerStat{ID: id, Epoch: p.Epoch, LastSeq: -1, Touched: p.Touched}
		if n := len(p.Batches); n > 0 {
			stat.LastSeq = p.Batches[n-1].LastSeq
		}
		out = append(out, stat)
	}
	return out, nil
}

// ExpireProducers forgets producers that appended nothing since a time in ms
// (producer.id.expiration.ms); returns how many. A stream that is not loaded is left as it is: its producers cost
// no memory.
func (t *Turn) ExpireProducers(no StreamNo, before int64) (int, error) {
	if s := t.e.shardOf(no); s == nil || !s.loaded(no) {
		return 0, nil
	}
	st, r, err := t.write(no)
	if err != nil {
		return 0, err
	}
	defer st.shard.mu.Unlock()
	n := 0
	for id, p := range st.producers {
		if p.Touched < before {
			delete(st.producers, id)
			_ = r.batch.Delete(storage.ProducerKey(no, id))
			n++
		}
	}
	if n > 0 {
		st.list(r)
	}
	return n, nil
}
