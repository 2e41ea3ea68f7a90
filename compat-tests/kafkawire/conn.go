package kafkawire

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxReply bounds a reply frame before it is allocated.
const maxReply = 256 << 20

// Frame encodes a request with its length prefix and header, ready for a socket.
func Frame(req kmsg.Request, correlation int32, clientID string) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, req, correlation)
}

// A Conn is one connection. It may be used by one sender and one receiver at a time.
type Conn struct {
	net.Conn
	r      *bufio.Reader
	next   int32          // correlation of the next request
	wanted chan sentFrame // requests in flight, in order
	id     string
}

type sentFrame struct {
	correlation int32
	req         kmsg.Request
}

// Dial connects to a Kafka port.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, r: bufio.NewReaderSize(c, 64<<10), wanted: make(chan sentFrame, 1024), id: "kafkawire"}, nil
}

// Send writes one request. At most 1,024 may be in flight.
func (c *Conn) Send(req kmsg.Request) error {
	c.next++
	frame := Frame(req, c.next, c.id)
	c.wanted <- sentFrame{c.next, req}
	_, err := c.Write(frame)
	return err
}

// Recv reads the reply of the oldest request in flight.
func (c *Conn) Recv() (kmsg.Response, error) {
	want := <-c.wanted
	var head [8]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size < 4 || size > maxReply {
		return nil, fmt.Errorf("a reply frame of %d bytes", size)
	}
	if got := int32(binary.BigEndian.Uint32(head[4:])); got != want.correlation {
		return nil, fmt.Errorf("reply %d came where %d was due", got, want.correlation)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(c.r, body); err != nil {
		return nil, err
	}
	resp := want.req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != 18 {
		var err error
		if body, err = skipTags(body); err != nil {
			return nil, err
		}
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("reply to %s v%d: %w", kmsg.NameForKey(resp.Key()), resp.GetVersion(), err)
	}
	return resp, nil
}

// Do sends one request and waits for its reply; nothing else may be in flight.
func (c *Conn) Do(req kmsg.Request) (kmsg.Response, error) {
	if err := c.Send(req); err != nil {
		return nil, err
	}
	return c.Recv()
}

// skipTags steps over the tagged fields of a flexible response header.
func skipTags(b []byte) ([]byte, error) {
	uvarint := func() (int, error) {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > uint64(len(b)) {
			return 0, fmt.Errorf("bad tagged fields in a reply header")
		}
		b = b[n:]
		return int(v), nil
	}
	count, err := uvarint()
	if err != nil {
		return nil, err
	}
	for range count {
		if _, err := uvarint(); err != nil {
			return nil, err
		}
		size, err := uvarint()
		if err != nil {
			return nil, err
		}
		if size > len(b) {
			return nil, fmt.Errorf("bad tagged fields in a reply header")
		}
		b = b[size:]
	}
	return b, nil
}
