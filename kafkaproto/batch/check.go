package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Rules are what a topic asks of the batches that are produced to it.
type Rules struct {
	KeysRequired bool  // compacted topic: no null keys
	MinTime      int64 // smallest and largest record timestamp taken, ms; both 0: any
	MaxTime      int64
}

// Checked is a batch that may be stored.
type Checked struct {
	Header
	// MinTime and MaxTime are the records' smallest and largest timestamps, ms.
	MinTime, MaxTime int64
}

// BadRecords refuses a batch for some of its records.
type BadRecords struct {
	Kind    error   // ErrInvalid or ErrTimestamp
	Reason  string  // the same for all
	Indexes []int32 // at most mostBad
}

const mostBad = 100

// Error is the reason and how many records it concerns.
func (b *BadRecords) Error() string {
	return fmt.Sprintf("%s (%d records)", b.Reason, len(b.Indexes))
}

// Unwrap gives the kind.
func (b *BadRecords) Unwrap() error { return b.Kind }

// Check validates a batch that a client produced: sizes, CRC, attributes, count against
// offsets, and every record inside, decompressed where it must be. Where the header's
// max timestamp is not that of the records it is set right in data, as Kafka does.
// Errors wrap this package's sentinels, or are *BadRecords.
func Check(data []byte, rules Rules) (Checked, error) {
	h, err := Parse(data)
	if err != nil {
		return Checked{}, err
	}
	if crc32.Checksum(data[atAttrs:], castagnoli) != binary.BigEndian.Uint32(data[atCRC:]) {
		return Checked{}, fmt.Errorf("%w: its CRC is wrong", ErrCorrupt)
	}
	switch {
	case h.Control:
		return Checked{}, fmt.Errorf("%w: clients may not write control records", ErrInvalid)
	case h.BaseOffset != 0:
		return Checked{}, fmt.Errorf("%w: its base offset is %d instead of 0", ErrInvalid, h.BaseOffset)
	case h.LastDelta < 0 || h.Count != h.LastDelta+1:
		return Checked{}, fmt.Errorf("%w: %d records, last offset delta %d", ErrInvalid, h.Count, h.LastDelta)
	case h.ProducerID >= 0 && (h.BaseSequence < 0 || h.ProducerEpoch < 0):
		return Checked{}, fmt.Errorf("%w: producer epoch %d, sequence %d", ErrInvalid, h.ProducerEpoch, h.BaseSequence)
	}
	records, err := inflate(h.Codec, data[headerLen:])
	if err != nil {
		return Checked{}, err
	}
	defer records.free()
	return check(data, h, records.bytes, rules)
}

// check walks the records.
func check(data []byte, h Header, records []byte, rules Rules) (Checked, error) {
	out := Checked{Header: h, MinTime: math.MaxInt64, MaxTime: math.MinInt64}
	var keyless, untimely []int32
	timed := rules.MinTime != 0 || rules.MaxTime != 0
	w := walker{rest: records}
	n := 0
	for ; n < int(h.Count) && w.next(); n++ {
		if !w.finish() {
			return out, damaged(n)
		}
		if w.offsetDelta != int64(n) {
			return out, fmt.Errorf("%w: record %d has offset delta %d", ErrInvalid, n, w.offsetDelta)
		}
		at := h.BaseTime + w.timeDelta
		out.MinTime, out.MaxTime = min(out.MinTime, at), max(out.MaxTime, at)
		if rules.KeysRequired && w.key == nil && len(keyless) < mostBad {
			keyless = append(keyless, int32(n))
		}
		if timed && at != -1 && (at < rules.MinTime || at > rules.MaxTime) && len(untimely) < mostBad {
			untimely = append(untimely, int32(n))
		}
	}
	switch {
	case w.bad:
		return out, damaged(n)
	case n < int(h.Count) || len(w.rest) > 0:
		return out, fmt.Errorf("%w: %d records are claimed, not that many are there", ErrInvalid, h.Count)
	case keyless != nil:
		return out, &BadRecords{ErrInvalid, "a compacted topic takes no record without a key", keyless}
	case untimely != nil:
		return out, &BadRecords{ErrTimestamp, "a record's timestamp is out of the bounds of message.timestamp.before.max.ms and after.max.ms", untimely}
	}
	if h.MaxTime != out.MaxTime {
		binary.BigEndian.PutUint64(data[atMaxTime:], uint64(out.MaxTime))
		sealCRC(data)
		out.Header.MaxTime = out.MaxTime
	}
	return out, nil
}
