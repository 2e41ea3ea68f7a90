package storage

// weir.durable: what the store has promised to keep.
//
//	version:1 shards:2 segment:4 offset:8 seq:8 per shard crc32c:4       (integers big-endian, checksum little-endian)
//
// Written over itself after every fsync of the log, not fsynced itself: it may lag behind
// the truth, and after a loss of power be old or torn, but it never promises too
// much. (An import may take a shard back, and does fsync it before: an old mark would
// promise the shard that was replaced.) A store that comes back with a shard older than its mark has lost acked
// writes (a damaged log, a disk that lies about fsync, a file restored from an older
// copy) and refuses to open: a damaged end of the log by itself looks like the torn one that
// a crash leaves. Segment and offset say how far the log was fsynced: up to there a
// replay need not read values to see whether they are whole.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	markName    = "weir.durable"
	markVersion = 2
	markHead    = 1 + 2 + 4 + 8
)

// promise is what is durable: each shard up to its seq, the log up to an offset in a
// segment. The zero promise promises nothing.
type promise struct {
	segment uint32
	offset  int64
	seqs    []uint64
}

// trusted is up to which offset a segment was fsynced.
func (p *promise) trusted(segment uint32) int64 {
	switch {
	case segment < p.segment:
		return math.MaxInt64
	case segment == p.segment:
		return p.offset
	}
	return 0
}

// durableMark is the open file. Owned by the syncer's goroutine, by Import while
// it holds the store's right to sync, and by opening and closing.
type durableMark struct {
	file vfs.File
	last promise // as written
	buf  []byte
}

func openMark(fsys vfs.FS, dir string) (*durableMark, error) {
	f, err := fsys.OpenReadWrite(fsys.PathJoin(dir, markName), "weir-mark")
	if err != nil {
		return nil, err
	}
	return &durableMark{file: f}, nil
}

// write notes what is durable. Nothing new costs nothing: an idle store that is synced each
// second leaves its disk alone. It keeps no part of p.
func (m *durableMark) write(p promise) error {
	if m.last.segment == p.segment && m.last.offset == p.offset && slices.Equal(m.last.seqs, p.seqs) {
		return nil
	}
	m.last.segment, m.last.offset, m.last.seqs = p.segment, p.offset, append(m.last.seqs[:0], p.seqs...)
	m.buf = binary.BigEndian.AppendUint16(append(m.buf[:0], markVersion), uint16(len(p.seqs)))
	m.buf = binary.BigEndian.AppendUint32(m.buf, p.segment)
	m.buf = binary.BigEndian.AppendUint64(m.buf, uint64(p.offset))
	for _, s := range p.seqs {
		m.buf = binary.BigEndian.AppendUint64(m.buf, s)
	}
	m.buf = appendChecksum(m.buf, 0)
	_, err := m.file.WriteAt(m.buf, 0)
	return err
}

// readMark reads the mark; the zero promise when there is none, or none that is whole.
func readMark(fsys vfs.FS, dir string) (promise, error) {
	f, err := fsys.Open(fsys.PathJoin(dir, markName))
	if errors.Is(err, fs.ErrNotExist) {
		return promise{}, nil
	}
	if err != nil {
		return promise{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, markHead+8*maxPlainShard+4))
	if err != nil {
		return promise{}, err
	}
	return parseMark(data), nil
}

func parseMark(data []byte) promise {
	if len(data) < markHead || data[0] != markVersion {
		return promise{}
	}
	n := int(binary.BigEndian.Uint16(data[1:]))
	end := markHead + 8*n
	if len(data) < end+4 || crc32.Checksum(data[:end], castagnoli) != binary.LittleEndian.Uint32(data[end:]) {
		return promise{}
	}
	p := promise{segment: binary.BigEndian.Uint32(data[3:]), offset: int64(binary.BigEndian.Uint64(data[7:])), seqs: make([]uint64, n)}
	for i := range p.seqs {
		p.seqs[i] = binary.BigEndian.Uint64(data[markHead+8*i:])
	}
	return p
}

func syncDir(fsys vfs.FS, dir string) error {
	d, err := fsys.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// lostPromise says which shard came back older than the mark; nil when none did.
func lostPromise(p promise, shards []*pebbleShard) error {
	for i, s := range shards {
		if i < len(p.seqs) && s.seq.Load() < p.seqs[i] {
			return fmt.Errorf("%w: shard %d came back at batch %d, and batch %d had been made durable: "+
				"the log or a table is damaged, or the disk did not keep what it had confirmed "+
				"(to open what is left, remove %s)", ErrCorrupt, i, s.seq.Load(), p.seqs[i], markName)
		}
	}
	return nil
}
