package bridge

import (
	"cmp"
	"math"
	"slices"
)

// The classic group coordinator: a pure machine. It holds no clock, no lock, no
// randomness and does no I/O: time and fresh member ids come with the input, and what
// must happen outside is left in its effects (groups.go carries them out).
//
//	            first join                 all joined, or time is up
//	   Empty ───────────────► Preparing ──────────────────────────► Completing
//	     ▲  ▲                  Rebalance ◄──────────────────────────  Rebalance
//	     │  │ nobody is left     │  ▲   a join, leave, expiry            │
//	     │  └────────────────────┘  │                                    │ the leader's
//	     │                          └──────────────── Stable ◄───────────┘ SyncGroup
//	     └ deletion: Dead
//
// One file per input: join, sync, heartbeat, leave, expire, commit. The record
// (coordinator_record.go) is written when the group becomes Stable or Empty and when a static
// member is replaced; a group is rebuilt from it alone, in that state. What lies
// between two records (who has re-joined, who waits) dies with the process, and the members find out by
// UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION, as in Kafka: nobody was told a new assignment before its record was written.
//
// Behaviour: Kafka 4.4's classic groups (KIP-62, 134, 345, 394, 559, 800, 814). All times are ms.

type groupState uint8

const (
	groupEmpty      groupState = iota // no members; offsets may exist
	groupPreparing                    // waits for its members' JoinGroup
	groupCompleting                   // waits for the leader's SyncGroup
	groupStable
	groupDead // deleted; whoever still holds it must look it up anew
)

// String is Kafka's name of the state.
func (s groupState) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// never is a deadline that does not come.
const never = math.MaxInt64

// newMemberPatience is how long a member may wait in its first JoinGroup: it cannot
// send heartbeats, so nothing else would ever remove one whose client has gone.
const newMemberPatience = 5 * 60 * 1000

// call names a parked request; the caller chooses it. 0 is none.
type call uint64

// Protocol is one assignor that a member offers, with the member's metadata for it.
type Protocol struct {
	Name     string
	Metadata []byte
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

func (tp TopicPartition) compare(o TopicPartition) int {
	return cmp.Or(cmp.Compare(tp.Topic, o.Topic), cmp.Compare(tp.Partition, o.Partition))
}

// member is one member of a group.
type member struct {
	id        string
	instance  string // group.instance.id, "" for a dynamic member
	clientID  string
	host      string
	session   int64 // session timeout
	rebalance int64 // rebalance timeout
	protocols []Protocol

	assignment []byte
	deadline   int64 // removed then, unless heard of before
	join, sync call  // the parked JoinGroup and SyncGroup
	isNew      bool  // waits in its first JoinGroup
	synced     bool  // has sent SyncGroup in this generation
}

// consumer is the member's name as a consumer of streams (dictionary 5.8).
func (m *member) consumer() string {
	if m.instance != "" {
		return m.instance
	}
	return m.id
}

// offers says whether the member offered exactly these protocols before.
func (m *member) offers(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}

// bytes is the size of what the member brought and was given.
func (m *member) bytes() int {
	n := len(m.assignment)
	for _, p := range m.protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	return n
}

// metadata is what the member said for a protocol.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// coordinatorLimits are the settings that the machine decides by.
type coordinatorLimits struct {
	initialDelay int64 // group.initial.rebalance.delay.ms
	maxSize      int   // group.max.size; 0 no limit
	maxBytes     int   // of all members' metadata and assignments; 0 no limit
}

// coordinator is one classic group.
type coordinator struct {
	name   string
	limits coordinatorLimits

	state        groupState
	generation   int32
	protocolType string
	protocol     string // "" while no generation has one
	leader       string // member id
	members      map[string]*member
	order        roster            // the members as they came
	static       map[string]string // instance id -> member id
	promised     map[string]int64  // ids given out (KIP-394) and not used yet -> deadline

	joinDeadline int64 // of PreparingRebalance
	syncDeadline int64 // of CompletingRebalance
	// The first rebalance of an empty group waits a little for more members: initial is set
	// while it does, joinedSince when one came, spare is how much longer it may be put off.
	initial     bool
	joinedSince bool
	spare       int64

	owned map[TopicPartition]string // partition -> consumer, as of the last record

	out effects
}

// newCoordinator makes an empty group.
func newCoordinator(name string, limits coordinatorLimits) *coordinator {
	return &coordinator{
		name: name, limits: limits, joinDeadline: never, syncDeadline: never,
		members: map[string]*member{}, static: map[string]string{}, promised: map[string]int64{},
		owned: map[TopicPartition]string{},
	}
}

// effects are what an input leaves to be done, in this order: the record and the moves
// are committed together, then the replies are told.
type effects struct {
	store bool   // the record changed
	moves []move // partitions that change their owner, sorted
	// owners: who owns a partition, or where its client is, changed.
	owners bool
	joins  []joinAnswer
	syncs  []syncAnswer
}

// move is a partition that goes to another consumer of the group, or to nobody ("").
type move struct {
	TopicPartition
	to string
}

type joinAnswer struct {
	to    call
	reply JoinReply
}

type syncAnswer struct {
	to    call
	reply SyncReply
}

// take hands out the effects since the last take.
func (c *coordinator) take() effects {
	e := c.out
	c.out = effects{}
	return e
}

// next is the earliest deadline.
func (c *coordinator) next() int64 {
	at := min(c.joinDeadline, c.syncDeadline)
	for _, m := range c.order {
		at = min(at, m.deadline)
	}
	for _, d := range c.promised {
		at = min(at, d)
	}
	return at
}

// blank says that nothing of the group is worth keeping: it never had a generation.
func (c *coordinator) blank() bool {
	return c.state == groupEmpty && c.generation == 0 && len(c.promised) == 0
}

// check finds a member by id and, for a static one, by its instance id.
func (c *coordinator) check(id, instance string) (*member, error) {
	if instance != "" {
		switch holder, ok := c.static[instance]; {
		case !ok:
			return nil, ErrUnknownMember
		case holder != id:
			return nil, ErrFencedInstance
		}
	}
	if m := c.members[id]; m != nil {
		return m, nil
	}
	return nil, ErrUnknownMember
}

// fits says whether the group stays within its bytes when a member comes with protocols of its own, or anew
// instead of old (nil: a new member).
func (c *coordinator) fits(protocols []Protocol, old *member) bool {
	if c.limits.maxBytes == 0 {
		return true
	}
	n := (&member{protocols: protocols}).bytes()
	for _, m := range c.order {
		if m != old {
			n += m.bytes()
		}
	}
	return n <= c.limits.maxBytes
}

// add puts a member into the group; the first one sets the protocol type and leads.
func (c *coordinator) add(m *member, protocolType string) {
	if len(c.members) == 0 {
		c.protocolType = protocolType
	}
	if c.leader == "" {
		c.leader = m.id
	}
	c.members[m.id] = m
	c.order = append(c.order, m)
	if m.instance != "" {
		c.static[m.instance] = m.id
	}
	delete(c.promised, m.id)
}

// remove takes a member out and answers what it had parked.
func (c *coordinator) remove(m *member, why error) {
	c.answerJoin(m, refusedJoin("", why))
	c.answerSync(m, SyncReply{Err: why})
	delete(c.members, m.id)
	c.order = slices.DeleteFunc(c.order, func(o *member) bool { return o == m })
	if m.instance != "" && c.static[m.instance] == m.id {
		delete(c.static, m.instance)
	}
	if c.leader == m.id {
		c.leader = ""
		if len(c.order) > 0 {
			c.leader = c.order[0].id
		}
	}
}

// answerJoin tells a member's parked JoinGroup, if there is one.
func (c *coordinator) answerJoin(m *member, r JoinReply) {
	if m.join != 0 {
		c.out.joins = append(c.out.joins, joinAnswer{m.join, r})
		m.join = 0
	}
}

// answerSync tells a member's parked SyncGroup, if there is one.
func (c *coordinator) answerSync(m *member, r SyncReply) {
	if m.sync != 0 {
		c.out.syncs = append(c.out.syncs, syncAnswer{m.sync, r})
		m.sync = 0
	}
}

// own compares the members' assignments with who owned what, and leaves the moves. Of two members
// that claim one partition (a broken assignor) the one that joined first has it.
func (c *coordinator) own() {
	now := c.order.ownership(c.protocolType)
	var moves []move
	for tp, to := range now {
		if c.owned[tp] != to {
			moves = append(moves, move{tp, to})
		}
	}
	for tp := range c.owned {
		if _, still := now[tp]; !still {
			moves = append(moves, move{tp, ""})
		}
	}
	slices.SortFunc(moves, func(a, b move) int { return a.compare(b.TopicPartition) })
	c.owned = now
	c.out.moves = append(c.out.moves, moves...)
	c.out.owners = true
}
