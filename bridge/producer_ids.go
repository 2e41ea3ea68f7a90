package bridge

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"weir/engine"
)

// idBlock is how many producer IDs are taken at a time. What is left of a block is lost
// with the process: an ID is never given twice, and there are 2^63.
const idBlock = 1000

// producerIDsName is the record that holds the first producer ID of the next block: version 1, uvarint.
var producerIDsName = []byte("next")

// producerIDs gives out producer IDs. mu is outermost and is held across the commit
// of a new block: all who ask then wait for the same one.
type producerIDs struct {
	mu        sync.Mutex
	next, end int64
	block     int64 // first ID of the block that was not taken yet
}

// loadProducerIDs reads where the next block begins.
func (l *logs) loadProducerIDs() error {
	return l.eng.EachRecord(spaceProducerIDs, func(name, value []byte) error {
		if string(name) != string(producerIDsName) {
			return nil
		}
		if len(value) < 2 || value[0] != 1 {
			return fmt.Errorf("bridge: producer IDs: %w", errRecord)
		}
		v, n := binary.Uvarint(value[1:])
		if n <= 0 || v > 1<<63-1-idBlock {
			return fmt.Errorf("bridge: producer IDs: %w", errRecord)
		}
		l.ids.block = int64(v)
		return nil
	})
}

// NextProducerID gives a producer ID that was never given before, by this process or an earlier one.
func (l *logs) NextProducerID(ctx context.Context) (int64, error) {
	p := &l.ids
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == p.end {
		turn := l.eng.Begin(engine.Durable)
		value := binary.AppendUvarint([]byte{1}, uint64(p.block+idBlock))
		if err := turn.PutRecord(producerIDsName, spaceProducerIDs, producerIDsName, value); err != nil {
			return 0, err
		}
		if err := turn.Wait(ctx); err != nil {
			return 0, err
		}
		p.next, p.end = p.block, p.block+idBlock
		p.block = p.end
	}
	id := p.next
	p.next++
	return id, nil
}
