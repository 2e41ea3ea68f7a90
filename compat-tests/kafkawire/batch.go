package kafkawire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Producer is the idempotent part of a batch header; the zero value of Batch's
// argument is NoProducer, not this type's zero value.
type Producer struct {
	ID       int64
	Epoch    int16
	Sequence int32 // of the first record
}

// NoProducer marks a batch that is not idempotent.
var NoProducer = Producer{ID: -1, Epoch: -1, Sequence: -1}

const (
	batchHeader  = 61 // bytes before the first record, magic 2
	batchCRCFrom = 21 // the checksum covers the attributes and all after them
)

// Batch encodes values as one uncompressed record batch (magic 2) with null keys,
// all with the given create time.
func Batch(values [][]byte, at time.Time, p Producer) []byte {
	ms := uint64(at.UnixMilli())
	b := make([]byte, batchHeader)
	be := binary.BigEndian
	be.PutUint32(b[12:], 0) // leader epoch
	b[16] = 2               // magic
	be.PutUint32(b[23:], uint32(len(values)-1))
	be.PutUint64(b[27:], ms)
	be.PutUint64(b[35:], ms)
	be.PutUint64(b[43:], uint64(p.ID))
	be.PutUint16(b[51:], uint16(p.Epoch))
	be.PutUint32(b[53:], uint32(p.Sequence))
	be.PutUint32(b[57:], uint32(len(values)))
	var rec []byte
	for i, v := range values {
		rec = append(rec[:0], 0)          // attributes
		rec = binary.AppendVarint(rec, 0) // time delta
		rec = binary.AppendVarint(rec, int64(i))
		rec = binary.AppendVarint(rec, -1) // null key
		rec = binary.AppendVarint(rec, int64(len(v)))
		rec = append(rec, v...)
		rec = binary.AppendVarint(rec, 0) // headers
		b = binary.AppendVarint(b, int64(len(rec)))
		b = append(b, rec...)
	}
	be.PutUint32(b[8:], uint32(len(b)-12))
	be.PutUint32(b[17:], crc32.Checksum(b[batchCRCFrom:], castagnoli))
	return b
}

// A Record is one record read back.
type Record struct {
	Offset int64
	Value  []byte // shares memory with what was decoded
	Producer
}

var errShortBatch = errors.New("a record batch ends early")

// Records decodes a record set of uncompressed batches, checking every checksum.
// A batch cut short at the end, as Fetch may return one, is left out.
func Records(set []byte) ([]Record, error) {
	var out []Record
	be := binary.BigEndian
	for len(set) >= 12 {
		size := int(be.Uint32(set[8:])) + 12
		if size > len(set) {
			break
		}
		if size < batchHeader || set[16] != 2 {
			return out, fmt.Errorf("a batch of %d bytes, magic %d", size, set[16])
		}
		b := set[:size]
		set = set[size:]
		if got, want := crc32.Checksum(b[batchCRCFrom:], castagnoli), be.Uint32(b[17:]); got != want {
			return out, fmt.Errorf("batch at offset %d: checksum %08x, header says %08x", be.Uint64(b), got, want)
		}
		if attributes := be.Uint16(b[21:]); attributes&7 != 0 {
			return out, fmt.Errorf("batch at offset %d is compressed", be.Uint64(b))
		} else if attributes&32 != 0 {
			continue // control batch
		}
		recs, err := batchRecords(b)
		out = append(out, recs...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// batchRecords decodes the records of one whole batch.
func batchRecords(b []byte) ([]Record, error) {
	be := binary.BigEndian
	base := int64(be.Uint64(b))
	p := Producer{ID: int64(be.Uint64(b[43:])), Epoch: int16(be.Uint16(b[51:])), Sequence: int32(be.Uint32(b[53:]))}
	count := int(be.Uint32(b[57:]))
	rest := b[batchHeader:]
	var out []Record
	bad := false
	varint := func(from *[]byte) int64 {
		v, n := binary.Varint(*from)
		if n <= 0 {
			bad = true
			return 0
		}
		*from = (*from)[n:]
		return v
	}
	take := func(from *[]byte, n int64) []byte {
		if n < 0 {
			return nil
		}
		if n > int64(len(*from)) {
			bad = true
			return nil
		}
		v := (*from)[:n]
		*from = (*from)[n:]
		return v
	}
	for range count {
		rec := take(&rest, varint(&rest))
		take(&rec, 1)
		varint(&rec)
		delta := varint(&rec)
		take(&rec, varint(&rec)) // key
		value := take(&rec, varint(&rec))
		if bad {
			return out, errShortBatch
		}
		r := Record{Offset: base + delta, Value: value, Producer: p}
		if p.Sequence >= 0 {
			r.Sequence += int32(delta)
		}
		out = append(out, r)
	}
	return out, nil
}
