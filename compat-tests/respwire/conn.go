// Package respwire speaks raw RESP2 for programs that must know exactly which
// commands were sent and which were answered. It never retries and never
// reconnects: a command is answered, or its connection broke and it may or may not
// have been carried out.
package respwire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// An Error is an error reply, without the leading minus.
type Error string

func (e Error) Error() string { return string(e) }

// maxBulk bounds what a reply may make this client allocate.
const maxBulk = 64 << 20

// A Conn is one connection, for one goroutine at a time.
type Conn struct {
	c net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

// Dial connects to a Redis port.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Conn{c, bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 64<<10)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// SetDeadline bounds everything from now on.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// Queue puts a command into the pipeline; Flush or a full buffer sends it.
func (c *Conn) Queue(args ...string) error {
	fmt.Fprintf(c.w, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(c.w, "$%d\r\n", len(a))
		c.w.WriteString(a)
		c.w.WriteString("\r\n")
	}
	_, err := c.w.Write(nil) // the writer remembers its first error
	return err
}

// Flush sends what is queued.
func (c *Conn) Flush() error { return c.w.Flush() }

// Recv reads one reply: nil, int64, string, []any or, as a value and not as the
// error, an Error. The error means that the connection is of no more use.
func (c *Conn) Recv() (any, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 {
		return nil, fmt.Errorf("not a reply: %q", line)
	}
	kind, head := line[0], string(line[1:len(line)-2])
	switch kind {
	case '+':
		return head, nil
	case '-':
		return Error(head), nil
	}
	n, err := strconv.ParseInt(head, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("not a reply: %q", line)
	}
	switch {
	case kind == ':':
		return n, nil
	case n == -1:
		return nil, nil
	case kind == '$' && n >= 0 && n <= maxBulk:
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c.r, b); err != nil {
			return nil, err
		}
		return string(b[:n]), nil
	case kind == '*' && n >= 0 && n <= maxBulk:
		var list []any
		for range n {
			v, err := c.Recv()
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		if list == nil {
			list = []any{}
		}
		return list, nil
	}
	return nil, fmt.Errorf("not a reply: %q", line)
}

// Do sends one command and waits for its reply; nothing else may be in flight.
func (c *Conn) Do(args ...string) (any, error) {
	if err := c.Queue(args...); err != nil {
		return nil, err
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	return c.Recv()
}
