package storage

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleView is a Pebble snapshot. It holds back the compaction of what it shows, so
// it should not live longer than a request.
type pebbleView struct {
	store *pebbleStore
	snap  *pebble.Snapshot
}

func (sh *pebbleShard) View() (View, error) {
	s := sh.store
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	s.views.Add(1)
	s.nviews.Add(1)
	return &pebbleView{store: s, snap: s.db.NewSnapshot()}, nil
}

func (v *pebbleView) Get(key []byte) ([]byte, func(), error) {
	value, closer, err := v.snap.Get(key)
	if err == nil {
		return value, func() { closer.Close() }, nil
	}
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil, ErrNotFound
	}
	return nil, nil, v.store.readFailed(err)
}

// readFailed latches damage: a store that cannot be read is not to be written.
func (s *pebbleStore) readFailed(err error) error {
	if pebble.IsCorruptionError(err) {
		err = asCorrupt(err)
		s.latch.set(err)
	}
	return err
}

func (v *pebbleView) Scan(lower, upper []byte) (Iterator, error) {
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, v.store.readFailed(err)
	}
	return &pebbleIter{it: it, store: v.store}, nil
}

func (v *pebbleView) Close() error {
	if v.snap == nil {
		return nil
	}
	err := v.snap.Close()
	v.snap = nil
	v.store.nviews.Add(-1)
	v.store.views.Done()
	return err
}

type pebbleIter struct {
	it    *pebble.Iterator
	store *pebbleStore
	moved bool // it has been placed; before, Pebble leaves Prev undefined
}

func (i *pebbleIter) SeekGE(key []byte) bool {
	i.moved = true
	if key == nil {
		return i.it.First()
	}
	return i.it.SeekGE(key)
}

func (i *pebbleIter) SeekLT(key []byte) bool {
	i.moved = true
	if key == nil {
		return i.it.Last()
	}
	return i.it.SeekLT(key)
}

func (i *pebbleIter) Next() bool {
	if !i.moved {
		return i.SeekGE(nil)
	}
	return i.it.Next()
}

func (i *pebbleIter) Prev() bool { return i.moved && i.it.Prev() }

func (i *pebbleIter) Key() []byte { return i.it.Key() }

func (i *pebbleIter) Value() ([]byte, error) {
	v, err := i.it.ValueAndErr()
	if err != nil {
		return nil, i.store.readFailed(err)
	}
	return v, nil
}

func (i *pebbleIter) Error() error {
	if err := i.it.Error(); err != nil {
		return i.store.readFailed(err)
	}
	return nil
}

func (i *pebbleIter) Close() error { return i.it.Close() }
