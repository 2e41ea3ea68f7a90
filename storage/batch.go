package storage

// Batches as plain bytes: what a replica would be sent, and how Mem and Shadow keep
// a batch while it is being filled.
//
//	batch = version:1 shard:2 epoch:8 seq:8 op* crc32c:4
//	op    = 1 klen key vlen value      set
//	        2 klen key                 delete
//	        3 klen lower vlen upper    delete range
//
// epoch and seq name the state that the batch makes, not the one it starts from.
// Lengths are varints. The checksum covers everything before it.

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

type opKind byte

const (
	opSet         opKind = 1
	opDelete      opKind = 2
	opDeleteRange opKind = 3

	batchVersion   = 1
	batchHeaderLen = 1 + 2 + 8 + 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// opWalker is a batch that can be read back before it is committed. value is the
// upper bound of a delete range, nil for a delete.
type opWalker interface {
	eachOp(func(op opKind, key, value []byte) error) error
}

// opLog is a batch kept as encoded ops. Its errors come at the commit (check).
type opLog struct {
	shard   ShardID
	buf     []byte
	foreign bool
}

func (l *opLog) Shard() ShardID { return l.shard }
func (l *opLog) Size() int      { return len(l.buf) }
func (l *opLog) Empty() bool    { return len(l.buf) == 0 }

func (l *opLog) Set(key, value []byte) error { return l.SetTwo(key, value, nil) }

func (l *opLog) SetTwo(key, head, tail []byte) error {
	l.foreign = l.foreign || !inShard(l.shard, key)
	l.buf = putBytes(append(l.buf, byte(opSet)), key)
	l.buf = putU64(l.buf, uint64(len(head)+len(tail)))
	l.buf = append(append(l.buf, head...), tail...)
	return nil
}

func (l *opLog) Delete(key []byte) error {
	l.foreign = l.foreign || !inShard(l.shard, key)
	l.buf = putBytes(append(l.buf, byte(opDelete)), key)
	return nil
}

func (l *opLog) DeleteRange(lower, upper []byte) error {
	if bytes.Compare(lower, upper) >= 0 {
		return nil
	}
	l.foreign = l.foreign || !rangeInShard(l.shard, lower, upper)
	l.buf = putBytes(putBytes(append(l.buf, byte(opDeleteRange)), lower), upper)
	return nil
}

func (l *opLog) Discard() { l.buf, l.foreign = nil, false }

func (l *opLog) eachOp(f func(op opKind, key, value []byte) error) error {
	return eachOp(l.buf, f)
}

// check says why the batch may not be committed.
func (l *opLog) check() error { return checkBatch(l.shard, l.foreign, len(l.buf)) }

func checkBatch(s ShardID, foreign bool, size int) error {
	switch {
	case foreign:
		return fmt.Errorf("%w: shard %d", ErrForeignKey, s)
	case size > MaxBatchBytes:
		return fmt.Errorf("%w: %d bytes of %d", ErrTooLarge, size, MaxBatchBytes)
	}
	return nil
}

// eachOp walks encoded ops; the slices alias ops.
func eachOp(ops []byte, f func(op opKind, key, value []byte) error) error {
	for len(ops) > 0 {
		op := opKind(ops[0])
		key, rest, ok := cutBytes(ops[1:])
		var value []byte
		switch {
		case !ok:
		case op == opSet || op == opDeleteRange:
			value, rest, ok = cutBytes(rest)
		case op != opDelete:
			ok = false
		}
		if !ok {
			return fmt.Errorf("%w: batch operation", ErrCorrupt)
		}
		if err := f(op, key, value); err != nil {
			return err
		}
		ops = rest
	}
	return nil
}

// cutBytes takes a length and that many bytes off the front.
func cutBytes(b []byte) (head, rest []byte, ok bool) {
	n, used := uvarint(b)
	if used == 0 || n > uint64(len(b)-used) {
		return nil, nil, false
	}
	return b[used : used+int(n)], b[used+int(n):], true
}

// EncodeBatch appends the batch as plain bytes; pos is the position that it makes.
// It reads batches of this package, not committed yet.
func EncodeBatch(dst []byte, pos Pos, b Batch) ([]byte, error) {
	start := len(dst)
	dst = appendShard(append(dst, batchVersion), b.Shard())
	dst = AppendPos(dst, pos)
	w, ok := b.(opWalker)
	if !ok {
		return nil, fmt.Errorf("storage: a %T cannot be read back", b)
	}
	err := w.eachOp(func(op opKind, key, value []byte) error {
		dst = putBytes(append(dst, byte(op)), key)
		if op != opDelete {
			dst = putBytes(dst, value)
		}
		return nil
	})
	return appendChecksum(dst, start), err
}

func appendChecksum(dst []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// DecodedBatch is an encoded batch taken apart; it aliases the encoding.
type DecodedBatch struct {
	Shard ShardID
	Pos   Pos // the position that applying it makes
	ops   []byte
}

// DecodeBatch reads what EncodeBatch wrote, and checks every operation. The error
// wraps ErrCorrupt, or ErrForeignKey.
func DecodeBatch(data []byte) (DecodedBatch, error) {
	if len(data) < batchHeaderLen+4 || data[0] != batchVersion {
		return DecodedBatch{}, fmt.Errorf("%w: batch header", ErrCorrupt)
	}
	body, sum := data[:len(data)-4], data[len(data)-4:]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(sum) {
		return DecodedBatch{}, fmt.Errorf("%w: batch checksum", ErrCorrupt)
	}
	pos, _ := ParsePos(body[3:batchHeaderLen])
	d := DecodedBatch{Shard: ShardID(binary.BigEndian.Uint16(body[1:])), Pos: pos, ops: body[batchHeaderLen:]}
	err := eachOp(d.ops, func(op opKind, key, value []byte) error {
		if op == opDeleteRange {
			if !rangeInShard(d.Shard, key, value) {
				return fmt.Errorf("%w: shard %d", ErrForeignKey, d.Shard)
			}
		} else if !inShard(d.Shard, key) {
			return fmt.Errorf("%w: shard %d", ErrForeignKey, d.Shard)
		}
		return nil
	})
	return d, err
}

// AddTo repeats the operations in a batch of the same shard.
func (d DecodedBatch) AddTo(b Batch) error {
	return eachOp(d.ops, func(op opKind, key, value []byte) error {
		switch op {
		case opSet:
			return b.Set(key, value)
		case opDelete:
			return b.Delete(key)
		default:
			return b.DeleteRange(key, value)
		}
	})
}

// ApplyBatch applies an encoded batch to the shard that w writes, at level written.
// It fails, with nothing written, unless the shard stands one batch before it.
func ApplyBatch(ctx context.Context, w Writer, data []byte) (Pos, error) {
	d, err := DecodeBatch(data)
	if err != nil {
		return Pos{}, err
	}
	at, err := w.Commit(ctx, w.Begin())
	if err != nil {
		return Pos{}, err
	}
	if at.Epoch != d.Pos.Epoch || at.Seq+1 != d.Pos.Seq {
		return at, fmt.Errorf("storage: batch %d.%d does not follow %d.%d", d.Pos.Epoch, d.Pos.Seq, at.Epoch, at.Seq)
	}
	b := w.Begin()
	if b.Shard() != d.Shard {
		return at, fmt.Errorf("%w: batch of shard %d", ErrForeignKey, d.Shard)
	}
	if err := d.AddTo(b); err != nil {
		b.Discard()
		return at, err
	}
	return w.Commit(ctx, b)
}
