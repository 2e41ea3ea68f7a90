package storage

// The store on Pebble: one database for all shards, one log, one sequence of commits.
//
//	Writer.Commit ─► rows ─► log (pebble_log.go): the OS has it ─► Pebble's memtable
//	                 large blocks ────────────┘ and it is their home    blocks as packs (pebble_pending.go)
//	Writer.Durable ─► syncer: one fsync for everybody (pebble_sync.go)
//	View ─► Pebble's snapshot, references read from their segments (pebble_read.go)
//	janitor ─► floors, flushes, removes and moves segments (pebble_space.go)
//
// Why one database and not one per shard? Sixteen logs would be sixteen fsyncs, and
// sixteen memtables; and MULTI across shards could not be one batch.
//
// A view taken while a commit is under way may show it before Commit returns. Who must not
// see what is not answered yet bounds his reads (the engine does, by the offsets it has
// published).

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// Options configure OpenPebble. The zero value is good.
type Options struct {
	// Shards of a store that is created; an existing one keeps its own.
	// 0 means DefaultShards.
	Shards int
	Logger *slog.Logger // nil: silent
	// CacheBytes of the block cache, filled as reads come; 0 means 32 MiB.
	CacheBytes int64
	// MemtableBytes of one write buffer (at most 3 exist); 0 means 32 MiB.
	MemtableBytes int64
	// OnCommit, if set, is told how long each commit took to reach the OS; OnSync
	// how long each fsync of the log took. Called on the way: be quick.
	OnCommit, OnSync func(time.Duration)
	// Aside leaves the directory as it is: what an opening has to write, and whatever is written later, is kept in
	// memory and forgotten by Close. For a look at a store, on any disk.
	Aside bool

	fs          vfs.FS // of tests; nil means the real one
	maxBatch    int    // of tests; 0 means MaxBatchBytes
	importTable uint64 // of tests; 0 means importTableBytes
	segment     int64  // of tests; 0 means segmentBytes
}

// pebbleStore. Locks, in order: gate (read by everything that touches db, written by
// Close), shardState.mu, pending.mu, Pebble's own.
type pebbleStore struct {
	db     *pebble.DB
	lock   *pebble.Lock
	disk   *diskFS
	latch  *latch
	sync   *syncer
	wal    *segLog
	space  *janitor
	shards []*pebbleShard
	id     [16]byte
	dir    string
	log    *slog.Logger
	opts   Options

	gate    sync.RWMutex
	closed  bool           // owned by gate
	closing sync.Mutex     // one Close at a time
	gone    bool           // db is closed; owned by closing
	views   sync.WaitGroup // open views; added to under gate
	nviews  atomic.Int64
	batches sync.Pool // *pebbleBatch

	mayPend  int // bytes in a shard
	segments segmentTable
	serving  atomic.Bool // opened: sync is there
	commits  atomic.Uint64
	stalls   stallMeter
}

// storeVersion is the version of everything FORMAT.md describes.
const storeVersion = 3

// OpenPebble opens the store in a directory, creating it if there is none. It fails
// with ErrLocked when another process (or this one) has it open, with ErrFormat when
// a newer weir wrote it, with ErrCorrupt when it has lost what it had made durable.
func OpenPebble(dir string, opts Options) (Store, error) {
	s, err := openPebble(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	return s, nil
}

func openPebble(dir string, opts Options) (*pebbleStore, error) {
	opts.setDefaults()
	if opts.Aside {
		opts.fs = newAsideFS(opts.fs)
	}
	if !validShards(opts.Shards) {
		return nil, fmt.Errorf("storage: %d shards; 1 to %d are possible", opts.Shards, maxPlainShard)
	}
	if err := makeDir(opts.fs, dir); err != nil {
		return nil, err
	}
	lock, err := pebble.LockDirectory(dir, opts.fs)
	if err != nil {
		// The file could not even be opened: a read-only or full disk, no permission. Nobody else is to blame.
		if file := (*fs.PathError)(nil); errors.As(err, &file) {
			return nil, err
		}
		return nil, fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	s := &pebbleStore{lock: lock, dir: dir, log: opts.Logger, opts: opts}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

// open does what needs the lock. On an error the caller releases what was opened.
func (s *pebbleStore) open() error {
	s.latch = &latch{told: func(err error) { s.log.Error("storage: writes stopped", "cause", err) }}
	s.space = newJanitor(s)
	s.wal = &segLog{
		fs: s.opts.fs, dir: s.dir, latch: s.latch, table: &s.segments, limit: s.opts.segment, next: 1,
		kick: func() { s.sync.ask() }, tend: s.space.wake,
	}
	s.wal.quiet.L = &s.wal.mu
	s.disk = &diskFS{FS: s.opts.fs, latch: s.latch, closing: make(chan struct{}), spare: vfs.NewMem(), beforeFlush: s.beforeFlush}
	if err := refuseOtherLogs(s.opts.fs, s.dir); err != nil {
		return err
	}
	promised, err := readMark(s.opts.fs, s.dir)
	if err != nil {
		return err
	}
	if s.db, err = pebble.Open(s.dir, s.pebbleOptions()); err != nil {
		s.db = nil
		if strings.Contains(err.Error(), "merger name") { // Pebble has no other word for it
			return fmt.Errorf("%w: a database without packs, of format 2 or of another program (%w)", ErrFormat, err)
		}
		return asCorrupt(err)
	}
	if err := s.latch.err(); err != nil {
		return err // of a file that pretended, or a Fatalf
	}
	if err := s.dropImports(); err != nil {
		return err
	}
	shards, err := s.loadStoreRow()
	if err != nil {
		return err
	}
	for i := range shards {
		sh := &pebbleShard{shardState: shardState{id: ShardID(i)}, store: s}
		sh.epoch.Store(1)
		if err := sh.loadPosition(); err != nil {
			return err
		}
		s.shards = append(s.shards, sh)
	}
	s.mayPend = max(pendingBytes/len(s.shards), leastPending)
	if err := s.openLog(promised); err != nil {
		return err
	}
	return s.start()
}

// emptyLog is what Pebble's log may be long when nothing was ever written to it: it makes one though it is disabled,
// and ends it with a trailer.
const emptyLog = 32

// refuseOtherLogs refuses a directory where Pebble's own log was used, before Pebble replays and removes it: a store
// of format 1 is in it, or a database that is not weir's.
func refuseOtherLogs(fsys vfs.FS, dir string) error {
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, _, ok := wal.ParseLogFilename(name); !ok {
			continue
		}
		info, err := fsys.Stat(fsys.PathJoin(dir, name))
		if err != nil {
			return err
		}
		if info.Size() > emptyLog {
			return fmt.Errorf("%w: %s is a log of format 1 or of another program", ErrFormat, name)
		}
	}
	return nil
}

// beforeFlush makes the log durable up to what a flush is about to put into tables, and says so in the mark: tables
// are never ahead of it.
func (s *pebbleStore) beforeFlush() error {
	if !s.serving.Load() {
		return s.wal.syncAll()
	}
	return s.sync.wait(context.Background())
}

// start puts the syncer and the janitor to work; what was recovered is made durable first, so
// that a reader of a recovered entry never loses it again.
func (s *pebbleStore) start() error {
	file, err := openMark(s.disk, s.dir)
	if err != nil {
		return err
	}
	s.sync = &syncer{log: s.wal, shards: s.shards, mark: file, onSync: s.opts.OnSync}
	s.sync.idle.L = &s.sync.mu
	if err := s.sync.syncOnce(); err != nil {
		return err
	}
	if err := s.latch.err(); err != nil {
		return err // of a file that pretended
	}
	s.serving.Store(true)
	if !s.opts.Aside { // it would copy to memory
		s.space.start()
	}
	return nil
}

// makeDir creates a directory and makes its name, and its parents', durable.
func makeDir(fsys vfs.FS, dir string) error {
	var parents []string
	for d := dir; ; d = fsys.PathDir(d) {
		if _, err := fsys.Stat(d); err == nil || fsys.PathDir(d) == d {
			break
		}
		parents = append(parents, fsys.PathDir(d))
	}
	if len(parents) == 0 {
		return nil
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, p := range parents {
		if err := syncDir(fsys, p); err != nil {
			return err
		}
	}
	return nil
}

// asCorrupt marks what Pebble calls corruption as ours.
func asCorrupt(err error) error {
	if pebble.IsCorruptionError(err) {
		return corruption{err}
	}
	return err
}

// corruption is ErrCorrupt with Pebble's first line: what follows it there is no
// message but the names of its inner wrappings.
type corruption struct{ cause error }

func (c corruption) Error() string {
	line, _, _ := strings.Cut(c.cause.Error(), "\n")
	return ErrCorrupt.Error() + ": " + line
}

func (c corruption) Unwrap() []error { return []error{ErrCorrupt, c.cause} }

// loadStoreRow reads the store row, writing it first in a new store.
//
//	version:1 shards:2 cluster id:16
func (s *pebbleStore) loadStoreRow() (shards int, err error) {
	value, closer, err := s.db.Get(StoreKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return s.createStoreRow()
	}
	if err != nil {
		return 0, asCorrupt(err)
	}
	defer closer.Close()
	if len(value) == 0 || value[0] != storeVersion {
		return 0, fmt.Errorf("%w: store row %x", ErrFormat, value)
	}
	if len(value) != 19 {
		return 0, fmt.Errorf("%w: store row", ErrCorrupt)
	}
	copy(s.id[:], value[3:])
	shards = int(binary.BigEndian.Uint16(value[1:]))
	if !validShards(shards) {
		return 0, fmt.Errorf("%w: store row of %d shards", ErrCorrupt, shards)
	}
	return shards, nil
}

func (s *pebbleStore) createStoreRow() (int, error) {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return 0, asCorrupt(err)
	}
	foreign := it.First()
	if err := it.Close(); err != nil {
		return 0, asCorrupt(err)
	}
	if foreign {
		return 0, fmt.Errorf("%w: a database, but not weir's", ErrFormat)
	}
	rand.Read(s.id[:]) // never fails
	row := binary.BigEndian.AppendUint16([]byte{storeVersion}, uint16(s.opts.Shards))
	if err := s.db.Set(StoreKey(), append(row, s.id[:]...), pebble.NoSync); err != nil {
		return 0, err
	}
	return s.opts.Shards, errors.Join(s.db.Flush(), s.latch.err())
}

func (s *pebbleStore) Layout() Layout      { return Layout{Shards: len(s.shards)} }
func (s *pebbleStore) ClusterID() [16]byte { return s.id }

func (s *pebbleStore) Shard(id ShardID) (Shard, error) {
	sh, err := findShard(s.shards, id)
	if err != nil {
		return nil, err
	}
	return sh, nil
}

// enter keeps the store open until the matching leave.
func (s *pebbleStore) enter() error {
	s.gate.RLock()
	if s.closed {
		s.gate.RUnlock()
		return ErrClosed
	}
	return nil
}

func (s *pebbleStore) leave() { s.gate.RUnlock() }

func (s *pebbleStore) Failed() error {
	if err := s.latch.err(); err != nil {
		return err
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return ErrClosed
	}
	return nil
}

func (s *pebbleStore) SyncAll(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	r, mine := s.sync.join()
	s.leave() // Close waits for the round
	return s.sync.await(ctx, r, mine)
}

func (s *pebbleStore) CommitTogether(_ context.Context, batches []Batch) ([]Pos, error) {
	mine := make([]*pebbleBatch, len(batches))
	for i, b := range batches {
		pb, ok := b.(*pebbleBatch)
		if !ok || pb.writer == nil || pb.writer.shard.store != s {
			return nil, fmt.Errorf("storage: a %T is no batch of this store", b)
		}
		mine[i] = pb
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	unlock, err := lockTogether(mine, func(b *pebbleBatch) *shardState { return &b.writer.shard.shardState })
	if err != nil {
		return nil, err
	}
	defer unlock()
	size := 0
	for _, b := range mine {
		if err := b.writer.mayCommit(b); err != nil {
			return nil, err
		}
		size += b.Size()
	}
	if size > batchesPerRecord*s.opts.maxBatch {
		return nil, fmt.Errorf("%w: %d bytes in one commit of %d shards", ErrTooLarge, size, len(mine))
	}
	return s.apply(mine...)
}

// apply commits batches as one, under gate and the mu of all their shards, and
// consumes them.
func (s *pebbleStore) apply(batches ...*pebbleBatch) ([]Pos, error) {
	at := make([]Pos, len(batches))
	var all *pebbleBatch // the first that is not empty, and what was added to it
	for i, b := range batches {
		if at[i] = b.writer.shard.pos(); b.Empty() {
			continue
		}
		at[i].Seq++
		b.addPosition(at[i])
		if all == nil {
			all = b
		} else if err := all.add(b); err != nil {
			return nil, fmt.Errorf("storage: merge batches: %w", err)
		}
	}
	if all != nil {
		if err := s.applyOne(all); err != nil {
			return nil, err
		}
	}
	for _, b := range batches {
		b.recycle()
	}
	return at, nil
}

// applyOne writes a batch to the log, hands its rows to Pebble and moves the shards' positions; nil means that the OS
// has it.
func (s *pebbleStore) applyOne(b *pebbleBatch) error {
	var began time.Time
	if s.opts.OnCommit != nil {
		began = time.Now()
	}
	for i, heads := 0, b.heads; i < len(b.values); i++ {
		v := &b.values[i]
		v.sum = crc32.Update(crc32.Checksum(heads[:v.head], castagnoli), castagnoli, v.tail)
		heads = heads[v.head:]
	}
	g, err := s.wal.append(&write{rows: b.ops.Repr(), places: b.places, values: b.values, heads: b.heads})
	if err == nil {
		if err = s.handOver(b, g); err == nil {
			for _, p := range b.places {
				s.shards[p.shard].seq.Store(p.pos.Seq)
			}
		}
		// After that: a floor that passes this record comes with positions that count it.
		s.wal.applied(g)
		// Also when Pebble saw no error: the disk below it hides its own (pebble_disk.go).
		err = s.latch.err()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	s.commits.Add(1)
	if b.frees {
		s.space.freed()
	}
	if s.opts.OnCommit != nil {
		s.opts.OnCommit(time.Since(began))
	}
	return nil
}

// handOver gives Pebble a batch that is in the log, or keeps its blocks for later.
func (s *pebbleStore) handOver(b *pebbleBatch, g *segment) error {
	if !b.blocks && !b.frees {
		if err := s.db.Apply(b.ops, pebble.NoSync); err != nil {
			s.latch.set(fmt.Errorf("commit: %w", err))
			return err
		}
		return nil
	}
	shards := make([]*pebbleShard, len(b.places))
	for i, p := range b.places {
		shards[i] = s.shards[p.shard]
	}
	slices.SortFunc(shards, func(a, b *pebbleShard) int { return int(a.id) - int(b.id) })
	h := s.hand(shards...)
	if err := h.rows(b.ops.Repr(), g); err != nil {
		s.latch.set(fmt.Errorf("commit: %w", err))
	}
	if g.sealed.Load() { // who sealed it may have drained the shards already
		for _, sh := range shards {
			h.drain(sh)
		}
	}
	return h.end()
}

// Close waits for open views until ctx is done, makes everything durable and closes.
// With views left open it fails, and the directory stays locked until they are
// closed and Close is called again. A latched store returns its failure.
func (s *pebbleStore) Close(ctx context.Context) error {
	s.gate.Lock()
	s.closed = true
	s.gate.Unlock()
	quiet := make(chan struct{})
	go func() {
		s.views.Wait()
		close(quiet)
	}()
	select {
	case <-quiet:
	case <-ctx.Done():
		return fmt.Errorf("storage: close: %d views are open: %w", s.nviews.Load(), ctx.Err())
	}
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.gone {
		return nil
	}
	s.gone = true
	s.space.stop()
	if !s.latch.on() {
		s.sync.ask()
	}
	s.sync.rest()
	return errors.Join(s.release(), s.latch.err())
}

// release closes whatever is open. Pebble's memtables are not flushed: the next opening takes
// them from the log, as after a crash.
func (s *pebbleStore) release() error {
	var err error
	if s.disk != nil {
		close(s.disk.closing)
	}
	if s.db != nil {
		err = s.db.Close()
	}
	if s.wal != nil {
		err = errors.Join(err, s.wal.close())
	}
	if s.sync != nil {
		err = errors.Join(err, s.sync.mark.file.Close())
	}
	return errors.Join(err, s.lock.Close())
}

// pebbleShard is one shard's rows in the one database.
type pebbleShard struct {
	shardState
	store     *pebbleStore
	importing sync.Mutex // one Import at a time; before shardState.mu
	pending   pending
	rowed     bool   // it has a position row; guarded by shardState.mu
	inTable   uint64 // the seq of that row when the store was opened; while opening
	replayed  uint64 // the seq of the last record read; while opening
}

func (sh *pebbleShard) ID() ShardID { return sh.id }

// loadPosition reads the position row, while opening.
func (sh *pebbleShard) loadPosition() error {
	value, closer, err := sh.store.db.Get(PositionKey(sh.id))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return asCorrupt(err)
	}
	defer closer.Close()
	pos, err := ParsePos(value)
	if err != nil {
		return err
	}
	sh.epoch.Store(uint64(pos.Epoch))
	sh.seq.Store(pos.Seq)
	sh.inTable = pos.Seq
	sh.rowed = true
	return nil
}

func (sh *pebbleShard) Lead(context.Context) (Writer, error) {
	if err := sh.store.Failed(); err != nil {
		return nil, err
	}
	return &pebbleWriter{shard: sh, lost: sh.lead()}, nil
}

func (sh *pebbleShard) Export(ctx context.Context, w io.Writer) (Pos, error) {
	s := sh.store
	if err := s.enter(); err != nil {
		return Pos{}, err
	}
	sh.mu.Lock() // between two commits, so that the position is that of the rows
	v, err := sh.view()
	sh.mu.Unlock()
	s.leave()
	if err != nil {
		return Pos{}, err
	}
	defer v.Close()
	return exportShard(ctx, sh.id, v, w)
}
