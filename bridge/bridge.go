package bridge

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/engine"
)

// Options of a bridge. The zero value of each field is the default.
type Options struct {
	NodeID                int32         // 1
	ClusterID             string        // 22 characters of base64 as Kafka's; made once and stored when ""
	NumPartitions         int32         // of auto-created topics and where a client says -1; 1
	AutoCreate            bool          // Metadata may create topics (auto.create.topics.enable)
	ClampReplication      bool          // a replication factor above 1 is taken as 1 instead of refused
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	MinSessionTimeout     time.Duration // 6 s
	MaxSessionTimeout     time.Duration // 30 min
	MaxGroupSize          int           // members of a classic group (group.max.size); 0 no limit
	RetentionCheck        time.Duration // log.retention.check.interval.ms, 5 min; < 0: never by itself
	NowMS                 func() int64  // the clock, ms since 1970; time.Now when nil
	Codec                 Codec
	Logger                *slog.Logger
}

func (o *Options) fill() {
	if o.NodeID == 0 {
		o.NodeID = 1
	}
	if o.NumPartitions <= 0 {
		o.NumPartitions = 1
	}
	if o.MinSessionTimeout <= 0 {
		o.MinSessionTimeout = 6 * time.Second
	}
	if o.MaxSessionTimeout <= 0 {
		o.MaxSessionTimeout = 30 * time.Minute
	}
	if o.RetentionCheck == 0 {
		o.RetentionCheck = 5 * time.Minute
	}
	if o.NowMS == nil {
		o.NowMS = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Bridge is the Kafka meaning over one engine. Safe for concurrent use. Its rooms are embedded, so that callers see one
// front: topics and names (catalog), configurations (configs), records and offsets (logs), retention, groups.
type Bridge struct {
	*core
	*catalog
	*configs
	*logs
	*retention

	groups *groups

	deliveries atomic.Uint32 // XREADGROUP on whole topics: whose turn it is to be asked first (fan_claim.go)
}

// logs reads and writes what the streams hold.
type logs struct {
	*core
	encoded encodedCache
	ids     producerIDs
}

// Open loads topics, settings and coordinators, and removes streams that belong to no topic (a crash between two
// commits of a creation or deletion).
func Open(ctx context.Context, eng *engine.Engine, o Options) (*Bridge, error) {
	o.fill()
	c := &core{eng: eng, o: o}
	conf := &configs{core: c}
	cat := newCatalog(c, conf)
	conf.cat = cat
	l := &logs{core: c}
	b := &Bridge{core: c, catalog: cat, configs: conf, logs: l, retention: &retention{core: c, cat: cat, logs: l}}
	if err := c.nameCluster(ctx); err != nil {
		return nil, err
	}
	// Before the topics, whose settings are theirs over the broker's.
	if err := conf.loadSettings(); err != nil {
		return nil, err
	}
	if err := cat.loadCatalog(ctx); err != nil {
		return nil, err
	}
	if err := l.loadProducerIDs(); err != nil {
		return nil, err
	}
	b.groups = newGroups(b)
	if err := b.groups.load(ctx); err != nil {
		return nil, err
	}
	b.retention.start()
	return b, nil
}

// Close stops timers. The engine is closed by its owner.
func (b *Bridge) Close(ctx context.Context) error {
	b.retention.end()
	b.groups.close()
	return nil
}
