package resp

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
)

// INFO [section ...]: the fields that clients and suites read (`../shared` facts: resp-wire 3.3, 4.4), and weir's own
// version. Fields of things that are not here (replication backlog, eviction, scripts) are left out rather than invented.

// serverRows are Redis's group "server" without the keyspace: INFO CONFIG COMMAND TIME WAIT WAITAOF.
func serverRows() []*command {
	minOfAll := []string{"request_policy:all_shards", "response_policy:agg_min"}
	return []*command{
		configRow(),
		commandRow(),
		{name: "info", arity: -1, flags: loading | stale, cats: catDangerous, since: "1.0.0", group: "server",
			tips:    []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
			summary: "Tells about the server.", run: info},
		{name: "time", arity: 1, flags: loading | stale | fast, since: "2.6.0", group: "server", tips: []string{"nondeterministic_output"},
			summary: "Answers the server's clock.", run: timeNow},
		{name: "wait", arity: 3, flags: blocking, cats: catConnection, since: "3.0.0", group: "generic", tips: minOfAll,
			summary: "Waits for replicas; there are none.", run: wait},
		{name: "waitaof", arity: 4, flags: blocking, cats: catConnection, since: "7.2.0", group: "generic", tips: minOfAll,
			summary: "Waits until what was written is on disk.", run: waitAOF},
	}
}

func newRunID() string {
	var b [20]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// section is a part of INFO. shown says that it is in INFO without arguments.
type section struct {
	name  string
	shown bool
	write func(c *call, b *strings.Builder)
}

func infoSections() []section {
	return []section{
		{"server", true, infoServer}, {"clients", true, infoClients}, {"memory", true, infoMemory}, {"persistence", true, infoPersistence},
		{"stats", true, infoStats}, {"replication", true, infoReplication}, {"cpu", true, infoCPU}, {"modules", true, func(*call, *strings.Builder) {}},
		{"commandstats", false, infoCommandStats}, {"errorstats", true, infoErrorStats}, {"cluster", true, infoCluster}, {"keyspace", true, infoKeyspace},
	}
}

// info: INFO [section ...]; `default`, `all` and `everything` name several.
func info(c *call) {
	want := map[string]bool{}
	for _, a := range c.args[1:] {
		want[strings.ToLower(string(a))] = true
	}
	every := want["all"] || want["everything"]
	usual := every || want["default"] || len(c.args) == 1
	var b strings.Builder
	for _, s := range infoSections() {
		if !want[s.name] && !every && !(usual && s.shown) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s%s\r\n", strings.ToUpper(s.name[:1]), s.name[1:])
		s.write(c, &b)
	}
	c.Verbatim(b.String())
}

// line writes one field.
func line(b *strings.Builder, name string, value any) { fmt.Fprintf(b, "%s:%v\r\n", name, value) }

func infoServer(c *call, b *strings.Builder) {
	up := int64(c.now.Sub(c.srv.start).Seconds())
	line(b, "redis_version", RedisVersion)
	line(b, "weir_version", c.srv.o.Version)
	line(b, "redis_mode", "standalone")
	line(b, "os", runtime.GOOS+" "+runtime.GOARCH)
	line(b, "arch_bits", 64)
	line(b, "process_id", os.Getpid())
	line(b, "run_id", c.srv.runID)
	line(b, "tcp_port", c.srv.port.Load())
	line(b, "server_time_usec", c.now.UnixMicro())
	line(b, "uptime_in_seconds", up)
	line(b, "uptime_in_days", up/86400)
	line(b, "config_file", "")
}

func infoClients(c *call, b *strings.Builder) {
	c.srv.mu.Lock()
	n := len(c.srv.clients)
	c.srv.mu.Unlock()
	line(b, "connected_clients", n)
	line(b, "cluster_connections", 0)
	line(b, "maxclients", c.srv.conf.maxClients.Load())
	line(b, "blocked_clients", c.srv.stats.blocked.Load())
	line(b, "tracking_clients", 0)
	line(b, "pubsub_clients", 0)
	line(b, "watching_clients", 0)
}

func infoMemory(c *call, b *strings.Builder) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	used, held := s[0].Value.Uint64(), s[1].Value.Uint64()-s[2].Value.Uint64()
	line(b, "used_memory", used)
	line(b, "used_memory_human", human(used))
	line(b, "used_memory_rss", held)
	line(b, "used_memory_rss_human", human(held))
	line(b, "used_memory_peak", held)
	line(b, "used_memory_peak_human", human(held))
	line(b, "maxmemory", 0)
	line(b, "maxmemory_human", "0B")
	line(b, "maxmemory_policy", "noeviction")
	line(b, "mem_allocator", "go")
}

func human(n uint64) string {
	f := float64(n)
	for _, unit := range []string{"B", "K", "M", "G"} {
		if f < 1024 {
			if unit == "B" {
				return fmt.Sprintf("%.0fB", f)
			}
			return fmt.Sprintf("%.2f%s", f, unit)
		}
		f /= 1024
	}
	return fmt.Sprintf("%.2fT", f)
}

func infoPersistence(c *call, b *strings.Builder) {
	status := "ok"
	if c.srv.eng != nil && c.srv.eng.Failed() != nil {
		status = "err"
	}
	line(b, "loading", 0)
	line(b, "async_loading", 0)
	line(b, "rdb_changes_since_last_save", c.srv.stats.changes.Load())
	line(b, "rdb_bgsave_in_progress", 0)
	line(b, "rdb_last_save_time", c.srv.start.Unix())
	line(b, "rdb_last_bgsave_status", "ok")
	line(b, "aof_enabled", 1)
	line(b, "aof_rewrite_in_progress", 0)
	line(b, "aof_rewrite_scheduled", 0)
	line(b, "aof_last_bgrewrite_status", "ok")
	line(b, "aof_last_write_status", status)
}

func infoStats(c *call, b *strings.Builder) {
	st := &c.srv.stats
	in, out := st.netIn.Load(), st.netOut.Load()
	for _, o := range c.srv.everyone() {
		in += o.sess.in.Load()
		out += o.sess.out.Load()
	}
	line(b, "total_connections_received", st.connections.Load())
	line(b, "total_commands_processed", st.commands.Load())
	line(b, "total_net_input_bytes", in)
	line(b, "total_net_output_bytes", out)
	line(b, "rejected_connections", st.refused.Load())
	line(b, "expired_keys", 0)
	line(b, "evicted_keys", 0)
	line(b, "keyspace_hits", st.hits.Load())
	line(b, "keyspace_misses", st.misses.Load())
	line(b, "pubsub_channels", 0)
	line(b, "pubsub_patterns", 0)
	line(b, "total_error_replies", st.errReplies.Load())
	line(b, "client_query_buffer_limit_disconnections", st.inputLimit.Load())
	line(b, "client_output_buffer_limit_disconnections", st.outputLimit.Load())
}

func infoReplication(c *call, b *strings.Builder) {
	line(b, "role", "master")
	line(b, "connected_slaves", 0)
	line(b, "master_failover_state", "no-failover")
	line(b, "master_replid", c.srv.runID)
	line(b, "master_repl_offset", 0)
}

func infoCPU(_ *call, b *strings.Builder) {
	user, sys := cpuSeconds()
	fmt.Fprintf(b, "used_cpu_sys:%.6f\r\nused_cpu_user:%.6f\r\n", sys, user)
}

// infoCommandStats lists the rows that were called or refused.
func infoCommandStats(c *call, b *strings.Builder) {
	c.srv.list.each(func(row *command) {
		calls, rejected, failed := row.stats.calls.Load(), row.stats.rejected.Load(), row.stats.failed.Load()
		if calls == 0 && rejected == 0 && failed == 0 {
			return
		}
		us := row.stats.nsec.Load() / 1000
		per := 0.0
		if calls > 0 {
			per = float64(us) / float64(calls)
		}
		fmt.Fprintf(b, "cmdstat_%s:calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d\r\n", row.name, calls, us, per, rejected, failed)
	})
}

func infoErrorStats(c *call, b *strings.Builder) {
	st := &c.srv.stats
	st.mu.Lock()
	defer st.mu.Unlock()
	codes := make([]string, 0, len(st.errors))
	for code := range st.errors {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	for _, code := range codes {
		fmt.Fprintf(b, "errorstat_%s:count=%d\r\n", code, st.errors[code])
	}
}

func infoCluster(_ *call, b *strings.Builder) { line(b, "cluster_enabled", 0) }

func infoKeyspace(c *call, b *strings.Builder) {
	if c.srv.bridge == nil {
		return
	}
	if n := len(c.bridge().Topics()); n > 0 {
		fmt.Fprintf(b, "db0:keys=%d,expires=0,avg_ttl=0,subexpiry=0\r\n", n)
	}
}
