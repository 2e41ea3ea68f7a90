package storage

// Opening the log: what Pebble had in memtables is made again from it.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// openLog finds the segments, replays the log from the floor on, makes all of it durable and
// begins a new segment. The shards' positions must have been read. A store that has lost what was promised is
// refused as it was found: with the log still to be replayed, should somebody mend it.
func (s *pebbleStore) openLog(promised promise) error {
	all, err := openSegments(s.opts.fs, s.dir)
	for _, g := range all {
		s.segments.add(g)
		s.wal.next = g.number + 1
		if g.number >= promised.segment {
			// A process's death leaves what nobody has fsynced.
			g.synced, g.named = 0, false
			s.wal.open = append(s.wal.open, g)
		}
	}
	if err != nil {
		return err
	}
	floor, err := s.readFloor()
	if err != nil {
		return err
	}
	found, err := s.replay(floor, promised)
	if err != nil {
		return err
	}
	if err := lostPromise(promised, s.shards); err != nil {
		return err
	}
	for _, sh := range s.shards {
		// Tables that are ahead of a damaged log: their batches are not given again.
		sh.seq.Store(max(sh.seq.Load(), sh.inTable))
	}
	// Below the floor nothing would be replayed, should somebody have removed the segments above it.
	if err := s.wal.begin(floor); err != nil || !found {
		return err
	}
	if err := s.space.raiseFloor(s.wal.active.number); err != nil {
		return err
	}
	// Fsyncs the log on its way (pebble_disk.go).
	return errors.Join(asCorrupt(s.db.Flush()), s.latch.err())
}

// replay applies the log's records from the floor on, up to the end of the log or where it is torn:
// if something behind that was promised, lostPromise tells. found: there was something to read.
func (s *pebbleStore) replay(floor uint32, promised promise) (found bool, err error) {
	for _, g := range s.segments.list() {
		if g.home || g.number < floor {
			continue
		}
		found = found || g.headless || g.size.Load() > int64(segmentHeaderLen)
		g.bulk = 0
		for r := newRecordReader(g, promised.trusted(g.number)); ; {
			rec, err := r.next()
			if err == io.EOF {
				break
			}
			if err == nil {
				err = s.replayRecord(rec)
			}
			if errors.Is(err, errTorn) {
				s.log.Warn("storage: the log has a torn end, as a crash leaves it", "file", g.name(), "offset", r.off, "size", r.size)
				g.bulk = -1
				return found, nil
			}
			if err != nil {
				return found, fmt.Errorf("replay %s up to %d: %w", g.name(), r.off, err)
			}
			g.bulk += rec.bulk
		}
	}
	return found, nil
}

// replayRecord applies a record, whether the tables have it or not: rows are set and deleted, nothing is added to, so what
// counts for each is the last record.
func (s *pebbleStore) replayRecord(rec logRecord) error {
	for _, p := range rec.places {
		if int(p.shard) >= len(s.shards) {
			return fmt.Errorf("%w: a record of shard %d of %d", ErrCorrupt, p.shard, len(s.shards))
		}
		sh := s.shards[p.shard]
		if last := sh.replayed; last == 0 && p.pos.Seq > sh.inTable+1 || last > 0 && p.pos.Seq != last+1 {
			return errTorn // a whole segment is missing
		}
	}
	if err := eachRow(rec.rows, func(pebble.InternalKeyKind, []byte, []byte) error { return nil }); err != nil {
		return err // before any of it is applied
	}
	h := s.hand() // of no shard: an opening is alone, and all of a thousand would take longer than the record
	if err := errors.Join(h.rows(rec.rows, nil), h.end()); err != nil {
		return err
	}
	for _, p := range rec.places {
		sh := s.shards[p.shard]
		sh.replayed = p.pos.Seq
		sh.epoch.Store(uint64(p.pos.Epoch))
		sh.seq.Store(p.pos.Seq)
		sh.rowed = sh.rowed || p.pos.Seq == 1 // that batch has the row
	}
	return nil
}

// eachRow walks a Pebble batch as bytes. Not Pebble's reader: that one panics at a batch that ends too early.
func eachRow(rows []byte, f func(kind pebble.InternalKeyKind, key, value []byte) error) error {
	if len(rows) < pebbleBatchHeader {
		return fmt.Errorf("%w: %d bytes of rows", ErrCorrupt, len(rows))
	}
	left := binary.LittleEndian.Uint32(rows[8:]) // behind Pebble's sequence number
	for rows = rows[pebbleBatchHeader:]; len(rows) > 0; left-- {
		kind := pebble.InternalKeyKind(rows[0])
		key, rest, ok := cutBytes(rows[1:])
		var value []byte
		switch {
		case !ok:
		case kind == pebble.InternalKeyKindSet || kind == pebble.InternalKeyKindRangeDelete:
			value, rest, ok = cutBytes(rest)
		case kind != pebble.InternalKeyKindDelete:
			ok = false
		}
		if !ok {
			return fmt.Errorf("%w: row of kind %d", ErrCorrupt, kind)
		}
		if err := f(kind, key, value); err != nil {
			return err
		}
		rows = rest
	}
	if left != 0 {
		return fmt.Errorf("%w: %d rows too few", ErrCorrupt, int32(left))
	}
	return nil
}

// eachReference calls f with every reference among a Pebble batch's rows.
func eachReference(rows []byte, f func(reference) error) error {
	return eachRow(rows, func(kind pebble.InternalKeyKind, key, value []byte) error {
		if kind != pebble.InternalKeyKindSet {
			return nil
		}
		if ref, is := referenceAt(key, value); is {
			return f(ref)
		}
		return nil
	})
}

// readFloor reads the floor, as the tables have it while nothing was replayed; 0 when there is none.
func (s *pebbleStore) readFloor() (uint32, error) {
	value, closer, err := s.db.Get(FloorKey())
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, asCorrupt(err)
	}
	defer closer.Close()
	return parseFloor(value)
}

func parseFloor(value []byte) (uint32, error) {
	if len(value) != 4 {
		return 0, fmt.Errorf("%w: floor row %x", ErrCorrupt, value)
	}
	return binary.BigEndian.Uint32(value), nil
}

// durableFloor reads the floor that the tables hold.
func (s *pebbleStore) durableFloor() (uint32, error) {
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: FloorKey(), UpperBound: append(FloorKey(), 0), OnlyReadGuaranteedDurable: true,
	})
	if err != nil {
		return 0, asCorrupt(err)
	}
	var floor uint32
	if it.First() {
		var value []byte
		if value, err = it.ValueAndErr(); err == nil {
			floor, err = parseFloor(value)
		}
	}
	return floor, errors.Join(asCorrupt(err), it.Close())
}
