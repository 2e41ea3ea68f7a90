package resp

// Entry IDs and numbers as clients write them.
//
//	ms-seq   both unsigned 64-bit decimal, leading zeros taken; `ms` alone: seq is 0, at the end of a range the greatest
//	- +      the smallest and the greatest ID, where a range is asked for (parseLooseID) and nowhere else
//	(ID      not ID itself, at the ends of ranges
//	ms-*     XADD only: the next seq
//
// Each number may also be what C's strtoull takes, because Redis 8 reads it so: white space and a sign before it (a minus,
// which only a seq can have, takes it from 2^64 unless the number is written canonically), and nothing behind a zero byte is
// looked at.

import (
	"bytes"

	"weir/engine"
)

const (
	errInvalidID    = "ERR Invalid stream ID specified as stream command argument"
	errInvalidStart = "ERR invalid start ID for the interval"
	errInvalidEnd   = "ERR invalid end ID for the interval"
)

// longestID is how long an ID may be; leading zeros are many.
const longestID = 127

// parseID reads an ID; missingSeq is the seq of an ID that is `ms` alone.
func parseID(b []byte, missingSeq uint64) (engine.ID, bool) {
	ms, seq, hasSeq, ok := splitID(b)
	if !ok {
		return engine.ID{}, false
	}
	id := engine.ID{MS: ms, Seq: missingSeq}
	if hasSeq {
		id.Seq, ok = idNumber(seq)
	}
	return id, ok
}

// parseNewID reads the ID of an XADD that is not `*`; auto says that it is `ms-*`.
func parseNewID(b []byte) (id engine.ID, auto, ok bool) {
	ms, seq, hasSeq, ok := splitID(b)
	if ok && hasSeq && len(seq) == 1 && seq[0] == '*' {
		return engine.ID{MS: ms}, true, true
	}
	id, ok = parseID(b, 0)
	return id, false, ok
}

// splitID reads the ms of an ID and cuts its seq out.
func splitID(b []byte) (ms uint64, seq []byte, hasSeq, ok bool) {
	if len(b) > longestID {
		return 0, nil, false, false
	}
	b = toZero(b)
	head := b
	for i, c := range b {
		if c == '-' {
			head, seq, hasSeq = b[:i], b[i+1:], true
			break
		}
	}
	ms, ok = idNumber(head)
	return ms, seq, hasSeq, ok
}

// parseLooseID is parseID that knows - and +.
func parseLooseID(b []byte, missingSeq uint64) (engine.ID, bool) {
	if b := toZero(b); len(b) == 1 {
		switch b[0] {
		case '-':
			return engine.ID{}, true
		case '+':
			return engine.MaxID, true
		}
	}
	return parseID(b, missingSeq)
}

// parseStart reads the lower end of a range, and answers the error's text.
func parseStart(b []byte) (engine.ID, string) {
	if len(b) < 2 || b[0] != '(' {
		return orInvalidID(parseLooseID(b, 0))
	}
	id, ok := parseID(b[1:], 0)
	if !ok {
		return id, errInvalidID
	}
	if id, ok = id.Next(); !ok {
		return id, errInvalidStart
	}
	return id, ""
}

// parseEnd reads the upper end of a range, and answers the error's text.
func parseEnd(b []byte) (engine.ID, string) {
	if len(b) < 2 || b[0] != '(' {
		return orInvalidID(parseLooseID(b, ^uint64(0)))
	}
	id, ok := parseID(b[1:], ^uint64(0))
	if !ok {
		return id, errInvalidID
	}
	if id, ok = id.Prev(); !ok {
		return id, errInvalidEnd
	}
	return id, ""
}

func orInvalidID(id engine.ID, ok bool) (engine.ID, string) {
	if !ok {
		return id, errInvalidID
	}
	return id, ""
}

// parseIDs reads the IDs of args into dst; false at the first that is none.
func parseIDs(dst []engine.ID, args [][]byte) ([]engine.ID, bool) {
	for _, a := range args {
		id, ok := parseID(a, 0)
		if !ok {
			return dst, false
		}
		dst = append(dst, id)
	}
	return dst, true
}

// toZero is b up to its first zero byte.
func toZero(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// idNumber reads one number of an ID.
func idNumber(b []byte) (uint64, bool) {
	if n, ok := unsigned(b); ok {
		return n, true
	}
	if n, ok := signed(b); ok && n < 0 {
		return 0, false // canonical: known to be below zero
	}
	digits := bytes.TrimLeft(b, " \t\n\v\f\r")
	var minus bool
	if len(digits) > 0 && (digits[0] == '+' || digits[0] == '-') {
		minus, digits = digits[0] == '-', digits[1:]
	}
	n, ok := unsigned(digits)
	if minus {
		n = -n
	}
	return n, ok
}

// unsigned reads decimal digits and nothing else; false on overflow.
func unsigned(b []byte) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 || n > (1<<64-1)/10 || n*10 > 1<<64-1-d {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// signed reads a number as Redis writes it: no plus sign, no leading zeros, no minus zero.
func signed(b []byte) (int64, bool) {
	digits := b
	minus := len(b) > 0 && b[0] == '-'
	if minus {
		digits = b[1:]
	}
	n, ok := unsigned(digits)
	if !ok || digits[0] == '0' && (len(digits) > 1 || minus) {
		return 0, false
	}
	if minus {
		return -int64(n), n <= 1<<63
	}
	return int64(n), n < 1<<63
}
