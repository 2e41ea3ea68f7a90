package kafkaproto

import "encoding/binary"

// fetchEncoder writes a Fetch reply's body. kmsg would copy every record into one
// buffer; here the record bytes stay where the tail cache has them, and only what lies
// between them is written.
type fetchEncoder struct {
	version int16
	buf     []byte   // what was written since the last cut
	pieces  [][]byte // finished
}

// flexible versions have compact lengths and tags.
func (e *fetchEncoder) flexible() bool { return e.version >= 12 }

func (e *fetchEncoder) begin(errCode code, session int32) {
	e.buf = be32(make([]byte, 0, 256), 0) // throttle
	if e.version >= 7 {
		e.buf = be32(be16(e.buf, uint16(errCode)), uint32(session))
	}
}

func (e *fetchEncoder) arrayLen(n int) {
	if e.flexible() {
		e.buf = binary.AppendUvarint(e.buf, uint64(n)+1)
		return
	}
	e.buf = be32(e.buf, uint32(n))
}

func (e *fetchEncoder) tags() {
	if e.flexible() {
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) topic(name string, id [16]byte) {
	switch {
	case e.version >= 13:
		e.buf = append(e.buf, id[:]...)
	case e.flexible():
		e.buf = append(binary.AppendUvarint(e.buf, uint64(len(name))+1), name...)
	default:
		e.buf = append(be16(e.buf, uint16(len(name))), name...)
	}
}

// partition writes one partition; its record set is empty, never null (librdkafka drops
// the whole reply otherwise).
func (e *fetchEncoder) partition(p int32, f *found) {
	b := be32(e.buf, uint32(p))
	b = be16(b, uint16(f.code))
	b = be64(b, uint64(f.HighWater))
	b = be64(b, uint64(f.HighWater)) // last stable offset
	if e.version >= 5 {
		b = be64(b, uint64(f.Start))
	}
	e.buf = b
	e.arrayLen(0) // aborted transactions
	if e.version >= 11 {
		e.buf = be32(e.buf, 1<<32-1) // preferred read replica: none
	}
	if e.flexible() {
		e.buf = binary.AppendUvarint(e.buf, uint64(f.Size)+1)
	} else {
		e.buf = be32(e.buf, uint32(f.Size))
	}
	if f.Size > 0 {
		e.pieces = append(append(e.pieces, e.buf), f.Records...)
		e.buf = make([]byte, 0, 128)
	}
	e.tags()
}

func (e *fetchEncoder) finish() [][]byte {
	if len(e.buf) > 0 {
		e.pieces = append(e.pieces, e.buf)
	}
	return e.pieces
}
