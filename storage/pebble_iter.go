package storage

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// pebbleIter walks a shard's rows and the blocks of its packs as one, in the order of their keys.
type pebbleIter struct {
	rows  *pebble.Iterator
	packs *packIter // nil when there are no blocks between the bounds
	store *pebbleStore
	pos   Pos // of the view

	place   iterPlace
	forward bool   // the side that is not at the current row is behind it, else before
	inPacks bool   // the current row is a pack's
	buf     []byte // of the value last read from a segment
}

func (i *pebbleIter) SeekGE(key []byte) bool {
	if key == nil {
		i.rows.First()
	} else {
		i.rows.SeekGE(key)
	}
	if i.packs != nil {
		at := spot{}
		if key != nil {
			at = spotAt(i.packs.shard, key)
		}
		i.packs.seekGE(at)
	}
	return i.pick(true)
}

func (i *pebbleIter) SeekLT(key []byte) bool {
	if key == nil {
		i.rows.Last()
	} else {
		i.rows.SeekLT(key)
	}
	if i.packs != nil {
		at := endSpot
		if key != nil {
			at = spotAt(i.packs.shard, key)
		}
		i.packs.seekLT(at)
	}
	return i.pick(false)
}

func (i *pebbleIter) Next() bool {
	switch i.place {
	case placeBefore:
		return i.SeekGE(nil)
	case placeAfter:
		return false
	}
	if !i.forward {
		i.turn()
	}
	if i.inPacks {
		i.packs.next()
	} else {
		i.rows.Next()
	}
	return i.pick(true)
}

func (i *pebbleIter) Prev() bool {
	switch i.place {
	case placeBefore:
		return false
	case placeAfter:
		return i.SeekLT(nil)
	}
	if i.forward {
		i.turn()
	}
	if i.inPacks {
		i.packs.prev()
	} else {
		i.rows.Prev()
	}
	return i.pick(false)
}

// turn puts the side that is not at the current row on its other side.
func (i *pebbleIter) turn() {
	switch {
	case i.packs == nil:
	case i.inPacks && i.forward:
		i.rows.SeekLT(i.packs.key())
	case i.inPacks:
		i.rows.SeekGE(i.packs.key())
	case i.forward:
		i.packs.seekLT(spotAt(i.packs.shard, i.rows.Key()))
	default:
		i.packs.seekGE(spotAt(i.packs.shard, i.rows.Key()))
	}
}

// pick makes the nearer of the two sides current, in the direction of the last move.
func (i *pebbleIter) pick(forward bool) bool {
	i.forward = forward
	rows, packs := i.rows.Valid(), i.packs != nil && i.packs.valid()
	if !rows && !packs || i.err() != nil {
		if i.place = placeAfter; !forward {
			i.place = placeBefore
		}
		return false
	}
	i.place = placeAt
	if i.inPacks = packs; rows && packs {
		i.inPacks = bytes.Compare(i.packs.key(), i.rows.Key()) < 0 == forward
	}
	return true
}

func (i *pebbleIter) Key() []byte {
	if i.inPacks {
		return i.packs.key()
	}
	return i.rows.Key()
}

func (i *pebbleIter) Value() ([]byte, error) {
	if i.inPacks {
		v := i.packs.value()
		ref, is := parseReference(v)
		if !is {
			return v, nil
		}
		var err error
		i.buf, err = i.store.readValue(i.buf[:0], ref)
		return i.buf, err
	}
	v, err := i.rows.ValueAndErr()
	if err != nil {
		return nil, i.store.readFailed(err)
	}
	if isPositionKey(i.rows.Key()) {
		i.buf = AppendPos(i.buf[:0], i.pos)
		return i.buf, nil
	}
	return v, nil
}

func (i *pebbleIter) err() error {
	if i.packs != nil {
		if i.packs.failed != nil {
			return i.packs.failed
		}
		if err := i.packs.it.Error(); err != nil {
			return err
		}
	}
	return i.rows.Error()
}

func (i *pebbleIter) Error() error {
	if err := i.err(); err != nil {
		return i.store.readFailed(err)
	}
	return nil
}

func (i *pebbleIter) Close() error {
	if i.packs == nil {
		return i.rows.Close()
	}
	return errors.Join(i.rows.Close(), i.packs.it.Close())
}

// packIter walks the blocks of packs with spots in [from, to).
type packIter struct {
	it       *pebble.Iterator
	shard    ShardID
	from, to spot
	first    spot         // where the current pack begins
	members  []packMember // of it, between the bounds; none: at an end
	n        int          // the current one
	buf      []byte       // of key
	failed   error
}

func newPackIter(snap *pebble.Snapshot, s ShardID, from, to spot) (*packIter, error) {
	p := &packIter{shard: s, from: from, to: to}
	var err error
	p.it, err = snap.NewIter(&pebble.IterOptions{LowerBound: from.group().packKey(nil, s), UpperBound: to.packEnd(nil, s)})
	return p, err
}

// packEnd is the key of the first pack without blocks before a spot.
func (a spot) packEnd(dst []byte, s ShardID) []byte {
	if a != endSpot && a.low() > 0 {
		a = a.after()
	}
	return a.packKey(dst, s)
}

func (p *packIter) valid() bool   { return len(p.members) > 0 }
func (p *packIter) value() []byte { return p.members[p.n].value }

func (p *packIter) key() []byte {
	p.buf = p.first.at(p.members[p.n].low).blockKey(p.buf[:0], p.shard)
	return p.buf
}

// seekGE moves to the first block at or after a spot.
func (p *packIter) seekGE(at spot) {
	if at.less(p.from) {
		at = p.from
	}
	p.members = p.members[:0]
	if !at.less(p.to) {
		return
	}
	p.buf = at.group().packKey(p.buf[:0], p.shard)
	p.load(p.it.SeekGE(p.buf), true)
	for p.valid() && p.first == at.group() && p.members[p.n].low < at.low() {
		p.next()
	}
}

// seekLT moves to the last block before a spot.
func (p *packIter) seekLT(at spot) {
	if p.to.less(at) {
		at = p.to
	}
	p.members = p.members[:0]
	if !p.from.less(at) {
		return
	}
	p.buf = at.packEnd(p.buf[:0], p.shard)
	p.load(p.it.SeekLT(p.buf), false)
	for p.valid() && p.first == at.group() && p.members[p.n].low >= at.low() && at != endSpot {
		p.prev()
	}
}

func (p *packIter) next() {
	if p.n++; p.n == len(p.members) {
		p.load(p.it.Next(), true)
	}
}

func (p *packIter) prev() {
	if p.n--; p.n < 0 {
		p.load(p.it.Prev(), false)
	}
}

// load takes the pack where the iterator is, or the next one with a block between the bounds.
func (p *packIter) load(ok, forward bool) {
	for p.members = p.members[:0]; ok; {
		if p.failed = p.parse(); p.failed != nil {
			p.members = p.members[:0]
			return
		}
		if len(p.members) > 0 {
			if p.n = 0; !forward {
				p.n = len(p.members) - 1
			}
			return
		}
		if forward {
			ok = p.it.Next()
		} else {
			ok = p.it.Prev()
		}
	}
}

func (p *packIter) parse() error {
	var err error
	if p.first, p.members, err = packAt(p.it, p.members[:0]); err != nil {
		return err
	}
	if p.first == p.from.group() {
		n := 0
		for n < len(p.members) && p.members[n].low < p.from.low() {
			n++
		}
		p.members = append(p.members[:0], p.members[n:]...)
	}
	if p.to != endSpot && p.first == p.to.group() {
		n := len(p.members)
		for n > 0 && p.members[n-1].low >= p.to.low() {
			n--
		}
		p.members = p.members[:n]
	}
	return nil
}
