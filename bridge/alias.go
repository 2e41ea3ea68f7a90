package bridge

import "weir/engine"

// The engine's nouns that kafkaproto needs, so that it imports bridge alone.
type (
	// Ticket is what remains to be waited for before a reply may be told.
	Ticket = engine.Ticket
	// Turn evaluates verbs.
	Turn = engine.Turn
	// Level is when a write is answered.
	Level = engine.Level
	// StreamNo numbers a stream.
	StreamNo = engine.StreamNo
	// BatchArgs is one validated record batch.
	BatchArgs = engine.BatchArgs
	// ProducerBatch is the idempotence part of a batch.
	ProducerBatch = engine.ProducerBatch
	// Appended answers an append.
	Appended = engine.Appended
	// Waiter is one parked reader.
	Waiter = engine.Waiter
	// Place is what a reader waits for.
	Place = engine.Place
)

// Levels of a write.
const (
	Unanswered = engine.Unanswered
	Written    = engine.Written
	Durable    = engine.Durable
)

// The engine's sentinels that Kafka has codes for.
var (
	ErrNoStream      = engine.ErrNoStream
	ErrSequenceGap   = engine.ErrSequenceGap
	ErrEpochOld      = engine.ErrProducerFenced
	ErrFailed        = engine.ErrFailed
	ErrOffsetOutside = engine.ErrOffsetRange
)
