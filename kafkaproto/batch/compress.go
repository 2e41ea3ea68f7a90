package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression codecs of a batch.
const (
	None   = 0
	Gzip   = 1
	Snappy = 2
	LZ4    = 3
	Zstd   = 4
)

// largestInflated is the most bytes that a batch may decompress to. Producers bound
// what they put into a batch before they compress it, by 1 MiB as a rule.
const largestInflated = 128 << 20

// bigInflated is where a batch counts as large, and bigSlots how many large ones may be
// decompressed at the same time: a few megabytes of hostile input on each of many
// connections shall not fill the memory.
const (
	bigInflated = 8 << 20
	bigSlots    = 4
)

var bigs = make(chan struct{}, bigSlots)

// inflated is the decompressed part of a batch. free it when nothing aliases it.
type inflated struct {
	bytes  []byte
	pooled *[]byte
}

var inflateBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 64<<10); return &b }}

// free gives the buffer back.
func (i *inflated) free() {
	if i.pooled != nil && cap(i.bytes) <= 1<<20 {
		*i.pooled = i.bytes[:0]
		inflateBuffers.Put(i.pooled)
	}
	i.pooled, i.bytes = nil, nil
}

// inflate decompresses records. Uncompressed ones are returned as they are.
func inflate(codec uint8, b []byte) (inflated, error) {
	if codec == None {
		return inflated{bytes: b}, nil
	}
	buf := inflateBuffers.Get().(*[]byte)
	out, err := inflateTo(codec, (*buf)[:0], b)
	if err != nil {
		inflateBuffers.Put(buf)
		return inflated{}, err
	}
	return inflated{out, buf}, nil
}

// inflateTo appends the decompressed records to dst.
func inflateTo(codec uint8, dst, b []byte) ([]byte, error) {
	var err error
	switch codec {
	case None:
		return append(dst, b...), nil
	case Gzip:
		dst, err = inflateGzip(dst, b)
	case Snappy:
		dst, err = inflateSnappy(dst, b)
	case LZ4:
		dst, err = inflateLZ4(dst, b)
	case Zstd:
		dst, err = inflateZstd(dst, b)
	default:
		return nil, fmt.Errorf("%w: %d", ErrCodec, codec)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return dst, nil
}

// readBounded appends all of r to dst.
func readBounded(dst []byte, r io.Reader) ([]byte, error) {
	slot := false
	defer func() {
		if slot {
			<-bigs
		}
	}()
	if cap(dst) == 0 {
		dst = make([]byte, 0, 16<<10)
	}
	for {
		if len(dst) == cap(dst) {
			if len(dst) >= bigInflated && !slot {
				bigs <- struct{}{}
				slot = true
			}
			grown := make([]byte, len(dst), 2*cap(dst))
			copy(grown, dst)
			dst = grown
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if len(dst) > largestInflated {
			return nil, fmt.Errorf("it decompresses to more than %d bytes", largestInflated)
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

var gzipReaders sync.Pool

func inflateGzip(dst, b []byte) ([]byte, error) {
	var err error
	r, _ := gzipReaders.Get().(*gzip.Reader)
	if r == nil {
		r, err = gzip.NewReader(bytes.NewReader(b))
	} else {
		err = r.Reset(bytes.NewReader(b))
	}
	if err != nil {
		return nil, err
	}
	defer gzipReaders.Put(r)
	return readBounded(dst, r)
}

var lz4Readers = sync.Pool{New: func() any { return lz4.NewReader(nil) }}

func inflateLZ4(dst, b []byte) ([]byte, error) {
	r := lz4Readers.Get().(*lz4.Reader)
	defer lz4Readers.Put(r)
	r.Reset(bytes.NewReader(b))
	return readBounded(dst, r)
}

// zstdReader is shared: DecodeAll may be called concurrently.
var zstdReader = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(largestInflated),
		zstd.WithDecoderConcurrency(bigSlots), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("batch: zstd decoder options: " + err.Error())
	}
	return d
})

func inflateZstd(dst, b []byte) ([]byte, error) {
	if len(b) == 0 {
		return dst, nil
	}
	return zstdReader().DecodeAll(b, dst)
}

// xerialMagic begins snappy data in chunks, as the JVM's library writes it; then come
// version:4 compatible:4 and (length:4 block)*.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	xerialHeader = 16
	xerialChunk  = 32 << 10
)

func inflateSnappy(dst, b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, xerialMagic) {
		return inflateSnappyBlock(dst, b)
	}
	if len(b) < xerialHeader {
		return nil, io.ErrUnexpectedEOF
	}
	var err error
	for b = b[xerialHeader:]; len(b) > 0; {
		if len(b) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(int32(binary.BigEndian.Uint32(b)))
		if b = b[4:]; n < 0 || n > int64(len(b)) {
			return nil, io.ErrUnexpectedEOF
		}
		if dst, err = inflateSnappyBlock(dst, b[:n]); err != nil {
			return nil, err
		}
		b = b[n:]
	}
	return dst, nil
}

// inflateSnappyBlock appends one raw block. A block's claimed size is believed up to
// what snappy can reach, about 21 times its bytes.
func inflateSnappyBlock(dst, b []byte) ([]byte, error) {
	n, err := s2.DecodedLen(b)
	if err != nil {
		return nil, err
	}
	if n > 64+24*len(b) || len(dst)+n > largestInflated {
		return nil, fmt.Errorf("a snappy block of %d bytes claims %d", len(b), n)
	}
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(make([]byte, 0, max(2*cap(dst), at+n)), dst...)
	}
	out, err := s2.Decode(dst[at:at+n:at+n], b)
	if err != nil {
		return nil, err
	}
	return dst[:at+len(out)], nil
}

// deflate appends b compressed. Used where a batch is written anew without its deleted
// records.
func deflate(codec uint8, dst, b []byte) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, b...), nil
	case Gzip:
		buf := bytes.NewBuffer(dst)
		w := gzip.NewWriter(buf)
		if _, err := w.Write(b); err != nil {
			return nil, err
		}
		err := w.Close()
		return buf.Bytes(), err
	case Snappy:
		dst = append(dst, xerialMagic...)
		dst = append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
		for len(b) > 0 {
			chunk := b[:min(len(b), xerialChunk)]
			block := s2.EncodeSnappy(nil, chunk)
			dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
			dst = append(dst, block...)
			b = b[len(chunk):]
		}
		return dst, nil
	case LZ4:
		buf := bytes.NewBuffer(dst)
		w := lz4.NewWriter(buf)
		if _, err := w.Write(b); err != nil {
			return nil, err
		}
		err := w.Close()
		return buf.Bytes(), err
	case Zstd:
		return zstdWriter().EncodeAll(b, dst), nil
	}
	return nil, fmt.Errorf("%w: %d", ErrCodec, codec)
}

var zstdWriter = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic("batch: zstd encoder options: " + err.Error())
	}
	return e
})
