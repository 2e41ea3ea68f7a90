package main

import (
	"bytes"
	"fmt"
)

// replyEnd returns the length of the RESP2 value at the start of p, or 0 when it
// is not all there yet. An error reply is an error: no row expects one.
func replyEnd(p []byte) (int, error) {
	pos, left := 0, 1 // left: values still to step over, nested ones included
	for left > 0 {
		eol := bytes.IndexByte(p[pos:], '\n')
		if eol < 1 {
			return 0, nil
		}
		kind, head := p[pos], p[pos+1:pos+eol-1]
		pos += eol + 1
		left--
		switch kind {
		case '-':
			return 0, fmt.Errorf("the server answered -%s", head)
		case '+', ':', '_', ',', '#':
		case '$':
			if n := number(head); n >= 0 {
				pos += n + 2
			}
		case '*', '~', '>':
			left += max(number(head), 0)
		case '%':
			left += 2 * max(number(head), 0)
		default:
			return 0, fmt.Errorf("not a reply: %q", p[:min(len(p), 40)])
		}
		if pos > len(p) {
			return 0, nil
		}
	}
	return pos, nil
}

// number reads a decimal, -1 for anything negative.
func number(b []byte) int {
	n := 0
	for _, d := range b {
		if d < '0' || d > '9' {
			return -1
		}
		n = n*10 + int(d-'0')
	}
	return n
}

// command encodes one command as an array of bulk strings.
func command(dst []byte, args ...string) []byte {
	dst = fmt.Appendf(dst, "*%d\r\n", len(args))
	for _, a := range args {
		dst = fmt.Appendf(dst, "$%d\r\n%s\r\n", len(a), a)
	}
	return dst
}
