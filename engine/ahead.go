package engine

import (
	"errors"
	"maps"
)

// Reading ahead: a verb that will want cold blocks reads them before it takes the shard's lock for good, so that a client
// that asks for large ones on a slow disk does not hold up all others of the shard.
//
//	lock    copy what says where blocks are          (nothing cold: that is all)
//	unlock  look: the verb's search, on the copy ──► the blocks that it came upon
//	lock    the verb itself, whose search finds these blocks at hand and reads the others
//
// What was read is no answer, only bytes: under the lock the search walks the rows anew, with the marks and the
// trimming of that moment, and a block at hand stands for its row's value alone, which never changes. So nothing need be checked
// again, and a look that failed, or looked elsewhere, costs time only. Of blocks that a search passes over the IDs are kept and not
// the payloads: the index of IDs leads to one in 64 entries, and these may be large.
//
// Read ahead: XDEL, XACK, XNACK, XCLAIM, XRANGE and XREAD (their IDs), XGROUP CREATE and SETID, XREADGROUP with an ID and XAUTOCLAIM
// (where they begin), XTRIM. Not: what walks many blocks (livingRanges on a stream with deletions, ghosts that a trim leaves,
// XPENDING's rows), and what looks at the first or the last entry once (XINFO, XREADGROUP >, XSETID, OffsetCommit).

// aheadBytes is how many bytes of blocks one verb reads ahead: at least one block, and no other once these are there.
const aheadBytes = 16 << 20

// errEnough ends a look whose blocks are as many as may be kept.
var errEnough = errors.New("engine: enough was read ahead")

// ahead are blocks at hand, by base.
type ahead struct {
	blocks map[int64]Block
	heads  map[int64]Block // of blocks that a search passed over: all but their payloads
	bytes  int64
	look   bool  // blocks that are read are kept
	recent Block // the last one that was read: a search comes back to it, or passes it over
}

// block is a block at hand; heads: one without its payload will do.
func (a *ahead) block(base int64, heads bool) (Block, bool) {
	if a == nil {
		return Block{}, false
	}
	if b, ok := a.blocks[base]; ok {
		return b, true
	}
	if a.recent.Payload != nil && a.recent.Base == base {
		return a.recent, true
	}
	b, ok := a.heads[base]
	return b, ok && heads
}

// keep takes in a block that was read.
func (a *ahead) keep(b Block) error {
	if a == nil {
		return nil
	}
	a.recent = b
	if !a.look {
		return nil
	}
	if a.bytes >= aheadBytes {
		return errEnough
	}
	a.blocks[b.Base] = b
	a.bytes += int64(len(b.Payload))
	return nil
}

// pass gives up the payload of a block that was read last and that a search passes over: that it does so is all that the next search
// need know.
func (a *ahead) pass(base int64) {
	if a == nil || a.recent.Payload == nil || a.recent.Base != base {
		return
	}
	if a.look {
		a.bytes -= int64(len(a.recent.Payload))
		delete(a.blocks, base)
	}
	a.recent.Payload = nil
	a.heads[base] = a.recent
}

// stay says that a search ended at the block that was read last: one that passes it over later does not give it up.
func (a *ahead) stay() {
	if a != nil && a.look {
		a.recent = Block{}
	}
}

// coldIDs says whether one of the IDs may lie in a cold block.
func (l *log) coldIDs(ids []ID) bool {
	if l.row.Swept >= l.tailBase() {
		return false
	}
	for _, id := range ids {
		if id != (ID{}) && !l.row.LastID.Less(id) && (len(l.tail) == 0 || id.Less(l.tail[0].FirstID)) {
			return true
		}
	}
	return false
}

// coldPart copies what a search without the lock needs: the oldest block of the tail says where the cold ones end. Ghosts
// are in memory and guarded by the lock.
func (l *log) coldPart() *log {
	c := &log{shard: l.shard, no: l.no, row: l.row, hw: l.hw, over: maps.Clone(l.over), first: l.first}
	c.row.Ghosts = 0
	if len(l.tail) > 0 {
		c.tail = []*tailBlock{{Block: l.tail[0].Block, marks: l.tail[0].marks}}
	}
	return c
}

// lookFor does a search on a copy, without the lock, and returns the blocks that it read. An error is met again by the verb.
func lookFor(l *log, search func(l *log) error) *ahead {
	l.ahead = &ahead{blocks: make(map[int64]Block), heads: make(map[int64]Block), look: true}
	_ = search(l)
	l.ahead.look, l.ahead.recent = false, Block{}
	return l.ahead
}

// lookUp is lookFor for IDs.
func lookUp(l *log, ids []ID) *ahead {
	return lookFor(l, func(l *log) error {
		for _, id := range ids {
			if !l.coldIDs([]ID{id}) {
				continue
			}
			if _, _, _, err := l.offsetOf(id); err != nil {
				return err
			}
		}
		return nil
	})
}

// lockAhead is lock for a verb that looks IDs up: cold blocks that hold them are at hand then. The caller unlocks stream.unlock.
func (g Group) lockAhead(gated bool, ids ...ID) (*group, error) {
	gr, err := g.lock(gated)
	if err != nil || !gr.stream.coldIDs(ids) {
		return gr, err
	}
	l := gr.stream.coldPart()
	l.shard.mu.Unlock()
	a := lookUp(l, ids)
	if gr, err = g.lock(gated); err == nil {
		gr.stream.ahead = a
	}
	return gr, err
}

// lockAhead is lockAhead without a group; lock is Turn.read, or Turn.write.
func (t *Turn) lockAhead(no StreamNo, lock func() (*stream, error), ids ...ID) (*stream, error) {
	st, err := lock()
	if err != nil || !st.coldIDs(ids) {
		return st, err
	}
	l := st.coldPart()
	l.shard.mu.Unlock()
	a := lookUp(l, ids)
	if st, err = lock(); err == nil {
		st.ahead = a
	}
	return st, err
}

// trimAhead reads ahead what Trim looks up: where the trimming ends, and the first block that stays. Trim itself begins anew.
func (t *Turn) trimAhead(no StreamNo, a TrimArgs) *ahead {
	st, err := t.e.lock(no)
	if err != nil {
		return nil // Trim will say so
	}
	var l *log
	if st.row.Swept < st.tailBase() && (st.dense() || a.Kind == TrimMinID && !a.Approx) { // else it walks them all
		l = st.coldPart()
	}
	st.shard.mu.Unlock()
	if l == nil {
		return nil
	}
	return lookFor(l, func(l *log) error {
		if a.Kind == TrimMinID && !l.dense() {
			_, _, _, err := l.offsetOf(a.MinID)
			return err
		}
		to, _, err := l.trimPoint(a)
		if err != nil || to <= l.row.Start || to >= l.tailBase() {
			return err
		}
		return l.eachBlock(to, to, func(Block, Marks) bool { return false })
	})
}

// unlock gives up the shard's lock, and with it the blocks at hand.
func (s *stream) unlock() {
	s.ahead = nil
	s.shard.mu.Unlock()
}
