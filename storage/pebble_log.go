package storage

// The log, in place of Pebble's own.
//
//	Writer.Commit ─► append: one record, one write ─► Pebble's memtable: rows, at once; blocks, in packs, later
//	Writer.Durable ─► sync: fdatasync of what was written, oldest segment first
//
// Why not Pebble's? It would write a block twice (log, then table), hand each commit to a
// goroutine and back, keep acked writes in the process's memory unless it is told to fsync, and
// believe in fsyncs that somebody else does. Here a commit is a write by who commits, in the
// OS's hands when it returns; Pebble runs with its log disabled, its memtables are made again
// from this one.
//
// # Which records a replay needs
//
// Records set rows and delete them, and add to nothing. So a replay that takes all records from some moment on, in order,
// ends where the log ends, whatever of it the tables have already: no record needs to be looked for in them. That moment
// is a row, the floor, and Pebble flushes memtables in order:
//
//	segment 7 sealed, all its records in memtables ─► floor = 8 and all positions into the memtable ─► flushed some time
//
// When the row is in a table, so is all that segment 7 and older ones hold, and they are a mere home of
// values: collect (pebble_space.go) may remove them. Each record names its shards' positions; for a shard without a record
// behind the floor the row that came with it is right. So a commit writes no position row, but a shard's first; a
// view answers with what it knows. After each replay everything is flushed and a new segment begun, so that a torn end is
// never read again.
//
// Before a table of a flush is begun the log is fsynced, and the mark says so: a table must not refer to
// what a loss of power takes away, nor be ahead of what a replay ends with.
//
// Locks: segLog.mu for the order of records, held for a write; segLog.syncing for fsyncs,
// never taken under mu. segmentTable.mu is a leaf.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// segmentBytes is when a segment is sealed: what removing or moving gives back at a time.
	segmentBytes = 64 << 20
	// rowsPart: a segment is sealed, too, when its rows alone are such a part of that. All rows behind the floor are
	// replayed.
	rowsPart = 4
	// unsyncedBytes is how much of the log may wait for an fsync before the syncer runs
	// unasked: it bounds what an opening reads again to see whether it is whole.
	unsyncedBytes = 64 << 20
	// unflushedSegments is after how many sealed segments Pebble flushes its memtable though it is not
	// full: it bounds what an opening replays.
	unflushedSegments = 8
	// gatherBytes: smaller pieces of a record are copied together for one write.
	gatherBytes = 32 << 10
)

// segLog is the log of a store.
type segLog struct {
	fs    vfs.FS
	dir   string
	latch *latch
	table *segmentTable
	limit int64  // segmentBytes, but in tests
	kick  func() // asks for an fsync, without waiting
	tend  func() // asks for the janitor, without waiting

	mu      sync.Mutex
	active  *segment
	next    uint32     // number of the next segment
	open    []*segment // not durable as a whole, oldest first; the last is active
	busy    []*segment // not known to be quiet, oldest first; the last is active
	pending int64      // bytes written since the last fsync began, about
	sealed  int        // segments sealed since a flush was asked for
	buf     []byte     // scratch of append

	quiet sync.Cond // on mu: a sealed segment has become quiet

	syncing sync.Mutex
	scratch []*segment // of sync
}

// bulkValue is a value of a batch that goes to the bulk.
type bulkValue struct {
	at   int    // where its reference begins in the batch's rows
	head int    // bytes of its beginning, which lie in heads, one value's after another's
	tail []byte // the rest, the caller's own
	sum  uint32
}

func (v *bulkValue) size() int { return v.head + len(v.tail) }

// write is one record to be appended.
type write struct {
	rows   []byte // a Pebble batch; its references are filled in by append
	places []place
	values []bulkValue
	heads  []byte
}

// append writes a record. When it returns without an error the OS has it; the caller must call
// applied when its rows are in Pebble. On an error, which latches the store, what is on disk is unknown.
func (l *segLog) append(w *write) (*segment, error) {
	bulk := 0
	for i := range w.values {
		bulk += w.values[i].size()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.latch.err(); err != nil {
		return nil, err
	}
	if g := l.active; g.size.Load() >= l.limit || g.size.Load()-g.bulk >= l.limit/rowsPart {
		if err := l.rotate(); err != nil {
			return nil, l.failed("create", segmentName(l.next, false), err)
		}
	}
	g := l.active
	front := recordHeaderLen + len(w.places)*placeLen + len(w.rows)
	off := g.size.Load() + int64(front)
	for i := range w.values {
		v := &w.values[i]
		ref := reference{segment: g.number, offset: uint32(off), length: uint32(v.size()), sum: v.sum}
		ref.append(w.rows[v.at:v.at])
		off += int64(v.size())
	}
	b := append(l.buf[:0], 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(w.rows)))
	b = binary.BigEndian.AppendUint32(b, uint32(bulk))
	b = binary.BigEndian.AppendUint16(b, uint16(len(w.places)))
	for _, p := range w.places {
		b = AppendPos(appendShard(b, p.shard), p.pos)
	}
	b = append(b, w.rows...)
	binary.LittleEndian.PutUint32(b, crc32.Checksum(b[4:], castagnoli))
	if err := l.write(g, b, w); err != nil {
		return nil, l.failed("write", g.name(), err)
	}
	g.size.Store(off)
	g.bulk += int64(bulk)
	g.inflight.Add(1)
	was := l.pending
	if l.pending += int64(front + bulk); was < unsyncedBytes && l.pending >= unsyncedBytes {
		l.kick()
	}
	return g, nil
}

// write hands the front of a record and its bulk to the OS, which leaves the values alone (a vfs.File need not; see
// CrashDisk). What is half written when it fails stays: the next opening takes it for the torn end of the log.
func (l *segLog) write(g *segment, b []byte, w *write) error {
	heads := w.heads
	for i := range w.values {
		v := &w.values[i]
		b = append(b, heads[:v.head]...)
		heads = heads[v.head:]
		if len(v.tail) < gatherBytes {
			b = append(b, v.tail...)
			if len(b) < 4*gatherBytes {
				continue
			}
		}
		if _, err := g.file.Write(b); err != nil {
			return err
		}
		b = b[:0]
		if len(v.tail) >= gatherBytes {
			if _, err := g.file.Write(v.tail); err != nil {
				return err
			}
		}
	}
	if l.buf = b; cap(b) > 1<<20 {
		l.buf = nil // one large commit, not the rule
	}
	if len(b) == 0 {
		return nil
	}
	_, err := g.file.Write(b)
	return err
}

// failed latches a failure of the log.
func (l *segLog) failed(op, name string, err error) error {
	l.latch.set(fmt.Errorf("%s %s: %w", op, name, err))
	return l.latch.err()
}

// rotate seals the active segment and begins the next. Call with mu held.
func (l *segLog) rotate() error {
	g, err := createSegment(l.fs, l.dir, l.next, false)
	if err != nil {
		return err
	}
	l.next++
	l.table.add(g)
	l.open, l.busy = append(l.open, g), append(l.busy, g)
	if l.active != nil {
		l.active.sealed.Store(true)
		l.sealed++
		l.quiet.Broadcast() // if it is
		l.tend()
	}
	l.active = g
	return nil
}

// begin begins the first segment of an opening, whose number is not below a floor. The replay may have filled a memtable,
// whose flush is fsyncing the log meanwhile.
func (l *segLog) begin(floor uint32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = max(l.next, floor)
	return l.rotate()
}

// seal begins a new segment unless the active one is empty, and returns its number: all
// records so far are in segments below.
func (l *segLog) seal() (uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.latch.err(); err != nil {
		return 0, err
	}
	if l.active.size.Load() > int64(segmentHeaderLen) {
		if err := l.rotate(); err != nil {
			return 0, l.failed("create", segmentName(l.next, false), err)
		}
	}
	return l.active.number, nil
}

// number takes the number of a home.
func (l *segLog) number() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return l.next - 1
}

// applied says that a record's rows are in Pebble.
func (l *segLog) applied(g *segment) {
	if g.inflight.Add(-1) == 0 && g.sealed.Load() {
		l.mu.Lock()
		l.quiet.Broadcast()
		l.mu.Unlock()
		l.tend()
	}
}

// sync makes everything written so far durable, oldest first, and returns where that
// ends: a segment and an offset in it. It tells whether there was anything to do.
func (l *segLog) sync() (number uint32, end int64, did bool, err error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.latch.err(); err != nil {
		return 0, 0, false, err
	}
	l.mu.Lock()
	l.pending = 0
	l.scratch = append(l.scratch[:0], l.open...)
	l.mu.Unlock()
	for _, g := range l.scratch {
		// Before size is looked at: what is sealed does not grow.
		whole := g.sealed.Load()
		d, err := l.syncOne(g)
		if err != nil {
			// A failed fsync may have dropped the dirty pages: asking again would lie.
			return 0, 0, true, l.failed("sync", g.name(), err)
		}
		did = did || d
		number, end = g.number, g.synced
		if whole {
			l.mu.Lock()
			l.open = l.open[1:]
			l.mu.Unlock()
		}
	}
	return number, end, did, nil
}

// syncAll is sync for who only needs it done.
func (l *segLog) syncAll() error {
	_, _, _, err := l.sync()
	return err
}

// syncOne fsyncs one segment, and its name the first time. Call with syncing held.
func (l *segLog) syncOne(g *segment) (did bool, err error) {
	size := g.size.Load()
	if size > g.synced {
		if err := g.file.SyncData(); err != nil {
			return true, err
		}
		g.synced, did = size, true
	}
	if !g.named {
		if err := syncDir(l.fs, l.dir); err != nil {
			return true, err
		}
		g.named, did = true, true
	}
	return did, nil
}

// floor is the oldest log segment that a replay would need if everything in memtables were
// flushed: all records of those below are in Pebble.
func (l *segLog) floor() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.floorLocked()
}

func (l *segLog) floorLocked() uint32 {
	for l.busy[0].quiet() {
		l.busy = l.busy[1:]
	}
	return l.busy[0].number
}

// awaitFloor waits until all records below a segment, none of which is active, are in Pebble.
func (l *segLog) awaitFloor(number uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.floorLocked() < number {
		l.quiet.Wait()
	}
}

// flushDue says, once each time, that so much was logged that Pebble should flush.
func (l *segLog) flushDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed < unflushedSegments {
		return false
	}
	l.sealed = 0
	return true
}

// close closes all files.
func (l *segLog) close() error {
	var err error
	for _, g := range l.table.list() {
		err = errors.Join(err, g.file.Close())
	}
	return err
}
