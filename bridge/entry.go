package bridge

import (
	"errors"
	"sync"

	"weir/engine"
)

// Entry is one stream entry as Redis sees it. Fields alternates names and values; it and ID are valid during the call that handed it
// out, but the bytes that Fields point to are immutable and may be kept.
type Entry struct {
	ID     engine.ID
	Offset int64
	Fields [][]byte
}

// errNoCodec says that the bridge was opened without a codec and meets a Kafka batch.
var errNoCodec = errors.New("bridge: no codec for Kafka batches")

// walk is the scratch of one EachEntry: pooled, so that native entries cost no allocation.
type walk struct {
	entry  Entry
	fields [][]byte
	// Of entries read forward to be handed out backward: where their fields begin.
	held []heldEntry
}

// heldEntry is an entry whose fields are fields[first:next entry's first].
type heldEntry struct {
	id     engine.ID
	offset int64
	first  int
}

var walks = sync.Pool{New: func() any { return new(walk) }}

// mostKept bounds the scratch that goes back to the pool, in slices.
const mostKept = 4096

func (w *walk) done() {
	if cap(w.fields) > mostKept || cap(w.held) > mostKept {
		return
	}
	clear(w.fields[:cap(w.fields)]) // a pool must not pin blocks
	w.fields, w.held, w.entry.Fields = w.fields[:0], w.held[:0], nil
	walks.Put(w)
}

// EachEntry calls fn for the living entries of a run, oldest first or newest first, until fn returns false. Native entries cost no allocation per
// entry; Kafka batches are decoded (dictionary 4).
func (l *logs) EachEntry(run *engine.Run, reverse bool, fn func(*Entry) bool) error {
	w := walks.Get().(*walk)
	defer w.done()
	each := fn
	if reverse {
		each = w.hold
	}
	var err error
	if run.Block.Kind == engine.Entries {
		err = w.native(run, reverse, each)
	} else {
		err = l.batched(w, run, reverse, each)
	}
	if err == nil && reverse {
		w.backward(fn)
	}
	return err
}

// native walks a block of XADD entries.
func (w *walk) native(run *engine.Run, reverse bool, fn func(*Entry) bool) error {
	it := run.Block.Entries()
	for it.Next() {
		offset := it.Offset()
		if offset < run.From || !run.Living(offset) {
			continue
		}
		if offset > run.To {
			return nil
		}
		if !reverse {
			w.fields = w.fields[:0]
		}
		first := len(w.fields)
		for f := it.Field(); f != nil; f = it.Field() {
			w.fields = append(w.fields, f)
		}
		w.entry.ID, w.entry.Offset, w.entry.Fields = it.ID(), offset, w.fields[first:]
		if !fn(&w.entry) {
			return nil
		}
	}
	return it.Err()
}

// batched walks a Kafka batch.
func (l *logs) batched(w *walk, run *engine.Run, reverse bool, fn func(*Entry) bool) error {
	if l.o.Codec == nil {
		return errNoCodec
	}
	block := &run.Block
	from := int(max(run.From-block.Base, 0))
	return l.o.Codec.Decode(block.Payload, from, func(i int, r *Record) bool {
		// The position, not the record's own offset, counts: the engine knows the base.
		offset := block.Base + int64(i)
		if offset > run.To {
			return false
		}
		if !run.Living(offset) {
			return true
		}
		if !reverse {
			w.fields = w.fields[:0]
		}
		first := len(w.fields)
		w.fields = appendFields(w.fields, r)
		w.entry.ID = engine.ID{MS: block.FirstID.MS, Seq: block.FirstID.Seq + uint64(i)*uint64(block.Stride)}
		w.entry.Offset, w.entry.Fields = offset, w.fields[first:]
		return fn(&w.entry)
	})
}

// hold keeps an entry for backward.
func (w *walk) hold(e *Entry) bool {
	w.held = append(w.held, heldEntry{e.ID, e.Offset, len(w.fields) - len(e.Fields)})
	return true
}

// backward hands out what hold kept, newest first.
func (w *walk) backward(fn func(*Entry) bool) {
	end := len(w.fields)
	for i := len(w.held) - 1; i >= 0; i-- {
		h := &w.held[i]
		w.entry.ID, w.entry.Offset, w.entry.Fields = h.id, h.offset, w.fields[h.first:end:end]
		if !fn(&w.entry) {
			return
		}
		end = h.first
	}
}
