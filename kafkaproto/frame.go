package kafkaproto

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frames: size:4 then that many bytes (key:2 version:2 correlation:4 clientID ...).

var (
	errFrameSize = errors.New("frame size is out of bounds")
	errHeader    = errors.New("request header is damaged")
)

// firstGrant is what a claimed size may allocate before a byte of it came. A
// connection that has sent larger frames is granted as much as those.
const firstGrant = 64 << 10

// frameReader cuts a byte stream into frames. Memory grows with the bytes that came,
// never with a claimed size.
type frameReader struct {
	br      *bufio.Reader
	src     *source // below br
	max     int
	granted int
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	src := &source{r: r}
	return &frameReader{br: bufio.NewReaderSize(src, 8<<10), src: src, max: limit, granted: firstGrant}
}

// source is a stream whose beginning may have been read already.
type source struct {
	head []byte
	r    io.Reader
}

func (s *source) Read(b []byte) (int, error) {
	if len(s.head) == 0 {
		return s.r.Read(b)
	}
	n := copy(b, s.head)
	if s.head = s.head[n:]; len(s.head) == 0 {
		s.head = nil
	}
	return n, nil
}

// empty says that nothing is held that has not been returned as a frame.
func (f *frameReader) empty() bool { return f.br.Buffered() == 0 && len(f.src.head) == 0 }

// goOn continues with another reader of the stream, after head, which came before. Only while it is empty.
func (f *frameReader) goOn(head []byte, r io.Reader) {
	f.src.head, f.src.r = head, r
	f.br.Reset(f.src)
}

// next returns the next frame without its size. The caller owns it. io.EOF at a
// clean end.
func (f *frameReader) next() ([]byte, error) {
	head, err := f.br.Peek(4)
	if err != nil {
		if err == io.EOF && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(head))
	if size < 0 || int(size) > f.max {
		return nil, fmt.Errorf("%w: %d", errFrameSize, size)
	}
	f.br.Discard(4)
	n := int(size)
	buf := make([]byte, min(n, f.granted))
	for got := 0; ; {
		m, err := io.ReadFull(f.br, buf[got:])
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if got += m; got == n {
			f.granted = max(f.granted, n)
			return buf, nil
		}
		grown := make([]byte, min(n, 2*got))
		copy(grown, buf)
		buf = grown
	}
}

// ready says whether the whole next frame has come already.
func (f *frameReader) ready() bool {
	have := f.br.Buffered()
	if have < 4 {
		return false
	}
	head, _ := f.br.Peek(4)
	return int64(have)-4 >= int64(int32(binary.BigEndian.Uint32(head)))
}

// header is a request's header.
type header struct {
	key, version int16
	correlation  int32
}

// parseHeader reads the fixed part of the header and the client id: all but the
// tagged fields, whose presence depends on the list.
func parseHeader(frame []byte) (h header, rest []byte, err error) {
	if len(frame) < 8 {
		return h, nil, errHeader
	}
	h.key = int16(binary.BigEndian.Uint16(frame))
	h.version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.correlation = int32(binary.BigEndian.Uint32(frame[4:]))
	return h, frame[8:], nil
}

// parseClientID reads the nullable string after the fixed part of the header. id lies in b.
func parseClientID(b []byte) (id, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, errHeader
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n < -1 || n > len(b) {
		return nil, nil, errHeader
	}
	if n > 0 {
		id, b = b[:n], b[n:]
	}
	return id, b, nil
}

// skipTags steps over a tagged-field section; unknown tags are legal (KIP-482).
func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	if n <= 0 {
		return nil, errHeader
	}
	for b = b[n:]; count > 0; count-- {
		if _, n = binary.Uvarint(b); n <= 0 {
			return nil, errHeader
		}
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errHeader
		}
		b = b[n+int(size):]
	}
	return b, nil
}
