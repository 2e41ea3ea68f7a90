package resp

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"weir/engine"
)

// words are what stream commands are made of, right and wrong ones.
var words = strings.Fields(`XADD XLEN XRANGE XREVRANGE XREAD XREADGROUP XDEL XTRIM XGROUP XACK XPENDING XCLAIM XAUTOCLAIM XINFO
	XSETID s t s#0 nokey g h c d * - + $ > 0 0-0 0-1 1 1-1 1-* 2 5-5 (1 (0-0 18446744073709551615-18446744073709551615 x -1 -2
	9223372036854775807 9223372036854775808 100 = ~ MAXLEN MINID LIMIT NOMKSTREAM COUNT BLOCK STREAMS GROUP NOACK CREATE SETID
	DESTROY CREATECONSUMER DELCONSUMER HELP MKSTREAM ENTRIESREAD IDLE TIME RETRYCOUNT FORCE JUSTID LASTID STREAM GROUPS CONSUMERS
	FULL ENTRIESADDED MAXDELETEDID KEEPREF CLAIM f v`)

// commandWords are those that begin a command.
const commandWords = 15

// TestRandomWordsNeverKillTheServer sends 10,000 commands of random words (C55) and watches that each is answered, or waits, and the
// server still answers PING.
func TestRandomWordsNeverKillTheServer(t *testing.T) {
	_, addr := startServer(t, Options{Loops: 1})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dial := func() (net.Conn, *bufio.Reader) {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return nc, bufio.NewReader(nc)
	}
	nc, r := dial()
	defer func() { nc.Close() }()
	for range 10000 {
		cmd := []string{words[rnd.IntN(commandWords)]}
		for range rnd.IntN(9) {
			w := words[rnd.IntN(len(words))]
			if w == "BLOCK" {
				continue // which would wait for what never comes
			}
			cmd = append(cmd, w)
		}
		nc.SetDeadline(time.Now().Add(patience))
		if _, err := nc.Write(append(multibulk(cmd...), multibulk("PING")...)); err != nil {
			t.Fatal(cmd, err)
		}
		v, err := readValue(r)
		if err != nil {
			t.Fatal(cmd, err)
		}
		if strings.Contains(v.text, errInternal) {
			t.Fatalf("%q: %s", cmd, v.text)
		}
		if pong, err := readValue(r); err != nil || pong.text != "PONG" {
			t.Fatalf("%q: then PING: %v %v", cmd, pong, err)
		}
	}
}

// FuzzStreamCommand: whatever the words are, the reply is one whole value and no handler panics.
func FuzzStreamCommand(f *testing.F) {
	for _, s := range []string{
		"XADD s * f v", "XADD s MAXLEN ~ 10 LIMIT 5 1-* f v", "XREAD COUNT 1 STREAMS s 0", "XREADGROUP GROUP g c NOACK STREAMS s >",
		"XGROUP CREATE s g $ MKSTREAM", "XCLAIM s g c 0 1 FORCE", "XAUTOCLAIM s g c 0 0 COUNT 1 JUSTID", "XPENDING s g IDLE 0 - + 10 c",
		"XINFO STREAM s FULL COUNT 1", "XSETID s 5 ENTRIESADDED 10 MAXDELETEDID 1", "XTRIM s MINID = 5", "XRANGE s (1 + COUNT 2", "XACK s g 1",
		"XDEL s 1-1",
	} {
		f.Add(s)
	}
	_, addr := startServer(f, Options{Loops: 1})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		f.Fatal(err)
	}
	r := bufio.NewReader(nc)
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		if !strings.HasPrefix(strings.ToLower(args[0]), "x") || strings.Contains(strings.ToLower(line), "block") {
			return
		}
		nc.SetDeadline(time.Now().Add(patience))
		if _, err := nc.Write(append(multibulk(args...), multibulk("PING")...)); err != nil {
			t.Fatal(err)
		}
		v, err := readValue(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(v.text, errInternal) {
			t.Fatal(v.text)
		}
		if pong, err := readValue(r); err != nil || pong.text != "PONG" {
			t.Fatalf("then PING: %v %v", pong, err)
		}
	})
}

// FuzzID: what is parsed as an ID is written as an ID that parses to the same.
func FuzzID(f *testing.F) {
	for _, s := range []string{"0-0", "5", "5-", "-", "+", "(5-1", "5-*", "18446744073709551615-18446744073709551615", "007-001", "18446744073709551616"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, ok := parseID(b, 7)
		if ok {
			again, ok := parseID([]byte(id.String()), 0)
			if !ok || again != id {
				t.Fatalf("%q is %v, which is written %q", b, id, id.String())
			}
			if loose, ok := parseLooseID(b, 7); !ok || loose != id {
				t.Fatalf("%q is %v and loosely %v", b, id, loose)
			}
		}
		if _, auto, newOK := parseNewID(b); newOK != (ok || auto) {
			t.Fatalf("%q: new %v auto %v, but ID %v", b, newOK, auto, ok)
		}
		start, text := parseStart(b)
		if text == "" && len(b) > 0 && b[0] == '(' && start == (engine.ID{}) {
			t.Fatalf("%q excludes nothing", b)
		}
		if n, ok := signed(b); ok && !bytes.Equal(b, []byte(itoa(n))) {
			t.Fatalf("%q is %d", b, n)
		}
	})
}
