package engine

import "weir/storage"

// stream is one loaded stream: its log, what is unfinished of it, its groups and its
// producers. shard.mu guards it.
type stream struct {
	log

	inflight  []flight // rounds that are not published yet, oldest first
	dirtyIn   *round   // the round that lists the stream as dirty
	rowDue    bool     // more than appends has changed since the row was written
	sinceRow  sinceRow
	openRound *round // the round that openLevel belongs to
	openLevel Level
	changed   bool // parked readers may find something once the round is written
	dropped   bool
	used      bool // since the shard last looked for a stream to let go

	groups    map[string]*group
	groupNo   map[uint32]*group // by number, while loading
	dueGroups []*group          // whose rows go into the open round
	producers producers
}

// sinceRow is what was appended since the stream's row was written.
type sinceRow struct {
	blocks int
	bytes  int64
}

// flight is a round that changed the stream, and where the stream ended in it.
type flight struct {
	r     *round
	next  int64
	level Level
}

// loadStream reads a stream's small rows. Everything in the store is published: a
// round is either whole there or not at all.
func loadStream(s *shard, no StreamNo) (*stream, error) {
	v, err := s.st.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	lower, upper := storage.SmallRange(no)
	it, err := v.Scan(lower, upper)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	st := newStream(s, no)
	found := false
	for ok := it.SeekGE(nil); ok; ok = it.Next() {
		k, err := storage.ParseKey(it.Key())
		if err != nil {
			return nil, err
		}
		val, err := it.Value()
		if err != nil {
			return nil, err
		}
		switch k.Kind {
		case storage.KindStream:
			if st.row, err = storage.ParseStreamRow(val); err == nil {
				st.sinceRow.blocks, st.sinceRow.bytes, err = st.row.AbsorbAll(v, no)
			}
			found = true
		case storage.KindProducer:
			err = st.producers.load(k.Producer, val)
		default:
			err = st.loadSmallRow(k, val)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNoStream
	}
	if err := st.loadedGroups(); err != nil {
		return nil, err
	}
	st.hw = st.row.Next
	return st, nil
}

func newStream(s *shard, no StreamNo) *stream {
	return &stream{log: log{shard: s, no: no}, groups: map[string]*group{}}
}

// Create makes an empty stream under a Redis key, in the shard of the key's slot.
func (t *Turn) Create(key []byte) (StreamNo, error) {
	s := t.e.shardOfKey(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := t.e.refuse(); err != nil {
		return 0, err
	}
	r := s.round()
	t.join(r)
	no := StreamNo(uint64(s.id)<<48 | s.nextStream)
	s.nextStream++
	if err := r.batch.Set(storage.NextStreamKey(s.id), storage.AppendNextStream(nil, s.nextStream)); err != nil {
		return 0, err
	}
	st := newStream(s, no)
	st.row.Key = append([]byte(nil), key...)
	st.row.Modulus = 1
	st.row.MaxTime = -1
	st.openRound, st.openLevel = r, t.level
	s.makeLoaded()
	s.streams[no] = st
	st.markDirty(r)
	return no, nil
}

// Drop deletes a stream with its groups. False when there is none.
func (t *Turn) Drop(no StreamNo) (bool, error) {
	st, r, err := t.write(no)
	if err == ErrNoStream {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer st.shard.mu.Unlock()
	for name := range st.groups {
		t.e.indexGroup(name, no, false)
	}
	for _, b := range st.tail {
		st.shard.tail.remove(b, &t.e.tail)
	}
	st.tail, st.filling = nil, nil
	st.dropped = true
	st.markDirty(r)
	lower, upper := storage.StreamRange(no)
	if err := r.batch.DeleteRange(lower, upper); err != nil {
		return false, err
	}
	t.touch(st)
	return true, nil
}

// SetModulus makes generated seqs congruent to residue modulo 4096 (topics of more than one partition).
func (t *Turn) SetModulus(no StreamNo, residue uint32) error {
	st, r, err := t.write(no)
	if err != nil {
		return err
	}
	defer st.shard.mu.Unlock()
	st.row.Residue, st.row.Modulus = residue%PartitionModulus, PartitionModulus
	st.markDirty(r)
	return nil
}

// PartitionModulus: in a topic of more than one partition every generated seq is congruent to the partition number
// modulo this.
const PartitionModulus = 4096

// SetID is XSETID. ErrSetIDTop, ErrSetIDDeleted, ErrSetIDAdded.
func (t *Turn) SetID(no StreamNo, a SetIDArgs) error {
	st, r, err := t.write(no)
	if err != nil {
		return err
	}
	defer st.shard.mu.Unlock()
	if a.ID.Less(st.row.MaxDeleted) {
		return ErrSetIDDeleted
	}
	if st.row.Length > 0 {
		last, err := st.lastLiving()
		if err != nil {
			return err
		}
		if a.ID.Less(last) {
			return ErrSetIDTop
		}
		if a.EntriesAdded >= 0 && a.EntriesAdded < st.row.Length {
			return ErrSetIDAdded
		}
	} else if a.ID.Less(st.row.LastID) {
		// IDs may be given again: nothing that held them may stay.
		if err := st.sweepAll(r); err != nil {
			return err
		}
	}
	st.row.LastID = a.ID
	for _, gr := range st.groups {
		gr.unsettled = true
	}
	if a.EntriesAdded >= 0 {
		st.row.AddedBias = a.EntriesAdded - st.row.Next
	}
	if a.MaxDeleted != nil {
		st.row.MaxDeleted = *a.MaxDeleted
	}
	st.markDirty(r)
	return nil
}

// Stat is the stream at a glance, as evaluated.
func (t *Turn) Stat(no StreamNo) (StreamStat, error) {
	st, err := t.read(no)
	if err != nil {
		return StreamStat{}, err
	}
	defer st.shard.mu.Unlock()
	stat := StreamStat{
		No: no, Key: st.row.Key, Length: st.row.Length, Start: st.row.Start, Next: st.row.Next, HighWater: st.hw,
		LastID: st.row.LastID, MaxDeletedID: st.row.MaxDeleted, EntriesAdded: st.entriesAdded(),
		Groups: len(st.groups), MaxTime: st.row.MaxTime, LeaderEpoch: st.row.LeaderEpoch, Bytes: st.row.Bytes,
	}
	stat.FirstOffset, stat.FirstID, _, err = st.firstEntry()
	return stat, err
}

// Length is the number of living entries (XLEN), cheaper than Stat.
func (t *Turn) Length(no StreamNo) (int64, error) {
	st, err := t.read(no)
	if err != nil {
		return 0, err
	}
	defer st.shard.mu.Unlock()
	return st.row.Length, nil
}

// seal ends the round for this stream: closes the block that is being filled, writes
// the rows. Call with shard.mu held.
func (s *stream) seal(r *round) {
	level := Written
	if s.openRound == r {
		level = max(level, s.openLevel)
	}
	s.inflight = append(s.inflight, flight{r, s.row.Next, level})
	if s.dropped {
		return
	}
	if s.filling != nil {
		s.closeBlock(r)
	}
	s.sealGroups(r)
	if s.rowDue || s.sinceRow.blocks >= checkpointBlocks || s.sinceRow.bytes >= checkpointBytes {
		// Set fails only for a batch that is too large, and the block before would have.
		_ = r.batch.Set(storage.StreamKey(s.no), s.row.Append(nil))
		s.rowDue, s.sinceRow = false, sinceRow{}
	}
}

// advance publishes the rounds that have their level, oldest first, and says whether the high watermark moved.
func (s *stream) advance() bool {
	moved := false
	for len(s.inflight) > 0 && s.inflight[0].r.has(s.inflight[0].level) {
		moved = moved || s.inflight[0].next > s.hw
		s.hw = max(s.hw, s.inflight[0].next)
		n := copy(s.inflight, s.inflight[1:])
		s.inflight[n] = flight{}
		s.inflight = s.inflight[:n]
	}
	return moved
}

// settle forgets the overlays that a written round made true in the store.
func (s *stream) settle(r *round) {
	for base, o := range s.over {
		if o.round == r {
			delete(s.over, base)
		}
	}
	if s.dirtyIn == r {
		s.dirtyIn = nil
	}
}

// list makes the round seal the stream: its filling block, its groups' rows, and its own row when that is
// due.
func (s *stream) list(r *round) {
	if s.dirtyIn != r {
		s.dirtyIn = r
		r.dirty = append(r.dirty, s)
	}
}

// markDirty is list for a change of the row by more than an append (storage/checkpoint.go).
func (s *stream) markDirty(r *round) {
	s.rowDue = true
	s.list(r)
}
