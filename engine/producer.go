package engine

import (
	"math"

	"weir/storage"
)

// producerWindow is how many batches of an idempotent producer are remembered (KIP-98).
const producerWindow = 5

// producer is an idempotent producer on a stream.
type producer struct{ row storage.ProducerRow }

func (s *stream) loadProducer(id int64, value []byte) error {
	row, err := storage.ParseProducerRow(value)
	if err != nil {
		return err
	}
	if s.producers == nil {
		s.producers = make(map[int64]*producer)
	}
	s.producers[id] = &producer{row}
	return nil
}

// checkProducer decides whether a batch is new, a duplicate (with the offset that it
// was given), or refused.
func (s *stream) checkProducer(b *ProducerBatch) (dup bool, base int64, err error) {
	p := s.producers[b.ID]
	if p == nil {
		// Any first sequence is taken when nothing is known: what was known may have been
		// trimmed with the log or forgotten (Kafka does the same since KIP-360).
		return false, 0, nil
	}
	switch {
	case b.Epoch < p.row.Epoch:
		return false, 0, ErrProducerFenced
	case b.Epoch > p.row.Epoch:
		if b.FirstSeq != 0 {
			return false, 0, ErrSequenceGap
		}
		return false, 0, nil
	}
	for _, old := range p.row.Batches {
		if old.FirstSeq == b.FirstSeq && old.LastSeq == b.LastSeq {
			return true, old.Base, nil
		}
	}
	if n := len(p.row.Batches); n > 0 {
		if next := nextSequence(p.row.Batches[n-1].LastSeq); b.FirstSeq != next {
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

// noteProducer remembers an appended batch, in memory and in the round.
func (s *stream) noteProducer(r *round, b *ProducerBatch, base, now int64) {
	p := s.producers[b.ID]
	if p == nil {
		p = &producer{}
		if s.producers == nil {
			s.producers = make(map[int64]*producer)
		}
		s.producers[b.ID] = p
	}
	if b.Epoch != p.row.Epoch {
		p.row.Batches = p.row.Batches[:0]
	}
	p.row.Epoch, p.row.Touched = b.Epoch, now
	if len(p.row.Batches) == producerWindow {
		copy(p.row.Batches, p.row.Batches[1:])
		p.row.Batches = p.row.Batches[:producerWindow-1]
	}
	p.row.Batches = append(p.row.Batches, storage.ProducerBatch{FirstSeq: b.FirstSeq, LastSeq: b.LastSeq, Base: base, Time: now})
	_ = r.batch.Set(storage.ProducerKey(s.no, b.ID), p.row.Append(nil))
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
		stat := ProducerStat{ID: id, Epoch: p.row.Epoch, LastSeq: -1, Touched: p.row.Touched}
		if n := len(p.row.Batches); n > 0 {
			stat.LastSeq = p.row.Batches[n-1].LastSeq
		}
		out = append(out, stat)
	}
	return out, nil
}

// ExpireProducers forgets producers that appended nothing since a time in ms
// (producer.id.expiration.ms); returns how many.
func (t *Turn) ExpireProducers(no StreamNo, before int64) (int, error) {
	st, r, err := t.write(no)
	if err != nil {
		return 0, err
	}
	defer st.shard.mu.Unlock()
	n := 0
	for id, p := range st.producers {
		if p.row.Touched < before {
			delete(st.producers, id)
			_ = r.batch.Delete(storage.ProducerKey(no, id))
			n++
		}
	}
	if n > 0 {
		st.markDirty(r)
	}
	return n, nil
}
