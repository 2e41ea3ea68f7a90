package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// silent is a socket that swallows what is written to it.
type silent struct{ bytes.Reader }

func (*silent) Write(b []byte) (int, error)      { return len(b), nil }
func (*silent) Close() error                     { return nil }
func (*silent) LocalAddr() net.Addr              { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }
func (*silent) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (*silent) SetDeadline(time.Time) error      { return nil }
func (*silent) SetReadDeadline(time.Time) error  { return nil }
func (*silent) SetWriteDeadline(time.Time) error { return nil }

// FuzzRequests feeds bytes to a connection: whatever they are, nothing panics and the connection ends.
func FuzzRequests(f *testing.F) {
	_, s := newWeir(f, bridge.Options{AutoCreate: true})
	for _, r := range s.rows() {
		for v := r.min; v <= r.max; v++ {
			req := kmsg.RequestForKey(r.key)
			req.SetVersion(v)
			if d, ok := req.(interface{ Default() }); ok {
				d.Default()
			}
			f.Add(frame(r.key, v, 1, req.IsFlexible(), req.AppendTo(nil)))
		}
	}
	name := "t"
	md := metadata(9, name)
	f.Add(append(frame(3, 9, 1, true, md.AppendTo(nil)), frame(0, 9, 2, true, produceTo(name, 1, oneRecord(f, "v")).AppendTo(nil))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if waits(data) {
			return
		}
		c := newConn(s, &silent{*bytes.NewReader(data)})
		err := c.readAll()
		if c.out != nil {
			close(c.out)
		}
		c.drain()
		c.cancel()
		if c.watched != nil {
			<-c.watched
		}
		if err == nil || bytes.Contains([]byte(err.Error()), []byte("panic")) {
			t.Fatalf("the connection ended with %v", err)
		}
	})
}

// waits says that some frame is a request that may park: those have nothing to wait for here.
func waits(data []byte) bool {
	for len(data) >= 8 {
		switch binary.BigEndian.Uint16(data[4:]) {
		case 1, 11, 14:
			return true
		}
		n := int64(int32(binary.BigEndian.Uint32(data))) + 4
		if n < 4 || n > int64(len(data)) {
			return false
		}
		data = data[n:]
	}
	return false
}

// FuzzFrames cuts any bytes, in any pieces, into the same frames.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 'x', 0, 0, 0, 0}, 3)
	f.Add(frame(18, 0, 1, false, nil), 1)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		if piece < 1 {
			piece = 1
		}
		whole := newFrameReader(bytes.NewReader(data), 1000)
		parts := newFrameReader(&inPieces{data, piece}, 1000)
		rest := data
		for {
			a, err1 := whole.next()
			b, err2 := parts.next()
			if !bytes.Equal(a, b) || (err1 == nil) != (err2 == nil) {
				t.Fatalf("%q %v, in pieces %q %v", a, err1, b, err2)
			}
			if err1 != nil {
				if len(rest) == 0 && !errors.Is(err1, io.EOF) {
					t.Fatal(err1)
				}
				return
			}
			if !bytes.Equal(a, rest[4:4+len(a)]) {
				t.Fatalf("frame %q of %q", a, rest)
			}
			rest = rest[4+len(a):]
		}
	})
}

// inPieces reads a few bytes at a time.
type inPieces struct {
	data []byte
	n    int
}

func (p *inPieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.data)
	p.data = p.data[n:]
	return n, nil
}
