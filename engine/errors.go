package engine

import "errors"

// Sentinels. Words and codes are given at the edges (resp/errors.go, kafkaproto/errors.go).
var (
	ErrNoStream       = errors.New("engine: no such stream")
	ErrNoGroup        = errors.New("engine: no such group")
	ErrGroupExists    = errors.New("engine: group exists")
	ErrIDTooSmall     = errors.New("engine: ID is not greater than the last")
	ErrIDZero         = errors.New("engine: ID must be greater than 0-0")
	ErrIDExhausted    = errors.New("engine: no greater ID exists")
	ErrSetIDTop       = errors.New("engine: ID is smaller than the newest entry's")
	ErrSetIDDeleted   = errors.New("engine: ID is smaller than the max deleted ID")
	ErrSetIDAdded     = errors.New("engine: entries-added is smaller than the length")
	ErrOffsetRange    = errors.New("engine: offset outside the log")
	ErrSequenceGap    = errors.New("engine: producer sequence out of order, or older than the window")
	ErrProducerFenced = errors.New("engine: producer epoch is old")
	ErrFailed         = errors.New("engine: the store stopped accepting writes")
	ErrClosed         = errors.New("engine: closed")
)
