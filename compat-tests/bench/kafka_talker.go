package main

import (
	"encoding/binary"
	"fmt"
)

// A kafkaTalker keeps window requests in flight on one connection and of every
// reply looks only at the head: the error code, and for a fetch how long the
// record set is.
type kafkaTalker struct {
	frames [][]byte // requests, encoded beforehand, taken in turn
	window int

	// look reads a reply's first headLen bytes (after the length prefix) and
	// returns the units that it is worth.
	headLen int
	look    func(head []byte) (float64, error)

	turn    int
	waiting int
	skip    int // bytes of the current reply still to come and be dropped
	done    float64
}

func (t *kafkaTalker) idle() bool { return t.waiting == 0 }

func (t *kafkaTalker) output() []byte {
	if t.waiting >= t.window {
		return nil
	}
	t.waiting++
	t.turn++
	return t.frames[t.turn%len(t.frames)]
}

func (t *kafkaTalker) input(p []byte) (int, error) {
	used := 0
	for {
		n := min(t.skip, len(p)-used)
		used, t.skip = used+n, t.skip-n
		if t.skip > 0 {
			return used, nil
		}
		rest := p[used:]
		if len(rest) < 4 {
			return used, nil
		}
		size := int(binary.BigEndian.Uint32(rest))
		if size < 4 || size > 1<<30 {
			return used, fmt.Errorf("a reply frame of %d bytes", size)
		}
		head := min(size, t.headLen)
		if len(rest) < 4+head {
			return used, nil
		}
		units, err := t.look(rest[4 : 4+head])
		if err != nil {
			return used, err
		}
		used, t.skip = used+4+head, size-head
		// Counted when its head is here: the body is at most one window behind.
		t.done += units
		t.waiting--
	}
}
