package storage

// A stream's row is a checkpoint: an append alone does not write it. What appends change is
// made again from the blocks at and above the row's Next, which must follow each other without a gap, and
// have neither marks nor gaps in their IDs' order. Whoever changes anything else of the row writes it, with
// all that was appended before.

import (
	"fmt"
	"math"
)

// indexSpacing: the ID and time indexes get a row about every so many offsets.
const indexSpacing = 64

// Indexed says which index rows come with a block.
type Indexed struct {
	ID   bool
	Time bool
	Max  int64 // of Time: no timestamp before the block is greater
}

// Index takes in what a block that is stored changes besides the end of the stream.
func (r *StreamRow) Index(b *Block) Indexed {
	var x Indexed
	if b.Base-r.IDRowBase >= indexSpacing {
		x.ID, r.IDRowBase = true, b.Base
	}
	if b.MaxTime > r.MaxTime {
		if b.Base-r.TimeRowBase >= indexSpacing {
			x.Time, x.Max, r.TimeRowBase = true, r.MaxTime, b.Base
		}
		r.MaxTime, r.MaxTimeBase = b.MaxTime, b.Base
	}
	r.Bytes += int64(len(b.Payload))
	return x
}

// Absorb takes in a block that was appended after the row was written. The error wraps ErrCorrupt.
func (r *StreamRow) Absorb(b *Block) error {
	if b.Base != r.Next || !r.LastID.Less(b.FirstID) {
		return fmt.Errorf("%w: the block at offset %d, ID %v, does not follow a stream that ends before %d, at %v",
			ErrCorrupt, b.Base, b.FirstID, r.Next, r.LastID)
	}
	if r.Length == 0 {
		r.Head = b.Base
	}
	r.Next, r.LastID = b.Last+1, b.LastID
	r.Length += b.Last - b.Base + 1
	r.Index(b)
	return nil
}

// AbsorbAll makes a row that was read from a view true, and returns how many blocks and bytes it lacked.
func (r *StreamRow) AbsorbAll(v View, no StreamNo) (blocks int, size int64, err error) {
	lower, upper := BlocksRange(no, r.Next, math.MaxInt64)
	it, err := v.Scan(lower, upper)
	if err != nil {
		return 0, 0, err
	}
	defer it.Close()
	for ok := it.SeekGE(nil); ok; ok = it.Next() {
		k, err := ParseKey(it.Key())
		if err != nil {
			return blocks, size, err
		}
		if k.Kind != KindBlock {
			return blocks, size, fmt.Errorf("%w: marks at offset %d, above the row of their stream", ErrCorrupt, k.Offset)
		}
		value, err := it.Value()
		if err != nil {
			return blocks, size, err
		}
		b, err := ParseBlock(k.Offset, value)
		if err != nil {
			return blocks, size, err
		}
		if err := r.Absorb(&b); err != nil {
			return blocks, size, err
		}
		blocks++
		size += int64(len(b.Payload))
	}
	return blocks, size, it.Error()
}
