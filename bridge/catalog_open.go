package bridge

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"weir/engine"
)

// loadCatalog reads the topics and mends what a crash between the commits of one
// change left behind: streams of no topic are removed (a creation that never got its
// record, or a deletion that lost its record first), and a topic whose record names a
// stream that is not there gets an empty one (a DEL that lost a stream first, see drop;
// nobody was told that it was done).
func (c *catalog) loadCatalog(ctx context.Context) error {
	present := make(map[engine.StreamNo]bool)
	if err := c.eng.EachStream(func(no engine.StreamNo, key []byte) error {
		present[no] = true
		return nil
	}); err != nil {
		return fmt.Errorf("bridge: list streams: %w", err)
	}
	var maimed []*Topic
	err := c.eng.EachRecord(spaceTopics, func(name, value []byte) error {
		rec, err := parseTopicRecord(value)
		if err != nil {
			return fmt.Errorf("topic %q: %w", name, err)
		}
		t := &Topic{
			Name: string(name), ID: rec.id, Streams: rec.streams, Configs: rec.configs,
			settings: c.conf.settingsOf(rec.configs), turns: new(atomic.Uint32),
		}
		whole := true
		for _, no := range rec.streams {
			whole = whole && present[no]
			delete(present, no)
		}
		if !whole {
			maimed = append(maimed, t)
		}
		c.put(t)
		return nil
	})
	if err != nil {
		return fmt.Errorf("bridge: load topics: %w", err)
	}
	if len(present) == 0 && len(maimed) == 0 {
		return nil
	}
	turn := c.eng.Begin(engine.Durable)
	for no := range present {
		c.o.Logger.Warn("removing a stream that belongs to no topic", "stream", uint64(no))
		if _, err := turn.Drop(no); err != nil {
			return fmt.Errorf("bridge: remove orphan: %w", err)
		}
	}
	for _, t := range maimed {
		if err := c.mend(turn, t); err != nil {
			return fmt.Errorf("bridge: mend topic %q: %w", t.Name, err)
		}
	}
	if err := turn.Wait(ctx); err != nil {
		return fmt.Errorf("bridge: mend topics: %w", err)
	}
	return nil
}

// mend gives a topic empty streams for those that are gone.
func (c *catalog) mend(turn *engine.Turn, t *Topic) error {
	c.o.Logger.Warn("topic lost partitions in an unfinished deletion; they are empty now", "topic", t.Name)
	streams := slices.Clone(t.Streams)
	n := int32(len(streams))
	for p, no := range streams {
		if _, err := turn.Stat(no); err == nil {
			continue
		}
		fresh, err := turn.Create(streamKey(t.Name, int32(p), n))
		if err != nil {
			return err
		}
		if n > 1 {
			if err := turn.SetModulus(fresh, uint32(p)); err != nil {
				return err
			}
		}
		streams[p] = fresh
	}
	next := c.with(t, streams, t.Configs)
	c.remove(t)
	c.put(next)
	name := []byte(t.Name)
	return turn.PutRecord(name, spaceTopics, name, appendTopicRecord(nil, next))
}
