package bridge

import (
	"context"
	"errors"
	"slices"

	"weir/engine"
)

// Offset commits are acks (dictionary 5, rule 3), and what OffsetFetch answers is the watermark.
//
// All partitions of a request are one engine turn, answered at the level *written*: the death of the process loses no
// acknowledged commit. Kafka answers from the page cache as well; an fsync for each
// commit would make every auto-commit as dear as a produce, for a position that at worst re-delivers.

// mostCommitMetadata is offset.metadata.max.bytes.
const mostCommitMetadata = 4096

// CommitRequest is an OffsetCommit. Without membership (an administrator, a consumer that assigns itself) Generation
// is -1 and the ids are "".
type CommitRequest struct {
	Group      string
	MemberID   string
	InstanceID string
	Generation int32
	Partitions []PartitionCommit
}

// PartitionCommit is the commit of one partition.
type PartitionCommit struct {
	TopicPartition
	Offset   int64
	Epoch    int32 // leader epoch, -1 unknown
	Metadata []byte
}

// CommitOffsets acks up to the given offsets. The first result holds what is wrong with a partition itself: nil,
// ErrUnknownTopic, ErrCommitMetadata. The second refuses all the others: ErrGroupNotFound (a generation of a group that is
// not there), ErrUnknownMember, ErrIllegalGeneration, ErrFencedInstance, ErrRebalanceInProgress, ErrCoordinatorUnavailable. A
// request of which no partition exists does not reach the group, as in Kafka.
func (b *Bridge) CommitOffsets(r *CommitRequest) ([]error, error) {
	errs := make([]error, len(r.Partitions))
	streams := make([]engine.StreamNo, len(r.Partitions))
	some := false
	for i := range r.Partitions {
		no, ok := b.streamOf(r.Partitions[i].TopicPartition)
		streams[i], some = no, some || ok
		if !ok {
			errs[i] = ErrUnknownTopic
		}
	}
	if !some {
		return errs, nil
	}
	commit := func(turn *engine.Turn) error {
		for i, no := range streams {
			if errs[i] != nil {
				continue
			}
			err := commitOne(turn.Group(no, r.Group), &r.Partitions[i])
			if errors.Is(err, engine.ErrFailed) || errors.Is(err, engine.ErrClosed) {
				return err
			}
			errs[i] = err
		}
		return nil
	}
	err := b.groups.input(r.Group, false, func(now int64, g *group, turn *engine.Turn) error {
		if err := g.machine.checkCommit(now, r.MemberID, r.InstanceID, r.Generation); err != nil {
			return err
		}
		// Under the group's lock: a rebalance cannot come between the check and the acks.
		return commit(turn)
	})
	if errors.Is(err, ErrGroupNotFound) && r.Generation < 0 {
		turn := b.eng.Begin(engine.Written)
		err = commit(turn)
		if werr := turn.Wait(context.Background()); err == nil {
			err = werr
		}
	}
	if errors.Is(err, ErrGroupNotFound) && len(b.eng.GroupStreams(r.Group)) == 0 {
		return errs, err
	}
	return errs, unknownGroup(err) // a group without a coordinator has offsets, but no members
}

func commitOne(on engine.Group, c *PartitionCommit) error {
	if len(c.Metadata) > mostCommitMetadata {
		return ErrCommitMetadata
	}
	err := on.Commit(engine.CommitArgs{Offset: c.Offset, Epoch: c.Epoch, Metadata: c.Metadata})
	if errors.Is(err, engine.ErrNoStream) {
		return ErrUnknownTopic
	}
	return err
}

// streamOf finds the stream of a partition that Kafka clients can see.
func (b *Bridge) streamOf(tp TopicPartition) (engine.StreamNo, bool) {
	topic, ok := b.Topic(tp.Topic)
	if !ok || !topic.Visible() || tp.Partition < 0 || int(tp.Partition) >= len(topic.Streams) {
		return 0, false
	}
	return topic.Streams[tp.Partition], true
}

// CommittedOffset is what a group has committed on a partition. Offset -1: nothing.
type CommittedOffset struct {
	TopicPartition
	Offset   int64
	Epoch    int32 // -1 unknown
	Metadata []byte
}

// CommittedOffsets answers OffsetFetch: for each asked partition, also for one that does not exist, or, when want is
// nil, for all on which the group has committed. A group that does not exist has committed nothing.
func (b *Bridge) CommittedOffsets(group string, want []TopicPartition) ([]CommittedOffset, error) {
	turn := b.eng.Begin(engine.Written)
	var out []CommittedOffset
	if want == nil {
		var places []TopicPartition
		for _, no := range b.eng.GroupStreams(group) {
			if topic, p, ok := b.TopicOf(no); ok && topic.Visible() {
				places = append(places, TopicPartition{topic.Name, p})
			}
		}
		slices.SortFunc(places, TopicPartition.compare)
		for _, tp := range places {
			c, err := b.committedOne(turn, group, tp)
			if err != nil {
				return nil, err
			}
			if c.Offset != -1 {
				out = append(out, c)
			}
		}
	}
	for _, tp := range want {
		c, err := b.committedOne(turn, group, tp)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if err := turn.Wait(context.Background()); err != nil {
		return nil, unknownGroup(err)
	}
	for _, c := range out {
		b.groups.owners.expect(group, c.TopicPartition, c.Offset)
	}
	return out, nil
}

func (b *Bridge) committedOne(turn *engine.Turn, group string, tp TopicPartition) (CommittedOffset, error) {
	none := CommittedOffset{TopicPartition: tp, Offset: -1, Epoch: -1}
	no, ok := b.streamOf(tp)
	if !ok {
		return none, nil
	}
	c, ok, err := turn.Group(no, group).Committed()
	if err != nil {
		return none, ignoreGone(err)
	}
	if !ok {
		return none, nil
	}
	return CommittedOffset{tp, c.Offset, c.Epoch, c.Metadata}, nil
}

// ForgetOffsets takes a group off partitions (OffsetDelete), with all that is pending there. The first result holds an
// error for each partition (nil, ErrUnknownTopic, ErrGroupSubscribed); the second refuses the whole: ErrGroupNotFound,
// ErrNonEmptyGroup (a group whose members' subscriptions cannot be read), ErrCoordinatorUnavailable.
func (b *Bridge) ForgetOffsets(name string, want []TopicPartition) ([]error, error) {
	errs := make([]error, len(want))
	forget := func(turn *engine.Turn, subscribed []string) error {
		for i, tp := range want {
			no, ok := b.streamOf(tp)
			if !ok {
				errs[i] = ErrUnknownTopic
				continue
			}
			if slices.Contains(subscribed, tp.Topic) {
				errs[i] = ErrGroupSubscribed
				continue
			}
			if _, err := turn.Group(no, name).Destroy(); ignoreGone(err) != nil {
				return err
			}
		}
		return nil
	}
	err := b.groups.input(name, false, func(_ int64, g *group, turn *engine.Turn) error {
		subscribed, readable := g.machine.order.subscriptions(g.machine.protocolType)
		if !readable {
			return ErrNonEmptyGroup
		}
		return forget(turn, subscribed)
	})
	if errors.Is(err, ErrGroupNotFound) && len(b.eng.GroupStreams(name)) > 0 {
		turn := b.eng.Begin(engine.Written)
		err = forget(turn, nil)
		if werr := turn.Wait(context.Background()); err == nil {
			err = werr
		}
	}
	if errors.Is(err, ErrGroupNotFound) {
		return nil, err
	}
	return errs, unknownGroup(err)
}
