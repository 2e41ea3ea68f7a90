package bridge

import (
	"weir/engine"
)

// Fetched is what a partition answers to Fetch.
type Fetched struct {
	Ends
	// Records are whole batches one after another; the slices are immutable and shared with the tail cache.
	Records [][]byte
	Size    int   // bytes of Records
	Last    int64 // last offset covered by Records; the fetch offset - 1 when there are none
}

// Fetch reads batches from the one that holds offset on, below the high watermark. With atLeastOne, one is returned if there is
// one, whatever maxBytes says (KIP-74). Kafka's batches are returned as they are stored, from their first record on;
// one with deleted entries is rewritten; entries that Redis wrote are encoded from offset on. Where all that lies
// between offset and the high watermark is deleted, one batch without records carries the consumer over it.
// ErrOffsetOutside (the ends are valid then), ErrNoStream.
func (l *logs) Fetch(t *Topic, no engine.StreamNo, offset int64, maxBytes int, atLeastOne bool) (Fetched, error) {
	got, err := l.eng.Fetch(no, offset, max(maxBytes, 1))
	out := Fetched{Ends: Ends{got.Start, got.HighWater, got.Next}, Last: offset - 1}
	if err != nil {
		return out, err
	}
	if offset > got.HighWater {
		// Beyond what may be shown; the log's end is hidden until it is committed.
		return out, nil
	}
	if !atLeastOne && len(got.Blocks) > 0 && len(got.Blocks[0].Block.Payload) > maxBytes {
		return out, nil
	}
	if len(got.Blocks) == 0 {
		if offset < got.HighWater {
			err = l.bridgeGap(&out, offset, got.HighWater-1)
		}
		return out, err
	}
	out.Records = make([][]byte, 0, len(got.Blocks))
	for i := range got.Blocks {
		run := &got.Blocks[i]
		bytes, err := l.blockBytes(t, no, run, offset)
		if err != nil {
			// What is damaged ends the answer; what came before it is good.
			if i > 0 {
				return out, nil
			}
			return out, err
		}
		out.Records = append(out.Records, bytes)
		out.Size += len(bytes)
		out.Last = run.Block.Last
	}
	return out, nil
}

// bridgeGap answers with a batch of no records that ends at last.
func (l *logs) bridgeGap(out *Fetched, offset, last int64) error {
	if l.o.Codec == nil {
		return errNoCodec
	}
	bytes, err := l.o.Codec.Encode(nil, offset, last, LeaderEpoch, nil)
	if err != nil {
		return err
	}
	out.Records, out.Size, out.Last = [][]byte{bytes}, len(bytes), last
	return nil
}

// blockBytes is a block as consumers get it.
func (l *logs) blockBytes(t *Topic, no engine.StreamNo, run *engine.Run, offset int64) ([]byte, error) {
	if run.Block.Kind == engine.Batched && run.Marks == nil {
		return run.Block.Payload, nil
	}
	if l.o.Codec == nil {
		return nil, errNoCodec
	}
	if run.Block.Kind == engine.Batched {
		return l.o.Codec.Rewrite(run.Block.Payload, run.Living)
	}
	from := max(offset, run.From)
	key := encodedKey{no: no, from: from, to: run.To, keyField: t.settings.keyField, headers: t.settings.headersFormat}
	if run.Marks == nil {
		if bytes := l.encoded.get(key); bytes != nil {
			return bytes, nil
		}
	}
	bytes, err := l.encode(t, run, from)
	if err == nil && run.Marks == nil {
		l.encoded.put(key, bytes)
	}
	return bytes, err
}

// encode writes the living entries of a native block from an offset on as one batch.
func (l *logs) encode(t *Topic, run *engine.Run, from int64) ([]byte, error) {
	records := make([]Record, 0, run.To-from+1)
	cut := *run
	cut.From = from
	err := l.EachEntry(&cut, false, func(e *Entry) bool {
		records = append(records, Record{Offset: e.Offset, Timestamp: recordTime(e.ID)})
		t.settings.toRecord(&records[len(records)-1], e.Fields)
		return true
	})
	if err != nil {
		return nil, err
	}
	return l.o.Codec.Encode(nil, from, run.To, LeaderEpoch, records)
}
