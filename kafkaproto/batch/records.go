package batch

import (
	"encoding/binary"
	"fmt"
)

// walker steps over the records of a decompressed batch.
type walker struct {
	rest []byte
	body []byte // of the current record, what is not read yet
	raw  []byte // the current record with its length
	bad  bool

	timeDelta   int64
	offsetDelta int64
	key, value  []byte // nil: null
	headers     int64  // headers of the current record not read yet
}

// varint reads one zigzag varint from the current record.
func (w *walker) varint() int64 {
	if len(w.body) > 0 && w.body[0] < 0x80 {
		u := w.body[0]
		w.body = w.body[1:]
		return int64(u>>1) ^ -int64(u&1)
	}
	v, n := binary.Varint(w.body)
	if n <= 0 {
		w.bad, w.body = true, nil
		return 0
	}
	w.body = w.body[n:]
	return v
}

// bytes reads a length and that many bytes; nil for a length of -1.
func (w *walker) bytes() []byte {
	n := w.varint()
	if n < -1 || n > int64(len(w.body)) {
		w.bad, w.body = true, nil
		return nil
	}
	if n < 0 {
		return nil
	}
	b := w.body[:n:n]
	w.body = w.body[n:]
	return b
}

// skip steps over the next record without looking inside; false at the end and at damage.
func (w *walker) skip() bool {
	if len(w.rest) == 0 {
		return false
	}
	size, n := binary.Varint(w.rest)
	if n <= 0 || size < 0 || size > int64(len(w.rest)-n) {
		w.bad = true
		return false
	}
	w.rest = w.rest[n+int(size):]
	return true
}

// next moves to the next record; false at the end and at damage.
func (w *walker) next() bool {
	if w.bad || len(w.rest) == 0 {
		return false
	}
	size, n := binary.Varint(w.rest)
	if n <= 0 || size < 0 || size > int64(len(w.rest)-n) {
		w.bad = true
		return false
	}
	w.raw = w.rest[:n+int(size)]
	w.body = w.raw[n:]
	w.rest = w.rest[n+int(size):]
	if len(w.body) == 0 {
		w.bad = true
		return false
	}
	w.body = w.body[1:] // attributes, unused
	w.timeDelta = w.varint()
	w.offsetDelta = w.varint()
	w.key, w.value = w.bytes(), w.bytes()
	w.headers = w.varint()
	w.bad = w.bad || w.headers < 0 || w.headers > int64(len(w.body))
	return !w.bad
}

// header reads the record's next header; false after the last and at damage.
func (w *walker) header() (name, value []byte, ok bool) {
	if w.bad || w.headers == 0 {
		return nil, nil, false
	}
	w.headers--
	if name = w.bytes(); name == nil {
		w.bad = true
	}
	value = w.bytes()
	return name, value, !w.bad
}

// finish steps over what was not read of the record; false when it is damaged.
func (w *walker) finish() bool {
	for w.headers > 0 {
		if _, _, ok := w.header(); !ok {
			return false
		}
	}
	w.bad = w.bad || len(w.body) != 0
	return !w.bad
}

func damaged(i int) error { return fmt.Errorf("%w: record %d is damaged", ErrInvalid, i) }

// putBytes appends a length and bytes; null when b is nil.
func putBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}

// bytesLen is the length of what putBytes appends.
func bytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
