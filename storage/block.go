package storage

// Blocks: several entries under one key.
//
//	value   = header payload
//	header  = kind:1 count-1 firstMs firstSeq last stride? minTime maxTime     (varints)
//	payload = Batched: one Kafka record batch, untouched
//	          Entries: entry*
//	entry   = size  deltaMs seq pairs (len bytes)*2pairs                       (varints)
//
// An entry begins with the size of all that follows, so that a walk to an offset or
// an ID steps over fields without reading them; seq is a difference when deltaMs is
// zero, the whole seq otherwise. Why no table of entry positions behind the
// payload, for a binary search? Blocks hold about 100 entries or 4 KiB, one pass
// over which is shorter than the cache misses that fetched it, and a table would
// have to be rewritten while a block is being filled.

import (
	"fmt"
	"math/bits"
)

// maxBlockSpan bounds the entries that a block's header may claim. Nothing is
// allocated by that number; it keeps offsets and IDs from overflowing.
const maxBlockSpan = 1 << 31

// AppendHeader writes the block's header: about 13 bytes for a block of one entry.
// The value of the block's row is header||Payload (Batch.SetTwo). The block must
// satisfy what ParseBlock asks: Base <= Last, FirstID <= LastID; for Batched,
// LastID = FirstID + Stride*(Last-Base).
func (b *Block) AppendHeader(dst []byte) []byte {
	dst = append(dst, byte(b.Kind))
	dst = putU64(dst, uint64(b.Last-b.Base))
	dst = putID(dst, b.FirstID)
	switch {
	case b.Kind == Batched:
		dst = putU64(dst, uint64(b.Stride))
	case b.LastID.MS == b.FirstID.MS:
		dst = putU64(putU64(dst, 0), b.LastID.Seq-b.FirstID.Seq)
	default:
		dst = putU64(putU64(dst, b.LastID.MS-b.FirstID.MS), b.LastID.Seq)
	}
	// Differences wrap: any two int64 survive the round trip.
	dst = putI64(dst, int64(b.FirstID.MS-uint64(b.MinTime)))
	return putU64(dst, uint64(b.MaxTime)-uint64(b.MinTime))
}

// ParseBlock reads the value of the block row at base. Payload aliases value; it is
// not walked (Entries reports damage inside it). The error wraps ErrCorrupt.
func ParseBlock(base int64, value []byte) (Block, error) {
	if len(value) == 0 || value[0] != byte(Entries) && value[0] != byte(Batched) {
		return Block{}, badBlock(base)
	}
	r := rowReader{rest: value[1:]}
	b := Block{Kind: BlockKind(value[0]), Base: base}
	span := r.u64()
	if base < 0 || span >= maxBlockSpan || base > base+int64(span) {
		return Block{}, badBlock(base)
	}
	b.Last, b.FirstID = base+int64(span), r.id()
	if b.Kind == Batched {
		b.Stride = r.u32()
		hi, width := bits.Mul64(uint64(b.Stride), span)
		seq, carry := bits.Add64(b.FirstID.Seq, width, 0)
		b.LastID = ID{MS: b.FirstID.MS, Seq: seq}
		r.bad = r.bad || hi != 0 || carry != 0 || b.Stride == 0
	} else {
		ms, seq := r.u64(), r.u64()
		var carry uint64
		if ms == 0 {
			seq, carry = bits.Add64(b.FirstID.Seq, seq, 0)
		}
		r.bad = r.bad || carry != 0
		ms, carry = bits.Add64(b.FirstID.MS, ms, 0)
		r.bad = r.bad || carry != 0
		b.LastID = ID{MS: ms, Seq: seq}
		r.bad = r.bad || (span == 0) != (b.LastID == b.FirstID)
	}
	b.MinTime = int64(b.FirstID.MS - uint64(r.i64()))
	b.MaxTime = int64(uint64(b.MinTime) + r.u64())
	if r.bad || b.MaxTime < b.MinTime || len(r.rest) == 0 {
		return Block{}, badBlock(base)
	}
	b.Payload = r.rest
	return b, nil
}

func badBlock(base int64) error {
	return fmt.Errorf("%w: block at offset %d", ErrCorrupt, base)
}

// Count is the number of offsets that the block covers, deleted entries included.
func (b *Block) Count() int { return int(b.Last-b.Base) + 1 }

// AppendEntry appends one entry to the payload of an Entries block. prev is the ID
// of the entry before it; first marks the block's first entry, whose ID is the
// block's FirstID (prev is not looked at). fields alternate name and value.
func AppendEntry(dst []byte, prev ID, first bool, id ID, fields [][]byte) []byte {
	pairs := uint64(len(fields) / 2)
	size := 0
	for _, f := range fields {
		size += uvarintLen(uint64(len(f))) + len(f)
	}
	dst = appendEntryHead(dst, prev, first, id, pairs, size)
	for _, f := range fields {
		dst = append(putU64(dst, uint64(len(f))), f...)
	}
	return dst
}

// AppendRawEntry is AppendEntry for fields that are encoded already: raw is what
// EntryIter.Raw returned, pairs what Pairs did.
func AppendRawEntry(dst []byte, prev ID, first bool, id ID, pairs int, raw []byte) []byte {
	return append(appendEntryHead(dst, prev, first, id, uint64(pairs), len(raw)), raw...)
}

func appendEntryHead(dst []byte, prev ID, first bool, id ID, pairs uint64, size int) []byte {
	var ms, seq uint64
	switch {
	case first:
	case id.MS == prev.MS:
		seq = id.Seq - prev.Seq
	default:
		ms, seq = id.MS-prev.MS, id.Seq
	}
	dst = putU64(dst, uint64(size+uvarintLen(ms)+uvarintLen(seq)+uvarintLen(pairs)))
	return putU64(putU64(putU64(dst, ms), seq), pairs)
}

// EntryIter walks the entries of an Entries block in order, without allocating.
// It begins before the first entry. Slices it returns alias the block's payload.
type EntryIter struct {
	rest   []byte // entries not reached yet
	fields []byte // fields of this entry not read yet
	raw    []byte // all fields of this entry
	id     ID
	offset int64
	base   int64
	last   int64
	pairs  int
	left   int // fields of this entry not read yet
	bad    bool
}

// Entries returns an iterator over the block's entries; for a Batched block it is
// at its end with an error.
func (b *Block) Entries() EntryIter {
	return EntryIter{
		rest: b.Payload, id: b.FirstID, offset: b.Base - 1, base: b.Base, last: b.Last,
		bad: b.Kind != Entries,
	}
}

// Next moves to the next entry; false at the end and at damage (Err tells).
func (it *EntryIter) Next() bool {
	if it.bad || len(it.rest) == 0 {
		// A block that holds fewer entries than its header says is damaged.
		it.bad = it.bad || it.offset != it.last
		return false
	}
	size, n := uvarint(it.rest)
	if n == 0 || size > uint64(len(it.rest)-n) || it.offset == it.last {
		it.bad = true
		return false
	}
	body := it.rest[n : n+int(size)]
	it.rest = it.rest[n+int(size):]
	ms, n1 := uvarint(body)
	seq, n2 := uvarint(body[n1:])
	pairs, n3 := uvarint(body[n1+n2:])
	it.raw = body[n1+n2+n3:]
	if n1 == 0 || n2 == 0 || n3 == 0 || pairs > uint64(len(it.raw))/2 || !it.advance(ms, seq) {
		it.bad = true
		return false
	}
	it.fields, it.pairs, it.left = it.raw, int(pairs), 2*int(pairs)
	it.offset++
	return true
}

// advance moves the ID by one entry's difference; false unless it grows. The first
// entry's difference, from FirstID, is zero.
func (it *EntryIter) advance(ms, seq uint64) bool {
	if it.offset < it.base {
		return ms == 0 && seq == 0
	}
	var carry uint64
	if ms != 0 {
		it.id.MS, carry = bits.Add64(it.id.MS, ms, 0)
		it.id.Seq = seq
		return carry == 0
	}
	it.id.Seq, carry = bits.Add64(it.id.Seq, seq, 0)
	return carry == 0 && seq != 0
}

// ID is the entry's ID.
func (it *EntryIter) ID() ID { return it.id }

// Offset is the entry's offset.
func (it *EntryIter) Offset() int64 { return it.offset }

// Pairs is the number of field-value pairs.
func (it *EntryIter) Pairs() int { return it.pairs }

// Raw is the encoded fields, for AppendRawEntry.
func (it *EntryIter) Raw() []byte { return it.raw }

// Field returns the entry's next field: name, value, name, value, 2*Pairs of them,
// then nil. A field of no bytes is empty, not nil. At damage it returns nil early
// and Err tells.
func (it *EntryIter) Field() []byte {
	if it.left == 0 {
		return nil
	}
	n, used := uvarint(it.fields)
	if used == 0 || n > uint64(len(it.fields)-used) {
		it.bad, it.left = true, 0
		return nil
	}
	f := it.fields[used : used+int(n) : used+int(n)]
	it.fields = it.fields[used+int(n):]
	it.left--
	if it.left == 0 && len(it.fields) != 0 {
		it.bad = true // bytes behind the last field
	}
	return f
}

// Err is what ended the walk: nil at a plain end, else it wraps ErrCorrupt.
func (it *EntryIter) Err() error {
	if it.bad {
		return fmt.Errorf("%w: entry at offset %d of the block at offset %d", ErrCorrupt, it.offset, it.base)
	}
	return nil
}

// IDAt returns the ID of the entry at an offset of the block, deleted or not; false
// when the block does not cover the offset (or is damaged before it).
func (b *Block) IDAt(offset int64) (ID, bool) {
	switch {
	case offset < b.Base || offset > b.Last:
		return ID{}, false
	case b.Kind == Batched:
		return ID{MS: b.FirstID.MS, Seq: b.FirstID.Seq + uint64(offset-b.Base)*uint64(b.Stride)}, true
	case offset == b.Base:
		return b.FirstID, true
	case offset == b.Last:
		return b.LastID, true
	}
	it := b.Entries()
	for it.Next() {
		if it.offset == offset {
			return it.id, true
		}
	}
	return ID{}, false
}

// Find returns the smallest offset whose ID is id or above, deleted or not, and
// whether it is id exactly. When every ID of the block is below, it returns Last+1.
func (b *Block) Find(id ID) (offset int64, exact bool) {
	switch {
	case id.Compare(b.FirstID) <= 0:
		return b.Base, id == b.FirstID
	case b.LastID.Less(id):
		return b.Last + 1, false
	case id == b.LastID:
		return b.Last, true
	case b.Kind == Batched:
		// Between FirstID and LastID, so of the same ms and without overflow.
		d, stride := id.Seq-b.FirstID.Seq, uint64(b.Stride)
		return b.Base + int64((d+stride-1)/stride), d%stride == 0
	}
	it := b.Entries()
	for it.Next() {
		if !it.id.Less(id) {
			return it.offset, it.id == id
		}
	}
	return b.Last, false
}

// Get reports whether the entry at offset Base+i is deleted.
func (m Marks) Get(i int) bool {
	return i >= 0 && i>>3 < len(m) && m[i>>3]&(1<<(i&7)) != 0
}

// Set marks the entry at offset Base+i and returns the marks, grown where needed;
// the receiver's bytes may be written in place, so the caller must own them.
func (m Marks) Set(i int) Marks {
	for i>>3 >= len(m) {
		m = append(m, 0)
	}
	m[i>>3] |= 1 << (i & 7)
	return m
}

// Count is the number of deleted entries.
func (m Marks) Count() int {
	n := 0
	for _, b := range m {
		n += bits.OnesCount8(b)
	}
	return n
}
