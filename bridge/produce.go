package bridge

import "weir/engine"

// BatchRules are what a topic asks of the batches that are produced to it.
type BatchRules struct {
	MaxBytes      int  // max.message.bytes
	KeysRequired  bool // cleanup.policy has compact
	LogAppendTime bool // message.timestamp.type
	// MinTime and MaxTime bound record timestamps, ms.
	MinTime, MaxTime int64
}

// BatchRules at a moment, ms.
func (t *Topic) BatchRules(now int64) BatchRules {
	s := &t.settings
	r := BatchRules{MaxBytes: s.maxMessage, KeysRequired: s.compact, LogAppendTime: s.logAppendTime}
	r.MinTime, r.MaxTime = now-s.maxBefore, now+s.maxAfter
	if s.maxBefore > now {
		r.MinTime = 0
	}
	if r.MaxTime < now { // overflow
		r.MaxTime = 1<<63 - 1
	}
	return r
}

// Stream is the stream of a partition; false when there is none.
func (t *Topic) Stream(partition int32) (engine.StreamNo, bool) {
	if partition < 0 || int(partition) >= len(t.Streams) {
		return 0, false
	}
	return t.Streams[partition], true
}
