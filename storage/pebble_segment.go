package storage

// Segments: the files of the log, which are also the home of what is large.
//
//	weir-N.seg  = header record*      of the log
//	weir-N.home = header value*       what collect moved, what Import brought
//	header  = "weirseg" version:1 number:4 crc32c:4
//	record  = crc32c:4 rows:4 bulk:4 n:2  n * (shard:2 epoch:8 seq:8)  rows  bulk
//	rows    = a Pebble batch, as bytes      bulk = values, one after another
//
// A block of 1 KB and more is written once in its life: into the bulk of the record that
// commits it. What Pebble keeps in its stead (in a pack), and the rows carry, is where it lies:
//
//	reference = 03 segment:4 offset:4 length:4 crc32c:4
//
// 3 is no kind of a block, and only block keys have references. A record's checksum covers
// all before bulk, and thereby each value's own.
//
// Locks: see pebble_log.go.

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	segmentPrefix    = "weir-"
	logSuffix        = ".seg"
	homeSuffix       = ".home"
	segmentMagic     = "weirseg"
	segmentVersion   = 1
	segmentHeaderLen = len(segmentMagic) + 1 + 4 + 4

	recordHeaderLen = 4 + 4 + 4 + 2
	// batchesPerRecord bounds what several shards commit as one, in batches of MaxBatchBytes: a record begins before
	// segmentBytes, and offsets have 32 bits.
	batchesPerRecord = 3
	placeLen         = 2 + 8 + 8

	// bulkBytes is the size from which a block goes to the bulk: below, a reference and a read of
	// its own cost as much as they save.
	bulkBytes = 1 << 10

	referenceKind = 3
	referenceLen  = 1 + 4 + 4 + 4 + 4

	// segmentCategory is how our files announce themselves to the file system's statistics.
	segmentCategory vfs.DiskWriteCategory = "weir-segment"
)

// reference says where a value lies.
type reference struct {
	segment, offset, length, sum uint32
}

func (r reference) append(dst []byte) []byte {
	dst = append(dst, referenceKind)
	dst = binary.BigEndian.AppendUint32(dst, r.segment)
	dst = binary.BigEndian.AppendUint32(dst, r.offset)
	dst = binary.BigEndian.AppendUint32(dst, r.length)
	return binary.LittleEndian.AppendUint32(dst, r.sum)
}

// parseReference reads what Pebble holds under a block's key; false when it is the block itself.
func parseReference(value []byte) (reference, bool) {
	if len(value) != referenceLen || value[0] != referenceKind {
		return reference{}, false
	}
	u32 := binary.BigEndian.Uint32
	return reference{
		segment: u32(value[1:]), offset: u32(value[5:]), length: u32(value[9:]),
		sum: binary.LittleEndian.Uint32(value[13:]),
	}, true
}

// goesToBulk says whether a block is kept outside Pebble. One that could be taken for a
// reference is, whatever its size: so a reading never has to guess.
func goesToBulk(size int, first byte) bool {
	return size >= bulkBytes || size == referenceLen && first == referenceKind
}

// segment is one file. Its fields belong to the log unless said otherwise.
type segment struct {
	number   uint32
	home     bool // not of the log
	headless bool // its header is damaged
	file     vfs.File
	path     string
	size     atomic.Int64 // bytes written
	bulk     int64        // of which bulk; -1 unknown. Guarded by segLog.mu until sealed, then constant
	// inflight is what was written and is not in Pebble yet: records, shards with pending blocks, or a home that is
	// being built. A segment is quiet when it is sealed and this is 0.
	inflight atomic.Int64
	sealed   atomic.Bool

	synced int64 // bytes known to be fsynced; guarded by segLog.syncing
	named  bool  // its name is durable; guarded by segLog.syncing
}

// quiet says that nothing comes to it any more, and that all its records are in Pebble: a log segment needs no replay
// once that is flushed.
func (g *segment) quiet() bool { return g.sealed.Load() && g.inflight.Load() == 0 } // in this order

func segmentName(number uint32, home bool) string {
	suffix := logSuffix
	if home {
		suffix = homeSuffix
	}
	return fmt.Sprintf("%s%010d%s", segmentPrefix, number, suffix)
}

func (g *segment) name() string { return segmentName(g.number, g.home) }

// parseSegmentName reads a file's name; false for one that no segment has been given.
func parseSegmentName(name string) (number uint32, home, ok bool) {
	digits, ours := strings.CutPrefix(name, segmentPrefix)
	digits, log := strings.CutSuffix(digits, logSuffix)
	digits, home = strings.CutSuffix(digits, homeSuffix)
	n, err := strconv.ParseUint(digits, 10, 32)
	ok = ours && log != home && err == nil && n > 0 && n < math.MaxUint32 // the next one has a number too
	return uint32(n), home, ok && segmentName(uint32(n), home) == name
}

func segmentHeader(number uint32) []byte {
	b := append([]byte(segmentMagic), segmentVersion)
	return appendChecksum(binary.BigEndian.AppendUint32(b, number), 0)
}

// createSegment makes a segment's file with its header. Nothing is durable yet.
func createSegment(fsys vfs.FS, dir string, number uint32, home bool) (*segment, error) {
	g := &segment{number: number, home: home, path: fsys.PathJoin(dir, segmentName(number, home))}
	f, err := fsys.Create(g.path, segmentCategory)
	if err != nil {
		return nil, err
	}
	g.file = f
	head := segmentHeader(number)
	if _, err := f.Write(head); err != nil {
		// For want of room, perhaps, and a home is tried again: leave nothing behind.
		return nil, errors.Join(err, f.Close(), fsys.Remove(g.path))
	}
	g.size.Store(int64(len(head)))
	return g, nil
}

// openSegment opens a segment that is not written any more. One whose header is not whole, as
// a loss of power may leave it, holds nothing.
func openSegment(fsys vfs.FS, dir string, number uint32, home bool) (*segment, error) {
	g := &segment{number: number, home: home, path: fsys.PathJoin(dir, segmentName(number, home)), bulk: -1, named: true}
	g.sealed.Store(true)
	f, err := fsys.Open(g.path)
	if err != nil {
		return nil, err
	}
	g.file = f
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	g.size.Store(info.Size())
	g.synced = info.Size()
	head := make([]byte, segmentHeaderLen)
	if _, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, errors.Join(err, f.Close())
	}
	whole := string(head[:len(segmentMagic)]) == segmentMagic &&
		string(appendChecksum(bytes.Clone(head[:segmentHeaderLen-4]), 0)) == string(head)
	if v := head[len(segmentMagic)]; whole && v > segmentVersion {
		return nil, errors.Join(fmt.Errorf("%w: version %d of %s", ErrFormat, v, g.name()), f.Close())
	}
	g.headless = string(head) != string(segmentHeader(number))
	return g, nil
}

// openSegments opens all segments of a directory, ascending. With an error it returns those that are open.
func openSegments(fsys vfs.FS, dir string) ([]*segment, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	var all []*segment
	for _, name := range names {
		number, home, ok := parseSegmentName(name)
		if !ok {
			continue
		}
		g, err := openSegment(fsys, dir, number, home)
		if err != nil {
			return all, err
		}
		all = append(all, g)
	}
	slices.SortFunc(all, byNumber)
	return dropReplaced(fsys, all)
}

// dropReplaced removes a home whose number a log segment has too. A number is given again when its home was removed, and
// the process ended before the next one was made: a loss of power may then show both. The log's is the newer, and of the
// home nothing is used.
func dropReplaced(fsys vfs.FS, all []*segment) ([]*segment, error) {
	logs := map[uint32]bool{}
	for _, g := range all {
		logs[g.number] = logs[g.number] || !g.home
	}
	var err error
	all = slices.DeleteFunc(all, func(g *segment) bool {
		replaced := g.home && logs[g.number]
		if replaced {
			err = errors.Join(err, g.remove(fsys))
		}
		return replaced
	})
	return all, err
}

func byNumber(a, b *segment) int { return cmp.Compare(a.number, b.number) }

// place is where one shard stands after a record.
type place struct {
	shard ShardID
	pos   Pos
}

// logRecord is a record as replay reads it.
type logRecord struct {
	places []place
	rows   []byte // owned by the record
	bulk   int64  // bytes
}

// recordReader reads a log segment from its start.
type recordReader struct {
	g    *segment
	size int64
	off  int64 // of the next record
	// trusted is where what was made durable ends: values before it are not read.
	trusted int64
	buf     []byte // of the file, beginning at at
	at      int64
	window  int // bytes to read at a time, at least
}

const (
	readAhead = 256 << 10
	// largeBulk is the bulk that is stepped over, when it is not to be verified, rather than read with what follows it.
	largeBulk   = 64 << 10
	smallWindow = 4 << 10
)

func newRecordReader(g *segment, trusted int64) *recordReader {
	return &recordReader{g: g, size: g.size.Load(), off: int64(segmentHeaderLen), trusted: trusted, window: smallWindow}
}

// errTorn: what follows is no whole record, as a crash leaves the end of the log.
var errTorn = errors.New("storage: torn record")

// bytes returns n bytes at an offset, valid until the next call.
func (r *recordReader) bytes(off int64, n int) ([]byte, error) {
	if off+int64(n) > r.size {
		return nil, errTorn
	}
	if off < r.at || off+int64(n) > r.at+int64(len(r.buf)) {
		want := min(int64(max(n, r.window)), r.size-off)
		if int64(cap(r.buf)) < want {
			r.buf = make([]byte, want)
		}
		r.buf, r.at = r.buf[:want], off
		if _, err := r.g.file.ReadAt(r.buf, off); err != nil {
			r.buf = r.buf[:0]
			return nil, err
		}
	}
	from := off - r.at
	return r.buf[from : from+int64(n)], nil
}

// next reads a record; io.EOF at the plain end, errTorn before what is none.
func (r *recordReader) next() (logRecord, error) {
	if r.g.headless {
		return logRecord{}, errTorn
	}
	if r.off >= r.size {
		return logRecord{}, io.EOF
	}
	head, err := r.bytes(r.off, recordHeaderLen)
	if err != nil {
		return logRecord{}, err
	}
	sum := binary.LittleEndian.Uint32(head)
	rows, bulk, n := binary.BigEndian.Uint32(head[4:]), binary.BigEndian.Uint32(head[8:]), binary.BigEndian.Uint16(head[12:])
	front := recordHeaderLen + int64(n)*placeLen + int64(rows)
	if n == 0 || r.off+front+int64(bulk) > r.size {
		return logRecord{}, errTorn
	}
	body, err := r.bytes(r.off, int(front))
	if err != nil {
		return logRecord{}, err
	}
	if crc32.Checksum(body[4:], castagnoli) != sum {
		return logRecord{}, errTorn
	}
	rec := logRecord{places: make([]place, n), bulk: int64(bulk)}
	for i := range rec.places {
		at := body[recordHeaderLen+i*placeLen:]
		rec.places[i].shard = ShardID(binary.BigEndian.Uint16(at))
		rec.places[i].pos, _ = ParsePos(at[2:placeLen])
	}
	rec.rows = slices.Clone(body[front-int64(rows):])
	if r.window = readAhead; r.off+front+int64(bulk) > r.trusted {
		if err := r.verify(rec.rows, r.off+front, r.off+front+int64(bulk)); err != nil {
			return logRecord{}, err
		}
	} else if bulk >= largeBulk {
		r.window = smallWindow // the next record is like this one, perhaps
	}
	r.off += front + int64(bulk)
	return rec, nil
}

// verify holds the values of a record's bulk, [from, to), against their checksums.
func (r *recordReader) verify(rows []byte, from, to int64) error {
	return eachReference(rows, func(ref reference) error {
		if ref.segment != r.g.number || int64(ref.offset) < from || int64(ref.offset)+int64(ref.length) > to {
			return fmt.Errorf("%w: a record's reference leaves its bulk", ErrCorrupt)
		}
		sum := uint32(0)
		for off, left := int64(ref.offset), int(ref.length); left > 0; {
			part, err := r.bytes(off, min(left, 1<<20))
			if err != nil {
				return err
			}
			sum = crc32.Update(sum, castagnoli, part)
			off, left = off+int64(len(part)), left-len(part)
		}
		if sum != ref.sum {
			return errTorn
		}
		return nil
	})
}

// segmentTable is all segments by number. Safe for concurrent use.
type segmentTable struct {
	mu  sync.RWMutex
	all map[uint32]*segment
}

func (t *segmentTable) add(g *segment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[uint32]*segment{}
	}
	t.all[g.number] = g
}

func (t *segmentTable) drop(g *segment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, g.number)
}

// list returns all segments, oldest first.
func (t *segmentTable) list() []*segment {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*segment, 0, len(t.all))
	for _, g := range t.all {
		out = append(out, g)
	}
	slices.SortFunc(out, byNumber)
	return out
}

// bytes is the size of all segments.
func (t *segmentTable) bytes() (n int64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, g := range t.all {
		n += g.size.Load()
	}
	return n
}

// read appends a value to dst. The error wraps ErrCorrupt when it is not what was written.
func (t *segmentTable) read(dst []byte, ref reference) ([]byte, error) {
	t.mu.RLock()
	g := t.all[ref.segment]
	t.mu.RUnlock()
	if g == nil || int64(ref.offset)+int64(ref.length) > g.size.Load() {
		return dst, fmt.Errorf("%w: %d bytes at %d of segment %d, which are not there", ErrCorrupt, ref.length, ref.offset, ref.segment)
	}
	at := len(dst)
	dst = slices.Grow(dst, int(ref.length))[:at+int(ref.length)]
	if _, err := g.file.ReadAt(dst[at:], int64(ref.offset)); err != nil {
		return dst[:at], fmt.Errorf("read %s: %w", g.name(), err)
	}
	if crc32.Checksum(dst[at:], castagnoli) != ref.sum {
		return dst[:at], fmt.Errorf("%w: %d bytes at %d of %s", ErrCorrupt, ref.length, ref.offset, g.name())
	}
	return dst, nil
}

// remove closes a segment's file and removes it.
func (g *segment) remove(fsys vfs.FS) error {
	err := errors.Join(g.file.Close(), fsys.Remove(g.path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
