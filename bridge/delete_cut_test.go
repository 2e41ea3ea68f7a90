package bridge

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"weir/engine"
	"weir/storage"
)

// cutStore commits each shard by itself, and none once left is used up: what others' commits and a death do to a turn of
// several shards. Negative: it commits all.
type cutStore struct {
	storage.Store
	left int
}

func (s *cutStore) CommitTogether(context.Context, []storage.Batch) ([]storage.Pos, error) {
	return nil, storage.ErrNotTogether
}

func (s *cutStore) Shard(id storage.ShardID) (storage.Shard, error) {
	sh, err := s.Store.Shard(id)
	return cutShard{sh, s}, err
}

type cutShard struct {
	storage.Shard
	s *cutStore
}

func (c cutShard) Lead(ctx context.Context) (storage.Writer, error) {
	w, err := c.Shard.Lead(ctx)
	return cutWriter{w, c.s}, err
}

type cutWriter struct {
	storage.Writer
	s *cutStore
}

var errCut = errors.New("the process has died")

func (w cutWriter) Commit(ctx context.Context, b storage.Batch) (storage.Pos, error) {
	if w.s.left == 0 {
		b.Discard()
		return storage.Pos{}, errCut
	}
	w.s.left--
	return w.Writer.Commit(ctx, b)
}

// A deletion that dies between its commits has deleted the topic or nothing of it: no partition is emptied.
func TestADeletionMayBeCutAnywhere(t *testing.T) {
	const partitions = 6
	for cut := range partitions {
		for n := range 6 {
			h := newHouse(t, Options{})
			inner := h.st
			cuts := &cutStore{Store: inner, left: -1}
			h.st = cuts
			h.reopen()
			name := fmt.Sprint("topic-", n)
			topic := h.topic(name, partitions)
			h.inTurn(func(turn *engine.Turn) {
				for _, no := range topic.Streams {
					if _, err := turn.Append(no, engine.AppendArgs{Auto: true, Fields: pairs("a", "b")}); err != nil {
						t.Fatal(err)
					}
				}
			})
			cuts.left = cut
			err := h.DeleteTopic(context.Background(), topic)
			h.st = inner
			h.reopen()
			after, there := h.Topic(name)
			if !there {
				continue
			}
			if err == nil {
				t.Errorf("cut %d of %s: deleted, and there again", cut, name)
			}
			for p, no := range after.Streams {
				if ends, err := h.Ends(no); err != nil || ends.Next != 1 {
					t.Errorf("cut %d of %s: partition %d is left with %+v, %v", cut, name, p, ends, err)
				}
			}
		}
	}
}
