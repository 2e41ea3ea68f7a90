package storage

// Import on Pebble: the export is written into tables beside the database, which
// then takes them in as one step. So a shard of any size is replaced, with the
// memory of one chunk, and until that step nothing of the store has changed.
//
//	lower ├──── table 1 ────┼──── table 2 ────┤ upper      rows, in key order
//	      [ range delete 1  )[ range delete 2 )            what was there before
//
// Tables that are taken in together get one sequence number, and a range delete
// covers lower numbers only: each table wipes its stretch of the old shard and not
// its own rows. Why not one batch with a DeleteRange? It would have to fit in memory,
// twice, and in MaxBatchBytes.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
)

const (
	importPrefix     = "weir-import-" // of tables not taken in yet; one left by a crash is removed at opening
	importTableBytes = 64 << 20
)

// importTables writes a sorted shard into tables.
type importTables struct {
	store *pebbleStore
	id    ShardID
	limit uint64
	paths []string
	w     *sstable.Writer // being written; nil before the first row
	home  homeWriter      // of the blocks
	start []byte          // where its range delete begins
	taken bool            // the tables may be the store's
}

// add takes the next row.
func (t *importTables) add(key, value []byte) error {
	if t.w == nil || t.w.Raw().EstimatedSize() >= t.limit {
		if err := t.cut(key); err != nil {
			return err
		}
	}
	if len(value) > 0 && goesToBulk(key, len(value), value[0]) {
		ref, err := t.home.add(value)
		if err != nil {
			return err
		}
		value = ref.append(nil)
	}
	return t.w.Set(key, value)
}

// cut ends the table at hand before key, and begins the next one there. The first
// begins where the shard does.
func (t *importTables) cut(key []byte) error {
	start := bytes.Clone(key)
	if t.w == nil {
		start, _ = ShardRange(t.id)
	} else if err := t.end(start); err != nil {
		return err
	}
	s := t.store
	path := s.disk.PathJoin(s.dir, fmt.Sprintf("%s%d-%d.sst", importPrefix, t.id, len(t.paths)))
	f, err := s.disk.Create(path, "weir-import")
	if err != nil {
		return err
	}
	t.paths = append(t.paths, path)
	o := s.pebbleOptions()
	o.EnsureDefaults()
	t.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), o.MakeWriterOptions(0, s.db.TableFormat()))
	t.start = start
	return nil
}

// end closes the table at hand, its range delete reaching up to upper.
func (t *importTables) end(upper []byte) error {
	w := t.w
	t.w = nil
	err := w.DeleteRange(t.start, upper)
	return errors.Join(err, w.Close())
}

// finish ends the last table; an export without rows is one that only deletes.
func (t *importTables) finish() error {
	if err := t.home.finish(); err != nil {
		return err
	}
	if t.w == nil {
		if err := t.cut(nil); err != nil {
			return err
		}
	}
	_, upper := ShardRange(t.id)
	return t.end(upper)
}

// drop removes what has not been taken in.
func (t *importTables) drop() {
	if t.w != nil {
		t.w.Close()
	}
	for _, p := range t.paths {
		t.store.disk.Remove(p) // gone already when it was taken in
	}
	if !t.taken {
		t.home.drop()
	}
	t.home.end()
}

// dropImports removes the tables of an import that a crash interrupted.
func (s *pebbleStore) dropImports() error {
	names, err := s.disk.List(s.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, importPrefix) {
			if err := s.disk.Remove(s.disk.PathJoin(s.dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (sh *pebbleShard) Import(ctx context.Context, r io.Reader) (Pos, error) {
	s := sh.store
	if err := s.enter(); err != nil {
		return Pos{}, err
	}
	defer s.leave()
	if err := s.latch.err(); err != nil {
		return Pos{}, err
	}
	sh.importing.Lock() // two imports would write the same files
	defer sh.importing.Unlock()
	t := &importTables{store: s, id: sh.id, limit: s.opts.importTable, home: homeWriter{s: s}}
	defer t.drop()
	pos, err := importShard(ctx, sh.id, r, t.add)
	if err != nil {
		return Pos{}, err
	}
	if err := t.finish(); err != nil {
		return Pos{}, fmt.Errorf("storage: import of shard %d: %w", sh.id, err)
	}
	return pos, sh.replace(ctx, t, pos)
}

// replace puts tables in the place of the shard's rows.
func (sh *pebbleShard) replace(ctx context.Context, t *importTables, pos Pos) error {
	s := sh.store
	sh.lead() // whoever wrote before knows other rows
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// No record of the old shard may be replayed over the new one.
	if err := s.passLog(); err != nil {
		return fmt.Errorf("storage: import of shard %d: %w", sh.id, err)
	}
	// The mark must not promise the old shard's seq while the new one may be lower. While seq is 0 nobody writes
	// its position row.
	old := sh.seq.Swap(0)
	sh.synced.Store(0)
	if err := s.sync.wait(ctx); err != nil {
		sh.seq.Store(old)
		return err
	}
	// Nor after a loss of power, when else an older mark might be there again.
	if err := errors.Join(s.sync.mark.file.Sync(), s.latch.err()); err != nil {
		sh.seq.Store(old)
		return err
	}
	t.taken = true
	if err := s.db.Ingest(ctx, t.paths); err != nil {
		sh.seq.Store(old)
		return errors.Join(fmt.Errorf("storage: import of shard %d: %w", sh.id, err), s.latch.err())
	}
	sh.epoch.Store(uint64(pos.Epoch))
	sh.rowed = false // an export of a shard never written has none
	sh.seq.Store(pos.Seq)
	if err := s.latch.err(); err != nil {
		return err
	}
	s.space.freed()
	return s.sync.wait(ctx)
}

// passLog flushes everything that was committed before, so that a replay begins behind it.
func (s *pebbleStore) passLog() error {
	number, err := s.wal.seal()
	if err != nil {
		return err
	}
	// Commits of other shards may be between the log and the memtable.
	s.wal.awaitFloor(number)
	if err := s.space.raiseFloor(number); err != nil {
		return err
	}
	return errors.Join(s.db.Flush(), s.latch.err())
}
