package resp

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

// fill adds n entries 1-0, 2-0, ... with a value of size bytes.
func fill(c *client, key string, n, size int) {
	c.t.Helper()
	value := strings.Repeat("v", size)
	var p []byte
	for i := 1; i <= n; i++ {
		p = append(p, multibulk("XADD", key, fmt.Sprintf("%d-0", i), "field", value)...)
		if i%500 == 0 || i == n {
			c.write(p)
			p = p[:0]
			for range (i-1)%500 + 1 {
				if v := c.read(); v.kind != '$' {
					c.t.Fatalf("XADD: %v", v)
				}
			}
		}
	}
}

// TestLongReplyIsWhatItWas: a reply of 30 MB is read in small pieces while its stream is trimmed, deleted and made anew under it, on
// all loops; another client is answered meanwhile.
func TestLongReplyIsWhatItWas(t *testing.T) {
	for _, o := range []Options{{Loops: 1}, {Portable: true}} {
		t.Run(fmt.Sprintf("loops=%d", o.Loops), func(t *testing.T) {
			_, addr := startServer(t, o)
			c, other := dial(t, addr), dial(t, addr)
			const n, size = 30000, 1000
			fill(c, "s", n, size)
			c.r = bufio.NewReaderSize(c.nc, 4096)
			c.send("XRANGE", "s", "-", "+")
			expect := func(want string) {
				t.Helper()
				line, err := c.r.ReadString('\n')
				if err != nil || line != want {
					t.Fatalf("%.60q %v, want %.60q", line, err, want)
				}
			}
			expect(fmt.Sprintf("*%d\r\n", n))
			body := fmt.Sprintf("*2\r\n$5\r\nfield\r\n$%d\r\n%s\r\n", size, strings.Repeat("v", size))
			for i := 1; i <= n; i++ {
				id := fmt.Sprintf("%d-0", i)
				for line := range strings.Lines(fmt.Sprintf("*2\r\n$%d\r\n%s\r\n%s", len(id), id, body)) {
					expect(line)
				}
				switch i {
				case 100:
					ask(other, "XTRIM s MAXLEN 10")
				case 200:
					ask(other, "DEL s")
				case 300:
					other.want("XADD s 1-0 other value", `"1-0"`)
				}
			}
			c.want("XLEN s", "1")
		})
	}
}

// TestLongReadOfSeveralStreams: XREAD of streams that do not fit into one chunk, in RESP2 and RESP3; what was pipelined behind is
// answered after it.
func TestLongReadOfSeveralStreams(t *testing.T) {
	_, addr := startServer(t, Options{Loops: 1})
	c := dial(t, addr)
	const n = 3000
	fill(c, "a", n, 100)
	fill(c, "b", n, 10)
	fill(c, "d", 1, 10)
	for _, proto := range []string{"2", "3"} {
		c.do("HELLO", proto)
		c.send("XREAD", "STREAMS", "a", "b", "none", "d", "0", "0", "0", "0")
		c.send("PING")
		v := c.read()
		var arrays []value
		if proto == "3" {
			if v.kind != '%' || len(v.elems) != 6 {
				t.Fatalf("%c of %d", v.kind, len(v.elems))
			}
			arrays = []value{v.elems[1], v.elems[3], v.elems[5]}
		} else {
			for _, e := range v.elems {
				arrays = append(arrays, e.elems[1])
			}
		}
		for i, want := range []int{n, n, 1} {
			if len(arrays[i].elems) != want {
				t.Fatalf("HELLO %s: stream %d has %d entries, want %d", proto, i, len(arrays[i].elems), want)
			}
			if last := arrays[i].elems[want-1].elems[0].text; last != fmt.Sprintf("%d-0", want) {
				t.Fatalf("last is %s", last)
			}
		}
		if v := c.read(); v.text != "PONG" {
			t.Fatalf("then %v", v)
		}
	}
}

// TestLongDelivery: XREADGROUP of many entries, their history, and XAUTOCLAIM of them are long replies too, and are pending as shown.
func TestLongDelivery(t *testing.T) {
	_, addr := startServer(t, Options{Loops: 1})
	c := dial(t, addr)
	const n = 5000
	fill(c, "s", n, 100)
	c.want("XGROUP CREATE s g 0", "+OK")
	count := func(v value) int { return len(v.elems[0].elems[1].elems) }
	if got := count(c.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")); got != n {
		t.Fatalf("delivered %d", got)
	}
	if got := ask(c, "XDEL s 17-0 4000-0"); got != "2" {
		t.Fatal(got)
	}
	v := c.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "0")
	if got := count(v); got != n {
		t.Fatalf("history has %d", got)
	}
	if gone := v.elems[0].elems[1].elems[16]; gone.elems[0].text != "17-0" || !gone.elems[1].null {
		t.Fatalf("17-0 is %v", gone)
	}
	claimed := c.do("XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "100000")
	if got := len(claimed.elems[1].elems); got != n-2 || len(claimed.elems[2].elems) != 2 {
		t.Fatalf("claimed %d, deleted %v", got, claimed.elems[2])
	}
	c.want("XPENDING s g", fmt.Sprintf(`[%d, "1-0", "%d-0", [["d", "%d"]]]`, n-2, n, n-2))
}
