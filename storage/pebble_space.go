package storage

// The janitor: what becomes of segments.
//
//	active ─► sealed ─► quiet: its records are in memtables ─► floor passes it ─► floor flushed: no replay needs it
//	                                                                                  │
//	        no bulk in it: removed at once ◄──────────────────────────────────────────┤
//	        collect: counts what blocks still refer to ◄──────────────────────────────┘   (flushes, if that helps)
//	           nothing ─► removed          less than half ─► moved to a home, removed
//
// Who deletes (a trim is one DeleteRange) does not know what he frees. So collect reads all references now
// and then: some time after something was deleted, resting 20 times as long as the last time took. A move
// is not logged: the values are fsynced in their home, each reference is changed in Pebble's memtable if it is
// still the same, under its shard's lock; then everything is flushed, and only then is the old segment removed. A crash
// before that leaves the old references, or an unused home.
//
// # Views
//
// A view refers to what its snapshot shows. A segment is removed when every view is closed that was
// opened before its last reference had gone: epochs, two counters that views enter and leave.

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	collectRest   = 5 * time.Second // at least, between two collects
	collectShare  = 20              // and so many times as long as the last one took
	moveAtOnce    = 128 << 20       // bytes that one collect moves, about
	moveTogether  = 256             // references that are changed under one hold of the shard
	cancelledEach = 4096            // rows between two looks at whether the store closes
)

// janitor tends the segments of a store.
type janitor struct {
	s       *pebbleStore
	bell    chan struct{}
	quit    chan struct{}
	ended   chan struct{} // nil until started
	dirty   atomic.Bool   // something may have been freed since the last collect began
	flushed atomic.Bool   // a flush has ended since the last look

	epoch   atomic.Uint64
	viewing [2]atomic.Int64 // views of even and of odd epochs
	reaping atomic.Bool     // segments wait for views

	floorMu sync.Mutex
	floor   uint32 // as set; guarded by floorMu

	work    sync.Mutex // held by tend and collect; guards what follows
	durable uint32     // as flushed
	retired map[*segment]bool
	due     []*segment // retired in this epoch
	waiting []*segment // retired in the epoch before, whose views are still open
}

func newJanitor(s *pebbleStore) *janitor {
	return &janitor{s: s, bell: make(chan struct{}, 1), quit: make(chan struct{}), retired: map[*segment]bool{}}
}

// wake has the janitor look around. Any goroutine, under any lock.
func (j *janitor) wake() {
	select {
	case j.bell <- struct{}{}:
	default:
	}
}

// freed says that blocks may have been deleted.
func (j *janitor) freed() {
	if !j.dirty.Load() && !j.dirty.Swap(true) {
		j.wake()
	}
}

// enter is called before a view's snapshot is taken, leave after it is closed.
func (j *janitor) enter() int {
	for {
		e := j.epoch.Load()
		j.viewing[e&1].Add(1)
		if j.epoch.Load() == e {
			return int(e & 1)
		}
		j.leave(int(e & 1)) // the epoch ended meanwhile, perhaps without seeing this view, perhaps waiting for it
	}
}

func (j *janitor) leave(epoch int) {
	if j.viewing[epoch].Add(-1) == 0 && j.reaping.Load() {
		j.wake()
	}
}

func (j *janitor) start() {
	j.ended = make(chan struct{})
	j.dirty.Store(true) // what was freed before the last end is not known
	go j.run()
}

// stop ends the janitor; what it has not removed the next opening's will.
func (j *janitor) stop() {
	close(j.quit)
	if j.ended != nil {
		<-j.ended
	}
}

func (j *janitor) stopping() bool {
	select {
	case <-j.quit:
		return true
	default:
		return false
	}
}

func (j *janitor) run() {
	defer close(j.ended)
	rest := time.NewTimer(collectRest)
	defer rest.Stop()
	rested := false
	for {
		select {
		case <-j.quit:
			return
		case <-j.bell:
		case <-rest.C:
			rested = true
		}
		j.must("tend", j.tend())
		if !rested || !j.dirty.Load() {
			continue
		}
		began := time.Now()
		j.must("collect", j.collect())
		rested = false
		rest.Reset(max(collectRest, collectShare*time.Since(began)))
	}
}

// must reports what went wrong. A move that found no room on the disk is tried again later.
func (j *janitor) must(what string, err error) {
	if err != nil && !j.stopping() {
		j.s.log.Error("storage: "+what+" failed", "error", err)
	}
}

// tend moves the floor, asks for a flush when it is time, and removes segments that nothing needs.
func (j *janitor) tend() error {
	j.work.Lock()
	defer j.work.Unlock()
	s := j.s
	if err := s.latch.err(); err != nil {
		return nil // said already
	}
	if err := s.drainSealed(); err != nil {
		return err
	}
	if err := j.raiseFloor(s.wal.floor()); err != nil {
		return err
	}
	if s.wal.flushDue() {
		if _, err := s.db.AsyncFlush(); err != nil {
			return err
		}
	}
	if j.flushed.Swap(false) {
		if err := j.lookAtFloor(); err != nil {
			return err
		}
	}
	return j.reap()
}

// raiseFloor puts a higher floor into the memtable, with the shards' positions: it holds when it is flushed, with all that
// was put there before.
func (j *janitor) raiseFloor(number uint32) error {
	j.floorMu.Lock()
	defer j.floorMu.Unlock()
	if number <= j.floor {
		return nil
	}
	j.floor = number
	b := newPebbleBatch(j.s)
	defer b.Close()
	_ = b.Set(FloorKey(), binary.BigEndian.AppendUint32(nil, number), nil) // of an unindexed batch never fails
	for _, sh := range j.s.shards {
		pos := sh.pos()
		// What a position counts was handed over before it is read here, and is in the memtable when it is drained.
		if err := j.s.drain(sh); err != nil {
			return err
		}
		if pos.Seq > 0 {
			_ = b.Set(PositionKey(sh.id), AppendPos(nil, pos), nil)
		}
	}
	return j.s.db.Apply(b, pebble.NoSync)
}

// lookAtFloor reads how far the log is flushed.
func (j *janitor) lookAtFloor() error {
	floor, err := j.s.durableFloor()
	if err != nil || j.s.latch.on() { // the table that has it may be one in memory (pebble_disk.go)
		return err
	}
	for _, g := range j.s.segments.list() {
		if g.home || g.number < j.durable || g.number >= floor {
			continue
		}
		if g.bulk == 0 {
			j.retire(g)
		} else if 2*g.bulk < g.size.Load() {
			j.dirty.Store(true)
		}
	}
	j.durable = floor
	return nil
}

// retire has a segment removed that no row in the tables refers to, and that no replay needs.
func (j *janitor) retire(g *segment) {
	if !j.retired[g] {
		j.retired[g] = true
		j.due = append(j.due, g)
	}
}

// reap removes retired segments that no view refers to.
func (j *janitor) reap() error {
	for len(j.due)+len(j.waiting) > 0 {
		if len(j.waiting) == 0 {
			j.waiting, j.due = j.due, nil
			j.reaping.Store(true)
			j.epoch.Add(1)
		}
		if j.viewing[(j.epoch.Load()-1)&1].Load() > 0 {
			return nil // the last of them rings
		}
		for _, g := range j.waiting {
			delete(j.retired, g)
			j.s.segments.drop(g)
			if err := g.remove(j.s.opts.fs); err != nil {
				j.s.latch.set(fmt.Errorf("remove %s: %w", g.name(), err))
				return err
			}
		}
		j.waiting = nil
	}
	j.reaping.Store(false)
	return nil
}

// collect finds segments that are no longer worth their room, empties and retires them.
func (j *janitor) collect() (err error) {
	j.work.Lock()
	defer j.work.Unlock()
	s := j.s
	if s.latch.on() {
		return nil
	}
	j.dirty.Store(false)
	defer func() {
		if err != nil {
			j.dirty.Store(true) // again, later
		}
	}()
	if err := s.drain(s.shards...); err != nil { // deletions, and what keeps segments from being quiet
		return err
	}
	// Before the references are read: what is quiet now gets no more of them.
	var all []*segment
	for _, g := range s.segments.list() {
		if g.quiet() && !j.retired[g] {
			all = append(all, g)
		}
	}
	live := map[uint32]int64{}
	for _, sh := range s.shards {
		var empty []spot
		err := j.eachPack(sh, func(first spot, members []packMember) error {
			if len(members) == 0 {
				empty = append(empty, first)
			}
			for _, m := range members {
				if ref, is := parseReference(m.value); is {
					live[ref.segment] += int64(ref.length)
				}
			}
			return nil
		})
		if err == nil {
			err = sh.dropPacks(empty)
		}
		if err != nil {
			return err
		}
	}
	all = slices.DeleteFunc(all, func(g *segment) bool { return live[g.number] > 0 && 2*live[g.number] >= g.size.Load() })
	if err := j.passFloor(all); err != nil {
		return err
	}
	var empty, sparse []*segment
	for _, g := range all {
		switch {
		case !g.home && g.number >= j.durable: // behind one that was not quiet yet
		case live[g.number] == 0:
			empty = append(empty, g)
		default:
			sparse = append(sparse, g)
		}
	}
	if err := j.retireUnused(empty); err != nil {
		return err
	}
	if sparse, err = j.fitting(sparse, live); err != nil || len(sparse) == 0 {
		return err
	}
	from := map[uint32]bool{}
	for _, g := range sparse {
		from[g.number] = true
	}
	if err := j.move(from); err != nil {
		return err
	}
	return j.retireUnused(sparse)
}

// retireUnused flushes, since the deletions and moves that made segments unused must not be lost, and has them removed.
func (j *janitor) retireUnused(unused []*segment) error {
	if len(unused) == 0 {
		return nil
	}
	if err := j.s.db.Flush(); err != nil {
		return err
	}
	if err := j.s.latch.err(); err != nil {
		return err
	}
	for _, g := range unused {
		j.retire(g)
	}
	return j.reap()
}

// fitting chooses what is moved now: the emptiest first, and no more than leaves a quarter of the disk's room to writers, for
// whom a full disk is the end. So little room is enough to gain more.
func (j *janitor) fitting(sparse []*segment, live map[uint32]int64) ([]*segment, error) {
	if len(sparse) == 0 {
		return nil, nil
	}
	room := int64(math.MaxInt64)
	switch disk, err := j.s.opts.fs.GetDiskUsage(j.s.dir); {
	case err == nil:
		room = int64(disk.AvailBytes / 4 * 3)
	case !errors.Is(err, vfs.ErrUnsupported):
		return nil, err
	}
	slices.SortStableFunc(sparse, func(a, b *segment) int { return cmp.Compare(live[a.number], live[b.number]) })
	if n := live[sparse[0].number]; n > room {
		return nil, fmt.Errorf("move %d bytes of %s, with %d to spare: %w", n, sparse[0].name(), room, syscall.ENOSPC)
	}
	moving := int64(0)
	for i, g := range sparse {
		n := live[g.number]
		if moving > moveAtOnce || moving+n > room {
			j.dirty.Store(true) // the next time
			return sparse[:i], nil
		}
		moving += n
	}
	return sparse, nil
}

// passFloor flushes when a replay would need one of the segments. Where little more is written, no memtable gets
// full, and they would keep their room after all in them was deleted.
func (j *janitor) passFloor(all []*segment) error {
	if !slices.ContainsFunc(all, func(g *segment) bool { return !g.home && g.number >= j.durable }) {
		return nil
	}
	if err := j.raiseFloor(j.s.wal.floor()); err != nil {
		return err
	}
	if err := j.s.db.Flush(); err != nil {
		return err
	}
	return j.lookAtFloor()
}

var errStopping = errors.New("storage: the store is being closed")

// eachPack reads the packs of a shard, as far as it was drained. What f is given is valid until it returns.
func (j *janitor) eachPack(sh *pebbleShard, f func(first spot, members []packMember) error) error {
	it, err := j.s.db.NewIter(&pebble.IterOptions{LowerBound: spot{}.packKey(nil, sh.id), UpperBound: endSpot.packKey(nil, sh.id)})
	if err != nil {
		return j.s.readFailed(err)
	}
	var members []packMember
	rows := 0
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		if rows++; rows%cancelledEach == 0 && j.stopping() {
			err = errStopping
			break
		}
		var first spot
		if first, members, err = packAt(it, members[:0]); err == nil {
			err = f(first, members)
		}
	}
	return j.s.readFailed(errors.Join(err, it.Error(), it.Close()))
}

// packAt reads the pack where an iterator is, appending to dst.
func packAt(it *pebble.Iterator, dst []packMember) (first spot, members []packMember, err error) {
	if first, err = parsePackKey(it.Key()); err != nil {
		return first, nil, err
	}
	pack, err := it.ValueAndErr()
	if err != nil {
		return first, nil, err
	}
	members, _, err = parsePack(dst, pack)
	return first, members, err
}

// dropPacks deletes those packs that are without blocks.
func (sh *pebbleShard) dropPacks(empty []spot) error {
	for len(empty) > 0 {
		n := min(len(empty), moveTogether)
		err := sh.change(func(b *pebble.Batch) error {
			for _, first := range empty[:n] {
				key := first.packKey(nil, sh.id)
				pack, closer, err := sh.store.db.Get(key)
				if errors.Is(err, pebble.ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				still := len(pack) == 1
				if err := closer.Close(); err != nil {
					return err
				}
				if still {
					_ = b.Delete(key, nil) // of an unindexed batch never fails
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		empty = empty[n:]
	}
	return nil
}

// change changes packs in Pebble alone, by what f reads there while nobody else changes the shard. What is pending comes
// later, and lies over it.
func (sh *pebbleShard) change(f func(*pebble.Batch) error) error {
	s := sh.store
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if err := s.latch.err(); err != nil {
		return err
	}
	b := newPebbleBatch(s)
	defer b.Close()
	if err := f(b); err != nil {
		return s.readFailed(err)
	}
	return s.db.Apply(b, pebble.NoSync)
}

// moved is a value that lies in two places.
type moved struct {
	shard    *pebbleShard
	at       spot
	old, new reference
}

// move copies all that is referred to of some segments to homes, and changes the references.
func (j *janitor) move(from map[uint32]bool) error {
	home := &homeWriter{s: j.s}
	defer home.end()
	var all []moved
	var buf []byte
	gather := func(sh *pebbleShard) error {
		return j.eachPack(sh, func(first spot, members []packMember) error {
			for _, m := range members {
				ref, is := parseReference(m.value)
				if !is || !from[ref.segment] {
					continue
				}
				if j.stopping() {
					return errStopping
				}
				var err error
				if buf, err = j.s.readValue(buf[:0], ref); err != nil {
					return err
				}
				to, err := home.add(buf)
				if err != nil {
					return err
				}
				all = append(all, moved{sh, first.at(m.low), ref, to})
			}
			return nil
		})
	}
	var err error
	for i := 0; i < len(j.s.shards) && err == nil; i++ {
		err = gather(j.s.shards[i])
	}
	if err == nil {
		err = home.finish()
	}
	if err != nil {
		home.drop()
		return err
	}
	for len(all) > 0 {
		n := 0
		for n < len(all) && n < moveTogether && all[n].shard == all[0].shard {
			n++
		}
		if err := all[0].shard.refer(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// refer changes references that are still what they were.
func (sh *pebbleShard) refer(all []moved) error {
	return sh.change(func(b *pebble.Batch) error {
		for _, m := range all {
			key := m.at.group().packKey(nil, sh.id)
			pack, closer, err := sh.store.db.Get(key)
			if errors.Is(err, pebble.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			value, _, err := findMember(pack, m.at.low())
			now, is := parseReference(value)
			if err := errors.Join(err, closer.Close()); err != nil {
				return err
			}
			if is && now == m.old {
				_ = b.Merge(key, appendMember(appendPackHead(nil, 0), m.at.low(), m.new.append(nil)), nil)
			}
		}
		return nil
	})
}
