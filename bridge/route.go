package bridge

import "weir/engine"

// Topic is an immutable snapshot of a topic: a change makes a new one.
type Topic struct {
	Name    string   // the Redis key; may be any bytes (Kafka sees UTF-8 names of 1-249 bytes, not "." or "..")
	ID      [16]byte // random, new on re-creation
	Streams []engine.StreamNo
	Configs map[string]string // what was set on this topic; absent: the default
}

// Visible says whether Kafka clients see the topic under its name (dictionary 2).
func (t *Topic) Visible() bool { panic("unbuilt") }

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
