package storage

// Homes: segments that hold values and no records.

import (
	"fmt"
	"hash/crc32"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// homeWriter writes values into homes: as many segments as they need. Used by one goroutine;
// finish, then the references, then end.
type homeWriter struct {
	s    *pebbleStore
	cur  *segment // being written; nil when none is
	buf  []byte   // not written yet
	made []*segment
}

// failed is what a failure leads to. Nothing refers to a home before finish has returned: one that finds no room on
// the disk, be it at its fsync, is dropped, and what it was for may be tried again. Anything else latches.
func (h *homeWriter) failed(op, name string, err error) error {
	if vfs.IsNoSpaceError(err) {
		return fmt.Errorf("%s %s: %w", op, name, err)
	}
	return h.s.wal.failed(op, name, err)
}

// add takes a value and returns its reference, which may be used after finish. An error leaves the store as it was.
func (h *homeWriter) add(value []byte) (reference, error) {
	if h.cur == nil {
		number := h.s.wal.number()
		g, err := createSegment(h.s.opts.fs, h.s.dir, number, true)
		if err != nil {
			return reference{}, h.failed("create", segmentName(number, true), err)
		}
		g.inflight.Store(1) // until end
		h.s.segments.add(g)
		h.cur, h.made = g, append(h.made, g)
	}
	g := h.cur
	ref := reference{segment: g.number, offset: uint32(g.size.Load()), length: uint32(len(value)), sum: crc32.Checksum(value, castagnoli)}
	g.size.Add(int64(len(value)))
	h.buf = append(h.buf, value...)
	if len(h.buf) >= 256<<10 {
		if err := h.flush(); err != nil {
			return reference{}, err
		}
	}
	if g.size.Load() >= h.s.opts.segment {
		return ref, h.seal()
	}
	return ref, nil
}

func (h *homeWriter) flush() error {
	_, err := h.cur.file.Write(h.buf)
	h.buf = h.buf[:0]
	if err != nil {
		return h.failed("write", h.cur.name(), err)
	}
	return nil
}

// seal makes the segment at hand durable.
func (h *homeWriter) seal() error {
	if err := h.flush(); err != nil {
		return err
	}
	g := h.cur
	h.cur = nil
	err := g.file.Sync()
	if err == nil {
		err = syncDir(h.s.opts.fs, h.s.dir)
	}
	if err != nil {
		return h.failed("sync", g.name(), err)
	}
	g.sealed.Store(true)
	return nil
}

// finish makes all values durable. Not after a failed add.
func (h *homeWriter) finish() error {
	if h.cur == nil {
		return nil
	}
	return h.seal()
}

// end says that the references stand, or never will: collect may count them.
func (h *homeWriter) end() {
	for _, g := range h.made {
		g.inflight.Store(0)
	}
	h.made = nil
}

// drop removes what was written; nothing refers to it.
func (h *homeWriter) drop() {
	h.cur, h.buf = nil, nil
	for _, g := range h.made {
		h.s.segments.drop(g)
		if err := g.remove(h.s.opts.fs); err != nil {
			h.s.log.Warn("storage: an unused file stays", "file", g.name(), "error", err)
		}
	}
	h.made = nil
}
