package resp

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What ended, spun or swelled servers built on redcon 1.6.4, each against a process of its own, so that its death, its memory
// and its CPU time are the server's alone. Both loops are tried.

// childEnv makes the test binary a server: "epoll" or "portable".
const childEnv = "WEIR_RESP_TEST_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		childServer(mode)
		return
	}
	os.Exit(m.Run())
}

// childServer serves the socket commands, and BIG n: n bytes in one reply, LONG n: n bytes made while they are taken. It ends
// with its standard input.
func childServer(mode string) {
	o := Options{Portable: mode == "portable", Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if n, err := strconv.Atoi(os.Getenv(childEnv + "_CLIENTS")); err == nil {
		o.MaxClients = n
	}
	if n, err := strconv.Atoi(os.Getenv(childEnv + "_FILES")); err == nil {
		limitFiles(uint64(n))
	}
	s := New(nil, o)
	s.list = buildList(connectionRows(), serverRows(), oddRows())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(ln.Addr())
	go s.Serve(ln)
	io.Copy(io.Discard, os.Stdin)
}

// oddRows are commands that only tests have.
func oddRows() []*command {
	size := func(c *call) int {
		n, _ := parseInt(c.args[1])
		return int(n)
	}
	return []*command{
		{name: "big", arity: 2, group: "test", run: func(c *call) { c.Bulk(bytes.Repeat([]byte{'x'}, size(c))) }},
		{name: "long", arity: 2, group: "test", run: func(c *call) {
			c.Array(size(c))
			c.continueWith(&countdown{left: size(c)})
		}},
		{name: "sink", arity: -1, group: "test", run: func(c *call) { c.Int(int64(len(c.args))) }},
		{name: "boom", arity: 1, group: "test", run: func(c *call) { c.Array(3); panic("boom") }},
		{name: "halt", arity: 2, group: "test", run: func(c *call) {
			c.park(&blocked{deadline: c.deadlineIn(int64(size(c))), again: func(*call) bool { return false }})
		}},
	}
}

// countdown is a long reply of integers, n-1 down to 0.
type countdown struct{ left int }

func (n *countdown) next(w *reply) (bool, error) {
	for from := len(w.b); n.left > 0 && len(w.b)-from < restChunk; {
		n.left--
		w.Int(int64(n.left))
	}
	return n.left > 0, nil
}

func (n *countdown) close() {}

// child is a server in a process.
type child struct {
	t    *testing.T
	addr string
	cmd  *exec.Cmd
}

// eachLoop runs a test against a child with each of the loops.
func eachLoop(t *testing.T, test func(t *testing.T, c *child), env ...string) {
	for _, mode := range []string{"epoll", "portable"} {
		t.Run(mode, func(t *testing.T) { test(t, startChild(t, mode, env...)) })
	}
}

func startChild(t *testing.T, mode string, env ...string) *child {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs /proc")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), childEnv+"="+mode), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server process ended badly: %v", err)
		}
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	c.addr = strings.TrimSpace(addr)
	return c
}

// alive says PING on a new connection.
func (c *child) alive() {
	c.t.Helper()
	dial(c.t, c.addr).want("PING", "+PONG")
}

func (c *child) proc(file string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", c.cmd.Process.Pid, file))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(b)
}

// cpu is what the process has used.
func (c *child) cpu() time.Duration {
	_, rest, _ := strings.Cut(c.proc("stat"), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.Atoi(f[11])
	sys, _ := strconv.Atoi(f[12])
	return time.Duration(user+sys) * 10 * time.Millisecond
}

// peak is the most memory that the process ever held, in MiB.
func (c *child) peak() int {
	for line := range strings.Lines(c.proc("status")) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb >> 10
		}
	}
	c.t.Fatal("no VmHWM")
	return 0
}

func (c *child) peakBelow(mib int, what string) {
	c.t.Helper()
	if got := c.peak(); got > mib && !raceEnabled {
		c.t.Errorf("%s took %d MiB, want at most %d", what, got, mib)
	}
}

// TestHostileLengths: defects 1, 2, 3: lengths that overflow, spin or panic are protocol errors.
func TestHostileLengths(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		before := c.cpu()
		for in, want := range map[string]string{
			"*1\r\n$9223372036854775807\r\n": "invalid bulk length",
			"*9223372036854775807\r\n":       "invalid multibulk length",
			"*1000000000\r\n":                "invalid multibulk length",
			"*1\r\n$-2\r\n":                  "invalid bulk length",
		} {
			k := dial(t, c.addr)
			k.write([]byte(in))
			if got := k.closed(); got != "-ERR Protocol error: "+want+"\r\n" {
				t.Errorf("%q: answered %q", in, got)
			}
		}
		dial(t, c.addr).write([]byte("*1048576\r\n"))
		c.alive()
		if used := c.cpu() - before; used > time.Second {
			t.Errorf("it took %v of CPU", used)
		}
		c.peakBelow(60, "claimed lengths")
	})
}

// TestPipelineWithoutBoundary: defect 4: a pipeline of which no read ends with a command's end stays small.
func TestPipelineWithoutBoundary(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		k := dial(t, c.addr)
		one := multibulk("SINK", strings.Repeat("v", 1000))
		block := bytes.Repeat(one, 1000) // 1 MB
		const blocks = 200
		go func() {
			k.nc.Write(one[:10])
			for i := range blocks {
				b := append(bytes.Clone(one[10:]), block...)
				b = append(b, one[:10]...)
				if i == blocks-1 {
					b = append(b, one[10:]...)
				}
				k.nc.Write(b)
			}
		}()
		for range blocks*1001 + 1 {
			if v := k.read(); v.text != "2" {
				t.Fatal(v)
			}
		}
		c.peakBelow(80, "200 MB of pipeline")
	})
}

// TestLargeCommandIsGivenBack: defect 5: a 64 MB command costs what it is, and an idle connection nothing.
func TestLargeCommandIsGivenBack(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		k := dial(t, c.addr)
		k.send("SINK", strings.Repeat("v", 64<<20))
		if v := k.read(); v.text != "2" {
			t.Fatal(v)
		}
		c.peakBelow(64*3+60, "a 64 MB command")
	})
}

// TestUnfinishedBulk: defect 6: memory grows with what was received, not with what was announced.
func TestUnfinishedBulk(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		k := dial(t, c.addr)
		k.write([]byte("*2\r\n$4\r\nSINK\r\n$2147483648\r\n"))
		if got := k.closed(); got != "-ERR Protocol error: invalid bulk length\r\n" {
			t.Errorf("2 GB announced: %q", got)
		}
		k = dial(t, c.addr)
		k.write([]byte("*2\r\n$4\r\nSINK\r\n$536870912\r\n"))
		k.write(bytes.Repeat([]byte{'v'}, 20<<20))
		c.alive()
		c.peakBelow(20*3+60, "20 MB of an announced 512 MB")
	})
}

// TestDribble: defect 7: a command of very many arguments, byte by byte, costs no more than its bytes.
func TestDribble(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		k := dial(t, c.addr)
		k.write(append([]byte("*500000\r\n$4\r\nSINK\r\n"), bytes.Repeat([]byte("$1\r\nx\r\n"), 400_000)...))
		c.alive()
		before := c.cpu()
		for i := range 2000 {
			k.write([]byte{"$1\r\nx\r\n"[i%7]})
			if i%50 == 0 {
				c.alive() // so that the bytes arrive apart
			}
		}
		c.alive()
		if used := c.cpu() - before; used > time.Second {
			t.Errorf("2000 bytes took %v of CPU", used)
		}
	})
}

// TestUnreadReplies: defect 8: a client that asks for gigabytes and reads nothing costs one reply.
func TestUnreadReplies(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		k := dial(t, c.addr)
		const n, longs = 400, 5
		k.write(bytes.Repeat(multibulk("BIG", "1048576"), n/2))
		k.write(bytes.Repeat(multibulk("LONG", "300000"), longs))
		for range 20 {
			c.alive()
		}
		c.peakBelow(80, "unread replies")
		for range n / 2 {
			if v := k.read(); len(v.text) != 1<<20 {
				t.Fatalf("a reply of %d bytes", len(v.text))
			}
		}
		// Defect 12: what a slow reader gets is whole and told once.
		for range longs {
			v := k.read()
			for i, e := range v.elems {
				if e.text != strconv.Itoa(len(v.elems)-1-i) {
					t.Fatalf("element %d is %s", i, e.text)
				}
			}
		}
		c.peakBelow(80, "replies read late")
	})
}

// TestValidCommandsBeforeAnError: defect 9, 10, 11: commands before a protocol error run, *0 and *-n are nothing, what
// follows QUIT is dropped.
func TestValidCommandsBeforeAnError(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		for in, want := range map[string]string{
			"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n*1\r\nx": "+PONG\r\n+PONG\r\n",
			"*1\r\n$4\r\nPING\r\n*1\r\nxx\r\n":                "+PONG\r\n-ERR Protocol error: expected '$', got 'x'\r\n",
			"*0\r\n*-10\r\nPING\r\nQUIT\r\n":                  "+PONG\r\n+OK\r\n",
			"QUIT\r\nPING\r\nPING\r\n":                        "+OK\r\n",
		} {
			k := dial(t, c.addr)
			k.write([]byte(in))
			k.nc.(*net.TCPConn).CloseWrite()
			if got := k.closed(); got != want {
				t.Errorf("%q: answered %q, want %q", in, got, want)
			}
		}
	})
}

// TestTooManyClients: defect 13: there is a client limit, and its place is free again when a client leaves.
func TestTooManyClients(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		one, two := dial(t, c.addr), dial(t, c.addr)
		one.want("PING", "+PONG")
		two.want("PING", "+PONG")
		if got := dial(t, c.addr).closed(); got != "-ERR max number of clients reached\r\n" {
			t.Errorf("the third client was told %q", got)
		}
		one.want("QUIT", "+OK")
		one.closed()
		eventually(t, "a place is free", func() bool {
			k := dial(t, c.addr)
			k.nc.Write(multibulk("PING"))
			k.nc.SetReadDeadline(time.Now().Add(patience))
			v, err := readValue(k.r)
			k.nc.Close()
			return err == nil && v.text == "PONG"
		})
	}, childEnv+"_CLIENTS=2")
}

// TestOutOfDescriptors: defect 13: accepting pauses, and does not spin, when descriptors run out, and goes on later.
func TestOutOfDescriptors(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		first := dial(t, c.addr)
		first.want("PING", "+PONG")
		var more []net.Conn
		for range 60 {
			nc, err := net.Dial("tcp", c.addr)
			if err != nil {
				t.Fatal(err)
			}
			more = append(more, nc)
		}
		before := c.cpu()
		for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
			first.want("PING", "+PONG")
			pause(5 * time.Millisecond)
		}
		if used := c.cpu() - before; used > 200*time.Millisecond {
			t.Errorf("without descriptors it took %v of CPU", used)
		}
		for _, nc := range more {
			nc.Close()
		}
		c.alive()
	}, childEnv+"_FILES=40")
}

// TestPanicCostsOneConnection: defect 13: a handler that panics ends its own connection.
func TestPanicCostsOneConnection(t *testing.T) {
	eachLoop(t, func(t *testing.T, c *child) {
		other := dial(t, c.addr)
		other.want("PING", "+PONG")
		k := dial(t, c.addr)
		k.write([]byte("PING\r\nBOOM\r\nPING\r\n"))
		if got := k.closed(); got != "+PONG\r\n-ERR internal error\r\n" {
			t.Errorf("answered %q", got)
		}
		other.want("PING", "+PONG")
	})
}

// eventually repeats a look until it is true.
func eventually(t testing.TB, what string, look func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !look(); pause(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// pause rests between two looks at another process.
func pause(d time.Duration) { <-time.After(d) }
