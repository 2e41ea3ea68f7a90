package storage

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleView is a Pebble snapshot. It holds back the compaction of what it shows, so
// it should not live longer than a request.
type pebbleView struct {
	shard *pebbleShard
	store *pebbleStore
	snap  *pebble.Snapshot
	epoch int // what it may refer to stays until it is closed; see janitor
	pos   Pos // of the shard when it was taken: what the position row says
}

func (sh *pebbleShard) View() (View, error) {
	s := sh.store
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	v, err := sh.view()
	if err != nil {
		return nil, err
	}
	return v, nil
}

// view takes a view of an open store. When a commit is under way the view may show it and not its position.
func (sh *pebbleShard) view() (*pebbleView, error) {
	s := sh.store
	h := s.hand(sh)
	h.drain(sh)
	if err := h.apply(); err != nil {
		h.end()
		return nil, err
	}
	s.views.Add(1)
	s.nviews.Add(1)
	v := &pebbleView{shard: sh, store: s, epoch: s.space.enter()} // before the snapshot
	v.pos = sh.pos()
	v.snap = s.db.NewSnapshot()
	return v, h.end()
}

func (v *pebbleView) Get(key []byte) ([]byte, func(), error) {
	block := isBlockKey(key)
	at := key
	if block {
		at = blockSpot(key).group().packKey(nil, v.shard.id)
	}
	value, closer, err := v.snap.Get(at)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil, nil, ErrNotFound
	case err != nil:
		return nil, nil, v.store.readFailed(err)
	case isPositionKey(key):
		return AppendPos(nil, v.pos), func() {}, closer.Close()
	case !block:
		return value, func() { closer.Close() }, nil
	}
	value, found, err := findMember(value, blockSpot(key).low())
	if err != nil || !found {
		closer.Close()
		if err == nil {
			return nil, nil, ErrNotFound
		}
		return nil, nil, v.store.readFailed(err)
	}
	ref, is := parseReference(value)
	if !is {
		return value, func() { closer.Close() }, nil
	}
	closer.Close()
	if value, err = v.store.readValue(nil, ref); err != nil {
		return nil, nil, err
	}
	return value, func() {}, nil
}

// referenceAt is the reference that stands under a key, if one does.
func referenceAt(key, value []byte) (reference, bool) {
	if !isBlockKey(key) {
		return reference{}, false
	}
	return parseReference(value)
}

// readValue reads what a reference says. Any failure latches: a disk that cannot be read is not to be written.
func (s *pebbleStore) readValue(dst []byte, ref reference) ([]byte, error) {
	v, err := s.segments.read(dst, ref)
	if err != nil {
		s.latch.set(err)
		return nil, err
	}
	return v, nil
}

// readFailed latches damage: a store that cannot be read is not to be written.
func (s *pebbleStore) readFailed(err error) error {
	if err = asCorrupt(err); errors.Is(err, ErrCorrupt) {
		s.latch.set(err)
	}
	return err
}

func (v *pebbleView) Scan(lower, upper []byte) (Iterator, error) {
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, v.store.readFailed(err)
	}
	i := &pebbleIter{rows: it, store: v.store, pos: v.pos}
	from, to := spotAt(v.shard.id, lower), spotAt(v.shard.id, upper)
	if from.less(to) {
		if i.packs, err = newPackIter(v.snap, v.shard.id, from, to); err != nil {
			return nil, errors.Join(v.store.readFailed(err), it.Close())
		}
	}
	return i, nil
}

func (v *pebbleView) Close() error {
	if v.snap == nil {
		return nil
	}
	err := v.snap.Close()
	v.snap = nil
	v.store.space.leave(v.epoch)
	v.store.nviews.Add(-1)
	v.store.views.Done()
	return err
}
