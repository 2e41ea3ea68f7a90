package resp

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// BenchmarkFeed is a connection without a socket: parse, dispatch, evaluate, reply, commit to memory; one operation is a pipeline of 64.
func BenchmarkFeed(b *testing.B) {
	value := strings.Repeat("v", 100)
	for _, bench := range []struct {
		name string
		line []string
	}{
		{"PING", []string{"PING"}},
		{"XADD", []string{"XADD", "s", "*", "field", value}},
		{"XREADGROUP", []string{"XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">"}},
		{"XACK", []string{"XACK", "s", "g", "1-1"}},
		{"XRANGE", []string{"XRANGE", "s", "-", "+", "COUNT", "1"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := New(openBridge(b), Options{})
			c := newConn(s, &stillLoop{}, 1, "", "", time.Now())
			t := s.begin()
			step := func(pipeline []byte) {
				c.begin(t)
				for chunk := pipeline; ; chunk = nil {
					c.feed(chunk, time.Now())
					c.settle(s.commit(t))
					c.wrote(len(c.output()))
					for c.produce() {
						c.wrote(len(c.output()))
					}
					if !c.ready() {
						return
					}
					c.begin(t)
				}
			}
			step(multibulk("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"))
			step(multibulk("XADD", "s", "1-1", "f", "v"))
			pipeline := bytes.Repeat(multibulk(bench.line...), 64)
			b.ReportAllocs()
			for b.Loop() {
				step(pipeline)
			}
		})
	}
}
