package resp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// value is one parsed reply, for tests.
type value struct {
	kind  byte // as on the wire: + - : $ * _ % ~ , # = > (
	text  string
	null  bool // $-1 or *-1
	elems []value
}

// readValue parses one reply.
func readValue(r *bufio.Reader) (value, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return value{}, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return value{}, fmt.Errorf("empty line in a reply")
	}
	v := value{kind: line[0], text: line[1:]}
	switch v.kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return v, nil
	}
	n, err := strconv.Atoi(v.text)
	if err != nil {
		return value{}, fmt.Errorf("bad length in %q", line)
	}
	v.text = ""
	if n < 0 {
		v.null = true
		return v, nil
	}
	switch v.kind {
	case '$', '=':
		b := make([]byte, n+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return value{}, err
		}
		v.text = string(b[:n])
		return v, nil
	case '%':
		n *= 2
	case '*', '~', '>':
	default:
		return value{}, fmt.Errorf("bad reply %q", line)
	}
	for range n {
		e, err := readValue(r)
		if err != nil {
			return value{}, err
		}
		v.elems = append(v.elems, e)
	}
	return v, nil
}

// String is the notation of the transcripts: "bulk", +simple, -error, 1, [array], {map}, ~[set], nil ($-1), nil-array (*-1), null (_).
func (v value) String() string {
	switch v.kind {
	case '+', '-', ',', '#', '(':
		return string(v.kind) + v.text
	case ':':
		return v.text
	case '_':
		return "null"
	case '$':
		if v.null {
			return "nil"
		}
		return strconv.Quote(v.text)
	case '=':
		return "=" + strconv.Quote(v.text)
	}
	if v.null {
		return "nil-array"
	}
	parts := make([]string, 0, len(v.elems))
	if v.kind == '%' {
		for i := 0; i+1 < len(v.elems); i += 2 {
			parts = append(parts, v.elems[i].String()+": "+v.elems[i+1].String())
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	for _, e := range v.elems {
		parts = append(parts, e.String())
	}
	prefix := ""
	if v.kind != '*' {
		prefix = string(v.kind)
	}
	return prefix + "[" + strings.Join(parts, ", ") + "]"
}

// shape is the value with its data left out: for INFO, CLIENT LIST and the like.
func (v value) shape() value {
	if v.null {
		return v
	}
	switch v.kind {
	case ':':
		v.text = "<int>"
	case '$', '=':
		v.text = "<text>"
	}
	elems := v.elems
	v.elems = nil
	for _, e := range elems {
		v.elems = append(v.elems, e.shape())
	}
	return v
}

// client is a test's connection.
type client struct {
	t  testing.TB
	nc net.Conn
	r  *bufio.Reader
}

// patience bounds every wait of a test for something that must happen.
const patience = 20 * time.Second

func dial(t testing.TB, addr string) *client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return newClient(t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client {
	return &client{t: t, nc: nc, r: bufio.NewReader(nc)}
}

// command is the multibulk of some words.
func multibulk[T string | []byte](words ...T) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, w := range words {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b
}

func (c *client) send(words ...string) {
	c.t.Helper()
	c.write(multibulk(words...))
}

// patience sets a deadline on real sockets. In memory, under fake time, the test's own end is the bound: an hour may pass in an instant.
func (c *client) patience(set func(time.Time) error) {
	if _, real := c.nc.(*net.TCPConn); real {
		set(time.Now().Add(patience))
	}
}

func (c *client) write(b []byte) {
	c.t.Helper()
	c.patience(c.nc.SetWriteDeadline)
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func (c *client) read() value {
	c.t.Helper()
	c.patience(c.nc.SetReadDeadline)
	v, err := readValue(c.r)
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return v
}

// do sends a command and returns its reply.
func (c *client) do(words ...string) value {
	c.t.Helper()
	c.send(words...)
	return c.read()
}

// want sends a command line and compares the reply in the notation of the transcripts.
func (c *client) want(line, reply string) {
	c.t.Helper()
	if got := c.do(strings.Fields(line)...).String(); got != reply {
		c.t.Errorf("%s: %s, want %s", line, got, reply)
	}
}

// closed waits for the server to close the connection and returns what it said before.
func (c *client) closed() string {
	c.t.Helper()
	c.nc.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(c.r)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatal("the server did not close the connection")
	}
	return string(b)
}
