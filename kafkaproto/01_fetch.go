package kafkaproto

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// Fetch v4-v18.
//
//   - Whole batches from the one that holds the offset on, as they are stored; the record
//     bytes go to the socket uncopied (writev).
//   - Waits for min_bytes up to max_wait, first come first served; an error in any
//     partition answers at once.
//   - max_bytes and partition_max_bytes bind, but the first partition that has something
//     gives its first batch whole (KIP-74).
//   - A partition that is named twice is read once, where it was named first, from the offset that was named last.
//   - Sessions (KIP-227) in sessions.go. An incremental reply names the partitions that
//     have records, an error, or other ends than told before; those that gave records go to the end of the turn.
//   - An offset below the start or beyond the end: OFFSET_OUT_OF_RANGE with the real ends.
//   - A fetch by the group member that owns the partition is a delivery (dictionary 5.1):
//     bridge.MemberFetched.
//   - read_committed reads the same as read_uncommitted: there are no transactions yet.
//
// Left out: preferred replicas (always -1), diverging epochs (the epoch is constant).

const (
	fetchKey = 1
	// mostFetched is fetch.max.bytes: the most that a reply carries, whatever is asked.
	mostFetched = 55 << 20
)

// wanted is one partition of a fetch.
type wanted struct {
	topic     string
	id        [16]byte
	partition int32
	offset    int64
	maxBytes  int32
	epoch     int32

	// What the session's client was told last; told is false before the first reply.
	told      bool
	highWater int64
	start     int64
}

// found is what a partition answers.
type found struct {
	code   code
	stream bridge.StreamNo // 0: unknown
	bridge.Fetched
}

// fetching is one Fetch under evaluation.
type fetching struct {
	c        *call
	byID     bool
	asked    int // max_bytes
	maxBytes int // what it may read now
	list     []wanted
	found    []found
	size     int
	failed   bool
}

func (s recordAPI) fetch(c *call) reply {
	req := c.req.(*kmsg.FetchRequest)
	session, list, errCode := s.sessions.begin(req, s.b.Now())
	f := fetching{c: c, byID: c.version >= 13, list: list}
	if errCode != none {
		return reply{raw: f.encode(errCode, 0, nil)}
	}
	if session != nil {
		defer session.mu.Unlock()
	}
	f.asked = max(0, int(req.MaxBytes))
	f.evaluate()
	wait := time.Duration(req.MaxWaitMillis) * time.Millisecond
	if !f.enough(req.MinBytes) && wait > 0 && len(list) > 0 {
		f.park(wait, req.MinBytes)
	}
	f.deliver()
	if session == nil {
		return reply{raw: f.encode(none, 0, nil), size: int64(f.size)}
	}
	include := session.settle(f.list, f.found)
	return reply{raw: f.encode(none, session.id, include), size: int64(f.size)}
}

// leastReply is how small replies get when many clients read slowly.
const leastReply = 64 << 10

// reserve takes room for a Fetch reply of at most asked bytes out of what all replies together may have: the blocks of a
// reply stay in memory until the client has read it, so clients that read slowly get less at a time once much is on its
// way. It is taken before anything is read: many who ask at the same moment would each be given the same room otherwise.
// Whoever reserves gives back, by replying.Add, what it did not use, and the rest when the reply is written.
func (s *Server) reserve(asked int) int {
	for {
		taken := s.replying.Load()
		room := min(int64(asked), mostFetched, max(leastReply, (s.o.MaxReplying-taken)/4))
		if s.replying.CompareAndSwap(taken, taken+room) {
			return int(room)
		}
	}
}

// enough says that the reply need not wait.
func (f *fetching) enough(minBytes int32) bool {
	return f.failed || f.size >= int(minBytes)
}

// park waits for more, in the order of arrival at each stream.
func (f *fetching) park(wait time.Duration, minBytes int32) {
	b := f.c.b
	awake := make(chan struct{}, 1)
	w := &bridge.Waiter{Owner: f.c.c, Wake: func() {
		select {
		case awake <- struct{}{}:
		default:
		}
	}}
	places := make([]bridge.Place, 0, len(f.found))
	for i := range f.found {
		places = append(places, bridge.Place{Stream: f.found[i].stream})
	}
	f.c.watch()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	b.Park(w, places)
	defer b.Unpark(w)
	for {
		if f.evaluate(); f.enough(minBytes) {
			return
		}
		select {
		case <-awake:
			b.Rearm(w)
		case <-timer.C:
			return
		case <-f.c.ctx.Done():
			return
		}
	}
}

// evaluate reads every partition in turn while the reply has room. What it found stays reserved, until it looks again or
// the reply is written.
func (f *fetching) evaluate() {
	if f.found == nil {
		f.found = make([]found, len(f.list))
	}
	f.c.s.replying.Add(-int64(f.size))
	clear(f.found)
	f.maxBytes = f.c.s.reserve(f.asked)
	defer func() { f.c.s.replying.Add(int64(f.size - f.maxBytes)) }()
	f.size, f.failed = 0, false
	for i := range f.list {
		out := &f.found[i]
		*out = f.read(&f.list[i])
		f.size += out.Size
		f.failed = f.failed || out.code != none
	}
}

// read reads one partition.
func (f *fetching) read(w *wanted) found {
	out := found{Fetched: bridge.Fetched{Ends: bridge.Ends{Start: -1, HighWater: -1}}}
	var topic *bridge.Topic
	if topic, out.code = f.c.s.topicOf(w.topic, w.id, f.byID); out.code != none {
		return out
	}
	no, ok := topic.Stream(w.partition)
	if !ok {
		out.code = unknownTopicOrPartition
		return out
	}
	out.stream = no
	if out.code = checkLeaderEpoch(w.epoch); out.code != none {
		return out
	}
	room := min(int(w.maxBytes), f.maxBytes-f.size)
	var err error
	out.Fetched, err = f.c.b.Fetch(topic, no, w.offset, room, f.size == 0)
	out.code = codeOf(err)
	return out
}

// checkLeaderEpoch fences clients whose metadata is from elsewhere; -1 is no fence.
func checkLeaderEpoch(epoch int32) code {
	switch {
	case epoch < 0 || epoch == bridge.LeaderEpoch:
		return none
	case epoch > bridge.LeaderEpoch:
		return unknownLeaderEpoch
	}
	return fencedLeaderEpoch
}

// deliver tells the groups what their members are about to be given.
func (f *fetching) deliver() {
	for i := range f.found {
		if out := &f.found[i]; out.Size > 0 {
			f.c.b.MemberFetched(f.c.clientID, f.c.host(), out.stream, f.list[i].offset, out.Last)
		}
	}
}

// encode writes the body: headers into one buffer, record bytes as they are. include, if not nil, picks the
// partitions that are named.
func (f *fetching) encode(errCode code, session int32, include []bool) [][]byte {
	e := fetchEncoder{version: f.c.version}
	e.begin(errCode, session)
	topics := f.topics(include)
	e.arrayLen(len(topics))
	for _, members := range topics {
		first := &f.list[members[0]]
		e.topic(first.topic, first.id)
		e.arrayLen(len(members))
		for _, i := range members {
			e.partition(f.list[i].partition, &f.found[i])
		}
		e.tags()
	}
	e.tags()
	return e.finish()
}

// topics are the partitions of a reply, in pieces of one topic each: first those that exist, in the order in which they were
// read, then those of topics that are asked for by an ID that nothing has, then those that else do not exist, as in Kafka.
// Clients take a topic in several pieces.
func (f *fetching) topics(include []bool) [][]int {
	var pieces [][]int
	for turn := range 3 {
		for i := range f.found {
			if include != nil && !include[i] || f.found[i].turn() != turn {
				continue
			}
			if n := len(pieces) - 1; n >= 0 && f.sameTopic(pieces[n][0], i) {
				pieces[n] = append(pieces[n], i)
				continue
			}
			pieces = append(pieces, []int{i})
		}
	}
	return pieces
}

// turn is when a partition is told: 0, 1 or 2.
func (f *found) turn() int {
	switch {
	case f.stream != 0:
		return 0
	case f.code == unknownTopicID:
		return 1
	}
	return 2
}

// sameTopic says whether two partitions are of one topic.
func (f *fetching) sameTopic(i, j int) bool {
	return f.list[i].topic == f.list[j].topic && f.list[i].id == f.list[j].id
}
