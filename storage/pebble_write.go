package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleBatch writes rows straight into Pebble's own encoding, which is also the log's, and keeps
// large blocks beside it: where they lie is filled in when the log has given them their place. It
// comes from the store's pool and goes back when it is committed or discarded.
type pebbleBatch struct {
	ops     *pebble.Batch
	shard   ShardID
	writer  *pebbleWriter
	values  []bulkValue // in the order of their keys in ops
	heads   []byte      // the beginnings of the values
	bulk    int         // bytes of the values
	places  []place     // what the commit makes; set by it
	foreign bool
	over    bool // something was refused as too large: the rest alone may not be committed
	blocks  bool // it sets blocks
	frees   bool // it may delete blocks
	unrows  bool // it may delete the position row, or set it
}

const pebbleBatchHeader = 12 // bytes of an empty pebble.Batch

func (b *pebbleBatch) Shard() ShardID { return b.shard }
func (b *pebbleBatch) Size() int      { return b.ops.Len() - pebbleBatchHeader + b.bulk }
func (b *pebbleBatch) Empty() bool    { return b.ops.Empty() }

// fits refuses what would make the batch too large, before memory is spent on it.
func (b *pebbleBatch) fits(more int) error {
	if limit := b.writer.shard.store.opts.maxBatch; b.Size()+more > limit {
		b.over = true
		return fmt.Errorf("%w: %d bytes of %d", ErrTooLarge, b.Size()+more, limit)
	}
	return nil
}

func (b *pebbleBatch) Set(key, value []byte) error { return b.SetTwo(key, value, nil) }

func (b *pebbleBatch) SetTwo(key, head, tail []byte) error {
	if err := b.fits(len(key) + len(head) + len(tail)); err != nil {
		return err
	}
	b.foreign = b.foreign || !inShard(b.shard, key)
	b.unrows = b.unrows || isPositionKey(key)
	if isBlockKey(key) {
		b.blocks = true
		if size := len(head) + len(tail); size > 0 && goesToBulk(size, firstOf(head, tail)) {
			return b.setBulk(key, head, tail)
		}
	}
	op := b.ops.SetDeferred(len(key), len(head)+len(tail))
	copy(op.Key, key)
	copy(op.Value[copy(op.Value, head):], tail)
	return op.Finish()
}

func firstOf(head, tail []byte) byte {
	if len(head) > 0 {
		return head[0]
	}
	return tail[0]
}

// setBulk keeps a value for the bulk and reserves its reference.
func (b *pebbleBatch) setBulk(key, head, tail []byte) error {
	op := b.ops.SetDeferred(len(key), referenceLen)
	copy(op.Key, key)
	clear(op.Value)
	b.heads = append(b.heads, head...)
	b.values = append(b.values, bulkValue{at: b.ops.Len() - referenceLen, head: len(head), tail: tail})
	b.bulk += len(head) + len(tail)
	return op.Finish()
}

// add appends another batch's rows and values.
func (b *pebbleBatch) add(o *pebbleBatch) error {
	moved := b.ops.Len() - pebbleBatchHeader
	if err := b.ops.Apply(o.ops, nil); err != nil {
		return err
	}
	for _, v := range o.values {
		v.at += moved
		b.values = append(b.values, v)
	}
	b.heads = append(b.heads, o.heads...)
	b.places = append(b.places, o.places...)
	b.blocks = b.blocks || o.blocks
	b.frees = b.frees || o.frees
	return nil
}

func (b *pebbleBatch) Delete(key []byte) error {
	if err := b.fits(len(key)); err != nil {
		return err
	}
	b.foreign = b.foreign || !inShard(b.shard, key)
	b.frees = b.frees || isBlockKey(key)
	b.unrows = b.unrows || isPositionKey(key)
	return b.ops.Delete(key, nil)
}

func (b *pebbleBatch) DeleteRange(lower, upper []byte) error {
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	if err := b.fits(len(lower) + len(upper)); err != nil {
		return err
	}
	b.foreign = b.foreign || !rangeInShard(b.shard, lower, upper)
	b.frees = true
	b.unrows = b.unrows || bytes.Compare(lower, PositionKey(b.shard)) <= 0
	return b.ops.DeleteRange(lower, upper, nil)
}

// addPosition notes what the commit makes of the shard, under its mu. Its position row is not written each time: the log
// says the position, and views do (pebble_log.go). It must be there, though.
func (b *pebbleBatch) addPosition(p Pos) {
	b.places = append(b.places, place{b.shard, p})
	sh := b.writer.shard
	if sh.rowed && !b.unrows {
		return
	}
	sh.rowed = true
	op := b.ops.SetDeferred(3, 16)
	op.Key[0], op.Key[1], op.Key[2] = byte(b.shard>>8), byte(b.shard), tagPosition
	binary.BigEndian.PutUint64(op.Value, uint64(p.Epoch))
	binary.BigEndian.PutUint64(op.Value[8:], p.Seq)
	op.Finish() // fails only in an indexed batch
}

func (b *pebbleBatch) Discard() { b.recycle() }

// recycle gives the batch back to the pool; Discard after Commit does nothing.
func (b *pebbleBatch) recycle() {
	if b.writer == nil {
		return
	}
	store := b.writer.shard.store
	b.ops.Close() // back to Pebble's pool, with its buffer
	clear(b.values)
	if cap(b.heads) > 64<<10 {
		b.heads, b.values = nil, nil
	}
	*b = pebbleBatch{values: b.values[:0], heads: b.heads[:0], places: b.places[:0]}
	store.batches.Put(b)
}

func (b *pebbleBatch) eachOp(f func(op opKind, key, value []byte) error) error {
	values, heads := b.values, b.heads
	for r := b.ops.Reader(); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil || !ok {
			return err
		}
		// Values stand in the order of their keys; which key is theirs their place tells.
		if len(values) > 0 && len(value) == referenceLen && &value[0] == &b.ops.Repr()[values[0].at] {
			v := values[0]
			value = append(append(make([]byte, 0, v.size()), heads[:v.head]...), v.tail...)
			values, heads = values[1:], heads[v.head:]
		}
		var op opKind
		switch kind {
		case pebble.InternalKeyKindSet:
			op = opSet
		case pebble.InternalKeyKindDelete:
			op = opDelete
		case pebble.InternalKeyKindRangeDelete:
			op = opDeleteRange
		default:
			return fmt.Errorf("%w: batch operation %v", ErrCorrupt, kind)
		}
		if err := f(op, key, value); err != nil {
			return err
		}
	}
}

// pebbleWriter is the right to write one shard.
type pebbleWriter struct {
	shard *pebbleShard
	lost  chan struct{}
}

func (w *pebbleWriter) Lost() <-chan struct{} { return w.lost }

func (w *pebbleWriter) Begin() Batch {
	s := w.shard.store
	b, ok := s.batches.Get().(*pebbleBatch)
	if !ok {
		b = &pebbleBatch{}
	}
	b.shard, b.writer = w.shard.id, w
	b.ops = newPebbleBatch(s)
	return b
}

// mayCommit says, under the shard's mu, why the batch may not be committed.
func (w *pebbleWriter) mayCommit(b *pebbleBatch) error {
	if err := w.shard.store.latch.err(); err != nil {
		return err
	}
	if !w.shard.holds(w.lost) {
		return ErrFenced
	}
	if b.over {
		return fmt.Errorf("%w: shard %d", ErrTooLarge, b.shard)
	}
	return checkBatch(b.shard, b.foreign, b.Size())
}

func (w *pebbleWriter) Commit(_ context.Context, b Batch) (Pos, error) {
	pb, ok := b.(*pebbleBatch)
	if !ok || pb.writer == nil || pb.writer.shard != w.shard {
		return Pos{}, fmt.Errorf("storage: a %T is no batch of this writer", b)
	}
	sh := w.shard
	if err := sh.store.enter(); err != nil {
		return Pos{}, err
	}
	defer sh.store.leave()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err := pb.writer.mayCommit(pb); err != nil {
		return Pos{}, err
	}
	pos := sh.pos()
	if !pb.Empty() {
		pos.Seq++
		pb.addPosition(pos)
		if err := sh.store.applyOne(pb); err != nil {
			return Pos{}, err
		}
	}
	pb.recycle()
	return pos, nil
}

// Durable returns at once when an fsync after that commit has been done already.
func (w *pebbleWriter) Durable(ctx context.Context, p Pos) error {
	if p.Seq <= w.shard.synced.Load() {
		return nil
	}
	return w.shard.store.SyncAll(ctx)
}
