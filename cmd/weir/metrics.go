package main

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"weir/engine"
	"weir/storage"
)

// meters holds what is measured on the way; everything else is read when it is asked for.
type meters struct {
	commits, fsyncs prometheus.Histogram
}

func newMeters() *meters {
	return &meters{
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_commit_seconds", Help: "From a batch to the operating system having it.",
			Buckets: prometheus.ExponentialBuckets(10e-6, 2, 18),
		}),
		fsyncs: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "weir_fsync_seconds", Help: "One fsync of the log, shared by all who wait.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16),
		}),
	}
}

func (m *meters) commit(d time.Duration) { m.commits.Observe(d.Seconds()) }
func (m *meters) fsync(d time.Duration)  { m.fsyncs.Observe(d.Seconds()) }

func (m *meters) register(n *node) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(m.commits, m.fsyncs, readings{n},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// readings reads the servers' counters, the groups and the store at each scrape.
type readings struct{ n *node }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_"+name, help, labels, nil)
}

var (
	kafkaRequests = desc("kafka_requests_total", "Kafka requests evaluated.", "key", "request")
	kafkaRefused  = desc("kafka_requests_refused_total", "Kafka requests whose version or body was not understood.", "key", "request")
	kafkaFailed   = desc("kafka_requests_failed_total", "Kafka requests that ended the connection.", "key", "request")
	kafkaIn       = desc("kafka_request_bytes_total", "Bytes of Kafka requests.", "key", "request")
	kafkaOut      = desc("kafka_response_bytes_total", "Bytes of Kafka responses.", "key", "request")
	kafkaSeconds  = desc("kafka_request_seconds_total", "Time in handlers, waiting included.", "key", "request")
	kafkaConns    = desc("kafka_connections", "Kafka connections now.")
	kafkaLent     = desc("kafka_connections_lent", "Kafka connections that an event loop for small producers serves.")
	kafkaLoans    = desc("kafka_loans_total", "Times that a Kafka connection was lent to such a loop.")
	redisCalls    = desc("redis_commands_total", "Redis commands evaluated.", "command")
	redisRejected = desc("redis_commands_rejected_total", "Redis commands refused before they ran.", "command")
	redisFailed   = desc("redis_commands_failed_total", "Redis commands answered with an error.", "command")
	redisSeconds  = desc("redis_command_seconds_total", "Time in handlers.", "command")
	redisRowIn    = desc("redis_command_input_bytes_total", "Bytes of commands.", "command")
	redisRowOut   = desc("redis_command_output_bytes_total", "Bytes of replies.", "command")
	redisErrors   = desc("redis_errors_total", "Error replies by their first word.", "code")
	redisIn       = desc("redis_input_bytes_total", "Bytes from Redis clients.")
	redisOut      = desc("redis_output_bytes_total", "Bytes to Redis clients.")
	redisConns    = desc("redis_connections", "Redis connections now.")
	redisBlocked  = desc("redis_connections_blocked", "Redis connections that wait in a blocking read.")
	topicsTotal   = desc("topics", "Topics.")
	groupPending  = desc("group_pending", "Entries delivered and not acknowledged.", "group", "stream")
	groupLag      = desc("group_lag", "Entries from the group's watermark to the end of the stream.", "group", "stream")
	groupOldest   = desc("group_oldest_unacked_seconds", "Age of the longest unacknowledged delivery; 0 when nothing is pending.", "group", "stream")
	storeDisk     = desc("store_disk_bytes", "All files of the data directory.")
	storeLog      = desc("store_log_bytes", "The log, and the blocks whose home it is.")
	storeMemtable = desc("store_memtable_bytes", "Write buffers.")
	storeStalls   = desc("store_write_stalls_total", "Times that Pebble held writers back.")
	storeStallSec = desc("store_write_stall_seconds_total", "For how long, in sum.")
	storeFailed   = desc("store_failed", "1 once a disk error has stopped all writes.")
)

// Describe sends nothing: the set of series changes with topics and groups (an unchecked collector).
func (readings) Describe(chan<- *prometheus.Desc) {}

// Collect reads everything once.
func (r readings) Collect(ch chan<- prometheus.Metric) {
	r.kafka(ch)
	r.redis(ch)
	r.groups(ch)
	r.store(ch)
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (r readings) kafka(ch chan<- prometheus.Metric) {
	c := r.n.kafka.Counters()
	gauge(ch, kafkaConns, float64(c.Connections))
	gauge(ch, kafkaLent, float64(c.Lent))
	counter(ch, kafkaLoans, float64(c.Loans))
	for _, q := range c.Requests {
		key := strconv.Itoa(int(q.Key))
		counter(ch, kafkaRequests, float64(q.Requests), key, q.Name)
		counter(ch, kafkaRefused, float64(q.Refused), key, q.Name)
		counter(ch, kafkaFailed, float64(q.Failed), key, q.Name)
		counter(ch, kafkaIn, float64(q.BytesIn), key, q.Name)
		counter(ch, kafkaOut, float64(q.BytesOut), key, q.Name)
		counter(ch, kafkaSeconds, float64(q.Nanos)/1e9, key, q.Name)
	}
}

func (r readings) redis(ch chan<- prometheus.Metric) {
	s := r.n.redis.Stats()
	gauge(ch, redisConns, float64(s.Clients))
	gauge(ch, redisBlocked, float64(s.Blocked))
	counter(ch, redisIn, float64(s.NetIn))
	counter(ch, redisOut, float64(s.NetOut))
	for code, n := range s.Errors {
		counter(ch, redisErrors, float64(n), valid(code))
	}
	for _, row := range s.Rows {
		counter(ch, redisCalls, float64(row.Calls), row.Name)
		counter(ch, redisRejected, float64(row.Rejected), row.Name)
		counter(ch, redisFailed, float64(row.Failed), row.Name)
		counter(ch, redisRowIn, float64(row.BytesIn), row.Name)
		counter(ch, redisRowOut, float64(row.BytesOut), row.Name)
		counter(ch, redisSeconds, float64(row.Nanos)/1e9, row.Name)
	}
}

// groups reads every group on every stream.
func (r readings) groups(ch chan<- prometheus.Metric) {
	eng := r.n.eng
	gauge(ch, topicsTotal, float64(len(r.n.bridge.Topics())))
	turn := eng.Begin(engine.Written)
	for _, name := range eng.GroupNames() {
		for _, no := range eng.GroupStreams(name) {
			stat, err := turn.Group(no, name).Stat()
			if err != nil {
				continue // gone since it was listed
			}
			stream, err := turn.Stat(no)
			if err != nil {
				continue
			}
			labels := []string{valid(name), valid(string(stream.Key))}
			age := 0.0
			if stat.OldestTime >= 0 {
				age = max(0, float64(turn.Now()-stat.OldestTime)/1000)
			}
			gauge(ch, groupPending, float64(stat.Pending), labels...)
			gauge(ch, groupLag, float64(max(0, stream.Next-max(stat.Watermark, stream.Start))), labels...)
			gauge(ch, groupOldest, age, labels...)
		}
	}
}

// valid makes a label of a binary-safe name.
func valid(s string) string {
	q := strconv.QuoteToGraphic(s)
	return q[1 : len(q)-1]
}

func (r readings) store(ch chan<- prometheus.Metric) {
	failed := 0.0
	if r.n.eng.Failed() != nil {
		failed = 1
	}
	gauge(ch, storeFailed, failed)
	m, ok := r.n.store.(storage.Measured)
	if !ok {
		return
	}
	s := m.Metrics()
	gauge(ch, storeDisk, float64(s.DiskBytes))
	gauge(ch, storeLog, float64(s.LogBytes))
	gauge(ch, storeMemtable, float64(s.MemtableBytes))
	counter(ch, storeStalls, float64(s.WriteStalls))
	counter(ch, storeStallSec, float64(s.WriteStallMillis)/1000)
}
