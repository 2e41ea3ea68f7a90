package bridge

import (
	"sync"
	"sync/atomic"

	"weir/engine"
)

// The tie between a Fetch, which names no group, and the group member that sent it.
//
// A member that owns the partition is told by (client id, client host). When several groups have such a member
// on one partition, the one whose next expected offset is the fetched one is meant: after each fetch
// we know where the client will go on, and OffsetFetch tells where it begins (or begins again, after a
// rebalance; but a tool may have asked, so both are remembered). A member of which neither is
// known yet (a group without a commit begins where its client likes) comes after those of which it is. Two members
// that expect the same offset will both fetch it, so it does not matter which is taken first.

// owner is a member that owns a partition.
type owner struct {
	group    string
	consumer string
	kind     engine.ConsumerKind
	clientID string
	host     string
	stream   atomic.Uint64 // the stream that was claimed for it; another one when the topic was made anew

	mu   sync.Mutex
	next int64 // where it goes on after its last fetch; -1 unknown
	told int64 // what the group's last OffsetFetch said, be it the member's or a tool's; -1 nothing
	gone bool  // no longer the owner: a fetch that was on its way counts no more
}

// owners say who owns which partition, over all groups.
type owners struct {
	count atomic.Int64 // partitions with owners; 0: nothing to look up
	mu    sync.RWMutex
	by    map[TopicPartition][]*owner // slices are never changed
}

// replace makes the owners of a locked group what its machine says.
func (os *owners) replace(g *group) {
	old := g.owns
	g.owns = make(map[TopicPartition]*owner, len(g.machine.owned))
	byConsumer := make(map[string]*member, len(g.machine.order))
	for _, m := range g.machine.order {
		byConsumer[m.consumer()] = m
	}
	for tp, consumer := range g.machine.owned {
		m := byConsumer[consumer]
		if m == nil { // it left; its partitions move with the next assignment
			if o := old[tp]; o != nil {
				g.owns[tp] = o
			}
			continue
		}
		o := old[tp]
		if o == nil || o.consumer != consumer || o.clientID != m.clientID || o.host != m.host {
			o = &owner{
				group: g.machine.name, consumer: consumer, kind: engine.ClassicMember,
				clientID: m.clientID, host: m.host, next: -1, told: -1,
			}
			if was := old[tp]; was != nil {
				o.stream.Store(was.stream.Load())
			}
		}
		g.owns[tp] = o
	}
	os.mu.Lock()
	defer os.mu.Unlock()
	if os.by == nil {
		os.by = map[TopicPartition][]*owner{}
	}
	for tp, o := range old {
		if g.owns[tp] != o {
			os.put(tp, o, nil)
			o.mu.Lock()
			o.gone = true
			o.mu.Unlock()
		}
	}
	for tp, o := range g.owns {
		if old[tp] != o {
			os.put(tp, nil, o)
		}
	}
	os.count.Store(int64(len(os.by)))
}

// put takes one owner of a partition out and another in.
func (os *owners) put(tp TopicPartition, out, in *owner) {
	var list []*owner
	for _, o := range os.by[tp] {
		if o != out {
			list = append(list, o)
		}
	}
	if in != nil {
		list = append(list, in)
	}
	if list == nil {
		delete(os.by, tp)
		return
	}
	os.by[tp] = list
}

// of lists the owners of a partition.
func (os *owners) of(tp TopicPartition) []*owner {
	os.mu.RLock()
	defer os.mu.RUnlock()
	return os.by[tp]
}

// expect notes that the owner within a group was told to begin at an offset.
func (os *owners) expect(group string, tp TopicPartition, offset int64) {
	if os.count.Load() == 0 {
		return
	}
	for _, o := range os.of(tp) {
		if o.group == group {
			o.mu.Lock()
			o.told = offset
			o.mu.Unlock()
		}
	}
}

// match finds the owner that a fetch at an offset comes from; nil when it is nobody's.
func match(list []*owner, clientID, host string, from int64) *owner {
	var only, known, begins, unknown *owner
	several := false
	for _, o := range list {
		if o.clientID != clientID || o.host != host {
			continue
		}
		several = only != nil
		only = o
		o.mu.Lock()
		next, told := o.next, o.told
		o.mu.Unlock()
		switch {
		case next == from && known == nil:
			known = o
		case told == from && begins == nil:
			begins = o
		case next == -1 && told == -1 && unknown == nil:
			unknown = o
		}
	}
	switch {
	case known != nil:
		return known
	case begins != nil:
		return begins
	case unknown != nil || several:
		return unknown
	}
	return only
}

// MemberFetched says that a client fetched a stream at offset from and is about to be sent what lies up to offset to
// (inclusive). If a member of a group owns the partition and this is its client, the entries are delivered
// to it: pending under its name, kept in memory, so there is nothing to wait for (dictionary 5, rule 1). Costs one
// atomic load while no group owns anything. Safe for concurrent use.
func (b *Bridge) MemberFetched(clientID, host string, stream engine.StreamNo, from, to int64) {
	os := &b.groups.owners
	if os.count.Load() == 0 || to < from {
		return
	}
	topic, p, ok := b.TopicOf(stream)
	if !ok {
		return
	}
	o := match(os.of(TopicPartition{topic.Name, p}), clientID, host, from)
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone { // a rebalance came between: the entries are the new owner's
		return
	}
	o.next = to + 1
	turn := b.eng.Begin(engine.Unanswered)
	on := turn.Group(stream, o.group)
	if o.stream.Swap(uint64(stream)) != uint64(stream) {
		// The topic was made anew under its name; its owner owns the new stream too.
		on.SetReader(o.consumer)
	}
	if err := on.DeliverFetched(o.consumer, o.kind, from, to); err != nil {
		b.o.Logger.Debug("a fetch was not recorded", "group", o.group, "consumer", o.consumer, "error", err)
	}
}
