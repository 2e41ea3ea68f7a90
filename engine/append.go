package engine

import (
	"encoding/binary"
	"math"

	"weir/storage"
)

// A native block is closed at this many entries or bytes (dictionary 7).
const (
	blockEntries = 100
	blockBytes   = 4096
)

// The stream's row is written after this many blocks or bytes without it: loading a stream reads
// them again.
const (
	checkpointBlocks = 64
	checkpointBytes  = 256 << 10
)

// Append adds one entry in the native form. ErrIDTooSmall, ErrIDZero, ErrIDExhausted.
func (t *Turn) Append(no StreamNo, a AppendArgs) (Appended, error) {
	st, r, err := t.write(no)
	if err != nil {
		return Appended{}, err
	}
	defer st.shard.mu.Unlock()
	id, err := st.chooseID(a, t.now)
	if err != nil {
		return Appended{}, err
	}
	base := st.row.Next
	st.fill(r, id, a.Fields)
	st.appended(base, id)
	st.row.LastID = id
	st.row.Next++
	st.row.Length++
	st.list(r)
	t.touch(st)
	return Appended{Base: base, FirstID: id, Start: st.row.Start}, nil
}

// appended keeps the cache of the first living entry true when the stream was empty.
func (s *stream) appended(base int64, id ID) {
	if s.row.Length == 0 {
		s.row.Head = base
		s.first = firstLiving{true, base, id}
	}
}

// chooseID gives the ID of the next entry by Redis's rules.
func (s *stream) chooseID(a AppendArgs, now int64) (ID, error) {
	last := s.row.LastID
	switch {
	case a.Auto:
		return s.nextID(uint64(max(now, 0)), 1)
	case a.AutoSeq:
		if last == MaxID {
			return ID{}, ErrIDExhausted
		}
		if a.ID.MS < last.MS {
			return ID{}, ErrIDTooSmall
		}
		if a.ID.MS > last.MS || a.ID.MS == 0 && last == (ID{}) {
			id := ID{MS: a.ID.MS, Seq: uint64(s.row.Residue)}
			if id == (ID{}) {
				id.Seq = uint64(s.row.Modulus)
			}
			return id, nil
		}
		seq, ok := s.seqAfter(last.Seq)
		if !ok {
			return ID{}, ErrIDTooSmall
		}
		return ID{MS: last.MS, Seq: seq}, nil
	}
	switch {
	case a.ID == (ID{}):
		return ID{}, ErrIDZero
	case last == MaxID:
		return ID{}, ErrIDExhausted
	case !last.Less(a.ID):
		return ID{}, ErrIDTooSmall
	}
	return a.ID, nil
}

// seqAfter is the smallest seq above one that is congruent to the stream's residue.
func (s *stream) seqAfter(seq uint64) (uint64, bool) {
	m, res := uint64(s.row.Modulus), uint64(s.row.Residue)
	step := m - (seq%m+m-res)%m // 1..m
	if seq > math.MaxUint64-step {
		return 0, false
	}
	return seq + step, true
}

// nextID is the ID of the first of n generated entries: their seqs go up by Modulus within one ms. The ms is
// the clock's, never below the last ID's.
func (s *stream) nextID(ms uint64, n uint64) (ID, error) {
	last := s.row.LastID
	m := uint64(s.row.Modulus)
	if ms > last.MS {
		id := ID{MS: ms, Seq: uint64(s.row.Residue)}
		return id, nil
	}
	if last == (ID{}) { // ms is 0, and 0-0 is no ID
		if s.row.Residue == 0 {
			return ID{Seq: m}, nil
		}
		return ID{Seq: uint64(s.row.Residue)}, nil
	}
	if seq, ok := s.seqAfter(last.Seq); ok && seq <= math.MaxUint64-(n-1)*m {
		return ID{MS: last.MS, Seq: seq}, nil
	}
	if last.MS == math.MaxUint64 {
		return ID{}, ErrIDExhausted
	}
	return ID{MS: last.MS + 1, Seq: uint64(s.row.Residue)}, nil
}

// fill puts an entry into the block that is being filled, beginning one when there is none or it is full.
func (s *stream) fill(r *round, id ID, fields [][]byte) {
	f := s.filling
	if f != nil && (f.round != r || f.count >= blockEntries || len(f.Payload) >= blockBytes) {
		s.closeBlock(f.round)
		f = nil
	}
	ms := entryTime(id)
	if f == nil {
		b := &tailBlock{stream: s, Block: Block{Kind: Entries, Base: s.row.Next, Last: s.row.Next, FirstID: id, LastID: id, MinTime: ms, MaxTime: ms}}
		b.Payload = storage.AppendEntry(make([]byte, 0, s.fillHint), id, true, id, fields)
		s.filling = &filling{tailBlock: b, round: r, count: 1}
		s.tail = append(s.tail, b)
		return
	}
	f.Payload = storage.AppendEntry(f.Payload, f.LastID, false, id, fields)
	f.Last = s.row.Next
	f.LastID = id
	f.MaxTime = max(f.MaxTime, ms)
	f.MinTime = min(f.MinTime, ms)
	f.count++
}

// entryTime is a native entry's timestamp: its ID's ms.
func entryTime(id ID) int64 { return int64(min(id.MS, math.MaxInt64)) }

// closeBlock ends the block that is being filled and writes it.
func (s *stream) closeBlock(r *round) {
	b := s.filling.tailBlock
	s.filling = nil
	// The next block is likely to become as large: room for it at once saves growing step by step.
	s.fillHint = min(len(b.Payload)+len(b.Payload)/8, blockBytes+blockBytes/4)
	if cap(b.Payload) > len(b.Payload)+len(b.Payload)/2 {
		b.Payload = append([]byte(nil), b.Payload...) // who reads the old one goes on
	}
	s.store(r, b)
}

// store writes a closed block and its index rows, and hands it to the tail's queue.
func (s *stream) store(r *round, b *tailBlock) {
	// Arguments of an interface's method would be allocated each time.
	k := &s.shard.scratch
	k.key, k.value = storage.AppendBlockKey(k.key[:0], s.no, b.Base), b.AppendHeader(k.value[:0])
	_ = r.batch.SetTwo(k.key, k.value, b.Payload)
	x := s.row.Index(&b.Block)
	if x.ID {
		_ = r.batch.Set(storage.IDKey(s.no, b.FirstID), storage.AppendOffset(nil, b.Base))
	}
	if x.Time {
		_ = r.batch.Set(storage.TimeKey(s.no, x.Max), storage.AppendOffset(nil, b.Base))
	}
	s.sinceRow.blocks++
	s.sinceRow.bytes += int64(len(b.Payload))
	b.size = int64(cap(b.Payload)) + tailOverhead
	s.shard.tail.push(b, &s.shard.e.tail)
	s.shard.makeRoom()
}

// AppendBatch adds a Kafka record batch. ErrSequenceGap, ErrProducerFenced, ErrIDExhausted.
func (t *Turn) AppendBatch(no StreamNo, a BatchArgs) (Appended, error) {
	st, r, err := t.write(no)
	if err != nil {
		return Appended{}, err
	}
	defer st.shard.mu.Unlock()
	if a.Producer != nil {
		dup, base, err := st.producers.check(a.Producer)
		if err != nil {
			return Appended{}, err
		}
		if dup {
			t.gate(st) // the first copy may not be committed yet
			return Appended{Base: base, Duplicate: true, Start: st.row.Start}, nil
		}
	}
	n := int64(a.Count)
	first, err := st.nextID(uint64(max(t.now, 0)), uint64(n))
	if err != nil {
		return Appended{}, err
	}
	if st.filling != nil {
		st.closeBlock(r)
	}
	base := st.row.Next
	binary.BigEndian.PutUint64(a.Data, uint64(base))
	binary.BigEndian.PutUint32(a.Data[12:], uint32(st.row.LeaderEpoch))
	stride := st.row.Modulus
	b := &tailBlock{stream: st, Block: Block{
		Kind: Batched, Base: base, Last: base + n - 1, FirstID: first, Stride: stride,
		LastID:  ID{MS: first.MS, Seq: first.Seq + uint64(n-1)*uint64(stride)},
		MinTime: a.MinTime, MaxTime: a.MaxTime, Payload: a.Data,
	}}
	st.tail = append(st.tail, b)
	st.appended(base, first)
	st.row.LastID = b.LastID
	st.row.Next += n
	st.row.Length += n
	st.store(r, b)
	if a.Producer != nil {
		row := st.producers.note(a.Producer, base, t.now)
		_ = r.batch.Set(storage.ProducerKey(no, a.Producer.ID), row.Append(nil))
	}
	st.list(r)
	t.touch(st)
	return Appended{Base: base, FirstID: first, Start: st.row.Start}, nil
}
