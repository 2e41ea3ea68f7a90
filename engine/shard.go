package engine

import (
	"context"
	"errors"
	"sync"

	"weir/storage"
)

// shard owns the streams of one storage shard. mu guards everything below it; the
// token is held by whoever commits a round.
type shard struct {
	e     *Engine
	id    storage.ShardID
	st    storage.Shard
	w     storage.Writer
	token chan struct{} // capacity 1

	mu         sync.Mutex
	open       *round               // nil until something is evaluated
	full       []*round             // closed before anybody led them, oldest first; committed before open
	streams    map[StreamNo]*stream // loaded ones, see evict.go; dropped ones until their round is written
	nextStream uint64
	tail       tailQueue
	scratch    struct{ key, value []byte } // of one write
}

func openShard(ctx context.Context, e *Engine, id storage.ShardID) (*shard, error) {
	st, err := e.st.Shard(id)
	if err != nil {
		return nil, err
	}
	w, err := st.Lead(ctx)
	if err != nil {
		return nil, err
	}
	s := &shard{e: e, id: id, st: st, w: w, token: make(chan struct{}, 1), streams: make(map[StreamNo]*stream), nextStream: 1}
	v, err := st.View()
	if err != nil {
		return nil, err
	}
	defer v.Close()
	switch val, release, err := v.Get(storage.NextStreamKey(id)); {
	case errors.Is(err, storage.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		s.nextStream, err = storage.ParseNextStream(val)
		release()
		if err != nil {
			return nil, err
		}
	}
	return s, s.indexGroups(v)
}

// indexGroups reads the names of all groups of the shard, stepping over everything
// else of each stream by seeks.
func (s *shard) indexGroups(v storage.View) error {
	return eachStreamRow(s.id, v, func(no StreamNo, it storage.Iterator) error {
		lower, upper := storage.GroupsRange(no)
		for ok := it.SeekGE(lower); ok && string(it.Key()) < string(upper); ok = it.Next() {
			k, err := storage.ParseKey(it.Key())
			if err != nil {
				return err
			}
			s.e.indexGroup(string(k.Name), no, true)
		}
		return nil
	})
}

// eachStreamRow positions an iterator at each stream's StreamRow and calls fn, which may move it within the stream.
func eachStreamRow(id storage.ShardID, v storage.View, fn func(no StreamNo, it storage.Iterator) error) error {
	lower, upper := storage.StreamsRange(id)
	it, err := v.Scan(lower, upper)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.SeekGE(nil); ok; {
		k, err := storage.ParseKey(it.Key())
		if err != nil {
			return err
		}
		if err := fn(k.Stream, it); err != nil {
			return err
		}
		_, next := storage.StreamRange(k.Stream)
		ok = it.SeekGE(next)
	}
	return it.Error()
}

// stream returns a stream, loading it when needed. Call with mu held.
func (s *shard) stream(no StreamNo) (*stream, error) {
	if st, ok := s.streams[no]; ok {
		if st.dropped {
			return nil, ErrNoStream
		}
		st.used = true
		return st, nil
	}
	st, err := loadStream(s, no)
	if err != nil {
		return nil, err
	}
	s.makeLoaded()
	s.streams[no] = st
	return st, nil
}

// bit is the shard's in Engine.open; shards beyond 64 have none.
func (s *shard) bit() uint64 { return 1 << s.id }

// loaded says whether a stream is in memory.
func (s *shard) loaded(no StreamNo) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.streams[no]
	return ok
}

// maxRound is how many bytes a round holds before another is begun: what arrives
// together is committed together, but three clients with the largest argument each
// must not make a batch that no store takes.
const maxRound = 64 << 20

// lock finds a stream and locks its shard. On success the caller must unlock st.shard.mu.
func (e *Engine) lock(no StreamNo) (*stream, error) {
	s := e.shardOf(no)
	if s == nil {
		return nil, ErrNoStream
	}
	s.mu.Lock()
	st, err := s.stream(no)
	if err != nil {
		s.mu.Unlock()
	}
	return st, err
}

// round returns the open round, beginning one. Call with mu held.
func (s *shard) round() *round {
	if s.open != nil && s.open.batch.Size() > maxRound {
		r := s.open
		r.close()
		s.full = append(s.full, r)
	}
	if s.open == nil {
		s.open = &round{shard: s, batch: s.w.Begin(), written: make(chan struct{})}
		s.e.open.Or(s.bit())
	}
	return s.open
}

// forget drops everything loaded after a failed commit: what was evaluated and is
// not on disk must not be told. It is read again from the store. Rounds that were
// evaluated on top of the failed one fail with it.
func (s *shard) forget(cause error) {
	for no, st := range s.streams {
		st.dropped = true
		delete(s.streams, no)
	}
	s.tail.clear(&s.e.tail)
	if s.open != nil {
		s.open.poison, s.open.closed = cause, true
		s.full = append(s.full, s.open)
		s.open = nil
		s.e.open.And(^s.bit())
	}
	for _, r := range s.full {
		r.poison = cause
	}
}

// poisoned says whether a round can only fail; commitFull will have failed it.
func (s *shard) poisoned(r *round) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.poison != nil
}

// sealIdleGroups makes the open round carry what groups keep in memory only (lazy deliveries): called before the engine
// closes.
func (s *shard) sealIdleGroups() {
	for _, st := range s.streams {
		if !st.dropped && !st.stored() {
			st.writeLate(s.round())
		}
	}
}
