package storage

// The store in memory: a B-tree per shard, copied on write, so that a view is the
// tree as it stood. Nothing survives its closing; Durable returns at once.

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/tidwall/btree"
)

// memRow is a row; neither slice is ever written after it has been set.
type memRow struct{ key, value []byte }

type memTree = btree.BTreeG[memRow]

func newMemTree() *memTree {
	less := func(a, b memRow) bool { return bytes.Compare(a.key, b.key) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

type memStore struct {
	shards []*memShard
	id     [16]byte
	closed atomic.Bool
	count  atomic.Uint64 // commits
}

type memShard struct {
	shardState
	store *memStore
	// tree and seen are owned by mu. seen is the copy that views share until the
	// next commit.
	tree *memTree
	seen *memTree
}

// NewMem returns an empty store in memory. shards <= 0 means DefaultShards.
func NewMem(shards int) Store {
	if !validShards(shards) {
		shards = DefaultShards
	}
	m := &memStore{}
	rand.Read(m.id[:]) // never fails
	for i := range shards {
		sh := &memShard{shardState: shardState{id: ShardID(i)}, store: m, tree: newMemTree()}
		sh.epoch.Store(1)
		m.shards = append(m.shards, sh)
	}
	return m
}

func (m *memStore) Layout() Layout                { return Layout{Shards: len(m.shards)} }
func (m *memStore) ClusterID() [16]byte           { return m.id }
func (m *memStore) SyncAll(context.Context) error { return m.Failed() }
func (m *memStore) Metrics() Metrics              { return Metrics{Commits: m.count.Load()} }

func (m *memStore) Shard(id ShardID) (Shard, error) {
	s, err := findShard(m.shards, id)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (m *memStore) Failed() error {
	if m.closed.Load() {
		return ErrClosed
	}
	return nil
}

func (m *memStore) Close(context.Context) error {
	m.closed.Store(true)
	return nil
}

func (m *memStore) CommitTogether(_ context.Context, batches []Batch) ([]Pos, error) {
	mine := make([]*memBatch, len(batches))
	for i, b := range batches {
		mb, ok := b.(*memBatch)
		if !ok {
			return nil, fmt.Errorf("storage: a %T is no batch of this store", b)
		}
		mine[i] = mb
	}
	unlock, err := lockTogether(mine, func(b *memBatch) *shardState { return &b.writer.shard.shardState })
	if err != nil {
		return nil, err
	}
	defer unlock()
	for _, b := range mine {
		if err := b.writer.mayCommit(b); err != nil {
			return nil, err
		}
	}
	at := make([]Pos, len(mine))
	for i, b := range mine {
		at[i] = b.writer.shard.apply(b)
	}
	return at, nil
}

func (s *memShard) ID() ShardID { return s.id }

func (s *memShard) Lead(context.Context) (Writer, error) {
	if err := s.store.Failed(); err != nil {
		return nil, err
	}
	return &memWriter{shard: s, lost: s.lead()}, nil
}

func (s *memShard) View() (View, error) {
	if err := s.store.Failed(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = s.tree.Copy()
	}
	return &memView{tree: s.seen}, nil
}

// apply adds a batch's rows, under mu.
func (s *memShard) apply(b *memBatch) Pos {
	if b.Empty() {
		return s.pos()
	}
	s.seen = nil
	err := eachOp(b.buf, func(op opKind, key, value []byte) error {
		switch op {
		case opSet:
			// The batch is consumed: its buffer now belongs to the tree.
			s.tree.Set(memRow{key[:len(key):len(key)], value[:len(value):len(value)]})
		case opDelete:
			s.tree.Delete(memRow{key: key})
		case opDeleteRange:
			s.deleteRange(key, value)
		}
		return nil
	})
	if err != nil {
		panic("storage: a batch written by opLog does not read back: " + err.Error())
	}
	b.buf = nil
	s.seq.Add(1)
	s.tree.Set(memRow{PositionKey(s.id), AppendPos(nil, s.pos())})
	s.store.count.Add(1)
	return s.pos()
}

func (s *memShard) deleteRange(lower, upper []byte) {
	var doomed []memRow
	s.tree.Ascend(memRow{key: lower}, func(r memRow) bool {
		if bytes.Compare(r.key, upper) >= 0 {
			return false
		}
		doomed = append(doomed, r)
		return true
	})
	for _, r := range doomed {
		s.tree.Delete(r)
	}
}

func (s *memShard) Export(ctx context.Context, w io.Writer) (Pos, error) {
	v, err := s.View()
	if err != nil {
		return Pos{}, err
	}
	defer v.Close()
	return exportShard(ctx, s.id, v, w)
}

func (s *memShard) Import(ctx context.Context, r io.Reader) (Pos, error) {
	fresh := newMemTree()
	pos, err := importShard(ctx, s.id, r, func(key, value []byte) error {
		fresh.Set(memRow{bytes.Clone(key), bytes.Clone(value)})
		return nil
	})
	if err != nil {
		return Pos{}, err
	}
	s.lead() // whoever wrote before knows other rows
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree, s.seen = fresh, nil
	s.epoch.Store(uint64(pos.Epoch))
	s.seq.Store(pos.Seq)
	return pos, nil
}

type memBatch struct {
	opLog
	writer *memWriter
}

type memWriter struct {
	shard *memShard
	lost  chan struct{}
}

func (w *memWriter) Lost() <-chan struct{} { return w.lost }

func (w *memWriter) Begin() Batch {
	return &memBatch{opLog: opLog{shard: w.shard.id}, writer: w}
}

// mayCommit says, under mu, why the batch may not be committed.
func (w *memWriter) mayCommit(b *memBatch) error {
	if err := w.shard.store.Failed(); err != nil {
		return err
	}
	if !w.shard.holds(w.lost) {
		return ErrFenced
	}
	return b.check()
}

func (w *memWriter) Commit(_ context.Context, b Batch) (Pos, error) {
	mb, ok := b.(*memBatch)
	if !ok || mb.writer.shard != w.shard {
		return Pos{}, fmt.Errorf("storage: a %T is no batch of this writer", b)
	}
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	if err := w.mayCommit(mb); err != nil {
		return Pos{}, err
	}
	return w.shard.apply(mb), nil
}

func (w *memWriter) Durable(context.Context, Pos) error { return w.shard.store.Failed() }

type memView struct{ tree *memTree }

func (v *memView) Close() error { return nil }

func (v *memView) Get(key []byte) ([]byte, func(), error) {
	r, ok := v.tree.Get(memRow{key: key})
	if !ok {
		return nil, nil, ErrNotFound
	}
	return r.value, releaseNothing, nil
}

func releaseNothing() {}

func (v *memView) Scan(lower, upper []byte) (Iterator, error) {
	return &memIter{tree: v.tree, lower: bytes.Clone(lower), upper: bytes.Clone(upper)}, nil
}

// memIter is a bounded walk. The tree's own iterator does not define what follows
// its ends, so the ends are kept here.
type memIter struct {
	tree         *memTree
	lower, upper []byte
	it           btree.IterG[memRow]
	place        iterPlace
}

type iterPlace uint8

const (
	placeBefore iterPlace = iota // before the first row, as a fresh iterator is
	placeAt
	placeAfter // behind the last row
)

func (i *memIter) SeekGE(key []byte) bool {
	if key == nil || bytes.Compare(key, i.lower) < 0 {
		key = i.lower
	}
	i.it = i.tree.Iter()
	return i.settle(i.it.Seek(memRow{key: key}), placeAfter)
}

func (i *memIter) SeekLT(key []byte) bool {
	if key == nil || bytes.Compare(key, i.upper) > 0 {
		key = i.upper
	}
	i.it = i.tree.Iter()
	if i.it.Seek(memRow{key: key}) {
		return i.settle(i.it.Prev(), placeBefore)
	}
	i.it = i.tree.Iter()
	return i.settle(i.it.Last(), placeBefore)
}

// settle notes where a move ended: at a row within the bounds, or at that end.
func (i *memIter) settle(moved bool, end iterPlace) bool {
	i.place = end
	if moved {
		key := i.it.Item().key
		if bytes.Compare(key, i.lower) >= 0 && bytes.Compare(key, i.upper) < 0 {
			i.place = placeAt
		}
	}
	return i.place == placeAt
}

func (i *memIter) Next() bool {
	switch i.place {
	case placeBefore:
		return i.SeekGE(nil)
	case placeAfter:
		return false
	}
	return i.settle(i.it.Next(), placeAfter)
}

func (i *memIter) Prev() bool {
	switch i.place {
	case placeBefore:
		return false
	case placeAfter:
		return i.SeekLT(nil)
	}
	return i.settle(i.it.Prev(), placeBefore)
}

func (i *memIter) Key() []byte            { return i.it.Item().key }
func (i *memIter) Value() ([]byte, error) { return i.it.Item().value, nil }
func (i *memIter) Error() error           { return nil }
func (i *memIter) Close() error           { return nil }
