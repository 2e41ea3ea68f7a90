package resp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/engine"
)

// bothLoops runs a test against a server in this process with each of the loops.
func bothLoops(t *testing.T, o Options, test func(t *testing.T, s *Server, addr string)) {
	for name, portable := range map[string]bool{"epoll": false, "portable": true} {
		o := o
		o.Portable = portable
		t.Run(name, func(t *testing.T) {
			s, addr := startServer(t, o)
			test(t, s, addr)
		})
	}
}

func (s *Server) waitBlocked(t *testing.T, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d clients wait", n), func() bool { return s.stats.blocked.Load() == n })
}

// TestFiftySleepersShareFiftyEntries: a pipeline of 50 entries wakes 50 sleepers with COUNT 1, one entry each.
func TestFiftySleepersShareFiftyEntries(t *testing.T) {
	bothLoops(t, Options{}, func(t *testing.T, s *Server, addr string) {
		w := dial(t, addr)
		w.want("XGROUP CREATE q g 0 MKSTREAM", "+OK")
		var sleepers []*client
		for i := range 50 {
			k := dial(t, addr)
			k.send("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "BLOCK", "0", "STREAMS", "q", ">")
			sleepers = append(sleepers, k)
			s.waitBlocked(t, int64(i+1))
		}
		var pipeline []byte
		for i := range 50 {
			pipeline = append(pipeline, multibulk("XADD", "q", fmt.Sprintf("%d-0", i+1), "f", "v")...)
		}
		w.write(pipeline)
		got := map[string]bool{}
		for _, k := range sleepers {
			got[k.read().elems[0].elems[1].elems[0].elems[0].text] = true
		}
		if len(got) != 50 {
			t.Errorf("50 sleepers got %d different entries", len(got))
		}
		s.waitBlocked(t, 0)
	})
}

// TestSleepersAreServedInOrder: on one loop the one that has waited longest is served first, before the writer's next command.
func TestSleepersAreServedInOrder(t *testing.T) {
	s, addr := startServer(t, Options{Loops: 1})
	w := dial(t, addr)
	w.want("XGROUP CREATE q g 0 MKSTREAM", "+OK")
	var sleepers []*client
	for i := range 10 {
		k := dial(t, addr)
		k.send("XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "BLOCK", "0", "STREAMS", "q", ">")
		sleepers = append(sleepers, k)
		s.waitBlocked(t, int64(i+1))
	}
	for i := range 5 {
		w.send("XADD", "q", fmt.Sprintf("%d-0", i+1), "f", "v")
	}
	for range 5 {
		w.read()
	}
	for i, k := range sleepers[:5] {
		if id := k.read().elems[0].elems[1].elems[0].elems[0].text; id != fmt.Sprintf("%d-0", i+1) {
			t.Errorf("sleeper %d got %s", i, id)
		}
	}
	// The pipeline's XPENDING sees what a sleeper took between it and the XADD.
	w.write(append(multibulk("XADD", "q", "6-0", "f", "v"), multibulk("XPENDING", "q", "g")...))
	w.read()
	if v := w.read(); v.elems[0].text != "6" {
		t.Errorf("pending: %v", v)
	}
}

// TestRepliesBeforeAWait: what was pipelined before a blocking read is answered while it waits, what is behind it after it.
func TestRepliesBeforeAWait(t *testing.T) {
	bothLoops(t, Options{}, func(t *testing.T, s *Server, addr string) {
		k := dial(t, addr)
		k.write(bytes.Join([][]byte{multibulk("ECHO", "before"), multibulk("XREAD", "BLOCK", "0", "STREAMS", "s", "$"), multibulk("ECHO", "after")}, nil))
		if v := k.read(); v.text != "before" {
			t.Fatal(v)
		}
		s.waitBlocked(t, 1)
		k.send("ECHO", "ahead")
		dial(t, addr).want("XADD s 1-0 f v", `"1-0"`)
		if v := k.read().String(); v != `[["s", [["1-0", ["f", "v"]]]]]` {
			t.Errorf("read %s", v)
		}
		for _, want := range []string{"after", "ahead"} {
			if v := k.read(); v.text != want {
				t.Errorf("then %v, want %s", v, want)
			}
		}
	})
}

// TestTheWaitKeepsItsDeadline: a reader that is woken in vain answers at its first deadline.
func TestTheWaitKeepsItsDeadline(t *testing.T) {
	bothLoops(t, Options{}, func(t *testing.T, s *Server, addr string) {
		w := dial(t, addr)
		w.want("XGROUP CREATE q g 0 MKSTREAM", "+OK")
		k := dial(t, addr)
		start := time.Now()
		k.send("XREADGROUP", "GROUP", "g", "c", "BLOCK", "200", "STREAMS", "q", ">")
		s.waitBlocked(t, 1)
		for i := range 10 {
			w.want(fmt.Sprintf("XADD q MAXLEN 0 %d-0 f v", i+1), strconv.Quote(fmt.Sprintf("%d-0", i+1)))
		}
		if v := k.read(); !v.null {
			t.Errorf("read %v", v)
		}
		if took := time.Since(start); took < 200*time.Millisecond || took > 2*time.Second {
			t.Errorf("BLOCK 200 took %v", took)
		}
	})
}

// TestAClientThatLeavesIsNoticed: FIN, RST, and both with many commands sent behind the blocking one; what comes later is
// delivered to others.
func TestAClientThatLeavesIsNoticed(t *testing.T) {
	bothLoops(t, Options{}, func(t *testing.T, s *Server, addr string) {
		w := dial(t, addr)
		w.want("XGROUP CREATE q g 0 MKSTREAM", "+OK")
		for name, leave := range map[string]func(k *client){
			"fin": func(k *client) { k.nc.Close() },
			"rst": func(k *client) { k.nc.(*net.TCPConn).SetLinger(0); k.nc.Close() },
			"behind": func(k *client) {
				k.write(bytes.Repeat(multibulk("PING"), 1000))
				k.nc.Close()
			},
			"far behind": func(k *client) {
				big := multibulk("ECHO", strings.Repeat("x", 10000))
				go k.nc.Write(bytes.Repeat(big, 1000)) // far more than a waiting client may send ahead
				eventually(t, "the server stops reading", func() bool { return k.idle(s) })
				k.nc.(*net.TCPConn).SetLinger(0)
				k.nc.Close()
			},
		} {
			k := dial(t, addr)
			k.send("XREADGROUP", "GROUP", "g", name, "BLOCK", "0", "STREAMS", "q", ">")
			s.waitBlocked(t, 1)
			leave(k)
			if name == "far behind" && s.o.Portable {
				// The portable loop has stopped reading and cannot see the end: the next delivery finds it out.
				w.do("XADD", "q", "*", "f", "v")
			}
			s.waitBlocked(t, 0)
		}
		if v := w.do("XPENDING", "q", "g"); v.elems[0].text != "0" && !s.o.Portable {
			t.Errorf("something was delivered to one who had left: %v", v)
		}
	})
}

// idle says that the server has read as much as it will.
func (c *client) idle(s *Server) bool {
	for _, k := range s.everyone() {
		if k.sess.addr == c.nc.LocalAddr().String() {
			before := k.sess.in.Load()
			pause(20 * time.Millisecond)
			return before > 0 && before == k.sess.in.Load()
		}
	}
	return false
}

// TestAFailedCommitTakesBackEveryReply: nothing that was evaluated in the turn is told; the number of replies stays, so that the
// client does not mistake one for another.
func TestAFailedCommitTakesBackEveryReply(t *testing.T) {
	s := New(nil, Options{})
	c := newConn(s, &stillLoop{}, 1, "", "", time.Now())
	c.begin(nil)
	c.feed([]byte("PING\r\n"), time.Now())
	c.settle(nil)
	c.begin(nil)
	c.feed([]byte("PING\r\nECHO hello\r\nNOSUCH\r\nPING\r\n"), time.Now())
	if got := string(c.output()); got != "+PONG\r\n" {
		t.Errorf("before the commit %q may be written", got)
	}
	c.settle(fmt.Errorf("%w: no space left on device", engine.ErrFailed))
	lines := strings.SplitAfter(string(c.output()), "\r\n")
	if len(lines) != 6 || lines[0] != "+PONG\r\n" || lines[5] != "" {
		t.Fatalf("after the failed commit: %q", lines)
	}
	for _, l := range lines[1:5] {
		if !strings.HasPrefix(l, "-MISCONF Errors writing to the disk: ") {
			t.Errorf("after the failed commit: %q", l)
		}
	}
}

// stillLoop is a loop that does nothing: the test feeds the connection.
type stillLoop struct{}

func (*stillLoop) notify(*conn)           {}
func (*stillLoop) evaluated(*engine.Turn) {}
func (*stillLoop) parked(*conn, bool)     {}

// TestASlowReaderIsClosed: who has not taken a byte for WriteTimeout is hung up on, and counted.
func TestASlowReaderIsClosed(t *testing.T) {
	for name, portable := range map[string]bool{"epoll": false, "portable": true} {
		t.Run(name, func(t *testing.T) {
			s := New(nil, Options{WriteTimeout: 300 * time.Millisecond, Portable: portable})
			s.list = buildList(connectionRows(), oddRows())
			addr := serve(t, s)
			k := dial(t, addr)
			k.send("LONG", "100000000")
			eventually(t, "the client is closed", func() bool { return s.Stats().SlowClosed == 1 && s.Stats().Clients == 0 })
		})
	}
}

// TestALongReplyHoldsUpNobody: while one client takes its time over a long reply, others are answered, and its own next command
// after it.
func TestALongReplyHoldsUpNobody(t *testing.T) {
	for name, portable := range map[string]bool{"epoll": false, "portable": true} {
		t.Run(name, func(t *testing.T) {
			s := New(nil, Options{Portable: portable})
			s.list = buildList(connectionRows(), oddRows())
			addr := serve(t, s)
			k := dial(t, addr)
			k.write(append(multibulk("LONG", "2000000"), multibulk("ECHO", "next")...))
			other := dial(t, addr)
			for range 100 {
				other.want("PING", "+PONG")
			}
			if v := k.read(); len(v.elems) != 2000000 || v.elems[1999999].text != "0" {
				t.Errorf("%d elements", len(v.elems))
			}
			if v := k.read(); v.text != "next" {
				t.Error(v)
			}
		})
	}
}

// TestShutdownAnswersWhatWasSent: connections end when they are answered; one that waits ends at once; one that does not read
// ends with the context.
func TestShutdownAnswersWhatWasSent(t *testing.T) {
	for name, portable := range map[string]bool{"epoll": false, "portable": true} {
		t.Run(name, func(t *testing.T) {
			s := New(nil, Options{Portable: portable})
			s.list = buildList(connectionRows(), oddRows())
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- s.Serve(ln) }()
			addr := ln.Addr().String()
			idle, waits, stuck := dial(t, addr), dial(t, addr), dial(t, addr)
			idle.want("PING", "+PONG")
			waits.send("HALT", "0")
			stuck.send("LONG", "100000000")
			s.waitBlocked(t, 1)
			eventually(t, "the client is behind", func() bool {
				for _, c := range s.everyone() {
					if c.sess.pendingOut.Load() > 0 {
						return true
					}
				}
				return false
			})
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			down := make(chan error, 1)
			go func() { down <- s.Shutdown(ctx) }()
			if got := idle.closed() + waits.closed(); got != "" {
				t.Errorf("the idle and the waiting were told %q", got)
			}
			if nc, err := net.Dial("tcp", addr); err == nil {
				if n, _ := nc.Read(make([]byte, 1)); n > 0 {
					t.Error("a new client was served")
				}
				nc.Close()
			}
			cancel()
			if err := <-down; !errors.Is(err, context.Canceled) {
				t.Errorf("shutdown: %v", err)
			}
			if err := <-served; !errors.Is(err, ErrServerClosed) {
				t.Errorf("serve: %v", err)
			}
			if err := s.Shutdown(context.Background()); err != nil {
				t.Errorf("second shutdown: %v", err)
			}
		})
	}
}

// TestHelloTellsTheTruth: its reply is in the protocol that it chose.
func TestHelloTellsTheTruth(t *testing.T) {
	_, addr := socketServer(t, Options{})
	k := dial(t, addr)
	id := k.do("CLIENT", "ID").text
	k.want("HELLO 3", `{"server": "redis", "version": "8.2.3", "proto": 3, "id": `+id+`, "mode": "standalone", "role": "master", "modules": []}`)
	k.want("CLIENT GETNAME", "null")
	k.want("HELLO 2", `["server", "redis", "version", "8.2.3", "proto", 2, "id", `+id+`, "mode", "standalone", "role", "master", "modules", []]`)
	k.want("CLIENT GETNAME", "nil")
}

// TestInfoCounts: the fields that clients and suites read.
func TestInfoCounts(t *testing.T) {
	s, addr := startServer(t, Options{Version: "0.1"})
	k := dial(t, addr)
	k.do("XADD", "s")
	k.do("XADD", "s", "1-0", "f", "v")
	k.do("XADD", "s", "1-0", "f", "v")
	k.do("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
	k.do("NOSUCH")
	waits := dial(t, addr)
	waits.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
	s.waitBlocked(t, 1)
	text := k.do("INFO", "everything").text
	for _, want := range []string{"redis_version:8.2.3\r\n", "weir_version:0.1\r\n", "loading:0\r\n", "aof_rewrite_in_progress:0\r\n", "connected_clients:2\r\n",
		"blocked_clients:1\r\n", "maxmemory:0\r\n", "total_error_replies:4\r\n", "role:master\r\n", "connected_slaves:0\r\n", "cluster_enabled:0\r\n",
		"db0:keys=1,", "errorstat_ERR:count=3\r\n", "errorstat_NOGROUP:count=1\r\n", "rejected_calls=1,failed_calls=1\r\n", "cmdstat_xreadgroup:calls=1,", "tcp_port:" + addr[strings.LastIndex(addr, ":")+1:]} {
		if !strings.Contains(text, want) {
			t.Errorf("INFO lacks %q", want)
		}
	}
	for line := range strings.SplitSeq(strings.TrimRight(text, "\r\n"), "\r\n") {
		if line != "" && !strings.HasPrefix(line, "# ") && !strings.Contains(line, ":") {
			t.Errorf("INFO has the line %q", line)
		}
	}
	for _, row := range s.Stats().Rows {
		if row.Name == "xadd" && (row.BytesIn != 2*int64(len(multibulk("XADD", "s", "1-0", "f", "v"))) || row.BytesOut < 50) {
			t.Errorf("xadd: %+v", row)
		}
	}
	if st := s.Stats(); st.Clients != 2 || st.Blocked != 1 || st.ErrorReplies != 4 || st.Errors["NOGROUP"] != 1 {
		t.Errorf("stats: %+v", st)
	}
}

// TestShutdownIsNeverMissed: a loop that is about to sleep when it is told to end does not sleep.
func TestShutdownIsNeverMissed(t *testing.T) {
	for range 200 {
		s := New(nil, Options{Loops: 2})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go s.Serve(ln)
		k := dial(t, ln.Addr().String())
		k.want("PING", "+PONG")
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := s.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		k.nc.Close()
	}
}
