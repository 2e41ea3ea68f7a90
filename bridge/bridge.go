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

// Bridge is the Kafka meaning over one engine. Safe for concurrent use.
type Bridge struct {
	eng *engine.Engine
	o   Options
	cat *catalog

	encoded encodedCache
	ids     producerIDs
	stored  configStore
	sweeper sweeper

	groups *groups

	deliveries atomic.Uint32 // XREADGROUP on whole topics: whose turn it is to be asked first (fan_claim.go)
}

// now is the bridge's clock in ms.
func (b *Bridge) now() int64 { return b.o.NowMS() }

// Open loads topics, settings and coordinators, and removes streams that belong to no topic (a crash between two
// commits of a creation or deletion).
func Open(ctx context.Context, eng *engine.Engine, o Options) (*Bridge, error) {
	o.fill()
	b := &Bridge{eng: eng, o: o, cat: newCatalog()}
	if err := b.nameCluster(ctx); err != nil {
		return nil, err
	}
	// Before the topics, whose settings are theirs over the broker's.
	if err := b.loadSettings(); err != nil {
		return nil, err
	}
	if err := b.loadCatalog(ctx); err != nil {
		return nil, err
	}
	if err := b.loadProducerIDs(); err != nil {
		return nil, err
	}
	b.groups = newGroups(b)
	if err := b.groups.load(ctx); err != nil {
		return nil, err
	}
	b.startSweeper()
	return b, nil
}

// Close stops timers. The engine is closed by its owner.
func (b *Bridge) Close(ctx context.Context) error {
	b.stopSweeper()
	b.groups.close()
	return nil
}

// Engine is the engine below.
func (b *Bridge) Engine() *engine.Engine { return b.eng }
