package resp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// ask sends the words of a line and returns the reply as text.
func ask(c *client, format string, args ...any) string {
	c.t.Helper()
	return c.do(strings.Fields(fmt.Sprintf(format, args...))...).String()
}

// TestApproximateTrimming has the figures that other people's suites assert of virtual nodes: as many entries to a node, so
// many added with the line, and the length afterwards.
func TestApproximateTrimming(t *testing.T) {
	_, addr := startServer(t, Options{Loops: 1})
	c := dial(t, addr)
	check := func(what, want string) {
		t.Helper()
		if got := ask(c, "XLEN s"); got != want {
			t.Errorf("%s: length %s, want %s", what, got, want)
		}
	}
	ask(c, "CONFIG SET stream-node-max-entries 100")
	for range 1000 {
		ask(c, "XADD s MAXLEN ~ 555 * item 0")
	}
	check("1000 x MAXLEN ~ 555, nodes of 100", "600")

	ask(c, "DEL s")
	ask(c, "CONFIG SET stream-node-max-entries 10")
	for range 100 {
		ask(c, "XADD s * item 0")
	}
	ask(c, "XADD s MAXLEN ~ 55 LIMIT 30 * item 0")
	check("MAXLEN ~ 55 LIMIT 30 of 101, nodes of 10", "71")
	ask(c, "XADD s MAXLEN ~ 55 LIMIT 30 * item 0")
	check("once more", "62")

	ask(c, "DEL s")
	ask(c, "CONFIG SET stream-node-max-entries 1")
	for range 102 {
		ask(c, "XADD s * item 0")
	}
	ask(c, "XTRIM s MAXLEN ~ 1")
	check("XTRIM ~ 1 of 102, nodes of 1, at most 100 at a time", "2")

	ask(c, "DEL s")
	ask(c, "CONFIG SET stream-node-max-entries 100")
	for range 10 {
		ask(c, "XADD s * item 0")
	}
	ask(c, "XTRIM s MAXLEN ~ 1")
	check("XTRIM ~ 1 of 10, nodes of 100", "10")
}

// TestDeletedAtRandom deletes all entries in random order and reads what is left at every step; radix-tree-keys grows with the stream.
func TestDeletedAtRandom(t *testing.T) {
	_, addr := startServer(t, Options{Loops: 1})
	c := dial(t, addr)
	keys := func() string {
		return strings.SplitN(strings.SplitN(ask(c, "XINFO STREAM s"), `"radix-tree-keys", `, 2)[1], ",", 2)[0]
	}
	n := 0
	for n < 3000 {
		n++
		ask(c, "XADD s %d-1 f v", n)
		if k, _ := strconv.Atoi(keys()); k > 20 {
			break
		}
	}
	if n >= 3000 {
		t.Fatalf("radix-tree-keys is %s after %d entries", keys(), n)
	}
	living := make([]int, n)
	for i := range living {
		living[i] = i + 1
	}
	for step := 7; len(living) > 0; step = (step*31 + 11) % 997 {
		i := step % len(living)
		if got := ask(c, "XDEL s %d-1", living[i]); got != "1" {
			t.Fatalf("XDEL %d-1: %s", living[i], got)
		}
		living = append(living[:i], living[i+1:]...)
		if len(living)%97 != 0 {
			continue
		}
		var want strings.Builder
		for j, ms := range living {
			if j > 0 {
				want.WriteString(", ")
			}
			fmt.Fprintf(&want, `["%d-1", ["f", "v"]]`, ms)
		}
		got := ask(c, "XRANGE s - +")
		if got == "["+want.String()+"]" {
			continue
		}
		for at := range got {
			if at >= want.Len() || got[at+1] != want.String()[at] {
				t.Fatalf("%d left: ...%.60s, want ...%.60s", len(living), got[at+1:], want.String()[min(at, want.Len()):])
			}
		}
	}
}
