package storage

import (
	"context"
	"errors"
	"io"
)

// ShardID numbers a shard, 0 to Layout.Shards-1.
type ShardID uint16

// Epoch grows with each change of writer; 1 on a single node.
type Epoch uint64

// Pos names a state of one shard. Seq counts applied batches without gaps.
type Pos struct {
	Epoch Epoch
	Seq   uint64
}

// Slots is the number of hash slots, as in Redis Cluster.
const Slots = 16384

// Layout maps slots to shards; fixed when the store is created.
type Layout struct {
	Shards int // 1 to 1024; 16 by default
}

// Shard returns the shard that holds a slot: slots are spread evenly, in runs.
func (l Layout) Shard(slot uint16) ShardID {
	return ShardID(int(slot) * l.Shards / Slots)
}

// Store is an open data directory (or memory). All methods are safe for concurrent use.
type Store interface {
	Layout() Layout
	Shard(ShardID) (Shard, error)
	// CommitTogether commits batches of different shards, one per shard, as one:
	// all or none survive a crash. Only the single-node store offers it; others
	// return ErrNotTogether before writing anything, and the caller commits one by
	// one (rule 7). Each batch's Writer must be held by the caller.
	CommitTogether(context.Context, []Batch) ([]Pos, error)
	// SyncAll makes everything committed so far durable (appendfsync everysec).
	SyncAll(context.Context) error
	// Failed returns the latched failure, nil while the store is sound.
	Failed() error
	Close(context.Context) error
}

// Shard is one shard of a store. Safe for concurrent use.
type Shard interface {
	ID() ShardID
	// Lead returns the right to write, once all that was committed before is applied.
	Lead(context.Context) (Writer, error)
	// View returns a consistent snapshot of the shard; Close it.
	View() (View, error)
	// Export writes all rows: sorted, checksummed, engine-neutral.
	Export(context.Context, io.Writer) (Pos, error)
	// Import replaces all rows by an export's.
	Import(context.Context, io.Reader) (Pos, error)
}

// Writer is used by one goroutine at a time, except Durable, which any may call.
type Writer interface {
	// Begin returns an empty batch for this shard.
	Begin() Batch
	// Commit applies the batch at level written: when it returns, the OS has it and
	// views see it. The batch is consumed. An empty batch costs nothing and returns
	// the current position.
	Commit(context.Context, Batch) (Pos, error)
	// Durable waits until everything up to Pos is fsynced. Concurrent callers share
	// one fsync, also across shards.
	Durable(context.Context, Pos) error
	// Lost is closed when another writer has taken over.
	Lost() <-chan struct{}
}

// View is a consistent snapshot of one shard. Safe for concurrent use.
type View interface {
	// Get returns a row; release must be called when value is no longer used.
	// ErrNotFound when there is none.
	Get(key []byte) (value []byte, release func(), err error)
	// Scan iterates over [lower, upper).
	Scan(lower, upper []byte) (Iterator, error)
	Close() error
}

// Iterator walks rows in key order. Key and Value are valid until the next move.
// Not safe for concurrent use.
type Iterator interface {
	// SeekGE moves to the first row at or after key; nil means the lower bound.
	SeekGE(key []byte) bool
	// SeekLT moves to the last row before key; nil means the upper bound.
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
	Key() []byte
	Value() ([]byte, error)
	// Error is the I/O error that ended the walk, nil at a plain end.
	Error() error
	Close() error
}

// Batch collects writes for one shard. Not safe for concurrent use. Arguments are
// copied. Every key must begin with the batch's shard (ErrForeignKey at commit).
type Batch interface {
	Shard() ShardID
	Set(key, value []byte) error
	// SetTwo writes head||tail as one value. A tail is not copied where that can be avoided: it
	// must not change until the commit has returned.
	SetTwo(key, head, tail []byte) error
	Delete(key []byte) error
	DeleteRange(lower, upper []byte) error
	Size() int // bytes
	Empty() bool
	Discard()
}

// Errors of the seam.
var (
	ErrNotFound    = errors.New("storage: no such row")
	ErrNotLeader   = errors.New("storage: nothing was written; another node leads this shard")
	ErrFenced      = errors.New("storage: nothing was written; this writer is dead")
	ErrUnknown     = errors.New("storage: may or may not be written; this writer is dead")
	ErrTooLarge    = errors.New("storage: batch too large")
	ErrLatched     = errors.New("storage: a disk error stopped all writes")
	ErrLocked      = errors.New("storage: the data directory is in use by another process")
	ErrFormat      = errors.New("storage: the data directory has a format this version does not know")
	ErrCorrupt     = errors.New("storage: a row or checksum is damaged")
	ErrForeignKey  = errors.New("storage: key outside the batch's shard")
	ErrNotTogether = errors.New("storage: this store commits one shard at a time")
	ErrClosed      = errors.New("storage: closed")
)

// Identified is implemented by stores that carry a cluster id: 16 random bytes drawn
// when the store was created, kept in the store row, the same after every reopening.
type Identified interface {
	ClusterID() [16]byte
}

// Measured is implemented by stores that can tell what they use.
type Measured interface {
	Metrics() Metrics
}

// Metrics is what a store uses right now. Sizes in bytes.
type Metrics struct {
	DiskBytes        uint64 // all files, obsolete ones not removed yet included
	LogBytes         uint64 // of which the log, and the blocks whose home it is
	MemtableBytes    uint64 // memory in write buffers
	CacheBytes       uint64 // memory in the block cache
	Level0Files      int64
	Commits          uint64 // batches committed since opening
	Syncs            uint64 // real fsyncs of the log since opening
	Compactions      int64
	WriteStalls      uint64 // times Pebble held writers back
	WriteStallMillis uint64 // for how long, in sum
}
