package storage

// How Pebble is set up, and what it tells us. Each setting with its reason; the
// measurements are in the design of the seam ("Pebble, measured").

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

func (o *Options) setDefaults() {
	if o.Shards == 0 {
		o.Shards = DefaultShards
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.MemtableBytes == 0 {
		o.MemtableBytes = 32 << 20
	}
	if o.maxBatch == 0 {
		o.maxBatch = MaxBatchBytes
	}
	if o.importTable == 0 {
		o.importTable = importTableBytes
	}
	if o.segment == 0 {
		o.segment = segmentBytes
	}
	if o.fs == nil {
		o.fs = vfs.Default
	}
}

// newPebbleBatch comes from Pebble's pool, with its buffer.
func newPebbleBatch(s *pebbleStore) *pebble.Batch { return s.db.NewBatch() }

func (s *pebbleStore) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:     s.disk,
		Lock:   s.lock,
		Logger: pebbleLog{store: s},
		// The log is ours; see pebble_log.go.
		DisableWAL: true,
		Merger:     packMerger,
		// Newest that v2.1 writes.
		FormatMajorVersion: pebble.FormatValueSeparation,

		// 32 MB is as fast as 64 or 128, with a stall of 0.2 s instead of 0.5 to
		// 0.95 s, and reopens in 40 ms instead of 1 s.
		MemTableSize: uint64(s.opts.MemtableBytes),
		// One filling, one being flushed, one for the moment in between; more would
		// only lengthen the stall when the disk does not keep up, and the memory.
		MemTableStopWritesThreshold: 3,

		// Blocks live in segments, so level 0 holds keys and small rows: cheap to
		// compact, and what makes a scan slow when it piles up. Start early. Never hold
		// writers back for it: the memtables do that already, and a commit that waits
		// here on a failed disk (compactions parked, pebble_disk.go) would wait for ever.
		L0CompactionThreshold: 4,
		L0StopWritesThreshold: 1 << 20,
		LBaseMaxBytes:         64 << 20,

		// Reads that matter come from the engine's tail; the cache is for index
		// blocks and small rows. Its memory is taken as it fills.
		CacheSize: s.opts.CacheBytes,
		// One compaction by default; more, up to half of the cores, when they fall behind.
		CompactionConcurrencyRange: func() (int, int) { return 1, max(1, min(4, runtime.GOMAXPROCS(0)/2)) },

		// Lets the kernel start writing a table before its one fsync, so that this
		// fsync does not starve the log's.
		BytesPerSync: 1 << 20,

		EventListener: s.events(),

		ErrorIfNotExists:            s.opts.Aside,
		DisableAutomaticCompactions: s.opts.Aside, // they would be for nothing
	}
	// Tables to be taken in must not wait in memory behind a memtable: without Pebble's log a crash would
	// forget them.
	o.Experimental.DisableIngestAsFlushable = func() bool { return true }
	// Kafka batches come compressed, and small entries sit in blocks of ours.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	return o
}

// stallMeter counts the times Pebble held writers back.
type stallMeter struct {
	began  atomic.Int64 // ns since some moment; 0 when no stall is on
	count  atomic.Uint64
	millis atomic.Uint64
}

var stallEpoch = time.Now()

// events are what Pebble reports. A compaction that gave way to another operation is
// retried by design; any other failure in the background latches.
func (s *pebbleStore) events() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if !errors.Is(err, pebble.ErrCancelledCompaction) && !errors.Is(err, ErrLatched) {
				s.latch.set(fmt.Errorf("background: %w", asCorrupt(err)))
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			s.latch.set(fmt.Errorf("%w: %s: %w", ErrCorrupt, info.Path, info.Details))
		},
		// Comes under Pebble's lock: look later.
		FlushEnd: func(pebble.FlushInfo) {
			s.space.flushed.Store(true)
			s.space.wake()
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			s.stalls.count.Add(1)
			s.stalls.began.Store(int64(time.Since(stallEpoch)))
			s.log.Debug("storage: writers held back", "reason", info.Reason)
		},
		WriteStallEnd: func() {
			held := time.Since(stallEpoch) - time.Duration(s.stalls.began.Load())
			s.stalls.millis.Add(uint64(held.Milliseconds()))
		},
	}
}

// pebbleLog passes Pebble's messages on. Its Fatalf must not end the process, as
// Pebble's own does: it latches.
type pebbleLog struct{ store *pebbleStore }

func (l pebbleLog) Infof(format string, args ...any) {
	if l.store.log.Enabled(context.Background(), slog.LevelDebug) {
		l.store.log.Debug("pebble: " + fmt.Sprintf(format, args...))
	}
}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.store.log.Error("pebble: " + fmt.Sprintf(format, args...))
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	l.store.latch.set(fmt.Errorf("pebble: "+format, args...))
}

// Metrics reads Pebble's own, which takes its lock for a moment: for a scrape, not
// for a request. Zero when the store is closed.
func (s *pebbleStore) Metrics() Metrics {
	if s.enter() != nil {
		return Metrics{}
	}
	defer s.leave()
	m := s.db.Metrics()
	pending := uint64(0)
	for _, sh := range s.shards {
		pending += uint64(sh.pending.bytes.Load())
	}
	segments := uint64(s.segments.bytes())
	return Metrics{
		DiskBytes:        m.DiskSpaceUsage() + segments,
		LogBytes:         segments,
		MemtableBytes:    m.MemTable.Size + pending,
		CacheBytes:       uint64(m.BlockCache.Size),
		Level0Files:      m.Levels[0].TablesCount,
		Commits:          s.commits.Load(),
		Syncs:            s.sync.count.Load(),
		Compactions:      m.Compact.Count,
		WriteStalls:      s.stalls.count.Load(),
		WriteStallMillis: s.stalls.millis.Load(),
	}
}
