package engine

import (
	"bytes"

	"weir/storage"
)

// blockScan walks the block rows of one stream in a view, each with its marks. The
// blocks it returns own their bytes.
type blockScan struct {
	no      StreamNo
	it      storage.Iterator
	over    map[int64]over // overlays the rows; nil when nothing is unwritten
	ahead   *ahead         // blocks that need not be read; nil when none are at hand
	heads   bool           // blocks at hand may be without their payloads
	until   int64          // forward: blocks that begin behind it are not read
	valid   bool
	reverse bool
}

func newBlockScan(v storage.View, no StreamNo, over map[int64]over) (*blockScan, error) {
	lower, upper := storage.BlocksRange(no, 0, maxOffset)
	it, err := v.Scan(lower, upper)
	if err != nil {
		return nil, err
	}
	return &blockScan{no: no, it: it, over: over, until: maxOffset}, nil
}

const maxOffset = 1<<63 - 1

// seek stands at the block that holds an offset, or else the next one.
func (c *blockScan) seek(offset int64) error {
	c.reverse = false
	c.valid = c.it.SeekLT(storage.BlockKey(c.no, offset+1))
	if c.valid {
		k, err := storage.ParseKey(c.it.Key())
		if err != nil {
			return err
		}
		if k.Kind == storage.KindMarks {
			c.valid = c.it.Prev()
		}
	}
	if !c.valid {
		c.valid = c.it.SeekGE(nil)
		return c.it.Error()
	}
	return nil
}

// seekBack stands at the last block whose base is <= offset, to walk back from.
func (c *blockScan) seekBack(offset int64) error {
	err := c.seek(offset)
	c.reverse = true
	if err == nil && c.valid {
		k, err := storage.ParseKey(c.it.Key())
		if err != nil {
			return err
		}
		c.valid = k.Offset <= offset
	}
	return err
}

// next returns the block it stands at and moves on; false at the end.
func (c *blockScan) next() (Block, Marks, bool, error) {
	for c.valid {
		k, err := storage.ParseKey(c.it.Key())
		if err != nil {
			return Block{}, nil, false, err
		}
		if k.Kind == storage.KindMarks { // of a block that was removed between two moves: cannot be, but is harmless
			c.step(k.Offset)
			continue
		}
		if !c.reverse && k.Offset > c.until {
			c.valid = false
			break
		}
		b, err := c.block(k.Offset)
		if err != nil {
			return Block{}, nil, false, err
		}
		marks, err := c.marksAfter(k.Offset)
		if err != nil {
			return Block{}, nil, false, err
		}
		c.step(k.Offset)
		if o, ok := c.over[b.Base]; ok {
			if o.gone {
				continue
			}
			marks = o.marks
		}
		return b, marks, true, nil
	}
	return Block{}, nil, false, c.it.Error()
}

// block reads the block it stands at.
func (c *blockScan) block(base int64) (Block, error) {
	if b, ok := c.ahead.block(base, c.heads); ok {
		return b, nil
	}
	val, err := c.it.Value()
	if err != nil {
		return Block{}, err
	}
	b, err := storage.ParseBlock(base, bytes.Clone(val))
	if err != nil {
		return Block{}, err
	}
	return b, c.ahead.keep(b)
}

// marksAfter reads the marks row behind the block row it stands at, and stands there if there is one.
func (c *blockScan) marksAfter(base int64) (Marks, error) {
	if c.valid = c.it.Next(); !c.valid {
		return nil, c.it.Error()
	}
	k, err := storage.ParseKey(c.it.Key())
	if err != nil || k.Kind != storage.KindMarks || k.Offset != base {
		return nil, err
	}
	val, err := c.it.Value()
	return Marks(bytes.Clone(val)), err
}

// step moves to the next block row in the walk's direction, from anywhere about the block at base.
func (c *blockScan) step(base int64) {
	if !c.reverse {
		if c.valid {
			if k, err := storage.ParseKey(c.it.Key()); err == nil && k.Kind == storage.KindMarks {
				c.valid = c.it.Next()
			}
		}
		return
	}
	c.valid = c.it.SeekLT(storage.BlockKey(c.no, base))
	if c.valid {
		if k, err := storage.ParseKey(c.it.Key()); err == nil && k.Kind == storage.KindMarks {
			c.valid = c.it.Prev()
		}
	}
}

func (c *blockScan) close() { c.it.Close() }

// runOf cuts a block to the offsets in [lo, hi]; false when nothing living is left.
func runOf(b Block, m Marks, lo, hi int64) (Run, bool) {
	r := Run{Block: b, Marks: m, From: max(b.Base, lo), To: min(b.Last, hi)}
	if r.From > r.To {
		return r, false
	}
	if m != nil {
		for r.From <= r.To && !r.Living(r.From) {
			r.From++
		}
		for r.To >= r.From && !r.Living(r.To) {
			r.To--
		}
	}
	return r, r.From <= r.To
}

// first cuts a run to its first n living entries, last to its last n.
func (r Run) first(n int64) Run {
	if r.Marks == nil {
		r.To = min(r.To, r.From+n-1)
		return r
	}
	for o := r.From; o <= r.To; o++ {
		if r.Living(o) {
			if n--; n == 0 {
				r.To = o
			}
		}
	}
	return r
}

func (r Run) last(n int64) Run {
	if r.Marks == nil {
		r.From = max(r.From, r.To-n+1)
		return r
	}
	for o := r.To; o >= r.From; o-- {
		if r.Living(o) {
			if n--; n == 0 {
				r.From = o
			}
		}
	}
	return r
}
