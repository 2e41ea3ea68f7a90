package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"gopkg.in/yaml.v3"
)

// serveConfig is everything that can be set, once: as a flag (--tail-cache), in the
// environment (WEIR_TAIL_CACHE) or in the file that --config names (tail-cache: 64MiB), in this order of precedence.
type serveConfig struct {
	Config string `type:"existingfile" placeholder:"FILE" env:"WEIR_CONFIG" help:"A YAML file with any of these settings, by flag name."`

	Data      string `default:"./weir-data" help:"Data directory; made if it is not there."`
	Kafka     string `default:"127.0.0.1:9092" help:"Address for Kafka clients; empty: none."`
	Redis     string `default:"127.0.0.1:6379" help:"Address for Redis clients; empty: none."`
	Admin     string `default:"127.0.0.1:8080" help:"Address for /healthz, /readyz and /metrics; empty: none."`
	Advertise string `placeholder:"HOST:PORT" help:"What Kafka clients are told to connect to, where that is not the address they reached."`

	Appendfsync string `default:"everysec" enum:"always,everysec,no" help:"When a Redis write is answered: always (on disk), everysec (given to the OS, on disk within a second), no (given to the OS)."`
	Requirepass string `help:"Password that Redis clients must give."`

	NumPartitions         int32         `default:"1" help:"Partitions of topics that are created without a number."`
	AutoCreateTopics      bool          `default:"true" negatable:"" help:"Let clients create topics by producing to them."`
	ClampReplication      bool          `help:"Take a replication factor above 1 as 1 instead of refusing it."`
	InitialRebalanceDelay time.Duration `default:"3s" help:"How long the first rebalance of an empty group waits for more members."`
	MinSessionTimeout     time.Duration `default:"6s" help:"Shortest session timeout a group member may ask for."`
	MaxSessionTimeout     time.Duration `default:"30m" help:"Longest session timeout a group member may ask for."`
	RetentionCheck        time.Duration `default:"5m" help:"How often retention.ms and retention.bytes are applied."`

	Shards        int  `default:"16" help:"Shards of a new data directory; an existing one keeps its own."`
	LoadedStreams uint `default:"65536" help:"Streams kept in memory, about. Others are read again when they are used."`
	TailCache     size `default:"256MiB" help:"Memory for the newest blocks of all streams, from which readers that keep up are served."`
	BlockCache    size `default:"32MiB" help:"Memory for older blocks that were read."`
	Memtable      size `default:"32MiB" help:"Size of one write buffer, of which at most three exist."`

	RedisMaxClients   int           `default:"10000" help:"Redis connections at a time."`
	RedisLoops        int           `default:"0" help:"Event loops for Redis connections; 0: half the cores."`
	RedisMaxBulk      size          `default:"512MB" help:"Largest argument of a Redis command."`
	RedisWriteTimeout time.Duration `default:"60s" help:"A Redis client that takes nothing of its replies for so long is closed."`
	KafkaMaxConns     int           `default:"10000" help:"Kafka connections at a time."`
	KafkaMaxFrame     size          `default:"100MiB" help:"Largest Kafka request."`
	KafkaIdleTimeout  time.Duration `default:"10m" help:"A Kafka connection that is silent for so long is closed."`
	ShutdownTimeout   time.Duration `default:"10s" help:"How long a stop waits for clients to be answered."`

	Pprof     bool       `help:"Serve Go's profiles under /debug/pprof/ of --admin."`
	LogLevel  slog.Level `default:"info" help:"debug, info, warn or error."`
	LogFormat string     `default:"text" enum:"text,json" help:"text or json."`
}

// advertised splits --advertise; "" and 0 when it is not set.
func (c *serveConfig) advertised() (host string, port int32, err error) {
	if c.Advertise == "" {
		return "", 0, nil
	}
	h, p, err := net.SplitHostPort(c.Advertise)
	if err != nil {
		return "", 0, fmt.Errorf("--advertise: %w", err)
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 || h == "" {
		return "", 0, fmt.Errorf("--advertise %q: want HOST:PORT", c.Advertise)
	}
	return h, int32(n), nil
}

func (c *serveConfig) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, o))
}

// Validate is called by kong once everything is read.
func (c *serveConfig) Validate() error {
	if c.Shards < 1 || c.Shards > 1024 {
		return errors.New("--shards: 1 to 1024")
	}
	if c.NumPartitions < 1 || c.NumPartitions > 4096 { // bridge/doc.go
		return errors.New("--num-partitions: 1 to 4096")
	}
	if c.MinSessionTimeout > c.MaxSessionTimeout {
		return errors.New("--min-session-timeout is above --max-session-timeout: no member could join")
	}
	if c.Memtable < 1<<20 {
		return errors.New("--memtable: at least 1MiB") // Pebble panics on one that holds no write
	}
	if c.Memtable > 2<<30 {
		return errors.New("--memtable: at most 2GiB") // Pebble counts in 32 bits
	}
	if c.Kafka == "" && c.Redis == "" {
		return errors.New("neither --kafka nor --redis: nothing to serve")
	}
	_, _, err := c.advertised()
	return err
}

// size is a number of bytes: 1048576, 64MiB, 512MB, 1g.
type size int64

// units: Redis's and Kafka's users mean the same by MB and MiB (redis.conf: mb is 1024*1024).
var units = []struct {
	suffix string
	factor int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"b", 1},
}

// UnmarshalText reads a size. Negative and overflowing ones are refused.
func (s *size) UnmarshalText(text []byte) error {
	word := strings.ToLower(strings.TrimSpace(string(text)))
	factor := int64(1)
	for _, u := range units {
		if strings.HasSuffix(word, u.suffix) {
			word, factor = strings.TrimSpace(strings.TrimSuffix(word, u.suffix)), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("%q is not a size in bytes", text)
	}
	*s = size(n * factor)
	return nil
}

// fileResolver reads the file that --config (or WEIR_CONFIG) names. It must be known before kong resolves
// anything, so the arguments are looked through for it. Unknown names in the file are errors.
func fileResolver(args []string, known func(string) bool) (kong.Resolver, error) {
	path := os.Getenv("WEIR_CONFIG")
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--config="); ok {
			path = v
		} else if a == "--config" && i+1 < len(args) {
			path = args[i+1]
		}
	}
	values := map[string]any{}
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(text, &values); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for name := range values {
			if !known(name) {
				return nil, fmt.Errorf("%s: unknown setting %q", path, name)
			}
		}
	}
	return kong.ResolverFunc(func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		// The environment stands above the file.
		for _, env := range flag.Envs {
			if _, ok := os.LookupEnv(env); ok {
				return nil, nil
			}
		}
		v, ok := values[flag.Name]
		if !ok {
			return nil, nil
		}
		return fmt.Sprint(v), nil
	}), nil
}
