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
	s := [1]segment{{entries: entries}}
	sendEntries(c, len(c.b), s[:], nil)
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

// entriesRest is the part of a reply of segments that is made as it is taken.
type entriesRest struct {
	segments []segment
	begun    bool   // the first segment's head is written
	tail     []byte // what follows the entries (XINFO STREAM FULL)
}

func (r *entriesRest) next(w *reply) (bool, error) {
	end := len(w.b) + restChunk
	write := func(e *bridge.Entry) { writeEntry(w, e) }
	for len(r.segments) > 0 {
		s := &r.segments[0]
		if !r.begun {
			s.head(w)
			r.begun = true
		}
		more, err := s.entries.Next(write)
		if err != nil {
			return false, err
		}
		if !more {
			s.entries.Close()
			r.segments, r.begun = r.segments[1:], false
			continue
		}
		if len(w.b) >= end {
			return true, nil
		}
	}
	w.b = append(w.b, r.tail...)
	return false, nil
}

func (r *entriesRest) close() {
	for i := range r.segments {
		r.segments[i].entries.Close()
	}
	r.segments = nil
}

// sendEntries replies segments and then tail. What comes before them in the reply is written already, from begin on. What does not
// fit into the first chunk is left to a rest, which owns the segments then.
func sendEntries(c *call, begin int, segments []segment, tail []byte) {
	r := entriesRest{segments: segments, tail: tail}
	more, err := r.next(c.reply)
	switch {
	case err != nil:
		r.close()
		c.b = c.b[:begin]
		c.Fail(err)
	case more:
		kept := &entriesRest{segments: append([]segment(nil), r.segments...), begun: r.begun, tail: tail}
		for i := range kept.segments {
			kept.segments[i].key = bytes.Clone(kept.segments[i].key)
		}
		c.continueWith(kept)
	}
}

// writeEntry appends [id, [field, value, ...]]; the fields of an entry that is gone are a null array.
func writeEntry(w *reply, e *bridge.Entry) {
	w.Array(2)
	w.ID(e.ID)
	if e.Fields == nil {
		w.NullArray()
		return
	}
	w.Array(len(e.Fields))
	for _, f := range e.Fields {
		w.Bulk(f)
	}
}
