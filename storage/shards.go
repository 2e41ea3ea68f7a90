package storage

// What every store of this package does alike: numbering batches, one writer per
// shard, refusing foreign keys.
//
// Locks, in order: shardState.mu of the lower shard, of the higher shard. Each is
// held for one commit, which is as long as handing the batch to the OS takes; that
// commit is the shard's only writer anyway, so nobody waits who could have gone on.

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// DefaultShards is the number of shards of a store created without saying.
const DefaultShards = 16

// MaxBatchBytes bounds one batch; above it Commit returns ErrTooLarge. A RESP
// value may be 512 MB.
const MaxBatchBytes = 1 << 30

// shardState is a shard's position and its right to write.
type shardState struct {
	id    ShardID
	epoch atomic.Uint64 // an Epoch

	mu   sync.Mutex    // held across a commit
	lost chan struct{} // of the writer that may write; nil before the first
	seq  atomic.Uint64 // of the newest committed batch; written under mu
	// synced is the newest seq known to be fsynced; owned by the store's syncer.
	synced atomic.Uint64
}

func (s *shardState) pos() Pos { return Pos{Epoch: Epoch(s.epoch.Load()), Seq: s.seq.Load()} }

// lead fences the writer before and returns the channel that fences this one.
func (s *shardState) lead() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost != nil {
		close(s.lost)
	}
	s.lost = make(chan struct{})
	return s.lost
}

// holds reports, under mu, whether lost belongs to the writer that may write.
func (s *shardState) holds(lost chan struct{}) bool { return s.lost == lost && lost != nil }

// inShard reports whether a key may be written by a batch of the shard.
func inShard(s ShardID, key []byte) bool {
	return len(key) >= 3 && key[0] == byte(s>>8) && key[1] == byte(s)
}

// rangeInShard reports whether [lower, upper) lies within the shard; upper may be
// the first key of the next one.
func rangeInShard(s ShardID, lower, upper []byte) bool {
	lo, hi := ShardRange(s)
	return bytes.Compare(lower, lo) >= 0 && bytes.Compare(upper, hi) <= 0
}

// validShards reports whether a layout may have n shards.
func validShards(n int) bool { return n >= 1 && n <= maxPlainShard }

// findShard indexes a store's shards.
func findShard[S any](shards []S, id ShardID) (S, error) {
	if int(id) >= len(shards) {
		var none S
		return none, fmt.Errorf("%w: shard %d of %d", ErrNotFound, id, len(shards))
	}
	return shards[id], nil
}

// lockTogether locks the shards of several batches, in order; two batches of one
// shard are refused, for the second would not be what its writer evaluated.
func lockTogether[B any](batches []B, state func(B) *shardState) (unlock func(), err error) {
	states := make([]*shardState, len(batches))
	for i, b := range batches {
		states[i] = state(b)
	}
	slices.SortFunc(states, func(a, b *shardState) int { return int(a.id) - int(b.id) })
	for i := 1; i < len(states); i++ {
		if states[i] == states[i-1] {
			return nil, fmt.Errorf("storage: two batches of shard %d in one commit", states[i].id)
		}
	}
	for _, s := range states {
		s.mu.Lock()
	}
	return func() {
		for _, s := range states {
			s.mu.Unlock()
		}
	}, nil
}
