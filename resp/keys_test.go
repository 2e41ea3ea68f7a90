package resp

import (
	"fmt"
	"strings"
	"testing"
)

// TestScanReturnsWhatStays: a full iteration returns every key that is there all the while exactly once, whatever comes and goes.
func TestScanReturnsWhatStays(t *testing.T) {
	_, addr := startServer(t, Options{})
	k := dial(t, addr)
	const n = 200
	for i := range n {
		k.do("XADD", fmt.Sprintf("stay:%d", i), "1-0", "f", "v")
		k.do("XADD", fmt.Sprintf("go:%d", i), "1-0", "f", "v")
	}
	seen := map[string]int{}
	cursor := "0"
	for round := 0; ; round++ {
		v := k.do("SCAN", cursor, "COUNT", "7", "MATCH", "stay:*")
		for _, e := range v.elems[1].elems {
			seen[e.text]++
		}
		if cursor = v.elems[0].text; cursor == "0" {
			break
		}
		k.do("DEL", fmt.Sprintf("go:%d", round*3))
		k.do("XADD", fmt.Sprintf("new:%d", round), "1-0", "f", "v")
		if round > 10*n {
			t.Fatal("SCAN does not end")
		}
	}
	for i := range n {
		if got := seen[fmt.Sprintf("stay:%d", i)]; got != 1 {
			t.Errorf("stay:%d was returned %d times", i, got)
		}
	}
}

// TestKeysLongerThanABuffer: a listing that does not fit one chunk is whole.
func TestKeysLongerThanABuffer(t *testing.T) {
	bothLoops(t, Options{}, func(t *testing.T, s *Server, addr string) {
		k := dial(t, addr)
		const n = 1500
		long := strings.Repeat("k", 200)
		var pipeline []byte
		for i := range n {
			pipeline = append(pipeline, multibulk("XADD", fmt.Sprint(long, i), "1-0", "f", "v")...)
		}
		k.write(pipeline)
		for range n {
			k.read()
		}
		if v := k.do("KEYS", "k*"); len(v.elems) != n {
			t.Errorf("KEYS returned %d of %d", len(v.elems), n)
		}
		k.want("PING", "+PONG")
		k.want("FLUSHALL", "+OK")
		k.want("DBSIZE", "0")
	})
}
