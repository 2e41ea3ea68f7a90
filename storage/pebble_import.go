package storage

// Import on Pebble: the export is written into tables beside the database, which
// then takes them in as one step. So a shard of any size is replaced, with the
// memory of one chunk, and until that step nothing of the store has changed.
//
//	lower ├──── table 1 ────┼──── table 2 ────┤ upper      rows, in key order; packs (pack.go) have
//	      [ range delete 1  )[ range delete 2 )            tables of their own
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

// importTables writes a sorted shard into tables: its rows, and its blocks as packs, which sort elsewhere.
type importTables struct {
	store *pebbleStore
	id    ShardID
	limit uint64
	paths []string
	rows  importChain
	packs importChain
	group spot       // whose pack is being made
	pack  []byte     // empty before the first block
	home  homeWriter // of the large blocks
	taken bool       // the tables may be the store's
}

// importChain is tables one after another, over a range of keys.
type importChain struct {
	t     *importTables
	upper []byte
	start []byte          // where the range delete of the table at hand begins
	w     *sstable.Writer // being written; nil before the first row
}

func newImportTables(s *pebbleStore, id ShardID) *importTables {
	t := &importTables{store: s, id: id, limit: s.opts.importTable, home: homeWriter{s: s}}
	lower, upper := ShardRange(id)
	t.rows = importChain{t: t, start: lower, upper: upper}
	t.packs = importChain{t: t, start: spot{}.packKey(nil, id), upper: endSpot.packKey(nil, id)}
	return t
}

// add takes the next row.
func (t *importTables) add(key, value []byte) error {
	if !isBlockKey(key) {
		return t.rows.set(key, value)
	}
	at := blockSpot(key)
	if len(value) > 0 && goesToBulk(len(value), value[0]) {
		ref, err := t.home.add(value)
		if err != nil {
			return err
		}
		value = ref.append(nil)
	}
	if at.group() != t.group || len(t.pack) == 0 {
		if err := t.endPack(); err != nil {
			return err
		}
		t.group, t.pack = at.group(), appendPackHead(t.pack, 0)
	}
	t.pack = appendMember(t.pack, at.low(), value)
	return nil
}

// endPack writes the pack at hand.
func (t *importTables) endPack() error {
	if len(t.pack) == 0 {
		return nil
	}
	err := t.packs.set(t.group.packKey(nil, t.id), t.pack)
	t.pack = t.pack[:0]
	return err
}

// set takes the chain's next row.
func (c *importChain) set(key, value []byte) error {
	if c.w == nil || c.w.Raw().EstimatedSize() >= c.t.limit {
		if err := c.cut(key); err != nil {
			return err
		}
	}
	return c.w.Set(key, value)
}

// cut ends the table at hand before key, and begins the next one there. The first begins where the range does.
func (c *importChain) cut(key []byte) error {
	if c.w != nil {
		start := bytes.Clone(key)
		if err := c.end(start); err != nil {
			return err
		}
		c.start = start
	}
	t := c.t
	s := t.store
	path := s.disk.PathJoin(s.dir, fmt.Sprintf("%s%d-%d.sst", importPrefix, t.id, len(t.paths)))
	f, err := s.disk.Create(path, "weir-import")
	if err != nil {
		return err
	}
	t.paths = append(t.paths, path)
	o := s.pebbleOptions()
	o.EnsureDefaults()
	c.w = sstable.NewWriter(objstorageprovider.NewFileWritable(f), o.MakeWriterOptions(0, s.db.TableFormat()))
	return nil
}

// end closes the table at hand, its range delete reaching up to upper.
func (c *importChain) end(upper []byte) error {
	w := c.w
	c.w = nil
	err := w.DeleteRange(c.start, upper)
	return errors.Join(err, w.Close())
}

// finish ends the last table; a chain without rows is one that only deletes.
func (c *importChain) finish() error {
	if c.w == nil {
		if err := c.cut(nil); err != nil {
			return err
		}
	}
	return c.end(c.upper)
}

func (t *importTables) finish() error {
	for _, step := range []func() error{t.home.finish, t.endPack, t.rows.finish, t.packs.finish} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// drop removes what has not been taken in.
func (t *importTables) drop() {
	for _, c := range []*importChain{&t.rows, &t.packs} {
		if c.w != nil {
			c.w.Close()
		}
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
	t := newImportTables(s, sh.id)
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
	if err := s.drain(s.shards...); err != nil {
		return err
	}
	// Commits of other shards may be between the log and the memtable; they see that their segment is sealed.
	s.wal.awaitFloor(number)
	if err := s.space.raiseFloor(number); err != nil {
		return err
	}
	return errors.Join(s.db.Flush(), s.latch.err())
}
