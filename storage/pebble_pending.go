package storage

// From the log to Pebble: blocks by way of packs.
//
//	commit ─► log ─┬─ other rows ──────────────────────────────────────► memtable
//	               └─ blocks ─► pending, a shard's ── drain, by spots ─► memtable: changes of packs
//
// What is pending is in the log, so nothing is lost with it; a segment with pending rows is not quiet, and the floor does
// not pass it. A shard is drained when it has much, before a view's snapshot is taken, before a range of blocks is
// deleted, and by the janitor when a segment was sealed. So Pebble is behind in blocks only, and nobody can see it.
//
// Locks: pending.mu, below shardState.mu, of several shards in their order. Held over the handing to Pebble, so that a
// view shows a commit's rows all or not at all.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

const (
	// pendingBytes is what may be pending in all shards together, and leastPending what one may have in any case.
	pendingBytes = 8 << 20
	leastPending = 16 << 10
	pendingRow   = 40 // bytes that a row takes beside its value
)

// pending are blocks of a shard, written and deleted, in the order of the log.
type pending struct {
	mu    sync.Mutex
	rows  []pendingBlock
	data  []byte     // their values
	held  []*segment // where their records are; each counts as in flight
	bytes atomic.Int64
	value []byte // scratch of emit
	key   []byte
}

type pendingBlock struct {
	spot
	n    int32 // in the order of the log
	at   int32 // of the value in data
	size int32 // of the value; -1: deleted
}

func (p *pending) set(at spot, value []byte) {
	p.rows = append(p.rows, pendingBlock{at, int32(len(p.rows)), int32(len(p.data)), int32(len(value))})
	p.data = append(p.data, value...)
}

func (p *pending) remove(at spot) {
	p.rows = append(p.rows, pendingBlock{at, int32(len(p.rows)), 0, -1})
}

func (p *pending) size() int { return len(p.rows)*pendingRow + len(p.data) }

// hold keeps a segment from being quiet. nil: an opening's, whose segments nobody waits for.
func (p *pending) hold(g *segment) {
	if n := len(p.held); g != nil && (n == 0 || p.held[n-1] != g) {
		g.inflight.Add(1)
		p.held = append(p.held, g)
	}
}

// emit appends what is pending to a batch, as changes of packs, and forgets it.
func (p *pending) emit(b *pebble.Batch, s ShardID) {
	slices.SortFunc(p.rows, func(a, b pendingBlock) int {
		if c := cmp.Compare(a.stream, b.stream); c != 0 {
			return c
		}
		if c := cmp.Compare(a.base, b.base); c != 0 {
			return c
		}
		return cmp.Compare(a.n, b.n)
	})
	for rows := p.rows; len(rows) > 0; {
		at, n, mask := rows[0].group(), 0, uint64(0)
		for ; n < len(rows) && rows[n].group() == at; n++ {
			if rows[n].size < 0 { // an entry, if one comes later, stands
				mask |= 1 << rows[n].low()
			}
		}
		p.value = appendPackHead(p.value[:0], mask)
		for i := range rows[:n] {
			if r := &rows[i]; r.size >= 0 && last(rows[i:]) {
				p.value = appendMember(p.value, r.low(), p.data[r.at:r.at+r.size])
			}
		}
		p.key = at.packKey(p.key[:0], s)
		_ = b.Merge(p.key, p.value, nil) // of an unindexed batch never fails
		rows = rows[n:]
	}
	p.rows, p.data = p.rows[:0], p.data[:0]
}

// last says that the first row is the last of its block.
func last(rows []pendingBlock) bool { return len(rows) == 1 || rows[0].spot != rows[1].spot }

// handing is one step from the log to Pebble. Its shards are locked (pending.mu) until end.
type handing struct {
	s      *pebbleStore
	shards []*pebbleShard
	out    *pebble.Batch // nil: nothing so far
	freed  []*segment    // held by what out drains
}

// hand locks shards, ascending.
func (s *pebbleStore) hand(shards ...*pebbleShard) *handing {
	h := &handing{s: s, shards: shards}
	for _, sh := range shards {
		sh.pending.mu.Lock()
	}
	return h
}

func (h *handing) batch() *pebble.Batch {
	if h.out == nil {
		h.out = newPebbleBatch(h.s)
	}
	return h.out
}

// drain has everything handed over that is pending in a shard.
func (h *handing) drain(sh *pebbleShard) {
	p := &sh.pending
	if len(p.rows) > 0 {
		p.emit(h.batch(), sh.id)
	}
	h.freed = append(h.freed, p.held...)
	clear(p.held)
	p.held = p.held[:0]
}

// rows takes a record's rows. g is its segment, nil in a replay.
func (h *handing) rows(rows []byte, g *segment) error {
	var sh *pebbleShard
	var placed []*pebbleShard
	err := eachRow(rows, func(kind pebble.InternalKeyKind, key, value []byte) error {
		if len(key) < 2 {
			return badKey(key)
		}
		if id := ShardID(binary.BigEndian.Uint16(key)); sh == nil || sh.id != id {
			var err error
			if sh, err = findShard(h.s.shards, id); err != nil {
				return err
			}
		}
		switch p := &sh.pending; {
		case kind == pebble.InternalKeyKindRangeDelete:
			h.deleteRange(sh, key, value)
		case isBlockKey(key):
			if kind == pebble.InternalKeyKindDelete {
				p.remove(blockSpot(key))
			} else {
				p.set(blockSpot(key), value)
			}
			if p.hold(g); p.size() > h.s.mayPend {
				h.drain(sh)
			}
		case kind == pebble.InternalKeyKindDelete:
			return h.batch().Delete(key, nil)
		default:
			if isPositionKey(key) {
				placed = append(placed, sh)
			}
			return h.batch().Set(key, value, nil)
		}
		return nil
	})
	for _, sh := range placed {
		h.drain(sh) // a position row is not ahead of what it counts
	}
	return err
}

// deleteRange deletes rows, and blocks: whole packs, and parts of the first and the last.
func (h *handing) deleteRange(sh *pebbleShard, lower, upper []byte) {
	from, to := spotAt(sh.id, lower), spotAt(sh.id, upper)
	if from.less(to) {
		h.drain(sh) // what is pending comes first
	}
	b := h.batch()
	_ = b.DeleteRange(lower, upper, nil) // of an unindexed batch never fails
	if from.low() > 0 && from.less(to) {
		first, end := from.group(), packSpan
		if to.group() == first {
			end = to.low()
		}
		_ = b.Merge(first.packKey(nil, sh.id), appendPackHead(nil, lowMask(end)&^lowMask(from.low())), nil)
		from = from.after()
	}
	if !from.less(to) {
		return
	}
	whole := to
	if to != endSpot {
		whole = to.group()
	}
	if from.less(whole) {
		_ = b.DeleteRange(from.packKey(nil, sh.id), whole.packKey(nil, sh.id), nil)
	}
	if to != endSpot && to.low() > 0 {
		_ = b.Merge(whole.packKey(nil, sh.id), appendPackHead(nil, lowMask(to.low())), nil)
	}
}

// lowMask has the bits below n.
func lowMask(n int) uint64 { return 1<<n - 1 }

// end hands over what is left, and unlocks.
func (h *handing) end() error {
	err := h.apply()
	for _, sh := range h.shards {
		sh.pending.bytes.Store(int64(sh.pending.size()))
		sh.pending.mu.Unlock()
	}
	for _, g := range h.freed {
		h.s.wal.applied(g)
	}
	return err
}

// apply hands over. An error latches the store.
func (h *handing) apply() error {
	b := h.out
	if h.out = nil; b == nil {
		return nil
	}
	if err := h.s.db.Apply(b, pebble.NoSync); err != nil {
		h.s.latch.set(fmt.Errorf("commit: %w", err))
		return err
	}
	return b.Close()
}

// drain hands over what is pending in some shards, one after another.
func (s *pebbleStore) drain(shards ...*pebbleShard) error {
	for _, sh := range shards {
		h := s.hand(sh)
		h.drain(sh)
		if err := h.end(); err != nil {
			return err
		}
	}
	return nil
}

// drainSealed hands over what keeps a sealed segment from being quiet.
func (s *pebbleStore) drainSealed() error {
	for _, sh := range s.shards {
		h := s.hand(sh)
		if held := sh.pending.held; len(held) > 0 && held[0].sealed.Load() {
			h.drain(sh)
		}
		if err := h.end(); err != nil {
			return err
		}
	}
	return nil
}
