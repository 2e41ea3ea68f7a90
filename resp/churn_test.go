package resp

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"weir/engine"
)

// TestChurnLeavesNothing: clients that come, wait, break off in the middle of a command, are killed and unblocked by each other leave no
// connection, no descriptor, nobody waiting and nobody parked in the engine; and every entry went to exactly one consumer.
func TestChurnLeavesNothing(t *testing.T) {
	for name, o := range map[string]Options{"one loop": {Loops: 1}, "three loops": {Loops: 3}, "portable": {Portable: true}} {
		t.Run(name, func(t *testing.T) {
			s, addr := startServer(t, o)
			w := dial(t, addr)
			w.want("XGROUP CREATE q g 0 MKSTREAM", "+OK")
			r, _ := s.bridge.Resolve([]byte("q"))
			before := descriptors()
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(i), 1))
					for range 40 {
						rudeClient(addr, rng)
					}
				})
			}
			wg.Wait()
			eventually(t, "everybody is gone", func() bool { return s.Stats().Clients == 1 && s.Stats().Blocked == 0 })
			for _, p := range []engine.Place{{Stream: r.Stream()}, {Name: "q"}, {Name: "nosuch"}} {
				eventually(t, "nobody is parked", func() bool { return len(s.eng.Parked(p)) == 0 })
			}
			eventually(t, "the descriptors are closed", func() bool { return descriptors() <= before })
			if v := w.do("XINFO", "GROUPS", "q"); len(v.elems) != 1 {
				t.Errorf("the group: %v", v)
			}
			// What is pending and what is still to come are all there is.
			w.do("XREADGROUP", "GROUP", "g", "last", "STREAMS", "q", ">")
			length := w.do("XLEN", "q").text
			if pending := w.do("XPENDING", "q", "g").elems[0].text; pending != length {
				t.Errorf("%s entries, %s pending", length, pending)
			}
		})
	}
}

// descriptors counts what the process has open; 0 where that is not known.
func descriptors() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all)
}

// rudeClient connects, does a few things at random and leaves as it likes.
func rudeClient(addr string, rng *rand.Rand) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Duration(1+rng.IntN(20)) * time.Millisecond))
	for range 1 + rng.IntN(4) {
		switch rng.IntN(8) {
		case 0, 1:
			nc.Write(multibulk("XADD", "q", "*", "f", "v"))
		case 2:
			nc.Write(multibulk("XREADGROUP", "GROUP", "g", fmt.Sprint(rng.IntN(3)), "COUNT", "1", "BLOCK", fmt.Sprint(1+rng.IntN(10)), "STREAMS", "q", ">"))
		case 3:
			nc.Write(multibulk("XREAD", "BLOCK", "0", "STREAMS", "q", "nosuch", "$", "$"))
		case 4:
			nc.Write(multibulk("CLIENT", "KILL", "ID", fmt.Sprint(2+rng.IntN(500))))
		case 5:
			nc.Write(multibulk("CLIENT", "UNBLOCK", fmt.Sprint(2+rng.IntN(500)), "ERROR"))
		case 6:
			whole := multibulk("ECHO", "broken off")
			nc.Write(whole[:rng.IntN(len(whole))])
		case 7:
			nc.Write(multibulk("WAITAOF", "1", "0", "5"))
		}
	}
	switch rng.IntN(3) {
	case 0:
		nc.(*net.TCPConn).SetLinger(0)
	case 1:
		nc.(*net.TCPConn).CloseWrite()
		nc.Read(make([]byte, 1000))
	default:
		nc.Read(make([]byte, 1000))
	}
}
