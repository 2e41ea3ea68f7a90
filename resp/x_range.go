package resp

// XRANGE key start end [COUNT n], XREVRANGE key end start [COUNT n]
// XLEN key
// XDEL key id [id ...]
//
// ( before an end leaves that ID out. ID errors come before COUNT errors, both before the key is looked at. No key: an empty array;
// COUNT 0 or less on a key that exists: a null array. XDEL of a missing key is 0 whatever the IDs are.
//
// A reply is made while it is taken: its array header is exact from the start (engine.Reader.Count), the entries follow run by
// run as the client reads, from a snapshot, so a million entries cost no memory and trimming meanwhile hurts nothing.

import (
	"bytes"
	"errors"
	"strconv"

	"weir/bridge"
	"weir/engine"
)

func xlen(c *call) {
	route, ok := c.bridge().Resolve(c.args[1])
	if !ok {
		c.Int(0)
		return
	}
	n, err := route.Length(c.turn)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Int(n)
}

func xdel(c *call) {
	route, ok := c.bridge().Resolve(c.args[1])
	if !ok {
		c.Int(0)
		return
	}
	var few [8]engine.ID
	ids, ok := parseIDs(few[:0], c.args[2:])
	if !ok {
		c.Err(errInvalidID)
		return
	}
	n, err := route.Delete(c.turn, ids)
	if err != nil {
		c.Fail(err)
		return
	}
	c.changed(n)
	c.Int(n)
}

func xrange(c *call)    { rangeOf(c, c.args[2], c.args[3], false) }
func xrevrange(c *call) { rangeOf(c, c.args[3], c.args[2], true) }

func rangeOf(c *call, start, end []byte, reverse bool) {
	a := engine.RangeArgs{Count: -1, Reverse: reverse}
	text := parseRange(&a, start, end, c.args[4:])
	if text != "" {
		c.Err(text)
		return
	}
	route, ok := c.bridge().Resolve(c.args[1])
	switch {
	case !ok:
		c.Array(0)
		return
	case a.Count == 0:
		c.NullArray()
		return
	}
	entries, err := route.Range(c.bridge(), c.turn, a)
	if err != nil {
		c.Fail(err)
		return
	}
	sendOne(c, entries)
}

func parseRange(a *engine.RangeArgs, start, end []byte, options [][]byte) (text string) {
	if a.From, text = parseStart(start); text != "" {
		return text
	}
	if a.To, text = parseEnd(end); text != "" {
		return text
	}
	for i := 0; i < len(options); i += 2 {
		if !foldEqual(options[i], "count") || i+1 == len(options) {
			return errSyntax
		}
		n, ok := signed(options[i+1])
		if !ok {
			return errNotInteger
		}
		a.Count = max(n, 0)
	}
	return ""
}

// segment is one array of entries within a reply, after a key in XREAD's.
type segment struct {
	key     []byte
	keyed   bool // XREAD
	justID  bool // of each entry its ID alone
	entries bridge.EntryReader
}

// head begins the array.
func (s *segment) head(w *reply) {
	if s.keyed {
		if !w.resp3 { // RESP3 has a map: key, value
			w.Array(2)
		}
		w.Bulk(s.key)
	}
	w.Array64(s.entries.Count())
}

// entriesReply is a reply of segments: its first chunk is made by the command, the rest as it is taken. Each connection has one and
// uses it over and over, because it evaluates nothing else before the reply is whole.
type entriesReply struct {
	segments []segment
	at       int    // the segment that is being written
	begun    bool   // its head is written
	left     int64  // entries that its head promised and that are not written yet
	tail     []byte // what follows the segments

	w       *reply
	write   func(*bridge.Entry) bool // writeOne, bound once
	writeID func(engine.ID)          // writeOneID, bound once
	ms      uint64                   // whose decimal digits are in text: neighbours mostly share theirs
	text    []byte
}

// mostStreamsKept is for how many streams a connection keeps its scratch of reading.
const mostStreamsKept = 64

// errShortEntries ends a reply whose array header cannot be kept any more.
var errShortEntries = errors.New("entries ended before their count")

// add appends a segment; the entries are the reply's from now on.
func (r *entriesReply) add(s segment) { r.segments = append(r.segments, s) }

func (r *entriesReply) writeOne(e *bridge.Entry) bool {
	if r.left == 0 {
		return false
	}
	r.left--
	r.w.Array(2)
	r.id(e.ID)
	writeFields(r.w, e)
	return true
}

// writeOneID is writeOne for an ID alone.
func (r *entriesReply) writeOneID(id engine.ID) {
	if r.left > 0 {
		r.left--
		r.id(id)
	}
}

// id appends an entry's ID.
func (r *entriesReply) id(id engine.ID) {
	if len(r.text) == 0 || r.ms != id.MS {
		r.ms, r.text = id.MS, strconv.AppendUint(r.text[:0], id.MS, 10)
	}
	var tmp [20]byte
	seq := strconv.AppendUint(tmp[:0], id.Seq, 10)
	b := append(r.w.b, '$')
	b = strconv.AppendUint(b, uint64(len(r.text)+1+len(seq)), 10)
	b = append(b, '\r', '\n')
	b = append(append(b, r.text...), '-')
	r.w.b = append(append(b, seq...), '\r', '\n')
}

func (r *entriesReply) next(w *reply) (bool, error) {
	r.w = w
	if r.write == nil {
		r.write, r.writeID = r.writeOne, r.writeOneID
	}
	end := len(w.b) + restChunk
	for r.at < len(r.segments) {
		s := &r.segments[r.at]
		if !r.begun {
			s.head(w)
			r.begun, r.left = true, s.entries.Count()
		}
		var more bool
		var err error
		if s.justID {
			more, err = s.entries.NextIDs(r.writeID)
		} else {
			more, err = s.entries.Next(r.write)
		}
		if err == nil && !more && r.left > 0 {
			err = errShortEntries
		}
		if err != nil {
			return false, err
		}
		if !more {
			s.entries.Close()
			r.at, r.begun = r.at+1, false
			continue
		}
		if len(w.b) >= end {
			return true, nil
		}
	}
	w.b = append(w.b, r.tail...)
	return false, nil
}

// close gives everything back; the reply may be used for the next one.
func (r *entriesReply) close() {
	for i := range r.segments {
		r.segments[i].entries.Close()
	}
	clear(r.segments)
	keep := r.segments[:0]
	if cap(keep) > mostStreamsKept {
		keep = nil
	}
	*r = entriesReply{segments: keep, write: r.write, writeID: r.writeID, ms: r.ms, text: r.text}
}

// send begins the reply: what comes before the segments is written already, from begin on. What does not fit into the first chunk is
// made later.
func (r *entriesReply) send(c *call, begin int) {
	more, err := r.next(c.reply)
	switch {
	case err != nil:
		c.b = c.b[:begin]
		c.Fail(err)
	case more:
		for i := range r.segments {
			r.segments[i].key = bytes.Clone(r.segments[i].key)
		}
		c.continueWith(r)
		return
	}
	r.close()
}

// sendOne replies the array of entries alone.
func sendOne(c *call, entries bridge.EntryReader) {
	r := &c.conn.entries
	r.add(segment{entries: entries})
	r.send(c, len(c.b))
}

// writeEntry appends [id, [field, value, ...]]; the fields of an entry that is gone are a null array.
func writeEntry(w *reply, e *bridge.Entry) {
	w.Array(2)
	w.ID(e.ID)
	writeFields(w, e)
}

func writeFields(w *reply, e *bridge.Entry) {
	if e.Fields == nil {
		w.NullArray()
		return
	}
	w.Array(len(e.Fields))
	for _, f := range e.Fields {
		w.Bulk(f)
	}
}
