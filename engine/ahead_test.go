package engine

import (
	"bytes"
	"context"
	"testing"

	"weir/storage"
)

// watchedStore counts the blocks that are read from a store while the lock of its only shard is held.
type watchedStore struct {
	storage.Store
	e             *Engine
	locked, freed int
}

type watchedShard struct {
	storage.Shard
	s *watchedStore
}

type watchedView struct {
	storage.View
	s *watchedStore
}

type watchedIterator struct {
	storage.Iterator
	s *watchedStore
}

func (s *watchedStore) Shard(id storage.ShardID) (storage.Shard, error) {
	sh, err := s.Store.Shard(id)
	return watchedShard{sh, s}, err
}

func (sh watchedShard) View() (storage.View, error) {
	v, err := sh.Shard.View()
	return watchedView{v, sh.s}, err
}

func (v watchedView) Scan(lower, upper []byte) (storage.Iterator, error) {
	it, err := v.View.Scan(lower, upper)
	return watchedIterator{it, v.s}, err
}

func (it watchedIterator) Value() ([]byte, error) {
	if k, err := storage.ParseKey(it.Key()); err == nil && k.Kind == storage.KindBlock && it.s.e != nil {
		if mu := &it.s.e.shards[0].mu; mu.TryLock() {
			mu.Unlock()
			it.s.freed++
		} else {
			it.s.locked++
		}
	}
	return it.Iterator.Value()
}

// A verb that looks IDs up in cold blocks reads them before it takes the shard's lock for good. Each answers the same as if
// nothing were cold.
func TestColdBlocksAreReadWithoutTheLock(t *testing.T) {
	id := func(ms uint64) ID { return ID{MS: ms} }
	for _, c := range []struct {
		name string
		verb func(*Turn, StreamNo, Group) (any, error)
		want any
	}{
		{"xdel", func(t *Turn, no StreamNo, _ Group) (any, error) { return t.Delete(no, []ID{id(3), id(99), id(40)}) }, int64(2)},
		{"xack", func(_ *Turn, _ StreamNo, g Group) (any, error) { return g.Ack([]ID{id(2), id(30), id(99)}) }, int64(2)},
		{"xnack", func(_ *Turn, _ StreamNo, g Group) (any, error) {
			return g.Release([]ID{id(2), id(30)}, ReleaseFail, nil, false)
		}, int64(2)},
		{"xclaim", func(_ *Turn, _ StreamNo, g Group) (any, error) {
			r, err := g.Claim(ClaimArgs{Consumer: "d", Kind: RedisConsumer, Time: -1, IDs: []ID{id(7), id(5)}})
			defer r.Close()
			return r.Count(), err
		}, int64(2)},
		{"xautoclaim", func(_ *Turn, _ StreamNo, g Group) (any, error) {
			a, err := g.AutoClaim(AutoClaimArgs{Consumer: "d", Kind: RedisConsumer, Start: id(9), Count: 1000})
			defer a.Held.Close()
			return a.Held.Count(), err
		}, int64(42)},
		{"history", func(_ *Turn, _ StreamNo, g Group) (any, error) {
			r, err := g.History("c", id(9), 0)
			defer r.Close()
			return r.Count(), err
		}, int64(41)},
		{"xrange", func(t *Turn, no StreamNo, _ Group) (any, error) {
			r, err := t.Range(no, RangeArgs{From: id(4), To: id(30), Count: -1})
			defer r.Close()
			return r.Count(), err
		}, int64(27)},
		{"xtrim minid", func(t *Turn, no StreamNo, _ Group) (any, error) {
			return t.Trim(no, TrimArgs{Kind: TrimMinID, MinID: id(11)})
		}, int64(10)},
		{"xgroup create", func(t *Turn, no StreamNo, _ Group) (any, error) {
			g := t.Group(no, "h")
			if err := g.Create(GroupStart{ID: id(20)}); err != nil {
				return nil, err
			}
			st, err := g.Stat()
			return st.LastOffset, err
		}, int64(19)},
		{"xgroup setid", func(_ *Turn, _ StreamNo, g Group) (any, error) {
			return nil, g.SetID(GroupStart{ID: id(20)})
		}, nil},
	} {
		ctx := context.Background()
		st := &watchedStore{Store: storage.NewMem(1)}
		e, err := Open(ctx, st, Options{TailCache: 20 << 10})
		if err != nil {
			t.Fatal(err)
		}
		turn := e.Begin(Written)
		no := must[StreamNo](t)(turn.Create([]byte("s")))
		for i := range 50 {
			must[Appended](t)(turn.Append(no, AppendArgs{ID: id(uint64(i + 1)), Fields: [][]byte{{'f'}, bytes.Repeat([]byte{'v'}, 9<<10)}}))
			waitTurn(t, turn)
		}
		e.shrinkTails()
		g := turn.Group(no, "g")
		if err := g.Create(GroupStart{}); err != nil {
			t.Fatal(err)
		}
		r := must[*Reader](t)(g.Deliver("c", DeliverArgs{Kind: RedisConsumer}))
		r.Close()
		must[StreamStat](t)(turn.Stat(no)) // the first entry is known from now on
		waitTurn(t, turn)
		st.e = e
		got, err := c.verb(turn, no, g)
		if err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
		if st.locked > 0 || st.freed == 0 {
			t.Errorf("%s: %d blocks were read under the lock, %d without", c.name, st.locked, st.freed)
		}
		waitTurn(t, turn)
		st.e = nil
		e.Close(ctx)
	}
}
