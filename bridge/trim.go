package bridge

import (
	"context"

	"weir/engine"
)

// DeleteRecords removes everything below an offset (-1: the high watermark), durably, and returns the new log start.
// ErrOffsetOutside beyond the high watermark, ErrNoStream.
func (l *logs) DeleteRecords(ctx context.Context, no engine.StreamNo, offset int64) (int64, error) {
	ends, err := l.Ends(no)
	if err != nil {
		return 0, err
	}
	if offset == -1 {
		offset = ends.HighWater
	}
	if offset < 0 || offset > ends.HighWater {
		return 0, engine.ErrOffsetRange
	}
	turn := l.eng.Begin(engine.Durable)
	if _, err := turn.Trim(no, engine.TrimArgs{Kind: engine.TrimBefore, Before: offset}); err != nil {
		return 0, err
	}
	if err := turn.Wait(ctx); err != nil {
		return 0, err
	}
	ends, err = l.Ends(no)
	return ends.Start, err
}

// SizeOf is a partition's approximate size on disk, bytes.
func (l *logs) SizeOf(no engine.StreamNo) (int64, error) {
	turn := l.eng.Begin(engine.Unanswered)
	st, err := turn.Stat(no)
	return st.Bytes, err
}
