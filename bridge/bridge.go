package bridge

import (
	"context"
	"log/slog"
	"time"

	"weir/engine"
)

// Options of a bridge. The zero value of each field is the default.
type Options struct {
	NodeID                int32 // 1
	ClusterID             string
	NumPartitions         int32         // of auto-created topics and where a client says -1; 1
	AutoCreate            bool          // Metadata may create topics (auto.create.topics.enable)
	ClampReplication      bool          // a replication factor above 1 is taken as 1 instead of refused
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	MinSessionTimeout     time.Duration // 6 s
	MaxSessionTimeout     time.Duration // 30 min
	Codec                 Codec
	Logger                *slog.Logger
}

// Bridge is the Kafka meaning over one engine. Safe for concurrent use.
type Bridge struct {
	eng *engine.Engine
	o   Options
}

// Open loads topics, settings and coordinators, and removes streams that belong to no topic (a crash between two
// commits of a creation or deletion).
func Open(ctx context.Context, eng *engine.Engine, o Options) (*Bridge, error) { panic("unbuilt") }

// Close stops timers. The engine is closed by its owner.
func (b *Bridge) Close(ctx context.Context) error { panic("unbuilt") }

// Engine is the engine below.
func (b *Bridge) Engine() *engine.Engine { return b.eng }

// Resolve says what a Redis key names, as evaluated: `T`, `T#p`, or a plain key that happens to look like one.
func (b *Bridge) Resolve(key []byte) (Route, bool) { panic("unbuilt") }

// CreateKey makes a topic of one partition under a new key within a turn (XADD, XGROUP CREATE MKSTREAM). If the key exists
// by now, its route is returned. ErrShadowed when the key is `T#p` of a topic.
func (b *Bridge) CreateKey(t *engine.Turn, key []byte) (Route, error) { panic("unbuilt") }

// DropKey deletes a topic with all its streams within a turn (DEL); false when there is none. ErrPartitionKey on `T#p`.
func (b *Bridge) DropKey(t *engine.Turn, key []byte) (bool, error) { panic("unbuilt") }

// DropAll deletes all topics (FLUSHALL).
func (b *Bridge) DropAll(t *engine.Turn) error { panic("unbuilt") }

// Topics lists all topics in byte order of the name.
func (b *Bridge) Topics() []*Topic { panic("unbuilt") }

// Topic finds a topic by name.
func (b *Bridge) Topic(name string) (*Topic, bool) { panic("unbuilt") }

// TopicByID finds a topic by ID.
func (b *Bridge) TopicByID(id [16]byte) (*Topic, bool) { panic("unbuilt") }

// Partition routes an entry of a hash-routed topic by the topic's key field: murmur2 as Kafka's default partitioner;
// without a key, partitions take turns.
func (b *Bridge) Partition(t *Topic, fields [][]byte) int32 { panic("unbuilt") }
