package storage

// Exports: a shard's rows as one stream of bytes that names no engine.
//
//	export  = "weirxp" version:2 shard:2 epoch:8 seq:8 crc32c:4   chunk*   trailer
//	chunk   = 'C' length:4 row* crc32c:4        rows in key order, about 64 KiB together
//	row     = klen key vlen value               (varints)
//	trailer = 'E' rows:8 bytes:8 crc32c:4
//
// Integers big-endian, checksums little-endian over all bytes of their part before
// them. The trailer's rows and bytes (of keys and values) count the whole export: one
// that was cut between chunks is not taken for a small shard.

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

const (
	exportMagic      = "weirxp"
	exportVersion    = 1
	exportHeaderLen  = 6 + 2 + 2 + 8 + 8
	exportTrailerLen = 1 + 8 + 8 + 4
	exportChunk      = 64 << 10
	// maxImportChunk bounds what a chunk may claim: a row as large as a batch allows.
	maxImportChunk = MaxBatchBytes + exportChunk
)

// exportShard writes a view of the shard and returns the position that it shows.
func exportShard(ctx context.Context, id ShardID, v View, w io.Writer) (Pos, error) {
	pos, err := viewPos(id, v)
	if err != nil {
		return Pos{}, err
	}
	head := binary.BigEndian.AppendUint16([]byte(exportMagic), exportVersion)
	head = AppendPos(appendShard(head, id), pos)
	if _, err := w.Write(appendChecksum(head, 0)); err != nil {
		return Pos{}, fmt.Errorf("storage: export of shard %d: %w", id, err)
	}
	it, err := v.Scan(ShardRange(id))
	if err != nil {
		return Pos{}, err
	}
	defer it.Close()
	var rows, size uint64
	chunk := make([]byte, 5, exportChunk+exportChunk/4)
	flush := func() error {
		chunk[0] = 'C'
		binary.BigEndian.PutUint32(chunk[1:], uint32(len(chunk)-5))
		_, err := w.Write(appendChecksum(chunk, 0))
		chunk = chunk[:5]
		return err
	}
	for ok := it.SeekGE(nil); ok; ok = it.Next() {
		value, err := it.Value()
		if err != nil {
			return Pos{}, fmt.Errorf("storage: export of shard %d: %w", id, err)
		}
		rows, size = rows+1, size+uint64(len(it.Key())+len(value))
		chunk = putBytes(putBytes(chunk, it.Key()), value)
		if len(chunk) < exportChunk {
			continue
		}
		if err := flush(); err != nil {
			return Pos{}, fmt.Errorf("storage: export of shard %d: %w", id, err)
		}
		if err := ctx.Err(); err != nil {
			return Pos{}, err
		}
	}
	if err := it.Error(); err != nil {
		return Pos{}, fmt.Errorf("storage: export of shard %d: %w", id, err)
	}
	if len(chunk) > 5 {
		if err := flush(); err != nil {
			return Pos{}, fmt.Errorf("storage: export of shard %d: %w", id, err)
		}
	}
	trailer := binary.BigEndian.AppendUint64([]byte{'E'}, rows)
	trailer = binary.BigEndian.AppendUint64(trailer, size)
	if _, err := w.Write(appendChecksum(trailer, 0)); err != nil {
		return Pos{}, fmt.Errorf("storage: export of shard %d: %w", id, err)
	}
	return pos, nil
}

// viewPos reads the position row; a shard never written stands at seq 0.
func viewPos(id ShardID, v View) (Pos, error) {
	value, release, err := v.Get(PositionKey(id))
	if err == ErrNotFound {
		return Pos{Epoch: 1}, nil
	}
	if err != nil {
		return Pos{}, err
	}
	defer release()
	return ParsePos(value)
}

// importShard reads an export of shard id, calling row for each row in order (the
// slices are good until it returns), and returns the position that the export
// shows. An error leaves it to the caller to drop what row has collected; it wraps
// ErrCorrupt unless r or row failed.
func importShard(ctx context.Context, id ShardID, r io.Reader, row func(key, value []byte) error) (Pos, error) {
	head := make([]byte, exportHeaderLen+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return Pos{}, importCut(id, err)
	}
	if string(head[:6]) != exportMagic || !checksumGood(head) {
		return Pos{}, fmt.Errorf("%w: import of shard %d: not an export", ErrCorrupt, id)
	}
	if v := binary.BigEndian.Uint16(head[6:]); v != exportVersion {
		return Pos{}, fmt.Errorf("%w: export version %d", ErrFormat, v)
	}
	if got := ShardID(binary.BigEndian.Uint16(head[8:])); got != id {
		return Pos{}, fmt.Errorf("%w: an export of shard %d, imported into shard %d", ErrForeignKey, got, id)
	}
	pos, err := ParsePos(head[10:exportHeaderLen])
	if err != nil {
		return Pos{}, err
	}
	in := importer{id: id, r: r, row: row, pos: pos}
	for done := false; !done; {
		if err := ctx.Err(); err != nil {
			return Pos{}, err
		}
		if done, err = in.part(); err != nil {
			return Pos{}, err
		}
	}
	return pos, nil
}

// importer reads an export part by part.
type importer struct {
	id         ShardID
	r          io.Reader
	row        func(key, value []byte) error
	pos        Pos
	chunk      bytes.Buffer
	last       []byte // key of the newest row
	rows, size uint64
}

// part reads one chunk, or the trailer, which ends the export.
func (in *importer) part() (done bool, err error) {
	in.chunk.Reset()
	if _, err := io.CopyN(&in.chunk, in.r, 5); err != nil {
		return false, importCut(in.id, err)
	}
	rest := int64(exportTrailerLen - 5)
	switch in.chunk.Bytes()[0] {
	case 'E':
	case 'C':
		n := binary.BigEndian.Uint32(in.chunk.Bytes()[1:])
		if n > maxImportChunk {
			return false, in.damaged("chunk length")
		}
		rest = int64(n) + 4
	default:
		return false, in.damaged("part")
	}
	// The buffer grows with what arrives, not with the claimed length.
	if _, err := io.CopyN(&in.chunk, in.r, rest); err != nil {
		return false, importCut(in.id, err)
	}
	part := in.chunk.Bytes()
	if !checksumGood(part) {
		return false, in.damaged("checksum")
	}
	body := part[1 : len(part)-4]
	if part[0] == 'E' {
		rows, size := binary.BigEndian.Uint64(body), binary.BigEndian.Uint64(body[8:])
		if rows != in.rows || size != in.size {
			return false, in.damaged("trailer")
		}
		return true, nil
	}
	return false, in.addRows(body[4:])
}

func (in *importer) addRows(rows []byte) error {
	for len(rows) > 0 {
		key, rest, ok := cutBytes(rows)
		var value []byte
		if ok {
			value, rest, ok = cutBytes(rest)
		}
		if !ok || bytes.Compare(key, in.last) <= 0 {
			return in.damaged("row")
		}
		k, err := ParseKey(key)
		if err != nil || k.Shard != in.id {
			return in.damaged("key")
		}
		if k.Kind == KindPosition {
			if p, err := ParsePos(value); err != nil || p != in.pos {
				return in.damaged("position row")
			}
		}
		if err := in.row(key, value); err != nil {
			return err
		}
		in.last = append(in.last[:0], key...)
		in.rows, in.size = in.rows+1, in.size+uint64(len(key)+len(value))
		rows = rest
	}
	return nil
}

func (in *importer) damaged(what string) error {
	return fmt.Errorf("%w: import of shard %d: %s, after %d rows", ErrCorrupt, in.id, what, in.rows)
}

func importCut(id ShardID, err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: import of shard %d: the export is cut off", ErrCorrupt, id)
	}
	return fmt.Errorf("storage: import of shard %d: %w", id, err)
}

// checksumGood reports whether the last 4 bytes are the checksum of those before.
func checksumGood(b []byte) bool {
	n := len(b) - 4
	return crc32.Checksum(b[:n], castagnoli) == binary.LittleEndian.Uint32(b[n:])
}
