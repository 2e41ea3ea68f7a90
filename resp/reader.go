package resp

import (
	"bytes"
	"math"
)

// Limits bound what one connection may make the server hold before a command is whole. Zero fields mean the default.
type Limits struct {
	Bulk    int // bytes of one argument; 512 MiB (proto-max-bulk-len)
	Args    int // arguments of one command; 1,048,576
	Inline  int // bytes of an inline command or of a header line; 64 KiB
	Command int // bytes of one whole command; 1 GiB (client-query-buffer-limit)
	// The same before authentication, when a password is set (Redis's figures).
	UnauthBulk int // 16,384
	UnauthArgs int // 10
}

func (l Limits) withDefaults() Limits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.Bulk, 512<<20)
	def(&l.Args, 1<<20)
	def(&l.Inline, 64<<10)
	def(&l.Command, 1<<30)
	def(&l.UnauthBulk, 16384)
	def(&l.UnauthArgs, 10)
	return l
}

// protocolError is what a client is told before it is hung up on: "ERR Protocol error: " and this.
type protocolError string

func (e protocolError) Error() string { return "ERR Protocol error: " + string(e) }

// errCommandSize ends a connection without a word, as Redis does past client-query-buffer-limit.
const errCommandSize = protocolError("command exceeds the limit")

// span is an argument's place in the reader's buffer.
type span struct{ off, n int }

// reader cuts a stream of bytes into commands: multibulk, or inline with quotes.
//
// Bytes are parsed where they were received (chunk); only the beginning of a command that is not whole is kept, in own.
// Each byte is looked at once: where the parser stopped is remembered, so a command that arrives byte by byte costs
// what it costs in one piece. Memory grows with what was received, never with a claimed length.
//
//	buf:  [ done | start ... spans ... pos ... scan ... | end ]
//	                 the command       line   looked at
type reader struct {
	lim *Limits

	buf   []byte // what is parsed: own, or the chunk that the loop has just received
	own   []byte // memory of this reader, for what must outlive a chunk
	start int    // first byte of the command that is being read
	pos   int    // first byte that is not parsed
	scan  int    // first byte of the current line in which no line end was looked for

	size   int  // bytes of the command that next returned
	hungry bool // next has asked for more bytes, and none came since

	left  int // arguments of the multibulk that are still to come; -1: its header is not read
	bulk  int // bytes of the bulk to come; -1: its header is not read
	spans []span
	args  [][]byte
}

// keepOwn is the most memory that an idle reader keeps.
const keepOwn = 64 << 10

// keepArgs is the most argument places that an idle reader keeps.
const keepArgs = 1024

func newReader(lim *Limits) reader { return reader{lim: lim, left: -1, bulk: -1} }

// feed gives the reader what was received. chunk is used until release.
func (r *reader) feed(chunk []byte) {
	r.hungry = false
	if len(r.own) == 0 {
		r.buf, r.start, r.pos, r.scan = chunk, 0, 0, 0
		return
	}
	r.compact()
	r.grow(len(chunk))
	r.own = append(r.own, chunk...)
	r.buf = r.own
}

// grow makes room for n more bytes: twice what is there, but not more than the argument that is being received needs, so that a large one
// is not copied by append's smaller steps. What was announced is allocated only once half of it has come.
func (r *reader) grow(n int) {
	need := len(r.own) + n
	if need <= cap(r.own) || need < keepOwn {
		return
	}
	size := 2 * need
	if r.left > 0 && r.bulk > 0 {
		size = min(size, max(need, r.pos+r.bulk+2))
	}
	r.own = append(make([]byte, 0, size), r.own...)
}

// compact drops what is consumed from own. It moves bytes of the last chunk only: what is older belongs to the command that
// begins own.
func (r *reader) compact() {
	if r.start == 0 {
		return
	}
	n := copy(r.own, r.own[r.start:])
	r.own = r.own[:n]
	r.rebase(r.start)
}

func (r *reader) rebase(by int) {
	for i := range r.spans {
		r.spans[i].off -= by
	}
	r.pos -= by
	r.scan -= by
	r.start = 0
}

// release keeps what is not consumed; the chunk is the caller's again.
func (r *reader) release() {
	if r.start == len(r.buf) {
		r.buf, r.own = nil, shrink(r.own, keepOwn)
		r.start, r.pos, r.scan = 0, 0, 0
		if cap(r.args) > keepArgs {
			r.args, r.spans = nil, nil
		}
		return
	}
	if len(r.own) == 0 {
		r.own = append(r.own, r.buf[r.start:]...)
		r.rebase(r.start)
		r.buf = r.own
	}
}

// shrink empties a buffer, and frees it when it is larger than most.
func shrink(b []byte, most int) []byte {
	if cap(b) > most {
		return nil
	}
	return b[:0]
}

// pending is the number of bytes received and not consumed.
func (r *reader) pending() int { return len(r.buf) - r.start }

// unread says that bytes were received that next has not looked at.
func (r *reader) unread() bool { return !r.hungry && r.pending() > 0 }

// next returns the next whole command, or ok false when more bytes are needed. The arguments alias the buffer and are
// good until the next call of any method. After an error the reader is of no more use.
func (r *reader) next(authed bool) (args [][]byte, ok bool, err error) {
	args, ok, err = r.parse(authed)
	r.hungry = !ok
	return args, ok, err
}

func (r *reader) parse(authed bool) (args [][]byte, ok bool, err error) {
	for {
		if r.left < 0 {
			r.start = r.pos
			if r.pos >= len(r.buf) {
				return nil, false, nil
			}
			if r.buf[r.pos] != '*' {
				args, ok, err = r.inline()
				if err != nil || !ok || len(args) > 0 {
					return args, ok, err
				}
				continue // an empty line is no command
			}
			ok, err = r.header(authed)
			if err != nil || !ok {
				return nil, false, err
			}
			if r.left <= 0 {
				r.left = -1 // *0 and *-n are nothing
				continue
			}
		}
		ok, err = r.bulks(authed)
		if err != nil || !ok {
			return nil, false, err
		}
		return r.whole(), true, nil
	}
}

// whole turns the spans of a finished multibulk into arguments.
func (r *reader) whole() [][]byte {
	r.args = r.args[:0]
	for _, s := range r.spans {
		r.args = append(r.args, r.buf[s.off:s.off+s.n:s.off+s.n])
	}
	r.size = r.pos - r.start
	r.start, r.left = r.pos, -1
	return r.args
}

// line finds the current line's end, marked by the byte end; ok is false when it has not arrived. tooBig is the error when
// it is longer than the limit.
func (r *reader) line(end byte, tooBig protocolError) (line []byte, ok bool, err error) {
	r.scan = max(r.scan, r.pos)
	i := bytes.IndexByte(r.buf[r.scan:], end)
	if i < 0 {
		r.scan = len(r.buf)
		if r.scan-r.pos > r.lim.Inline {
			return nil, false, tooBig
		}
		return nil, false, nil
	}
	i += r.scan
	if i-r.pos > r.lim.Inline {
		return nil, false, tooBig
	}
	return r.buf[r.pos:i], true, nil
}

// header reads "*n\r\n".
func (r *reader) header(authed bool) (bool, error) {
	line, ok, err := r.line('\r', "too big mbulk count string")
	if err != nil || !ok {
		return false, err
	}
	after := r.pos + len(line) + 2
	if after > len(r.buf) {
		r.scan = r.pos + len(line) // the \n is still on its way
		return false, nil
	}
	n, good := parseInt(line[1:])
	if !good || n > int64(r.lim.Args) {
		return false, protocolError("invalid multibulk length")
	}
	if !authed && n > int64(r.lim.UnauthArgs) {
		return false, protocolError("unauthenticated multibulk length")
	}
	r.pos, r.scan = after, after
	r.left, r.bulk = int(max(n, 0)), -1
	r.spans = r.spans[:0]
	return true, nil
}

// bulks reads the arguments that are still to come.
func (r *reader) bulks(authed bool) (bool, error) {
	for r.left > 0 {
		if r.bulk < 0 {
			ok, err := r.bulkHeader(authed)
			if err != nil || !ok {
				return false, err
			}
		}
		// Redis does not look at the two bytes after a bulk, and neither do we.
		if len(r.buf)-r.pos < r.bulk+2 {
			if len(r.buf)-r.start > r.lim.Command {
				return false, errCommandSize
			}
			return false, nil
		}
		r.spans = append(r.spans, span{r.pos, r.bulk})
		r.pos += r.bulk + 2
		r.bulk = -1
		r.left--
	}
	if r.pos-r.start > r.lim.Command {
		return false, errCommandSize
	}
	return true, nil
}

// bulkHeader reads "$n\r\n".
func (r *reader) bulkHeader(authed bool) (bool, error) {
	line, ok, err := r.line('\r', "too big bulk count string")
	if err != nil || !ok {
		return false, err
	}
	after := r.pos + len(line) + 2
	if after > len(r.buf) {
		r.scan = r.pos + len(line)
		return false, nil
	}
	if r.buf[r.pos] != '$' {
		return false, protocolError("expected '$', got '" + string(r.buf[r.pos:r.pos+1]) + "'")
	}
	n, good := parseInt(line[1:])
	if !good || n < 0 || n > int64(r.lim.Bulk) {
		return false, protocolError("invalid bulk length")
	}
	if !authed && n > int64(r.lim.UnauthBulk) {
		return false, protocolError("unauthenticated bulk length")
	}
	r.pos, r.scan = after, after
	r.bulk = int(n)
	return true, nil
}

// inline reads a line of words (what people type into a raw connection).
func (r *reader) inline() (args [][]byte, ok bool, err error) {
	line, ok, err := r.line('\n', "too big inline request")
	if err != nil || !ok {
		return nil, false, err
	}
	r.size = len(line) + 1
	r.pos += r.size
	r.scan, r.start = r.pos, r.pos
	line = bytes.TrimSuffix(line, []byte{'\r'})
	args, ok = splitWords(line, r.args[:0])
	if !ok {
		return nil, false, protocolError("unbalanced quotes in request")
	}
	r.args = args
	return args, true, nil
}

// parseInt reads a decimal as Redis does in the protocol: no plus sign, no leading zeros, no spaces, no "-0".
func parseInt(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	neg := b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) == 1 && b[0] == '0' && !neg {
		return 0, true
	}
	if len(b) == 0 || b[0] < '1' || b[0] > '9' {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		if n > (math.MaxUint64-9)/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	if neg {
		if n > 1<<63 {
			return 0, false
		}
		return -int64(n), true
	}
	if n > math.MaxInt64 {
		return 0, false
	}
	return int64(n), true
}
