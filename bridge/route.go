package bridge

import (
	"sync/atomic"

	"weir/engine"
)

// Topic is an immutable snapshot of a topic: a change makes a new one.
type Topic struct {
	Name    string   // the Redis key; may be any bytes (Kafka sees UTF-8 names of 1-249 bytes, not "." or "..")
	ID      [16]byte // random, new on re-creation
	Streams []engine.StreamNo
	Configs map[string]string // what was set on this topic; absent: the default. Not to be changed

	settings settings       // Configs over the broker's defaults, parsed
	turns    *atomic.Uint32 // partitions that take turns for entries without a key; shared by all snapshots
	made     int64          // ms when this process learned of the topic; 0: at start
}

// Route is what a Redis key names.
type Route struct {
	Topic     *Topic
	Partition int32             // -1: the whole of a hash-routed topic
	Streams   []engine.StreamNo // one, or all of the topic in partition order
}

// Whole says that the key names all partitions of a topic of more than one.
func (r *Route) Whole() bool { return len(r.Streams) > 1 }

// Stream is the stream of a key that names one.
func (r *Route) Stream() engine.StreamNo { return r.Streams[0] }

// whole routes to a topic under its own name.
func (t *Topic) whole() Route {
	if len(t.Streams) == 1 {
		return Route{Topic: t, Partition: 0, Streams: t.Streams}
	}
	return Route{Topic: t, Partition: -1, Streams: t.Streams}
}

// partition routes to one partition.
func (t *Topic) partition(p int32) Route {
	return Route{Topic: t, Partition: p, Streams: t.Streams[p : p+1 : p+1]}
}

// Partition routes an entry of a hash-routed topic by the key of the record that the entry is (dictionary 4): murmur2
// as Kafka's default partitioner; without a key, partitions take turns.
func (l *logs) Partition(t *Topic, fields [][]byte) int32 {
	n := uint32(len(t.Streams))
	if key, ok := keyOf(fields, t.settings.keyField); ok {
		return int32((murmur2(key) & 0x7fffffff) % n)
	}
	return int32((t.turns.Add(1) - 1) % n)
}

// murmur2 is the 32-bit MurmurHash2 of Kafka's clients, seed 0x9747b28c.
func murmur2(b []byte) uint32 {
	const m, r = 0x5bd1e995, 24
	h := 0x9747b28c ^ uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		k := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h = h*m ^ k
	}
	switch len(b) {
	case 3:
		h ^= uint32(b[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(b[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(b[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}
