package storage

// Builders and parsers of the rows in rows.go. Each value begins with a version
// byte (1), then varints in the order written here; FORMAT.md draws them. (Rows of one
// fixed number, the position, the next stream and the indexes, have no version.) A parser
// refuses what it does not know, bytes left over included, and never allocates
// more than the value is long.

import (
	"encoding/binary"
	"fmt"
)

const rowVersion = 1

// rowReader walks a value. After the first damage every read gives zero and bad stays set.
type rowReader struct {
	rest []byte
	bad  bool
}

func openRow(value []byte) rowReader {
	if len(value) == 0 || value[0] != rowVersion {
		return rowReader{bad: true}
	}
	return rowReader{rest: value[1:]}
}

// uvarint reads one unsigned varint: n is the bytes used, 0 when damaged. The one
// byte case is inlined at the callers that matter.
func uvarint(b []byte) (v uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	v, n = binary.Uvarint(b)
	if n < 0 {
		n = 0
	}
	return v, n
}

func uvarintLen(v uint64) int {
	n := 1
	for v >= 0x80 {
		v >>= 7
		n++
	}
	return n
}

func (r *rowReader) u64() uint64 {
	v, n := uvarint(r.rest)
	if n == 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// i64 reads a zigzag varint.
func (r *rowReader) i64() int64 {
	u := r.u64()
	return int64(u>>1) ^ -int64(u&1)
}

func (r *rowReader) u32() uint32 {
	v := r.u64()
	if v > uint64(^uint32(0)) {
		r.bad = true
	}
	return uint32(v)
}

func (r *rowReader) i32() int32 {
	v := r.i64()
	if v != int64(int32(v)) {
		r.bad = true
	}
	return int32(v)
}

func (r *rowReader) flag() bool {
	v := r.u64()
	if v > 1 {
		r.bad = true
	}
	return v == 1
}

func (r *rowReader) id() ID { return ID{MS: r.u64(), Seq: r.u64()} }

// bytes reads a length and that many bytes, copied; nil when there are none.
func (r *rowReader) bytes() []byte {
	n := r.u64()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	if n == 0 {
		return nil
	}
	b := append([]byte(nil), r.rest[:n]...)
	r.rest = r.rest[n:]
	return b
}

func (r *rowReader) end(what string) error {
	if r.bad || len(r.rest) != 0 {
		return fmt.Errorf("%w: %s row", ErrCorrupt, what)
	}
	return nil
}

func putI64(dst []byte, v int64) []byte  { return binary.AppendVarint(dst, v) }
func putU64(dst []byte, v uint64) []byte { return binary.AppendUvarint(dst, v) }
func putID(dst []byte, id ID) []byte     { return putU64(putU64(dst, id.MS), id.Seq) }
func putBytes(dst, b []byte) []byte      { return append(putU64(dst, uint64(len(b))), b...) }
func putFlag(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// Append writes the row's value.
func (r *StreamRow) Append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = putBytes(dst, r.Key)
	dst = putI64(dst, r.Start)
	dst = putI64(dst, r.Swept)
	dst = putI64(dst, r.Next)
	dst = putID(dst, r.LastID)
	dst = putI64(dst, r.Length)
	dst = putI64(dst, r.AddedBias)
	dst = putID(dst, r.MaxDeleted)
	dst = putI64(dst, r.MaxTime)
	dst = putI64(dst, r.MaxTimeBase)
	dst = putI64(dst, r.IDRowBase)
	dst = putI64(dst, r.TimeRowBase)
	dst = putI64(dst, r.Head)
	dst = putI64(dst, r.Bytes)
	dst = putU64(dst, uint64(r.Residue))
	dst = putU64(dst, uint64(r.Modulus))
	dst = putU64(dst, uint64(r.NextGroup))
	dst = putI64(dst, int64(r.LeaderEpoch))
	dst = putI64(dst, r.MarkedBlocks)
	return putI64(dst, r.Ghosts)
}

// ParseStreamRow reads a StreamRow; nothing aliases value. The error wraps ErrCorrupt.
func ParseStreamRow(value []byte) (StreamRow, error) {
	r := openRow(value)
	row := StreamRow{
		Key: r.bytes(), Start: r.i64(), Swept: r.i64(), Next: r.i64(),
		LastID: r.id(), Length: r.i64(), AddedBias: r.i64(), MaxDeleted: r.id(),
		MaxTime: r.i64(), MaxTimeBase: r.i64(),
		IDRowBase: r.i64(), TimeRowBase: r.i64(), Head: r.i64(), Bytes: r.i64(),
		Residue: r.u32(), Modulus: r.u32(),
		NextGroup: r.u32(), LeaderEpoch: r.i32(), MarkedBlocks: r.i64(), Ghosts: r.i64(),
	}
	return row, r.end("stream")
}

// Append writes the row's value.
func (r *GroupRow) Append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = putU64(dst, uint64(r.Number))
	dst = putI64(dst, r.LastOffset)
	dst = putID(dst, r.LastID)
	dst = putI64(dst, r.EntriesRead)
	dst = putFlag(dst, r.Committed)
	dst = putFlag(dst, r.CommitFresh)
	dst = putI64(dst, r.CommitOffset)
	dst = putI64(dst, int64(r.CommitEpoch))
	dst = putBytes(dst, r.CommitMetadata)
	dst = putI64(dst, r.CommitTime)
	return putU64(dst, uint64(r.NextConsumer))
}

// ParseGroupRow reads a GroupRow; nothing aliases value. The error wraps ErrCorrupt.
func ParseGroupRow(value []byte) (GroupRow, error) {
	r := openRow(value)
	row := GroupRow{
		Number: r.u32(), LastOffset: r.i64(), LastID: r.id(), EntriesRead: r.i64(),
		Committed: r.flag(), CommitFresh: r.flag(), CommitOffset: r.i64(), CommitEpoch: r.i32(),
		CommitMetadata: r.bytes(), CommitTime: r.i64(), NextConsumer: r.u32(),
	}
	return row, r.end("group")
}

// Append writes the row's value.
func (r *ConsumerRow) Append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = putU64(dst, uint64(r.Number))
	dst = append(dst, byte(r.Kind))
	dst = putI64(dst, r.Seen)
	return putI64(dst, r.Active)
}

// ParseConsumerRow reads a ConsumerRow. The error wraps ErrCorrupt.
func ParseConsumerRow(value []byte) (ConsumerRow, error) {
	r := openRow(value)
	row := ConsumerRow{Number: r.u32()}
	kind := r.u64()
	r.bad = r.bad || kind > uint64(ShareMember)
	row.Kind, row.Seen, row.Active = ConsumerKind(kind), r.i64(), r.i64()
	return row, r.end("consumer")
}

// Append writes the row's value.
func (r *PendingRow) Append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = putI64(dst, r.Last)
	dst = putU64(dst, uint64(r.Owner))
	dst = putI64(dst, r.Time)
	dst = putU64(dst, r.Count)
	return putFlag(dst, r.Claimed)
}

// ParsePendingRow reads a PendingRow. The error wraps ErrCorrupt.
func ParsePendingRow(value []byte) (PendingRow, error) {
	r := openRow(value)
	row := PendingRow{Last: r.i64(), Owner: r.u32(), Time: r.i64(), Count: r.u64(), Claimed: r.flag()}
	return row, r.end("pending")
}

// Append writes the row's value.
func (r *ProducerRow) Append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = putI64(dst, int64(r.Epoch))
	dst = putI64(dst, r.Touched)
	dst = putU64(dst, uint64(len(r.Batches)))
	for i := range r.Batches {
		b := &r.Batches[i]
		dst = putI64(dst, int64(b.FirstSeq))
		dst = putI64(dst, int64(b.LastSeq))
		dst = putI64(dst, b.Base)
		dst = putI64(dst, b.Time)
	}
	return dst
}

// maxProducerBatches bounds ProducerRow.Batches when read; writers keep 5.
const maxProducerBatches = 64

// ParseProducerRow reads a ProducerRow. The error wraps ErrCorrupt.
func ParseProducerRow(value []byte) (ProducerRow, error) {
	r := openRow(value)
	var row ProducerRow
	epoch := r.i64()
	r.bad = r.bad || epoch != int64(int16(epoch))
	row.Epoch, row.Touched = int16(epoch), r.i64()
	n := r.u64()
	if n > maxProducerBatches || n*4 > uint64(len(r.rest)) {
		r.bad = true
	}
	for ; n > 0 && !r.bad; n-- {
		row.Batches = append(row.Batches, ProducerBatch{
			FirstSeq: r.i32(), LastSeq: r.i32(), Base: r.i64(), Time: r.i64(),
		})
	}
	return row, r.end("producer")
}

// Append writes the row's value.
func (r *GhostRow) Append(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = putI64(dst, r.Last)
	dst = putU64(dst, uint64(len(r.Runs)))
	for i := range r.Runs {
		run := &r.Runs[i]
		dst = putI64(dst, run.Offset)
		dst = putID(dst, run.First)
		dst = putU64(dst, uint64(run.Stride))
		dst = putU64(dst, uint64(run.Count))
	}
	return dst
}

// ParseGhostRow reads a GhostRow. The error wraps ErrCorrupt.
func ParseGhostRow(value []byte) (GhostRow, error) {
	r := openRow(value)
	row := GhostRow{Last: r.i64()}
	n := r.u64()
	// A run takes five bytes at least: a lying count is refused before it costs memory.
	if n > uint64(len(r.rest))/5 {
		r.bad = true
	}
	if n > 0 && !r.bad {
		row.Runs = make([]IDRun, 0, n)
	}
	for ; n > 0 && !r.bad; n-- {
		row.Runs = append(row.Runs, IDRun{Offset: r.i64(), First: r.id(), Stride: r.u32(), Count: r.u32()})
	}
	return row, r.end("ghost")
}

// AppendOffset writes the value of an index row: a base offset, 8 bytes, ordered.
func AppendOffset(dst []byte, base int64) []byte { return appendOrdered(dst, base) }

// ParseOffset reads the value of an index row. The error wraps ErrCorrupt.
func ParseOffset(value []byte) (int64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: index row of %d bytes", ErrCorrupt, len(value))
	}
	return unordered(binary.BigEndian.Uint64(value)), nil
}

// AppendPos writes the value of a position row: epoch:8 seq:8.
func AppendPos(dst []byte, p Pos) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Epoch))
	return binary.BigEndian.AppendUint64(dst, p.Seq)
}

// ParsePos reads the value of a position row. The error wraps ErrCorrupt.
func ParsePos(value []byte) (Pos, error) {
	if len(value) != 16 {
		return Pos{}, fmt.Errorf("%w: position row of %d bytes", ErrCorrupt, len(value))
	}
	return Pos{Epoch: Epoch(binary.BigEndian.Uint64(value)), Seq: binary.BigEndian.Uint64(value[8:])}, nil
}

// AppendNextStream writes the value of the row that numbers a shard's next stream: the
// number without the shard's bits, 8 bytes, big-endian.
func AppendNextStream(dst []byte, next uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, next)
}

// ParseNextStream reads that row. The error wraps ErrCorrupt.
func ParseNextStream(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: next stream row of %d bytes", ErrCorrupt, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
