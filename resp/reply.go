package resp

import (
	"math"
	"strconv"

	"github.com/tidwall/redcon"

	"weir/engine"
)

// reply is a buffer of replies in one protocol version. Handlers append to it, and nothing else.
type reply struct {
	b     []byte
	resp3 bool
}

// OK appends +OK.
func (w *reply) OK() { w.b = append(w.b, "+OK\r\n"...) }

// Simple appends a simple string; s holds no line break.
func (w *reply) Simple(s string) { w.b = redcon.AppendString(w.b, s) }

// Int appends an integer.
func (w *reply) Int(n int64) { w.b = redcon.AppendInt(w.b, n) }

// Bulk appends a bulk string.
func (w *reply) Bulk(b []byte) { w.b = redcon.AppendBulk(w.b, b) }

// BulkString is Bulk of a string.
func (w *reply) BulkString(s string) { w.b = redcon.AppendBulkString(w.b, s) }

// BulkInt appends an integer as a bulk string (XPENDING's counts, CONFIG GET).
func (w *reply) BulkInt(n int64) {
	var tmp [20]byte
	w.Bulk(strconv.AppendInt(tmp[:0], n, 10))
}

// ID appends an entry ID as a bulk string.
func (w *reply) ID(id engine.ID) {
	var tmp [41]byte
	d := strconv.AppendUint(tmp[:0], id.MS, 10)
	d = append(d, '-')
	d = strconv.AppendUint(d, id.Seq, 10)
	w.Bulk(d)
}

// Array begins an array of n replies.
func (w *reply) Array(n int) { w.b = redcon.AppendArray(w.b, n) }

// Array64 is Array for counts that come from storage.
func (w *reply) Array64(n int64) {
	w.b = append(w.b, '*')
	w.b = strconv.AppendInt(w.b, n, 10)
	w.b = append(w.b, '\r', '\n')
}

// Map begins a map of n pairs: in RESP2 a flat array of 2n.
func (w *reply) Map(n int) {
	if !w.resp3 {
		w.Array(2 * n)
		return
	}
	w.prefix('%', n)
}

// Set begins a set of n members: in RESP2 an array.
func (w *reply) Set(n int) {
	if !w.resp3 {
		w.Array(n)
		return
	}
	w.prefix('~', n)
}

func (w *reply) prefix(kind byte, n int) {
	w.b = append(w.b, kind)
	w.b = strconv.AppendInt(w.b, int64(n), 10)
	w.b = append(w.b, '\r', '\n')
}

// Null appends the null of a value: `$-1`, in RESP3 `_`.
func (w *reply) Null() {
	if w.resp3 {
		w.b = append(w.b, "_\r\n"...)
		return
	}
	w.b = append(w.b, "$-1\r\n"...)
}

// NullArray appends the null of an array: `*-1`, in RESP3 `_`.
func (w *reply) NullArray() {
	if w.resp3 {
		w.b = append(w.b, "_\r\n"...)
		return
	}
	w.b = append(w.b, "*-1\r\n"...)
}

// Bool appends a boolean: in RESP2 the integer 0 or 1.
func (w *reply) Bool(v bool) {
	switch {
	case w.resp3 && v:
		w.b = append(w.b, "#t\r\n"...)
	case w.resp3:
		w.b = append(w.b, "#f\r\n"...)
	case v:
		w.Int(1)
	default:
		w.Int(0)
	}
}

// Double appends a floating-point number: in RESP2 a bulk string.
func (w *reply) Double(f float64) {
	s := strconv.FormatFloat(f, 'g', 17, 64)
	switch {
	case math.IsInf(f, 1):
		s = "inf"
	case math.IsInf(f, -1):
		s = "-inf"
	case math.IsNaN(f):
		s = "nan"
	case f == math.Trunc(f) && math.Abs(f) < 1e17:
		s = strconv.FormatFloat(f, 'f', 0, 64)
	}
	if !w.resp3 {
		w.BulkString(s)
		return
	}
	w.b = append(append(append(w.b, ','), s...), '\r', '\n')
}

// Verbatim appends text for people (INFO): in RESP2 a bulk string.
func (w *reply) Verbatim(text string) {
	if !w.resp3 {
		w.BulkString(text)
		return
	}
	w.prefix('=', len(text)+4)
	w.b = append(append(append(w.b, "txt:"...), text...), '\r', '\n')
}

// errorLine appends an error. Whoever writes one during a command goes through call.Err, which counts it.
func (w *reply) errorLine(text string) { w.b = redcon.AppendError(w.b, text) }
