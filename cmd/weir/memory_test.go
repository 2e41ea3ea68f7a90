package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestMain lets the test binary be weir itself, so that a test can run it as a
// process of its own with a cap on its memory.
func TestMain(m *testing.M) {
	if os.Getenv("WEIR_TEST_AS_PROCESS") != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// peakMB is the largest resident set that a process had.
func peakMB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skip("no /proc here")
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb >> 10
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// A stream of 400 MB is written, read whole by XRANGE, delivered to a group, shown again and claimed, by a process that may
// use a quarter of that.
func TestAStreamLargerThanMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 400 MB")
	}
	const entries, size, most = 40_000, 10_000, 160
	redis := freePort(t)
	cmd := exec.Command(os.Args[0], "serve", "--data", t.TempDir(), "--redis", redis, "--kafka", "", "--admin", "", "--log-level", "error",
		"--tail-cache", "16MiB", "--block-cache", "8MiB", "--memtable", "8MiB")
	cmd.Env = append(os.Environ(), "WEIR_TEST_AS_PROCESS=1", "GOMEMLIMIT=96MiB")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	c := dialUntil(t, redis)
	defer c.Close()
	in := bufio.NewReaderSize(c, 1<<20)

	value := make([]byte, size)
	rng := rand.NewChaCha8([32]byte{1})
	for i := 0; i < entries; i += 100 {
		var out bytes.Buffer
		for j := range 100 {
			id := fmt.Sprintf("%d-1", i+j+1)
			rng.Read(value)
			fmt.Fprintf(&out, "*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$%d\r\n%s\r\n$1\r\nf\r\n$%d\r\n%s\r\n", len(id), id, size, value)
		}
		if _, err := c.Write(out.Bytes()); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			skipReply(t, in)
		}
	}
	fmt.Fprint(c, "XGROUP CREATE s g 0\r\nXRANGE s - +\r\n")
	skipReply(t, in)
	if n := skipReply(t, in); n != entries {
		t.Errorf("XRANGE gave %d entries", n)
	}
	fmt.Fprint(c, "XREADGROUP GROUP g c STREAMS s >\r\nXPENDING s g\r\n")
	skipReply(t, in)
	skipReply(t, in)
	claim := fmt.Appendf(nil, "*%d\r\n$6\r\nXCLAIM\r\n$1\r\ns\r\n$1\r\ng\r\n$1\r\nd\r\n$1\r\n0\r\n", 5+entries)
	for i := range entries {
		id := fmt.Sprintf("%d-1", i+1)
		claim = fmt.Appendf(claim, "$%d\r\n%s\r\n", len(id), id)
	}
	for _, again := range []string{
		"XREADGROUP GROUP g c STREAMS s 0\r\n", string(claim), "XAUTOCLAIM s g e 0 - COUNT 1000000000\r\n",
		"XAUTOCLAIM s g f 0 - COUNT 1000000000 JUSTID\r\n",
	} {
		if _, err := io.WriteString(c, again); err != nil {
			t.Fatal(err)
		}
		skipReply(t, in)
		t.Logf("%.20q: peak %d MB", again, peakMB(t, cmd.Process.Pid))
	}
	if peak := peakMB(t, cmd.Process.Pid); peak > most {
		t.Errorf("the process had %d MB resident, want at most %d", peak, most)
	} else {
		t.Logf("peak %d MB for %d MB", peak, entries*size>>20)
	}
}

func dialUntil(t *testing.T, addr string) net.Conn {
	t.Helper()
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
}

// skipReply reads one RESP2 reply and returns how many elements its outermost array has (0 for anything else).
func skipReply(t *testing.T, in *bufio.Reader) int {
	t.Helper()
	line, err := in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '-':
		t.Fatal(line)
	case '$':
		if _, err := io.CopyN(io.Discard, in, int64(n+2)); n >= 0 && err != nil {
			t.Fatal(err)
		}
	case '*':
		for range n {
			skipReply(t, in)
		}
		return n
	}
	return 0
}
