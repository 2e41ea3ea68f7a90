package main

import (
	"encoding/binary"
	"strings"
	"testing"
)

func TestReplyEndKnowsWholeRepliesAndPartsOfThem(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", ":12\r\n", "$3\r\nabc\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
		"*2\r\n$1\r\na\r\n*2\r\n:1\r\n$2\r\nxy\r\n",
	} {
		for cut := range len(reply) {
			if n, err := replyEnd([]byte(reply[:cut])); n != 0 || err != nil {
				t.Errorf("%q, %d bytes of it: %d, %v", reply, cut, n, err)
			}
		}
		if n, err := replyEnd([]byte(reply + "+more")); n != len(reply) || err != nil {
			t.Errorf("%q: %d, %v", reply, n, err)
		}
	}
	if _, err := replyEnd([]byte("-ERR no\r\n")); err == nil {
		t.Error("an error reply is taken for success")
	}
}

func TestAGroupTalkerAcknowledgesWhatItRead(t *testing.T) {
	g := &groupTalker{key: "s", group: "g", n: 2, reads: []byte("reads")}
	g.output()
	two := "*1\r\n*2\r\n$1\r\ns\r\n*2\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n*2\r\n$3\r\n2-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
	if n, err := g.input([]byte(two + "*-1\r\n")); n != len(two)+5 || err != nil {
		t.Fatal(n, err)
	}
	want := string(command(nil, "XACK", "s", "g", "1-0", "2-0"))
	if got := string(g.output()); got != want {
		t.Fatalf("sends %q, not %q", got, want)
	}
	if _, err := g.input([]byte(":2\r\n")); err != nil || g.done != 1 || !g.idle() {
		t.Fatalf("after the reply: %v, %d pairs", err, g.done)
	}
}

func TestAKafkaTalkerSkipsBodiesAndStopsAtAnError(t *testing.T) {
	heads := ""
	k := &kafkaTalker{frames: [][]byte{{1}}, window: 5, headLen: 6, look: func(h []byte) (float64, error) {
		heads += string(h[4:])
		return 1, codeError(int16(h[0]))
	}}
	for range 5 {
		k.output()
	}
	if k.output() != nil {
		t.Fatal("more than a window in flight")
	}
	reply := func(code byte, body string) string {
		b := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
		return string(append(append(b, code, 0, 0, 0), body...))
	}
	all := reply(0, "aaXXXXXXXX") + reply(0, "bb") + reply(0, "ccX") + reply(6, "dd")
	held := ""
	var err error
	for _, b := range all { // one byte at a time
		held += string(b)
		var n int
		if n, err = k.input([]byte(held)); err != nil {
			break
		}
		held = held[n:]
	}
	if k.done != 3 || heads != "aabbccdd" {
		t.Errorf("%v replies, heads %q", k.done, heads)
	}
	if err == nil || !strings.Contains(err.Error(), "NOT_LEADER") {
		t.Errorf("the error code 6 gives %v", err)
	}
}
