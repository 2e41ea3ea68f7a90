package storage

// The shadow replica: every batch committed on the first store is encoded to plain
// bytes, decoded, and applied to the second, which must end up byte for byte the
// same. It is what a cluster would do, without one; the engine's tests run over it,
// and it keeps rules 1 to 3 of the seam true.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

type shadowStore struct {
	first, second Store
	shards        []*shadowShard
}

// NewShadow returns a store that commits on primary and repeats each batch on
// replica through its encoding. Reads come from primary. Both must have the same
// layout and rows, and belong to the shadow from now on: Close closes both. A replica
// that cannot follow fails the commit with ErrUnknown.
func NewShadow(primary, replica Store) Store {
	if primary.Layout() != replica.Layout() {
		panic("storage: a shadow needs the layout of its primary")
	}
	s := &shadowStore{first: primary, second: replica}
	for i := range primary.Layout().Shards {
		s.shards = append(s.shards, &shadowShard{id: ShardID(i), store: s})
	}
	return s
}

func (s *shadowStore) Layout() Layout { return s.first.Layout() }

// ClusterID is the primary's.
func (s *shadowStore) ClusterID() [16]byte {
	if c, ok := s.first.(Identified); ok {
		return c.ClusterID()
	}
	return [16]byte{}
}

func (s *shadowStore) Shard(id ShardID) (Shard, error) {
	sh, err := findShard(s.shards, id)
	if err != nil {
		return nil, err
	}
	return sh, nil
}

func (s *shadowStore) SyncAll(ctx context.Context) error {
	return errors.Join(s.first.SyncAll(ctx), s.second.SyncAll(ctx))
}

func (s *shadowStore) Failed() error { return errors.Join(s.first.Failed(), s.second.Failed()) }

// Close compares the two stores before it closes them.
func (s *shadowStore) Close(ctx context.Context) error {
	err := Compare(s.first, s.second)
	return errors.Join(err, s.first.Close(ctx), s.second.Close(ctx))
}

// CommitTogether commits on the primary as one, and repeats shard by shard: a
// replica gets each shard's batches by themselves.
func (s *shadowStore) CommitTogether(ctx context.Context, batches []Batch) ([]Pos, error) {
	primaries := make([]Batch, len(batches))
	encoded := make([][]byte, len(batches))
	shadows := make([]*shadowBatch, len(batches))
	for i, b := range batches {
		sb, ok := b.(*shadowBatch)
		if !ok {
			return nil, fmt.Errorf("storage: a %T is no batch of this store", b)
		}
		var err error
		if primaries[i], encoded[i], err = sb.writer.prepare(ctx, sb); err != nil {
			return nil, err
		}
		shadows[i] = sb
	}
	at, err := s.first.CommitTogether(ctx, primaries)
	if err != nil {
		return nil, err
	}
	for i, b := range shadows {
		if err := b.writer.follow(ctx, b, encoded[i]); err != nil {
			return nil, err
		}
	}
	return at, nil
}

type shadowShard struct {
	id    ShardID
	store *shadowStore
}

func (sh *shadowShard) both() (first, second Shard, err error) {
	if first, err = sh.store.first.Shard(sh.id); err != nil {
		return nil, nil, err
	}
	second, err = sh.store.second.Shard(sh.id)
	return first, second, err
}

func (sh *shadowShard) ID() ShardID { return sh.id }

func (sh *shadowShard) Lead(ctx context.Context) (Writer, error) {
	first, second, err := sh.both()
	if err != nil {
		return nil, err
	}
	w := &shadowWriter{shard: sh.id}
	if w.first, err = first.Lead(ctx); err != nil {
		return nil, err
	}
	w.second, err = second.Lead(ctx)
	return w, err
}

func (sh *shadowShard) View() (View, error) {
	first, _, err := sh.both()
	if err != nil {
		return nil, err
	}
	return first.View()
}

func (sh *shadowShard) Export(ctx context.Context, w io.Writer) (Pos, error) {
	first, _, err := sh.both()
	if err != nil {
		return Pos{}, err
	}
	return first.Export(ctx, w)
}

func (sh *shadowShard) Import(ctx context.Context, r io.Reader) (Pos, error) {
	first, second, err := sh.both()
	if err != nil {
		return Pos{}, err
	}
	var seen bytes.Buffer
	pos, err := first.Import(ctx, io.TeeReader(r, &seen))
	if err != nil {
		return pos, err
	}
	return second.Import(ctx, &seen)
}

type shadowBatch struct {
	opLog
	writer *shadowWriter
}

// repeat writes the batch's operations into another one.
func (b *shadowBatch) repeat(to Batch) error {
	return b.eachOp(func(op opKind, key, value []byte) error {
		switch op {
		case opSet:
			// Cut in two, so that both ways of setting a row are under test.
			return to.SetTwo(key, value[:len(value)/2], value[len(value)/2:])
		case opDelete:
			return to.Delete(key)
		default:
			return to.DeleteRange(key, value)
		}
	})
}

type shadowWriter struct {
	shard         ShardID
	first, second Writer
}

func (w *shadowWriter) Lost() <-chan struct{} { return w.first.Lost() }

func (w *shadowWriter) Begin() Batch {
	return &shadowBatch{opLog: opLog{shard: w.shard}, writer: w}
}

func (w *shadowWriter) Commit(ctx context.Context, b Batch) (Pos, error) {
	sb, ok := b.(*shadowBatch)
	if !ok || sb.writer.shard != w.shard {
		return Pos{}, fmt.Errorf("storage: a %T is no batch of this writer", b)
	}
	p, data, err := sb.writer.prepare(ctx, sb)
	if err != nil {
		return Pos{}, err
	}
	pos, err := w.first.Commit(ctx, p)
	if err != nil {
		return pos, err
	}
	return pos, w.follow(ctx, sb, data)
}

// prepare makes the primary's batch, and its encoding, read back from what the
// primary's own batch type made of it.
func (w *shadowWriter) prepare(ctx context.Context, b *shadowBatch) (Batch, []byte, error) {
	at, err := w.first.Commit(ctx, w.first.Begin())
	if err != nil {
		return nil, nil, err
	}
	p := w.first.Begin()
	if err := b.repeat(p); err != nil {
		p.Discard()
		return nil, nil, err
	}
	data, err := EncodeBatch(nil, Pos{Epoch: at.Epoch, Seq: at.Seq + 1}, p)
	return p, data, err
}

// follow sends a committed batch to the replica as bytes.
func (w *shadowWriter) follow(ctx context.Context, b *shadowBatch, data []byte) error {
	if b.Empty() {
		return nil
	}
	defer b.Discard()
	if _, err := ApplyBatch(ctx, w.second, data); err != nil {
		return fmt.Errorf("%w: the replica did not follow: %w", ErrUnknown, err)
	}
	return nil
}

func (w *shadowWriter) Durable(ctx context.Context, p Pos) error {
	if err := w.first.Durable(ctx, p); err != nil {
		return err
	}
	return w.second.Durable(ctx, p)
}

// Compare reads both stores whole and reports the first difference; nil when every
// shard has the same rows, byte for byte.
func Compare(a, b Store) error {
	if a.Layout() != b.Layout() {
		return fmt.Errorf("storage: layouts differ: %v, %v", a.Layout(), b.Layout())
	}
	for i := range a.Layout().Shards {
		if err := compareShard(a, b, ShardID(i)); err != nil {
			return fmt.Errorf("storage: shard %d: %w", i, err)
		}
	}
	return nil
}

// scanShard opens a walk over a whole shard; done ends it.
func scanShard(s Store, id ShardID) (it Iterator, v View, done func(), err error) {
	sh, err := s.Shard(id)
	if err != nil {
		return nil, nil, nil, err
	}
	if v, err = sh.View(); err != nil {
		return nil, nil, nil, err
	}
	if it, err = v.Scan(ShardRange(id)); err != nil {
		v.Close()
		return nil, nil, nil, err
	}
	return it, v, func() { it.Close(); v.Close() }, nil
}

func compareShard(a, b Store, id ShardID) error {
	ia, _, doneA, err := scanShard(a, id)
	if err != nil {
		return err
	}
	defer doneA()
	ib, _, doneB, err := scanShard(b, id)
	if err != nil {
		return err
	}
	defer doneB()
	for {
		okA, okB := ia.Next(), ib.Next()
		if err := errors.Join(ia.Error(), ib.Error()); err != nil {
			return err
		}
		switch {
		case !okA && !okB:
			return nil
		case !okA:
			return fmt.Errorf("only the second has %x", ib.Key())
		case !okB || bytes.Compare(ia.Key(), ib.Key()) < 0:
			return fmt.Errorf("only the first has %x", ia.Key())
		case !bytes.Equal(ia.Key(), ib.Key()):
			return fmt.Errorf("only the second has %x", ib.Key())
		}
		va, errA := ia.Value()
		vb, errB := ib.Value()
		if err := errors.Join(errA, errB); err != nil {
			return err
		}
		if !bytes.Equal(va, vb) {
			return fmt.Errorf("values differ at %x: %x, %x", ia.Key(), va, vb)
		}
	}
}
