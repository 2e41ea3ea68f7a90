package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// freePort returns a loopback address that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

type running struct {
	kafka, redis, admin string
	stop                context.CancelFunc
	status              chan int
	errs                *bytes.Buffer
}

// startWeir runs `weir serve` in this process until stop.
func startWeir(t *testing.T, dir string, more ...string) *running {
	t.Helper()
	r := &running{kafka: freePort(t), redis: freePort(t), admin: freePort(t), status: make(chan int, 1), errs: &bytes.Buffer{}}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	args := append([]string{"serve", "--data", dir, "--kafka", r.kafka, "--redis", r.redis, "--admin", r.admin, "--log-level", "error"}, more...)
	go func() { r.status <- run(ctx, args, io.Discard, r.errs) }()
	return r
}

// get asks the admin server until it answers, or weir has ended.
func (r *running) get(t *testing.T, path string) (int, string) {
	t.Helper()
	for {
		resp, err := http.Get("http://" + r.admin + path)
		if err == nil {
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(body)
		}
		select {
		case s := <-r.status:
			t.Fatalf("weir ended with %d: %s", s, r.errs)
		default:
		}
	}
}

func (r *running) ready(t *testing.T) {
	t.Helper()
	for {
		if status, _ := r.get(t, "/readyz"); status == 200 {
			return
		}
	}
}

func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	if s := <-r.status; s != 0 {
		t.Fatalf("stopped with status %d: %s", s, r.errs)
	}
}

func redisDo(t *testing.T, addr, command string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "%s\r\n", command)
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func TestServeAnswersIsMeasuredAndStopsInOrder(t *testing.T) {
	dir := t.TempDir()
	r := startWeir(t, dir)
	r.ready(t)
	if got := redisDo(t, r.redis, "XADD s 1-1 f v"); got != "$3" {
		t.Fatalf("XADD answered %q", got)
	}
	redisDo(t, r.redis, "XGROUP CREATE s g 0")
	redisDo(t, r.redis, "XREADGROUP GROUP g c STREAMS s >")
	redisDo(t, r.redis, "FOO")
	_, metrics := r.get(t, "/metrics")
	for _, want := range []string{
		`weir_redis_commands_total{command="xadd"} 1`, `weir_redis_errors_total{code="ERR"} 1`,
		`weir_group_pending{group="g",stream="s"} 1`, `weir_group_lag{group="g",stream="s"} 1`,
		`weir_group_oldest_unacked_seconds{group="g",stream="s"}`, `weir_kafka_requests_total{key="0",request="Produce"} 0`,
		`weir_commit_seconds_count`, `weir_fsync_seconds_bucket`, `weir_store_failed 0`,
		`weir_kafka_connections_lent 0`, `weir_kafka_loans_total 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	// A second process on the same directory is told why it cannot.
	second := startWeir(t, dir)
	if s := <-second.status; s != 1 || !strings.Contains(second.errs.String(), "another process uses the data directory") {
		t.Errorf("second start: status %d: %s", s, second.errs)
	}
	r.end(t)

	var out, errs bytes.Buffer
	if s := run(context.Background(), []string{"check", "--data", dir}, &out, &errs); s != 0 || !strings.Contains(out.String(), "1 entries") {
		t.Errorf("check: status %d: %s %s", s, &out, &errs)
	}
	again := startWeir(t, dir)
	again.ready(t)
	if got := redisDo(t, again.redis, "XLEN s"); got != ":1" {
		t.Errorf("after a restart XLEN answers %q", got)
	}
	again.end(t)
}

func TestAPortInUseIsNamed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	dir := filepath.Join(t.TempDir(), "data")
	var errs bytes.Buffer
	s := run(context.Background(), []string{"serve", "--data", dir, "--kafka", ln.Addr().String()}, io.Discard, &errs)
	if s != 1 || !strings.Contains(errs.String(), "--kafka "+ln.Addr().String()) {
		t.Errorf("status %d: %s", s, &errs)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the data directory was made")
	}
}

func TestFlagStandsAboveEnvironmentAboveFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("data: "+filepath.Join(t.TempDir(), "d")+"\nrequirepass: from-file\ntail-cache: 1MiB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  string
		flag []string
		pass string
	}{
		{"file", "", nil, "from-file"},
		{"environment", "from-env", nil, "from-env"},
		{"flag", "from-env", []string{"--requirepass", "from-flag"}, "from-flag"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv("WEIR_REQUIREPASS", c.env)
			}
			r := startWeir(t, t.TempDir(), append([]string{"--config", file}, c.flag...)...)
			r.ready(t)
			if got := redisDo(t, r.redis, "AUTH "+c.pass); got != "+OK" {
				t.Errorf("AUTH %s answered %q", c.pass, got)
			}
			if got := redisDo(t, r.redis, "AUTH wrong"); !strings.HasPrefix(got, "-WRONGPASS") {
				t.Errorf("AUTH wrong answered %q", got)
			}
			r.end(t)
		})
	}
}

func TestBadSettingsAreRefusedWithTheirName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("no-such-setting: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", file}, `unknown setting "no-such-setting"`},
		{[]string{"--tail-cache", "lots"}, "not a size"},
		{[]string{"--tail-cache=-1"}, "not a size"},
		{[]string{"--appendfsync", "sometimes"}, "appendfsync"},
		{[]string{"--shards", "0"}, "--shards"},
		{[]string{"--num-partitions", "5000"}, "--num-partitions"},
		{[]string{"--memtable", "1KiB"}, "--memtable"},
		{[]string{"--memtable", "3GiB"}, "--memtable"},
		{[]string{"--min-session-timeout", "2h"}, "--min-session-timeout"},
		{[]string{"--advertise", "nowhere"}, "--advertise"},
		{[]string{"--kafka", "", "--redis", ""}, "nothing to serve"},
	} {
		var errs bytes.Buffer
		if s := run(context.Background(), append([]string{"serve"}, c.args...), io.Discard, &errs); s != 2 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: status %d: %s", c.args, s, &errs)
		}
	}
	if s := run(context.Background(), []string{"check", "--data", filepath.Join(t.TempDir(), "none")}, io.Discard, io.Discard); s != 1 {
		t.Errorf("check of nothing: status %d", s)
	}
}

func TestBytesAreReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]size{"0": 0, "1048576": 1 << 20, "64MiB": 64 << 20, "512mb": 512 << 20, "1g": 1 << 30, "3 KiB": 3 << 10, "7b": 7} {
		var got size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
	}
}
