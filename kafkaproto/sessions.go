package kafkaproto

import (
	"container/list"
	"math"
	"math/rand/v2"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Fetch sessions (KIP-227): a client names its partitions once, then only what changes.
//
//	epoch -1  no session, or the end of one (the reply is full)
//	epoch  0  a full fetch that begins a session, ending the one named, if any
//	epoch  n  an incremental fetch; the n-th since the session began
//
// A session belongs to whoever knows its id, as in Kafka. When all slots are taken the
// session that was idle longest gives way, if for two minutes at least; else the new fetch gets no
// session (id 0), which clients accept. A session may begin without partitions; an incremental fetch that leaves it none
// ends it (id 0), as in Kafka.

// sessionIdle is how long a session is safe from eviction, ms (min.incremental.fetch.session.eviction.ms).
const sessionIdle = 120_000

// sessionCache keeps all sessions. mu guards what is in it but not the sessions' insides.
type sessionCache struct {
	mu   sync.Mutex
	max  int
	byID map[int32]*session
	used list.List // of *session, the one used last in front
}

// session is one client's list of partitions. mu is held from begin to the end of the
// fetch: a client has one fetch of a session at a time.
type session struct {
	id   int32
	byID bool // named by topic ID (v13+)
	at   *list.Element
	last int64 // ms of the last use; cache's mu

	mu    sync.Mutex
	epoch int32
	list  []wanted
}

func newSessionCache(limit int) *sessionCache {
	return &sessionCache{max: limit, byID: make(map[int32]*session)}
}

func (s *sessionCache) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// begin finds what a fetch asks for. A session that is returned is locked; the caller unlocks it.
func (s *sessionCache) begin(req *kmsg.FetchRequest, now int64) (*session, []wanted, code) {
	byID := req.Version >= 13
	if req.Version < 7 || req.SessionEpoch <= 0 {
		named := wantedOf(req.Topics)
		if fetchedTopics.repeats(req.Topics) {
			named = eachOnce(named)
		}
		if req.SessionID != 0 {
			s.end(req.SessionID)
		}
		if req.Version < 7 || req.SessionEpoch != 0 {
			return nil, named, none
		}
		return s.open(named, byID, now), named, none
	}
	s.mu.Lock()
	one := s.byID[req.SessionID]
	if one != nil {
		one.last = now
		s.used.MoveToFront(one.at)
	}
	s.mu.Unlock()
	if one == nil {
		return nil, nil, fetchSessionIDNotFound
	}
	one.mu.Lock()
	switch {
	case req.SessionEpoch != one.epoch:
		one.mu.Unlock()
		return nil, nil, invalidFetchSessionEpoch
	case one.byID != byID:
		one.mu.Unlock()
		return nil, nil, fetchSessionTopicIDError
	}
	one.change(req)
	if len(one.list) == 0 {
		one.mu.Unlock()
		s.end(one.id)
		return nil, nil, none
	}
	return one, one.list, none
}

// open begins a session, locked; nil when there is no room.
func (s *sessionCache) open(named []wanted, byID bool, now int64) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= s.max {
		oldest := s.used.Back()
		if oldest == nil || now-oldest.Value.(*session).last < sessionIdle {
			return nil
		}
		s.remove(oldest.Value.(*session))
	}
	one := &session{byID: byID, last: now, list: named}
	for one.id == 0 || s.byID[one.id] != nil {
		one.id = rand.Int32N(math.MaxInt32)
	}
	one.at = s.used.PushFront(one)
	s.byID[one.id] = one
	one.mu.Lock()
	return one
}

func (s *sessionCache) end(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.byID[id]; one != nil {
		s.remove(one)
	}
}

// remove forgets a session; mu is held.
func (s *sessionCache) remove(one *session) {
	delete(s.byID, one.id)
	s.used.Remove(one.at)
}

// wantedOf lists a request's partitions.
func wantedOf(topics []kmsg.FetchRequestTopic) []wanted {
	n := 0
	for i := range topics {
		n += len(topics[i].Partitions)
	}
	named := make([]wanted, 0, n)
	for i := range topics {
		t := &topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			named = append(named, wanted{
				topic: t.Topic, id: t.TopicID, partition: p.Partition,
				offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes, epoch: p.CurrentLeaderEpoch,
			})
		}
	}
	return named
}

// wantedKey tells partitions of a session apart.
type wantedKey struct {
	topic     string
	id        [16]byte
	partition int32
}

func (w *wanted) key() wantedKey { return wantedKey{w.topic, w.id, w.partition} }

var fetchedTopics = topicShape[kmsg.FetchRequestTopic, kmsg.FetchRequestTopicPartition]{
	key:        func(t *kmsg.FetchRequestTopic) topicKey { return topicKey{t.Topic, t.TopicID} },
	partitions: func(t *kmsg.FetchRequestTopic) *[]kmsg.FetchRequestTopicPartition { return &t.Partitions },
	partition:  func(p *kmsg.FetchRequestTopicPartition) int32 { return p.Partition },
}

// eachOnce drops partitions that are named again: each stays where it was first, as it was last.
func eachOnce(list []wanted) []wanted {
	at := make(map[wantedKey]int, len(list))
	kept := list[:0]
	for _, w := range list {
		if i, again := at[w.key()]; again {
			kept[i] = w
			continue
		}
		at[w.key()] = len(kept)
		kept = append(kept, w)
	}
	return kept
}

// change applies an incremental fetch to the list.
func (o *session) change(req *kmsg.FetchRequest) {
	if len(req.Topics) == 0 && len(req.ForgottenTopics) == 0 {
		return
	}
	at := make(map[wantedKey]int, len(o.list))
	for i := range o.list {
		at[o.list[i].key()] = i
	}
	for _, w := range wantedOf(req.Topics) {
		i, known := at[w.key()]
		if !known {
			at[w.key()] = len(o.list)
			o.list = append(o.list, w)
			continue
		}
		old := &o.list[i]
		old.offset, old.maxBytes, old.epoch = w.offset, w.maxBytes, w.epoch
	}
	if len(req.ForgottenTopics) == 0 {
		return
	}
	forgotten := make(map[int]bool)
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, p := range t.Partitions {
			if j, known := at[wantedKey{t.Topic, t.TopicID, p}]; known {
				forgotten[j] = true
			}
		}
	}
	kept := o.list[:0]
	for i := range o.list {
		if !forgotten[i] {
			kept = append(kept, o.list[i])
		}
	}
	o.list = kept
}

// settle ends a fetch: it says which partitions the reply names (nil: all, the session's first reply),
// remembers what they were told, moves those that gave records to the end (not after the first reply, as in Kafka), and
// counts the epoch.
func (o *session) settle(asked []wanted, got []found) (include []bool) {
	first := o.epoch == 0
	include = make([]bool, len(got))
	var back []wanted
	front := make([]wanted, 0, len(asked))
	for i := range got {
		w, f := &asked[i], &got[i]
		include[i] = first || f.code != none || f.Size > 0 || !w.told || w.highWater != f.HighWater || w.start != f.Start
		next := *w
		next.told, next.highWater, next.start = f.code == none, f.HighWater, f.Start
		if f.Size > 0 && !first {
			back = append(back, next)
		} else {
			front = append(front, next)
		}
	}
	o.list = append(front, back...)
	if o.epoch++; o.epoch < 0 {
		o.epoch = 1
	}
	return include
}
