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
	epoch int // what it may refer to stays until it is closed; see janitor
	pos   Pos // of the shard when it was taken: what the position row says
}

func (sh *pebbleShard) View() (View, error) {
	s := sh.store
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return sh.view(), nil
}

// view takes a view of an open store. When a commit is under way the view may show it and not its position.
func (sh *pebbleShard) view() *pebbleView {
	s := sh.store
	s.views.Add(1)
	s.nviews.Add(1)
	v := &pebbleView{store: s, epoch: s.space.enter()} // before the snapshot
	v.pos = sh.pos()
	v.snap = s.db.NewSnapshot()
	return v
}

func (v *pebbleView) Get(key []byte) ([]byte, func(), error) {
	value, closer, err := v.snap.Get(key)
	if err == nil {
		if isPositionKey(key) {
			return AppendPos(nil, v.pos), func() {}, closer.Close()
		}
		if ref, is := referenceAt(key, value); is {
			closer.Close()
			if value, err = v.store.readValue(nil, ref); err != nil {
				return nil, nil, err
			}
			return value, func() {}, nil
		}
		return value, func() { closer.Close() }, nil
	}
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil, ErrNotFound
	}
	return nil, nil, v.store.readFailed(err)
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
	return &pebbleIter{it: it, store: v.store, pos: v.pos}, nil
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

type pebbleIter struct {
	it    *pebble.Iterator
	store *pebbleStore
	moved bool   // it has been placed; before, Pebble leaves Prev undefined
	pos   Pos    // of the view
	buf   []byte // of the value last read from a segment
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
	if isPositionKey(i.it.Key()) {
		i.buf = AppendPos(i.buf[:0], i.pos)
		return i.buf, nil
	}
	ref, is := referenceAt(i.it.Key(), v)
	if !is {
		return v, nil
	}
	i.buf, err = i.store.readValue(i.buf[:0], ref)
	return i.buf, err
}

func (i *pebbleIter) Error() error {
	if err := i.it.Error(); err != nil {
		return i.store.readFailed(err)
	}
	return nil
}

func (i *pebbleIter) Close() error { return i.it.Close() }
