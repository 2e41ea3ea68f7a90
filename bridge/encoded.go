package bridge

import (
	"container/list"
	"sync"

	"weir/engine"
)

// encodedKey names the encoding of a native block from an offset on. Blocks do not
// change below their last entry, so an encoding holds for ever; a deletion is seen by
// its marks, which keep a block out of the cache.
type encodedKey struct {
	no       engine.StreamNo
	from, to int64
	keyField string
	headers  bool
}

// encodedBytes bounds the cache: a few seconds of what many consumers of the same
// stream ask for one after another.
const encodedBytes = 8 << 20

// encodedCache keeps the newest encodings of native blocks, so that a stream that Redis
// writes and many Kafka consumers follow is encoded once. Safe for concurrent use.
type encodedCache struct {
	mu    sync.Mutex
	byKey map[encodedKey]*list.Element
	order list.List // of *encodedBlock, newest in front
	size  int
}

type encodedBlock struct {
	key   encodedKey
	bytes []byte
}

func (c *encodedCache) get(k encodedKey) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[k]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*encodedBlock).bytes
}

func (c *encodedCache) put(k encodedKey, bytes []byte) {
	if len(bytes) > encodedBytes/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = make(map[encodedKey]*list.Element)
	}
	if c.byKey[k] != nil {
		return
	}
	c.byKey[k] = c.order.PushFront(&encodedBlock{k, bytes})
	for c.size += len(bytes); c.size > encodedBytes; {
		last := c.order.Back()
		old := c.order.Remove(last).(*encodedBlock)
		delete(c.byKey, old.key)
		c.size -= len(old.bytes)
	}
}
