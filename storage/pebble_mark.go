package storage

// weir.durable: what the store has promised to keep.
//
//	version:1 shards:2 seq:8 per shard crc32c:4       (integers big-endian, checksum little-endian)
//
// Written over itself after every fsync of the log, never fsynced: it may lag behind
// the truth, and after a loss of power be old or torn, but it never promises too
// much. A store that comes back with a shard older than its mark has lost acked
// writes (a damaged log, a disk that lies about fsync, a file restored from an older
// copy) and refuses to open: Pebble by itself takes a damaged tail of the newest log
// for the end of it, without a word.
//
// One damage is not one: the log's tail beyond the mark, after a loss of power. The
// kernel writes pages in any order, so page 7 may have survived and page 6 not.
// Pebble's log says in every chunk how far its writer believed it was synced (which
// is not true here: we swallow that fsync), finds a chunk beyond the hole that claims
// so, and calls the log corrupt. cutTornLog cuts the log at the hole instead. The
// mark then tells a torn tail from a lost promise.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	markName    = "weir.durable"
	markVersion = 1
	tornName    = "weir.torn" // the log as it was found, before the last cut
	cutName     = "weir.cut"  // the log being cut
)

// durableMark is the open file. Owned by the syncer's goroutine, by Import while
// it holds the store's right to sync, and by opening and closing.
type durableMark struct {
	file vfs.File
	last []uint64 // as written; nil before
	buf  []byte
}

func openMark(fsys vfs.FS, dir string) (*durableMark, error) {
	f, err := fsys.OpenReadWrite(fsys.PathJoin(dir, markName), "weir-mark")
	if err != nil {
		return nil, err
	}
	return &durableMark{file: f}, nil
}

// write notes that each shard is durable up to its seq. Nothing new costs nothing: an
// idle store that is synced each second leaves its disk alone.
func (m *durableMark) write(seqs []uint64) error {
	if slices.Equal(m.last, seqs) {
		return nil
	}
	m.last = append(m.last[:0], seqs...)
	m.buf = binary.BigEndian.AppendUint16(append(m.buf[:0], markVersion), uint16(len(seqs)))
	for _, s := range seqs {
		m.buf = binary.BigEndian.AppendUint64(m.buf, s)
	}
	m.buf = appendChecksum(m.buf, 0)
	_, err := m.file.WriteAt(m.buf, 0)
	return err
}

// readMark reads the mark; nil when there is none, or none that is whole.
func readMark(fsys vfs.FS, dir string) ([]uint64, error) {
	f, err := fsys.Open(fsys.PathJoin(dir, markName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 3+8*maxPlainShard+4))
	if err != nil {
		return nil, err
	}
	return parseMark(data), nil
}

func parseMark(data []byte) []uint64 {
	if len(data) < 3 || data[0] != markVersion {
		return nil
	}
	n := int(binary.BigEndian.Uint16(data[1:]))
	end := 3 + 8*n
	if len(data) < end+4 || crc32.Checksum(data[:end], castagnoli) != binary.LittleEndian.Uint32(data[end:]) {
		return nil
	}
	seqs := make([]uint64, n)
	for i := range seqs {
		seqs[i] = binary.BigEndian.Uint64(data[3+8*i:])
	}
	return seqs
}

// newestLog finds the log with the highest number; "" when there is none.
func newestLog(fsys vfs.FS, dir string) (name string, number uint64, err error) {
	names, err := fsys.List(dir)
	if err != nil {
		return "", 0, err
	}
	for _, n := range names {
		base, ok := strings.CutSuffix(n, ".log")
		if !ok {
			continue
		}
		// Pebble may name a log number-segment.
		base, _, _ = strings.Cut(base, "-")
		if num, err := strconv.ParseUint(base, 10, 64); err == nil && (name == "" || num > number) {
			name, number = n, num
		}
	}
	return name, number, nil
}

// cutTornLog cuts the newest log where its first hole begins, if there is a hole
// that Pebble would refuse to open. It returns the bytes cut off, 0 when the log was
// left alone. What was there is kept as weir.torn.
func cutTornLog(fsys vfs.FS, dir string) (cut int64, err error) {
	name, number, err := newestLog(fsys, dir)
	if err != nil || name == "" {
		return 0, err
	}
	path := fsys.PathJoin(dir, name)
	good, torn, err := scanLog(fsys, path, number)
	if err != nil || !torn {
		return 0, err
	}
	size, err := copyPrefix(fsys, path, fsys.PathJoin(dir, cutName), good)
	if err != nil {
		return 0, err
	}
	// Were we to die between the renames, the newest log would be gone: a link
	// keeps its name until the cut one replaces it.
	torntail := fsys.PathJoin(dir, tornName)
	if err := fsys.Remove(torntail); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err := fsys.Link(path, torntail); err != nil {
		return 0, err
	}
	if err := fsys.Rename(fsys.PathJoin(dir, cutName), path); err != nil {
		return 0, err
	}
	return size - good, syncDir(fsys, dir)
}

// scanLog reads a log's records. good is where the last whole record ends; torn says
// that Pebble would call what follows a corruption instead of the log's end.
func scanLog(fsys vfs.FS, path string, number uint64) (good int64, torn bool, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	r := newLogReader(record.NewReader, f, number)
	for {
		rec, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
		}
		switch {
		case err == nil:
			good = r.Offset()
		case errors.Is(err, record.ErrInvalidChunk) || errors.Is(err, record.ErrZeroedChunk):
			return good, true, nil
		case err == io.EOF || errors.Is(err, record.ErrUnexpectedEOF):
			return good, false, nil
		default:
			return good, false, err
		}
	}
}

// newLogReader calls record.NewReader, whose second parameter has a type of a name
// that only Pebble may write.
func newLogReader[N ~uint64](open func(io.Reader, N) *record.Reader, r io.Reader, number uint64) *record.Reader {
	return open(r, N(number))
}

// copyPrefix copies the first n bytes of a file into a synced new one and returns
// the size of the old one.
func copyPrefix(fsys vfs.FS, from, to string, n int64) (size int64, err error) {
	src, err := fsys.Open(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return 0, err
	}
	dst, err := fsys.Create(to, "weir-cut")
	if err != nil {
		return 0, err
	}
	_, err = io.CopyN(dst, src, n)
	return info.Size(), errors.Join(err, dst.Sync(), dst.Close())
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lostPromise says which shard came back older than the mark; nil when none did.
func lostPromise(mark []uint64, shards []*pebbleShard) error {
	for i, s := range shards {
		if i < len(mark) && s.seq.Load() < mark[i] {
			return fmt.Errorf("%w: shard %d came back at batch %d, and batch %d had been made durable: "+
				"the log or a table is damaged, or the disk did not keep what it had confirmed "+
				"(to open what is left, remove %s)", ErrCorrupt, i, s.seq.Load(), mark[i], markName)
		}
	}
	return nil
}
