package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"weir/engine"
)

// Topics as Kafka's admin requests make, grow and delete them.
//
// A change of N > 1 partitions appears only when it is committed: an entry written to
// a partition whose topic then got lost in a crash would be lost with it.

// Default says that the broker chooses the number of partitions or replicas.
const Default = -1

// NewTopic is a topic to be created.
type NewTopic struct {
	Name        string
	Partitions  int32 // Default: num.partitions
	Replication int16 // Default: 1
	// Assignment, if any, replaces both numbers: brokers per partition.
	Assignment map[int32][]int32
	Configs    []ConfigValue
}

// ConfigValue is a configuration to be set; a nil Value leaves the default.
type ConfigValue struct {
	Name  string
	Value *string
}

// CreateTopic makes a topic and answers when it is durable. With validateOnly nothing is made and the
// topic that is returned has no ID and no streams but the right number of them. The errors are refusals.
func (c *catalog) CreateTopic(ctx context.Context, n NewTopic, validateOnly bool) (*Topic, error) {
	return c.createTopic(ctx, n, validateOnly, engine.Durable)
}

// AutoCreate makes a topic that a client asked for by name, with the broker's defaults; the existing one if it is there.
func (c *catalog) AutoCreate(ctx context.Context, name string) (*Topic, error) {
	return c.createTopic(ctx, NewTopic{Name: name, Partitions: Default, Replication: Default}, false, engine.Written)
}

func (c *catalog) createTopic(ctx context.Context, n NewTopic, validateOnly bool, level engine.Level) (*Topic, error) {
	if err := checkNewName(n.Name); err != nil {
		return nil, err
	}
	release, err := c.change(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if t, ok := c.Topic(n.Name); ok {
		return t, &Refusal{ErrTopicExists, fmt.Sprintf("Topic '%s' already exists.", n.Name)}
	}
	partitions, err := c.partitionsOf(&n)
	if err != nil {
		return nil, err
	}
	configs, err := c.conf.topicConfigs(n.Configs)
	if err != nil {
		return nil, err
	}
	if err := c.mayCreate(n.Name, partitions); err != nil {
		return nil, err
	}
	if validateOnly {
		return c.newTopic(n.Name, [16]byte{}, make([]engine.StreamNo, partitions), configs), nil
	}
	turn := c.eng.Begin(level)
	if partitions == 1 {
		return c.createSingle(ctx, turn, n.Name, configs)
	}
	return c.createMany(ctx, turn, n.Name, partitions, configs)
}

// change takes the right to make a change of several commits.
func (c *catalog) change(ctx context.Context) (release func(), err error) {
	select {
	case c.changing <- struct{}{}:
		return func() { <-c.changing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// partitionsOf is how many partitions a new topic gets.
func (c *catalog) partitionsOf(n *NewTopic) (int32, error) {
	if len(n.Assignment) > 0 {
		switch {
		case n.Replication != Default:
			return 0, &Refusal{ErrInvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1."}
		case n.Partitions != Default:
			return 0, &Refusal{ErrInvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1."}
		}
		return int32(len(n.Assignment)), c.checkAssignment(n.Assignment, 0)
	}
	switch {
	case n.Replication == 0 || n.Replication < Default:
		return 0, &Refusal{ErrInvalidReplication, "Replication factor must be larger than 0, or -1 to use the default value."}
	case n.Replication > 1 && !c.o.ClampReplication:
		return 0, &Refusal{ErrInvalidReplication, fmt.Sprintf("Unable to replicate the partition %d time(s): there is one broker.", n.Replication)}
	case n.Partitions == 0 || n.Partitions < Default:
		return 0, &Refusal{ErrInvalidPartitions, "Number of partitions must be larger than 0."}
	case n.Partitions > mostPartitions:
		return 0, &Refusal{ErrInvalidPartitions, fmt.Sprintf("A topic has at most %d partitions.", mostPartitions)}
	case n.Partitions == Default:
		return c.o.NumPartitions, nil
	}
	return n.Partitions, nil
}

// checkAssignment wants partitions from first on, each on this one broker.
func (c *catalog) checkAssignment(assignment map[int32][]int32, first int32) error {
	for i, p := range slices.Sorted(maps.Keys(assignment)) {
		if p != first+int32(i) {
			return &Refusal{ErrInvalidAssignment, "partitions should be a consecutive 0-based integer sequence"}
		}
		replicas := assignment[p]
		if len(replicas) == 0 {
			return &Refusal{ErrInvalidAssignment, "The manual partition assignment includes an empty replica list."}
		}
		seen := make(map[int32]bool)
		for _, r := range replicas {
			if r != c.o.NodeID && !c.o.ClampReplication {
				return &Refusal{ErrInvalidAssignment, fmt.Sprintf("The manual partition assignment includes broker %d, but no such broker is registered.", r)}
			}
			if seen[r] {
				return &Refusal{ErrInvalidAssignment, fmt.Sprintf("The manual partition assignment includes the broker %d more than once.", r)}
			}
			seen[r] = true
		}
	}
	return nil
}

// mayCreate checks a new name against those that are there.
func (c *catalog) mayCreate(name string, partitions int32) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if _, busy := c.reserved[name]; busy {
		return ErrTopicBusy
	}
	if hidden, yes := c.shadowedBy(name, 0, partitions); yes {
		return &Refusal{ErrInvalidTopic, shadowRefusal(name, hidden).Error()}
	}
	form := collisionForm(name)
	if form == name && !containsUnderscore(name) {
		return nil
	}
	for other := range c.byName {
		if collisionForm(other) == form && checkNewName(other) == nil {
			return &Refusal{ErrInvalidTopic, fmt.Sprintf("Topic '%s' collides with existing topic: %s", name, other)}
		}
	}
	return nil
}

func containsUnderscore(name string) bool { return slices.Contains([]byte(name), '_') }

// createSingle makes a topic of one partition: one commit, visible at once as XADD's are.
func (c *catalog) createSingle(ctx context.Context, turn *engine.Turn, name string, configs map[string]string) (*Topic, error) {
	c.mu.Lock()
	if t := c.byName[name]; t != nil { // XADD was quicker
		c.mu.Unlock()
		return t, &Refusal{ErrTopicExists, fmt.Sprintf("Topic '%s' already exists.", name)}
	}
	t, err := c.createOne(turn, name, configs)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := turn.Wait(ctx); err != nil {
		return nil, err
	}
	c.eng.WakeName(name)
	return t, nil
}

// createMany makes streams and record and publishes the topic when they are committed. The
// shards commit on their own; a crash between leaves orphans, or a record without some of
// its streams, and Open mends either: nobody knew of the topic yet.
func (c *catalog) createMany(ctx context.Context, turn *engine.Turn, name string, n int32, configs map[string]string) (*Topic, error) {
	c.mu.Lock()
	if t := c.byName[name]; t != nil {
		c.mu.Unlock()
		return t, &Refusal{ErrTopicExists, fmt.Sprintf("Topic '%s' already exists.", name)}
	}
	c.reserved[name] = struct{}{}
	c.mu.Unlock()
	t, err := c.layStreams(turn, name, n, configs)
	if err == nil {
		err = turn.Wait(ctx)
	}
	c.mu.Lock()
	delete(c.reserved, name)
	if err == nil {
		c.put(t)
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	c.eng.WakeName(name)
	return t, nil
}

// layStreams evaluates the creation of n streams and of the topic's record.
func (c *catalog) layStreams(turn *engine.Turn, name string, n int32, configs map[string]string) (*Topic, error) {
	streams := make([]engine.StreamNo, 0, n)
	for p := range n {
		no, err := layStream(turn, name, p, n)
		if err != nil {
			return nil, err
		}
		streams = append(streams, no)
	}
	t := c.newTopic(name, newTopicID(), streams, configs)
	key := []byte(name)
	return t, turn.PutRecord(key, spaceTopics, key, appendTopicRecord(nil, t))
}

// layStream creates one partition of a topic of n > 1.
func layStream(turn *engine.Turn, name string, p, n int32) (engine.StreamNo, error) {
	no, err := turn.Create(streamKey(name, p, n))
	if err != nil {
		return 0, err
	}
	return no, turn.SetModulus(no, uint32(p))
}

// DeleteTopic deletes a topic, durably. ErrUnknownTopic.
func (c *catalog) DeleteTopic(ctx context.Context, t *Topic) error {
	release, err := c.change(ctx)
	if err != nil {
		return err
	}
	defer release()
	turn := c.eng.Begin(engine.Durable)
	c.mu.Lock()
	current := c.byName[t.Name]
	if current == nil || current.ID != t.ID {
		c.mu.Unlock()
		return ErrUnknownTopic
	}
	err = c.dropRecord(turn, current)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	// Whoever asked may leave now; the streams must go all the same.
	if err := turn.Wait(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := dropStreams(turn, current); err != nil {
		return err
	}
	c.eng.WakeName(t.Name)
	return turn.Wait(ctx)
}

// GrowTopic raises the number of partitions to count, durably. Hash-routed entries written before stay where they are,
// as in Kafka. assignment names the new partitions' brokers, nil for none.
func (c *catalog) GrowTopic(ctx context.Context, name string, count int32, assignment [][]int32, validateOnly bool) error {
	release, err := c.change(ctx)
	if err != nil {
		return err
	}
	defer release()
	t, ok := c.Topic(name)
	if !ok {
		return &Refusal{ErrUnknownTopic, "This server does not host this topic-partition."}
	}
	if err := c.mayGrow(t, count, assignment); err != nil || validateOnly {
		return err
	}
	turn := c.eng.Begin(engine.Durable)
	streams := slices.Clone(t.Streams)
	if len(streams) == 1 {
		if err := turn.SetModulus(streams[0], 0); err != nil {
			return err
		}
	}
	for p := int32(len(streams)); p < count; p++ {
		no, err := layStream(turn, name, p, count)
		if err != nil {
			return err
		}
		streams = append(streams, no)
	}
	if err := turn.Wait(ctx); err != nil {
		return err
	}
	return c.republish(ctx, turn, t, c.with(t, streams, t.Configs))
}

// mayGrow checks a growth.
func (c *catalog) mayGrow(t *Topic, count int32, assignment [][]int32) error {
	have := int32(len(t.Streams))
	switch {
	case count == have:
		return &Refusal{ErrInvalidPartitions, fmt.Sprintf("Topic already has %d partition(s).", have)}
	case count < have:
		return &Refusal{ErrInvalidPartitions, fmt.Sprintf("The topic %s currently has %d partition(s); %d would not be an increase.", t.Name, have, count)}
	case count > mostPartitions:
		return &Refusal{ErrInvalidPartitions, fmt.Sprintf("A topic has at most %d partitions.", mostPartitions)}
	}
	if assignment != nil {
		if int32(len(assignment)) != count-have {
			return &Refusal{ErrInvalidAssignment, fmt.Sprintf("Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", count-have, len(assignment))}
		}
		named := make(map[int32][]int32, len(assignment))
		for i, replicas := range assignment {
			named[have+int32(i)] = replicas
		}
		if err := c.checkAssignment(named, have); err != nil {
			return err
		}
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if hidden, yes := c.shadowedBy(t.Name, have, count); yes {
		return &Refusal{ErrInvalidPartitions, shadowRefusal(t.Name, hidden).Error()}
	}
	return nil
}

// republish writes a topic's next snapshot and makes it the current one when it is committed. The right to change is
// held; only a deletion by Redis can come between, and wins: new streams are then dropped again.
func (c *catalog) republish(ctx context.Context, turn *engine.Turn, old, next *Topic) error {
	key := []byte(next.Name)
	c.mu.Lock()
	gone := c.byName[old.Name] != old
	var err error
	if !gone {
		// Evaluated under the lock, so that a deletion's record comes after this one.
		err = turn.PutRecord(key, spaceTopics, key, appendTopicRecord(nil, next))
	}
	c.mu.Unlock()
	if err == nil && !gone {
		err = turn.Wait(ctx)
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	if gone = gone || c.byName[old.Name] != old; !gone {
		c.put(next)
	}
	c.mu.Unlock()
	if gone {
		for _, no := range next.Streams[len(old.Streams):] {
			if _, err := turn.Drop(no); err != nil {
				return err
			}
		}
		if err := turn.Wait(ctx); err != nil {
			return err
		}
		return ErrUnknownTopic
	}
	c.eng.WakeName(next.Name)
	return nil
}

// fresh is how long a topic made by one commit may be unknown to the disk, far more than any commit takes.
const fresh = 60_000

// Settle waits until topics that were made just now are committed, so that they may be told of.
func (c *catalog) Settle(ctx context.Context, topics []*Topic) error {
	var turn *engine.Turn
	now := c.now()
	for _, t := range topics {
		if t.made == 0 || now-t.made > fresh {
			continue
		}
		if turn == nil {
			turn = c.eng.Begin(engine.Written)
		}
		// Reading the stream's unfinished state makes the turn wait for it. One that
		// is gone by now needs no waiting.
		turn.Stat(t.Streams[0])
	}
	if turn == nil {
		return nil
	}
	return turn.Wait(ctx)
}
