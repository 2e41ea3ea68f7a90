package engine

import (
	"sort"

	"weir/storage"
)

// stream is one loaded stream. shard.mu guards it.
//
//	Swept      Start        Head                        hw        Next
//	  │ trimmed, │ all deleted│ living and deleted       │unpublished│
//	  │ on disk  │            │        ...┌──────────────┴───────────┤
//	  └──────────┴────────────┴───────────┤ tail: in memory          │
//	                                      └──────────────────────────┘
type stream struct {
	shard *shard
	no    StreamNo
	row   storage.StreamRow // as evaluated

	hw        int64    // readers without a turn see offsets below
	inflight  []flight // rounds that are not published yet, oldest first
	dirtyIn   *round   // the round that lists the stream as dirty
	openRound *round   // the round that openLevel belongs to
	openLevel Level
	changed   bool // parked readers may find something once the round is written
	dropped   bool

	tail       []*tailBlock   // newest blocks, ascending; everything not in the store is here
	filling    *filling       // the native block that is being filled, last in tail
	over       map[int64]over // blocks of the store that were marked or removed and are not written yet, by base
	first      firstLiving
	ghosts     map[int64]storage.GhostRow // loaded when needed, by first offset
	ghostFloor int64                      // ghosts below are deleted, perhaps not in the store yet

	groups    map[string]*group
	groupNo   map[uint32]*group // by number, while loading
	dueGroups []*group          // whose rows go into the open round
	producers map[int64]*producer
}

// flight is a round that changed the stream, and where the stream ended in it.
type flight struct {
	r     *round
	next  int64
	level Level
}

// filling is an open native block: its payload grows, prefixes of it may be read.
type filling struct {
	*tailBlock
	round *round
	count int
}

// over overlays a block row of the store until the round is written.
type over struct {
	marks Marks
	gone  bool
	round *round
}

// firstLiving caches the first living entry.
type firstLiving struct {
	valid  bool
	offset int64
	id     ID
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
	st := &stream{shard: s, no: no, groups: map[string]*group{}}
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
			st.row, err = storage.ParseStreamRow(val)
			found = true
		case storage.KindProducer:
			err = st.loadProducer(k.Producer, val)
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
	var next [8]byte
	putUint64(next[:], s.nextStream)
	if err := r.batch.Set(storage.NextStreamKey(s.id), next[:]); err != nil {
		return 0, err
	}
	st := &stream{shard: s, no: no, groups: map[string]*group{}}
	st.row.Key = append([]byte(nil), key...)
	st.row.Modulus = 1
	st.row.MaxTime = -1
	st.openRound, st.openLevel = r, t.level
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
		b.gone = true
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

func (s *stream) entriesAdded() int64 { return s.row.Next + s.row.AddedBias }

// dense says that every offset in [Head, Next) is living.
func (s *stream) dense() bool { return s.row.Length == s.row.Next-s.row.Head }

// markDirty makes the round write the stream's row when it is sealed.
func (s *stream) markDirty(r *round) {
	if s.dirtyIn != r {
		s.dirtyIn = r
		r.dirty = append(r.dirty, s)
	}
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
	// Set fails only for a batch that is too large, and the block before would have.
	_ = r.batch.Set(storage.StreamKey(s.no), s.row.Append(nil))
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

// tailBase is the first offset that the tail answers for.
func (s *stream) tailBase() int64 {
	if len(s.tail) == 0 {
		return s.row.Next
	}
	return s.tail[0].Base
}

// tailIndex is the index of the first tail block whose Last >= offset.
func (s *stream) tailIndex(offset int64) int {
	// Most readers want the newest.
	if n := len(s.tail); n > 0 && offset > s.tail[n-1].Last {
		return n
	} else if n > 0 && offset >= s.tail[n-1].Base {
		return n - 1
	}
	return sort.Search(len(s.tail), func(i int) bool { return s.tail[i].Last >= offset })
}

// popTail drops a cached block and all older ones: the tail may not have holes that
// the store would have to fill. (A block whose marks changed stands later in the
// shard's queue than its age.)
func (s *stream) popTail(b *tailBlock) {
	for len(s.tail) > 0 {
		x := s.tail[0]
		x.gone = true
		s.tail[0] = nil
		s.tail = s.tail[1:]
		if x == b {
			return
		}
	}
}
