package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Where a batch's fields lie, in bytes.
const (
	atLength    = 8
	atEpoch     = 12
	atMagic     = 16
	atCRC       = 17
	atAttrs     = 21
	atLastDelta = 23
	atBaseTime  = 27
	atMaxTime   = 35
	atProducer  = 43
	atPEpoch    = 51
	atSequence  = 53
	atCount     = 57
	headerLen   = 61
	lengthPart  = 12 // base offset and length, which length does not count
)

// Bits of the attributes.
const (
	codecBits        = 0x07
	bitLogAppendTime = 0x08
	bitTransactional = 0x10
	bitControl       = 0x20
)

// Errors of a batch. Kafka's codes: CORRUPT_MESSAGE, INVALID_RECORD,
// UNSUPPORTED_COMPRESSION_TYPE, INVALID_TIMESTAMP.
var (
	ErrCorrupt   = errors.New("batch: corrupt")
	ErrInvalid   = errors.New("batch: invalid")
	ErrCodec     = errors.New("batch: unknown compression")
	ErrTimestamp = errors.New("batch: a record's timestamp is out of bounds")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the fixed part of a batch.
type Header struct {
	BaseOffset    int64
	LeaderEpoch   int32
	Codec         uint8
	LogAppendTime bool
	Transactional bool
	Control       bool
	LastDelta     int32
	BaseTime      int64
	MaxTime       int64
	ProducerID    int64 // -1 none
	ProducerEpoch int16
	BaseSequence  int32
	Count         int32
}

// Parse reads the header of the batch that data is, all of it and nothing more.
// ErrCorrupt when the sizes disagree, ErrInvalid for another format.
func Parse(data []byte) (Header, error) {
	var h Header
	if len(data) > atMagic && data[atMagic] != 2 {
		return h, fmt.Errorf("%w: record format %d, only 2 is accepted", ErrInvalid, data[atMagic])
	}
	be := binary.BigEndian
	if len(data) < headerLen || int64(int32(be.Uint32(data[atLength:]))) != int64(len(data)-lengthPart) {
		return h, fmt.Errorf("%w: its length is not that of its bytes", ErrCorrupt)
	}
	attrs := be.Uint16(data[atAttrs:])
	return Header{
		BaseOffset:    int64(be.Uint64(data)),
		LeaderEpoch:   int32(be.Uint32(data[atEpoch:])),
		Codec:         uint8(attrs & codecBits),
		LogAppendTime: attrs&bitLogAppendTime != 0,
		Transactional: attrs&bitTransactional != 0,
		Control:       attrs&bitControl != 0,
		LastDelta:     int32(be.Uint32(data[atLastDelta:])),
		BaseTime:      int64(be.Uint64(data[atBaseTime:])),
		MaxTime:       int64(be.Uint64(data[atMaxTime:])),
		ProducerID:    int64(be.Uint64(data[atProducer:])),
		ProducerEpoch: int16(be.Uint16(data[atPEpoch:])),
		BaseSequence:  int32(be.Uint32(data[atSequence:])),
		Count:         int32(be.Uint32(data[atCount:])),
	}, nil
}

// Split returns the length of the first batch in data, header included; false when
// the rest of data does not hold it whole.
func Split(data []byte) (int, bool) {
	if len(data) < lengthPart {
		return 0, false
	}
	n := int64(int32(binary.BigEndian.Uint32(data[atLength:]))) + lengthPart
	return int(n), n >= headerLen && n <= int64(len(data))
}

// LastSequence is the sequence of the batch's last record; sequences wrap to 0 after
// the largest int32.
func (h *Header) LastSequence() int32 {
	return int32((int64(h.BaseSequence) + int64(h.LastDelta)) & 0x7fffffff)
}

// sealCRC writes length and CRC of a finished batch.
func sealCRC(data []byte) {
	binary.BigEndian.PutUint32(data[atLength:], uint32(len(data)-lengthPart))
	binary.BigEndian.PutUint32(data[atCRC:], crc32.Checksum(data[atAttrs:], castagnoli))
}

// StampAppendTime makes ms the time of all the batch's records (LogAppendTime).
func StampAppendTime(data []byte, ms int64) {
	data[atAttrs+1] |= bitLogAppendTime
	binary.BigEndian.PutUint64(data[atMaxTime:], uint64(ms))
	sealCRC(data)
}
