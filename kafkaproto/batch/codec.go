package batch

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/bridge"
)

// Codec is bridge's reader and writer of batches.
type Codec struct{}

var _ bridge.Codec = Codec{}

// Decode calls fn for each record of a stored batch from one on; see bridge.Codec. Control
// batches have no records.
func (Codec) Decode(data []byte, from int, fn func(i int, r *bridge.Record) bool) error {
	h, err := Parse(data)
	if err != nil {
		return err
	}
	if h.Control {
		return nil
	}
	records := data[headerLen:]
	if h.Codec != None {
		if records, err = recent.inflate(h.Codec, data); err != nil {
			return err
		}
	}
	var r bridge.Record
	w := walker{rest: records}
	i := 0
	for ; i < from && w.skip(); i++ {
	}
	for ; w.next(); i++ {
		r.Offset = h.BaseOffset + w.offsetDelta
		r.Timestamp = h.BaseTime + w.timeDelta
		if h.LogAppendTime {
			r.Timestamp = h.MaxTime
		}
		r.Key, r.Value, r.Headers = w.key, w.value, r.Headers[:0]
		for name, value, ok := w.header(); ok; name, value, ok = w.header() {
			r.Headers = append(r.Headers, bridge.Header{Name: string(name), Value: value})
		}
		if !w.finish() {
			return damaged(i)
		}
		if !fn(i, &r) {
			return nil
		}
	}
	if w.bad {
		return damaged(i)
	}
	return nil
}

// Encode writes one uncompressed batch; see bridge.Codec.
func (Codec) Encode(dst []byte, base, last int64, leaderEpoch int32, records []bridge.Record) ([]byte, error) {
	if last < base || last-base > math.MaxInt32 {
		return nil, fmt.Errorf("%w: offsets %d to %d", ErrInvalid, base, last)
	}
	var first, newest int64 = -1, -1
	for i := range records {
		if i == 0 {
			first, newest = records[0].Timestamp, records[0].Timestamp
		}
		newest = max(newest, records[i].Timestamp)
	}
	at := len(dst)
	dst = append(dst, make([]byte, headerLen)...)
	for i := range records {
		r := &records[i]
		if r.Offset < base || r.Offset > last {
			return nil, fmt.Errorf("%w: record at offset %d in a batch of %d to %d", ErrInvalid, r.Offset, base, last)
		}
		dst = appendRecord(dst, r, r.Timestamp-first, r.Offset-base)
	}
	if len(dst)-at > math.MaxInt32 {
		return nil, fmt.Errorf("%w: more than 2 GiB", ErrInvalid)
	}
	head := dst[at:]
	be := binary.BigEndian
	be.PutUint64(head, uint64(base))
	be.PutUint32(head[atEpoch:], uint32(leaderEpoch))
	head[atMagic] = 2
	be.PutUint32(head[atLastDelta:], uint32(last-base))
	be.PutUint64(head[atBaseTime:], uint64(first))
	be.PutUint64(head[atMaxTime:], uint64(newest))
	be.PutUint64(head[atProducer:], math.MaxUint64)
	be.PutUint16(head[atPEpoch:], math.MaxUint16)
	be.PutUint32(head[atSequence:], math.MaxUint32)
	be.PutUint32(head[atCount:], uint32(len(records)))
	sealCRC(head)
	return dst, nil
}

func appendRecord(dst []byte, r *bridge.Record, timeDelta, offsetDelta int64) []byte {
	size := 1 + varintLen(timeDelta) + varintLen(offsetDelta) + bytesLen(r.Key) + bytesLen(r.Value) + varintLen(int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		size += varintLen(int64(len(h.Name))) + len(h.Name) + bytesLen(h.Value)
	}
	dst = append(binary.AppendVarint(dst, int64(size)), 0)
	dst = binary.AppendVarint(binary.AppendVarint(dst, timeDelta), offsetDelta)
	dst = putBytes(putBytes(dst, r.Key), r.Value)
	dst = binary.AppendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		dst = append(binary.AppendVarint(dst, int64(len(h.Name))), h.Name...)
		dst = putBytes(dst, h.Value)
	}
	return dst
}

// Rewrite returns the batch without the records that keep refuses; see bridge.Codec. The
// records that stay are copied as they are: base timestamp and base offset do not change, so their deltas hold.
func (Codec) Rewrite(data []byte, keep func(offset int64) bool) ([]byte, error) {
	h, err := Parse(data)
	if err != nil {
		return nil, err
	}
	records, err := inflate(h.Codec, data[headerLen:])
	if err != nil {
		return nil, err
	}
	defer records.free()
	kept := make([]byte, 0, len(records.bytes))
	count := uint32(0)
	w := walker{rest: records.bytes}
	for w.next() {
		if keep(h.BaseOffset + w.offsetDelta) {
			kept = append(kept, w.raw...)
			count++
		}
	}
	if w.bad {
		return nil, fmt.Errorf("%w: records are damaged", ErrInvalid)
	}
	out := append(make([]byte, 0, headerLen+len(kept)), data[:headerLen]...)
	if count == 0 {
		out[atAttrs+1] &^= codecBits // nothing is compressed
	} else if out, err = deflate(h.Codec, out, kept); err != nil {
		return nil, fmt.Errorf("batch: rewrite: %w", err)
	}
	binary.BigEndian.PutUint32(out[atCount:], count)
	sealCRC(out)
	return out, nil
}
