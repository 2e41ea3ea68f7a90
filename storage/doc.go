// Package storage keeps shards: ordered key-value spaces with one writer each,
// committed batch by batch.
//
//	Store ── Layout: 16,384 slots ─► shard
//	  │
//	  ├─ Shard 0 ─┬─ Lead ─► Writer ── Begin ─► Batch ── Commit ─► Pos{epoch, seq}
//	  ├─ Shard 1  │                                      (written)      │
//	  ┆           ├─ View: a consistent snapshot                      Durable(Pos)
//	  └─ Shard N  └─ Export / Import: all rows, sorted, checksummed   (fsynced)
//
// Only this package knows Pebble. The rules that keep a cluster possible
// (../../shared/design/storage-seam.md) are:
//
//  1. Every key begins with its shard; a batch touches one shard.
//  2. Evaluation happens once, at the writer. Applying a batch reads nothing but
//     the shard's position row and never looks at a clock.
//  3. Batches hold Set, Delete, DeleteRange only.
//  4. One writer per shard at a time.
//  5. What the callers keep in memory can be dropped and re-read.
//  6. Nobody is answered before the commit has the level asked for.
//  7. Work across shards is a series of idempotent single-shard commits (the
//     single-node store may commit several shards' batches as one: CommitTogether).
//  8. An I/O or checksum error latches the store (ErrLatched); nothing is retried.
//  9. The engine's tests run over Mem, Pebble, and Shadow (Pebble through encode,
//     decode, apply on a second copy, compared byte for byte).
//
// Levels. *Written*: in the operating system's hands, survives the death of the
// process. *Durable*: fsynced, survives the loss of power. Pebble's own log knows only
// commits that wait for an fsync and commits whose end is in the process's memory, and
// writes a block that a table will hold again. So the log is ours (pebble_log.go): who commits
// writes one record, the OS has it when the write returns, and it is fsynced only when
// Durable asks, or each second, as the owner wishes (SyncAll), or before what it holds is
// referred to by a table. A block of 1 KB and more stays where the log has it; Pebble has references and smaller
// blocks, those of 64 offsets together in one row (pack.go).
//
// Where the seam departs from the sketch in the design: a Batch is write-only (what
// a writer has evaluated and not yet committed lives in the engine's memory, so an
// indexed batch would cost and serve nobody), and Durable is a second step after
// Commit, so that a shard's next batch is written while an fsync is under way. Batches that
// commit together are bounded as a whole, by three of the largest. Large values are neither
// in Pebble's log nor in its blob files, as the design measured them, but in segments.
//
// An export is free of all this: it has values and rows, not references and packs.
//
// A view may show a batch a moment before its Commit returns, on Pebble: who must not
// see what is unanswered bounds his reads by what he knows to be committed.
//
// Where things are:
//
//	seam.go                the interfaces, Metrics, errors
//	keys.go rows.go        what a key and a row mean; rowcodec.go block.go ids.go their bytes
//	FORMAT.md              every byte, on one page
//	batch.go export.go     a batch, and a shard, as plain bytes
//	shards.go              numbering and fencing, alike for all stores
//	mem.go                 the store in memory
//	pebble*.go             the store on Pebble: _log (the log), _segment (its files and their bytes),
//	                       _pending (from the log to Pebble), _replay (opening it), _space (floors, flushes,
//	                       removing and moving),
//	                       _home (what was moved or imported), _sync (one fsync for many), _mark
//	                       (what was promised), _disk (the files below Pebble, the latch), _write,
//	                       _read, _iter, _import, _tuning; pack.go (blocks as Pebble has them)
//	slots.go               the hash slot of a Redis key
//	shadow.go              the replica of the tests; Compare
//	aside.go               a disk that is only read, for a look at a store
//	crashdisk.go           a disk that crashes, for the tests of the rooms above
//	check.go check_stream.go   every promise that rows make each other
//
// Not done: an epoch other than 1 (nobody takes over on a single node; a second Lead
// fences the first); ErrNotLeader is never returned; nothing repairs what Check finds;
// each segment is an open file (16,000 of them for a terabyte).
package storage
