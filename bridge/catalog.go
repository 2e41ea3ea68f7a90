package bridge

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"weir/engine"
)

// catalog knows all topics, as evaluated.
//
// mu guards everything and may be held while verbs are evaluated (bridge's locks come
// before the shards'), never across a wait. Changes by Kafka's admin requests that take
// several commits (creation and growth of N > 1 partitions, configurations) hold
// changing, one at a time, from their first look to their last commit, and appear in
// the maps only when they are committed; meanwhile the name of a topic to be is in
// reserved. Changes by Redis commands are one verb each, never wait, and appear at
// once: whoever reads what is not committed yet is held back by the shard's round,
// because a topic of one partition lives in the same shard as its record.
type catalog struct {
	*core
	conf *configs

	mu       sync.RWMutex
	byName   map[string]*Topic
	byID     map[[16]byte]*Topic
	byStream map[engine.StreamNo]streamPlace
	reserved map[string]struct{}
	sorted   []*Topic // by name; nil: to be made again

	changing chan struct{} // a semaphore of one
}

// streamPlace is where a stream belongs.
type streamPlace struct {
	topic     *Topic
	partition int32
}

func newCatalog(c *core, conf *configs) *catalog {
	return &catalog{
		core: c, conf: conf,
		byName:   make(map[string]*Topic),
		byID:     make(map[[16]byte]*Topic),
		byStream: make(map[engine.StreamNo]streamPlace),
		reserved: make(map[string]struct{}),
		changing: make(chan struct{}, 1),
	}
}

// put makes a snapshot the current one. mu is held.
func (c *catalog) put(t *Topic) {
	c.byName[t.Name] = t
	c.byID[t.ID] = t
	for p, no := range t.Streams {
		c.byStream[no] = streamPlace{t, int32(p)}
	}
	c.sorted = nil
}

// remove forgets a topic. mu is held.
func (c *catalog) remove(t *Topic) {
	delete(c.byName, t.Name)
	delete(c.byID, t.ID)
	for _, no := range t.Streams {
		delete(c.byStream, no)
	}
	c.sorted = nil
}

// resolve is Bridge.Resolve. mu is held.
func (c *catalog) resolve(key []byte) (Route, bool) {
	if t := c.byName[string(key)]; t != nil {
		return t.whole(), true
	}
	name, p, ok := splitPartitionKey(key)
	if !ok {
		return Route{}, false
	}
	if t := c.byName[string(name)]; t != nil && int(p) < len(t.Streams) {
		return t.partition(p), true
	}
	return Route{}, false
}

// shadowedBy finds a plain key that a topic of n partitions would hide. mu is held.
func (c *catalog) shadowedBy(name string, from, n int32) (string, bool) {
	for p := from; p < n; p++ {
		if key := partitionKey(name, p); c.byName[key] != nil {
			return key, true
		}
	}
	return "", false
}

func shadowRefusal(name, key string) error {
	return &Refusal{ErrShadowed, fmt.Sprintf("topic %q would shadow the existing key %q", name, key)}
}

// Resolve says what a Redis key names, as evaluated: `T`, `T#p`, or a plain key that happens to look like one.
func (c *catalog) Resolve(key []byte) (Route, bool) {
	c.mu.RLock()
	r, ok := c.resolve(key)
	c.mu.RUnlock()
	return r, ok
}

// CreateKey makes a topic of one partition under a new key within a turn (XADD, XGROUP CREATE MKSTREAM). If the key exists
// by now, its route is returned. ErrShadowed when a plain key `T#0` is there already; ErrTopicBusy while an admin request is
// creating the topic. A topic made by Redis keeps its entries for ever (retention.ms=-1), as a Redis key does.
func (c *catalog) CreateKey(t *engine.Turn, key []byte) (Route, error) {
	c.mu.Lock()
	if r, ok := c.resolve(key); ok {
		c.mu.Unlock()
		return r, nil
	}
	name := string(key)
	topic, err := c.createOne(t, name, keyConfigs)
	c.mu.Unlock()
	if err != nil {
		return Route{}, err
	}
	c.eng.WakeName(name)
	return topic.whole(), nil
}

// keyConfigs are the configurations of a topic that Redis made. Shared and never changed.
var keyConfigs = map[string]string{"retention.ms": "-1"}

// createOne makes a topic of one partition: stream and record ride one commit. c.mu is held.
func (c *catalog) createOne(t *engine.Turn, name string, configs map[string]string) (*Topic, error) {
	if _, busy := c.reserved[name]; busy {
		return nil, ErrTopicBusy
	}
	if hidden, yes := c.shadowedBy(name, 0, 1); yes {
		return nil, shadowRefusal(name, hidden)
	}
	no, err := t.Create([]byte(name))
	if err != nil {
		return nil, err
	}
	topic := c.newTopic(name, newTopicID(), []engine.StreamNo{no}, configs)
	if err := t.PutRecord([]byte(name), spaceTopics, []byte(name), appendTopicRecord(nil, topic)); err != nil {
		return nil, err
	}
	c.put(topic)
	return topic, nil
}

// newTopic makes a first snapshot.
func (c *catalog) newTopic(name string, id [16]byte, streams []engine.StreamNo, configs map[string]string) *Topic {
	return &Topic{
		Name: name, ID: id, Streams: streams, Configs: configs,
		settings: c.conf.settingsOf(configs), turns: new(atomic.Uint32), made: c.now(),
	}
}

// with makes the next snapshot of a topic.
func (c *catalog) with(t *Topic, streams []engine.StreamNo, configs map[string]string) *Topic {
	next := *t
	next.Streams, next.Configs, next.settings = streams, configs, c.conf.settingsOf(configs)
	return &next
}

// newTopicID is a random UUID, version 4, as Kafka makes them. Kafka reserves IDs
// whose text begins with '-', because command lines take them for an option.
func newTopicID() [16]byte {
	for {
		var id [16]byte
		rand.Read(id[:])
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if id[0]>>2 != 62 {
			return id
		}
	}
}

// DropKey deletes a topic with all its streams within a turn (DEL); false when there is none. ErrPartitionKey on `T#p`.
// For N > 1 partitions the shards commit one by one; what a crash leaves half done is mended at Open.
func (c *catalog) DropKey(t *engine.Turn, key []byte) (bool, error) {
	c.mu.Lock()
	topic := c.byName[string(key)]
	if topic == nil {
		_, partition := c.resolve(key)
		c.mu.Unlock()
		if partition {
			return false, ErrPartitionKey
		}
		return false, nil
	}
	err := c.drop(t, topic)
	c.mu.Unlock()
	if err != nil {
		return false, err
	}
	c.eng.WakeName(topic.Name)
	return true, nil
}

// drop deletes a topic in one turn. A topic of several shards may lose a stream before its record when the process dies, since
// others' commits take open rounds along: who can wait uses dropRecord, waits, and then dropStreams. c.mu is held.
func (c *catalog) drop(t *engine.Turn, topic *Topic) error {
	if err := c.dropRecord(t, topic); err != nil {
		return err
	}
	return dropStreams(t, topic)
}

// dropRecord deletes a topic's record; an opening removes streams that have none. c.mu is held.
func (c *catalog) dropRecord(t *engine.Turn, topic *Topic) error {
	name := []byte(topic.Name)
	if err := t.DeleteRecord(name, spaceTopics, name); err != nil {
		return err
	}
	c.remove(topic)
	return nil
}

func dropStreams(t *engine.Turn, topic *Topic) error {
	for _, no := range topic.Streams {
		if _, err := t.Drop(no); err != nil {
			return err
		}
	}
	return nil
}

// DropAll deletes all topics (FLUSHALL).
func (c *catalog) DropAll(t *engine.Turn) error {
	c.mu.Lock()
	topics := slices.Collect(maps.Values(c.byName))
	var err error
	for _, topic := range topics {
		if err = c.drop(t, topic); err != nil {
			break
		}
	}
	c.mu.Unlock()
	for _, topic := range topics {
		c.eng.WakeName(topic.Name)
	}
	return err
}

// Topics lists all topics in byte order of the name. The slice is shared: not to be changed.
func (c *catalog) Topics() []*Topic {
	c.mu.RLock()
	list := c.sorted
	c.mu.RUnlock()
	if list != nil {
		return list
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorted == nil {
		c.sorted = make([]*Topic, 0, len(c.byName))
		for _, t := range c.byName {
			c.sorted = append(c.sorted, t)
		}
		slices.SortFunc(c.sorted, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	}
	return c.sorted
}

// TopicCount is the number of topics (DBSIZE).
func (c *catalog) TopicCount() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.byName)
}

// Topic finds a topic by name.
func (c *catalog) Topic(name string) (*Topic, bool) {
	c.mu.RLock()
	t := c.byName[name]
	c.mu.RUnlock()
	return t, t != nil
}

// TopicByID finds a topic by ID.
func (c *catalog) TopicByID(id [16]byte) (*Topic, bool) {
	c.mu.RLock()
	t := c.byID[id]
	c.mu.RUnlock()
	return t, t != nil
}

// TopicOf says which partition of which topic a stream is.
func (c *catalog) TopicOf(no engine.StreamNo) (*Topic, int32, bool) {
	c.mu.RLock()
	at, ok := c.byStream[no]
	c.mu.RUnlock()
	return at.topic, at.partition, ok
}

// streamKey is the Redis key under which partition p of a topic is created.
func streamKey(name string, p, n int32) []byte {
	if n == 1 {
		return []byte(name)
	}
	return []byte(partitionKey(name, p))
}

// equalName compares a name with bytes.
func equalName(name string, b []byte) bool { return bytes.Equal([]byte(name), b) }
