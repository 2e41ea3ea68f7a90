package main

import (
	"bytes"
	"fmt"
)

// A pipeTalker sends a pipeline of n commands, waits for n replies, and sends the
// next one: what redis-benchmark -P does.
type pipeTalker struct {
	pipelines [][]byte // each n commands, taken in turn
	n         int
	turn      int
	waiting   int
	done      int64 // replies received
}

func (t *pipeTalker) idle() bool { return t.waiting == 0 }

func (t *pipeTalker) output() []byte {
	if t.waiting > 0 {
		return nil
	}
	t.waiting = t.n
	t.turn++
	return t.pipelines[t.turn%len(t.pipelines)]
}

func (t *pipeTalker) input(p []byte) (int, error) {
	used := 0
	for t.waiting > 0 {
		n, err := replyEnd(p[used:])
		if n == 0 || err != nil {
			return used, err
		}
		used += n
		t.waiting--
		t.done++
	}
	return used, nil
}

// A groupTalker is one consumer: a pipeline of n XREADGROUP COUNT 10, then one XACK
// for each reply that brought entries. When the stream is read to its end the
// rewinder among the talkers sets the group back to the start; by then nearly
// everything is acknowledged, so the work stays the same.
type groupTalker struct {
	key, group string
	reads      []byte // n XREADGROUP commands
	n          int
	rewinder   bool

	waiting int
	acking  bool
	acks    []byte // XACK commands for what was read
	ackN    int    // how many of them
	dry     bool   // the stream's end was seen
	done    int64  // XACKs answered, which is read-and-acknowledge pairs
}

func (t *groupTalker) idle() bool { return t.waiting == 0 }

func (t *groupTalker) output() []byte {
	if t.waiting > 0 {
		return nil
	}
	if t.dry && t.rewinder {
		t.acks = command(t.acks, "XGROUP", "SETID", t.key, t.group, "0")
		t.ackN++
	}
	t.dry = false
	if t.ackN > 0 {
		t.waiting, t.acking, t.ackN = t.ackN, true, 0
		return t.acks
	}
	t.waiting, t.acking = t.n, false
	t.acks = t.acks[:0]
	return t.reads
}

func (t *groupTalker) input(p []byte) (int, error) {
	used := 0
	for t.waiting > 0 {
		n, err := replyEnd(p[used:])
		if n == 0 || err != nil {
			return used, err
		}
		switch reply := p[used : used+n]; {
		case t.acking && reply[0] == ':':
			t.done++
		case t.acking: // +OK of XGROUP SETID
		default:
			if err := t.ack(reply); err != nil {
				return used, err
			}
		}
		used += n
		t.waiting--
	}
	if t.acking && t.waiting == 0 {
		t.acks = t.acks[:0]
	}
	return used, nil
}

// ack turns an XREADGROUP reply, whole in p, into an XACK of its entries.
func (t *groupTalker) ack(p []byte) error {
	line := func() []byte {
		eol := bytes.IndexByte(p, '\n')
		l := p[:eol-1]
		p = p[eol+1:]
		return l
	}
	if head := line(); string(head) == "*-1" {
		t.dry = true
		return nil
	}
	line() // *2
	line() // $ of the key
	line() // the key
	count := number(line()[1:])
	t.acks = fmt.Appendf(t.acks, "*%d\r\n$4\r\nXACK\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
		3+count, len(t.key), t.key, len(t.group), t.group)
	for range count {
		line() // *2
		t.acks = append(append(t.acks, line()...), "\r\n"...)
		t.acks = append(append(t.acks, line()...), "\r\n"...)
		n, err := replyEnd(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	t.ackN++
	return nil
}
