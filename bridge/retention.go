package bridge

import (
	"context"
	"time"

	"weir/engine"
)

// retention removes what retention.ms and retention.bytes say may go, every
// Options.RetentionCheck.
type retention struct {
	*core
	cat  *catalog
	logs *logs
	stop context.CancelFunc // nil: never started
	done chan struct{}
}

func (r *retention) start() {
	if r.o.RetentionCheck < 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop, r.done = cancel, make(chan struct{})
	go func() {
		defer close(r.done)
		tick := time.NewTicker(r.o.RetentionCheck)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if err := r.Sweep(ctx, r.now()); err != nil && ctx.Err() == nil {
					r.o.Logger.Error("retention failed", "error", err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

func (r *retention) end() {
	if r.stop != nil {
		r.stop()
		<-r.done
	}
}

// producerExpiry is Kafka's producer.id.expiration.ms: an idempotent producer that has been silent for so long is
// forgotten, and its next sequence taken as it comes.
const producerExpiry = 24 * time.Hour

// Sweep applies retention to all topics as of a moment, ms, and forgets silent producers. One topic's trims share commits.
func (r *retention) Sweep(ctx context.Context, now int64) error {
	turn := r.eng.Begin(engine.Written)
	for _, t := range r.cat.Topics() {
		sweeps := t.settings.deletes && (t.settings.retentionMS >= 0 || t.settings.retentionBytes >= 0)
		for _, no := range t.Streams {
			if sweeps {
				if err := r.sweepStream(turn, &t.settings, no, now); err != nil && err != engine.ErrNoStream {
					return err
				}
			}
			// After that, which has loaded the stream: where there are more than the engine keeps, none would be otherwise.
			if _, err := turn.ExpireProducers(no, now-producerExpiry.Milliseconds()); err != nil && err != engine.ErrNoStream {
				return err
			}
		}
		if err := turn.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sweepStream trims one partition.
func (r *retention) sweepStream(turn *engine.Turn, s *settings, no engine.StreamNo, now int64) error {
	ends, err := r.logs.Ends(no)
	if err != nil || ends.Start >= ends.HighWater {
		return err
	}
	before := ends.Start
	if s.retentionMS >= 0 {
		// Blocks go in order, each once all its records are old: up to the first block by
		// which a record is young enough.
		run, ok, err := r.eng.BlockAtTime(no, now-s.retentionMS)
		switch {
		case err != nil:
			return err
		case ok:
			before = max(before, run.Block.Base)
		default:
			before = ends.HighWater
		}
	}
	if s.retentionBytes >= 0 && before < ends.HighWater {
		edge, err := r.sizeEdge(turn, no, ends.Start, s.retentionBytes)
		if err != nil {
			return err
		}
		before = max(before, edge)
	}
	if before <= ends.Start {
		return nil
	}
	_, err = turn.Trim(no, engine.TrimArgs{Kind: engine.TrimBefore, Before: before})
	return err
}

// trimmedSlack is what a stream's size may still count of blocks that are trimmed already: the engine sweeps
// them off the disk in pieces of this size.
const trimmedSlack = 256 << 10

// sizeEdge is the first offset to keep so that at least limit bytes stay: blocks go, from the log start on, while what is
// left has as many. It errs towards keeping, by trimmedSlack at most.
func (r *retention) sizeEdge(turn *engine.Turn, no engine.StreamNo, from, limit int64) (int64, error) {
	st, err := turn.Stat(no)
	if err != nil {
		return from, err
	}
	excess := st.Bytes - limit
	if st.Start > 0 {
		excess -= trimmedSlack
	}
	for excess > 0 {
		f, err := r.eng.Fetch(no, from, 1<<20)
		if err != nil || len(f.Blocks) == 0 {
			return from, err
		}
		for i := range f.Blocks {
			block := &f.Blocks[i].Block
			if excess -= int64(len(block.Payload)); excess < 0 {
				return from, nil
			}
			from = block.Last + 1
		}
	}
	return from, nil
}
