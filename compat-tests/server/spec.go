package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// A Spec says how one server is started. The addresses are host:port, empty for a
// protocol that the server does not speak.
type Spec struct {
	Name  string
	Argv  []string
	Env   []string // added to the environment
	Dir   string   // the data directory; made by the constructor
	Redis string
	Kafka string
	Admin string // where /readyz answers; only weir has one

	ready func(context.Context) error
}

// given are the ports that this process has handed out.
var given sync.Map

// FreePort returns a loopback port that nobody listens on, with the next one up free
// as well (Kafka wants a pair), and never the same twice. It stays below the range from
// which the kernel takes ports for outgoing connections: a client must not sit on
// a server's port while the server is being restarted.
func FreePort() (int, error) {
	for range 200 {
		port := 15000 + 2*rand.IntN(8000)
		if _, taken := given.LoadOrStore(port, true); !taken && free(port) && free(port+1) {
			return port, nil
		}
	}
	return 0, errors.New("no two free loopback ports side by side")
}

func free(port int) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// loopback returns an address with a free port.
func loopback() (string, error) {
	port, err := FreePort()
	return "127.0.0.1:" + strconv.Itoa(port), err
}

// RepoRoot walks up from the working directory to the module named weir.
func RepoRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module weir\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside weir's repository: no go.mod of module weir above the working directory")
		}
	}
}

// BuildWeir compiles cmd/weir of the repository at root to the file out.
func BuildWeir(ctx context.Context, root, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./cmd/weir")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building cmd/weir: %w\n%s", err, text)
	}
	return nil
}

// Weir returns the spec of `bin serve` on dir. args are added at the end, for
// instance "--appendfsync", "always".
func Weir(bin, dir string, args ...string) (Spec, error) {
	s := Spec{Name: "weir", Dir: dir}
	var err error
	for _, addr := range []*string{&s.Redis, &s.Kafka, &s.Admin} {
		if *addr, err = loopback(); err != nil {
			return s, err
		}
	}
	s.Argv = append([]string{bin, "serve", "--data", dir, "--kafka", s.Kafka,
		"--redis", s.Redis, "--admin", s.Admin}, args...)
	s.ready = s.readyz
	return s, os.MkdirAll(dir, 0o755)
}

// Redis returns the spec of Redis 8.2.3 from the anchors directory, data in dir.
// args are redis-server options, for instance "--appendonly", "yes".
func Redis(anchors, dir string, args ...string) (Spec, error) {
	// The script would exec the binary; asking for its path first keeps the
	// download (first use only) out of the measured start.
	path, err := exec.Command(filepath.Join(anchors, "redis", "redis"), "path", "8").Output()
	if err != nil {
		return Spec{}, fmt.Errorf("redis from the anchors: %w", err)
	}
	addr, err := loopback()
	if err != nil {
		return Spec{}, err
	}
	_, port, _ := net.SplitHostPort(addr)
	s := Spec{Name: "redis", Dir: dir, Redis: addr}
	s.Argv = append([]string{strings.TrimSpace(string(path)), "--port", port, "--bind", "127.0.0.1",
		"--save", "", "--dir", dir}, args...)
	s.ready = s.ping
	return s, os.MkdirAll(dir, 0o755)
}

// Kafka returns the spec of Apache Kafka from the anchors directory, data in dir.
// properties are lines for server.properties, for instance
// "log.flush.interval.messages=1".
func Kafka(anchors, dir string, properties ...string) (Spec, error) {
	port, err := FreePort()
	if err != nil {
		return Spec{}, err
	}
	s := Spec{Name: "kafka", Dir: dir, Kafka: "127.0.0.1:" + strconv.Itoa(port)}
	s.Argv = []string{filepath.Join(anchors, "kafka", "kafka"), "serve", dir, strconv.Itoa(port)}
	s.Env = []string{"KAFKA_EXTRA=" + strings.Join(properties, "\n")}
	s.ready = s.apiVersions
	return s, os.MkdirAll(dir, 0o755)
}
