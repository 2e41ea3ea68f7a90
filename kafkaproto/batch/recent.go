package batch

import "sync"

// Redis reads a few entries at a time (XREADGROUP COUNT 10), a compressed batch holds
// thousands: without the last few batches at hand in their decompressed form, each
// read would decompress one whole.

const (
	recentSlots = 16
	recentBytes = 1 << 20 // the largest that is kept, decompressed
)

// recentBatches are the batches decompressed last. A slot holds on to the batch itself:
// the address of its first byte is what tells batches apart, and must not be given to
// another batch meanwhile.
type recentBatches struct {
	mu    sync.Mutex
	slots [recentSlots]recentBatch
	next  int
}

type recentBatch struct {
	data    []byte
	records []byte
}

var recent recentBatches

// inflate returns a compressed batch's records decompressed; not to be changed. It is not
// pooled: what is handed out may be kept.
func (c *recentBatches) inflate(codec uint8, data []byte) ([]byte, error) {
	c.mu.Lock()
	for i := range c.slots {
		if s := &c.slots[i]; len(s.data) == len(data) && &s.data[0] == &data[0] {
			records := s.records
			c.mu.Unlock()
			return records, nil
		}
	}
	c.mu.Unlock()
	records, err := inflateTo(codec, nil, data[headerLen:])
	if err != nil || len(records) > recentBytes {
		return records, err
	}
	c.mu.Lock()
	c.slots[c.next] = recentBatch{data, records}
	c.next = (c.next + 1) % recentSlots
	c.mu.Unlock()
	return records, nil
}
