package resp

import (
	"context"
	"strings"
	"testing"
	"time"

	"weir/engine"
)

// quietLoop is a loop of one connection that never waits.
type quietLoop struct{}

func (quietLoop) notify(*conn)            {}
func (quietLoop) evaluated(*engine.Turn)  {}
func (quietLoop) parked(c *conn, on bool) {}

// bench evaluates the same pipeline over and over, one turn each, without a socket.
func bench(b *testing.B, commands int, pipeline []byte, setup ...string) {
	var first []byte
	for _, line := range setup {
		words, _ := splitWords([]byte(line), nil)
		first = append(first, multibulk(words...)...)
	}
	br := openBridge(b)
	srv := New(br, Options{Loops: 1})
	c := newConn(srv, quietLoop{}, 1, "", "", time.Now())
	turn := br.Engine().Begin(engine.Written)
	feed := func(p []byte) {
		c.begin(turn)
		c.feed(p, time.Now())
		c.settle(turn.Wait(context.Background()))
		for len(c.output()) > 0 || c.produce() {
			c.wrote(len(c.output()))
		}
	}
	feed(first)
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += commands {
		feed(pipeline)
	}
}

func repeat(n int, words ...string) (p []byte) {
	for range n {
		p = append(p, multibulk(words...)...)
	}
	return p
}

func BenchmarkXADD(b *testing.B) {
	value := string(make([]byte, 100))
	bench(b, 64, repeat(64, "XADD", "s", "*", "field", value))
}

func BenchmarkXADDTrimmed(b *testing.B) {
	value := string(make([]byte, 100))
	bench(b, 64, repeat(64, "XADD", "s", "MAXLEN", "~", "1000", "*", "field", value))
}

// BenchmarkQueue adds, delivers ten and acknowledges ten (of which one is pending).
func BenchmarkQueue(b *testing.B) {
	var p []byte
	for range 16 {
		p = append(p, repeat(10, "XADD", "s", "MAXLEN", "~", "10000", "*", "field", "value")...)
		p = append(p, multibulk("XREADGROUP", "GROUP", "g", "c", "COUNT", "10", "STREAMS", "s", ">")...)
	}
	bench(b, 16, p, "XGROUP CREATE s g $ MKSTREAM")
}

func BenchmarkXREADGROUPNothing(b *testing.B) {
	bench(b, 64, repeat(64, "XREADGROUP", "GROUP", "g", "c", "COUNT", "10", "STREAMS", "s", ">"), "XGROUP CREATE s g $ MKSTREAM")
}

func BenchmarkXACKNothing(b *testing.B) {
	bench(b, 64, repeat(64, "XACK", "s", "g", "1-1", "1-2"), "XGROUP CREATE s g $ MKSTREAM")
}

func BenchmarkXRANGE100(b *testing.B) {
	setup := []string{}
	for range 1000 {
		setup = append(setup, "XADD s * field "+strings.Repeat("v", 100))
	}
	bench(b, 16, repeat(16, "XRANGE", "s", "-", "+", "COUNT", "100"), setup...)
}
