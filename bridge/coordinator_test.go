package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The machine told as stories (testdata/coordinator/*.txt). A client is a letter; the story need not know the ids it was given.
// After each step the group is rebuilt from its last record, and what is rebuilt must be the group itself
// whenever it is Stable or Empty.
//
//	new [delay=ms] [max=n] [bytes=n]
//	join A [instance=i] [protocols=(range,roundrobin)] [topics=(t,u)] [session=ms] [rebalance=ms] [old] [skip] [id=x] [type=t]
//	sync A [give=(A:t/0,A:t/1,B:t/2)] [generation=n]
//	heartbeat A [generation=n] [id=x] [instance=i]
//	leave A B ... | leave instance=i
//	commit A|- [generation=n]
//	wait ms
//	restart | delete
func TestCoordinator(t *testing.T) {
	datadriven.Walk(t, "testdata/coordinator", func(t *testing.T, path string) {
		s := &coordinatorStory{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d = t, d
			s.say.Reset()
			s.step()
			return s.say.String()
		})
	})
}

type coordinatorStory struct {
	t      *testing.T
	d      *datadriven.TestData
	say    strings.Builder
	c      *coordinator
	now    int64
	fresh  int
	record []byte
	stored map[string]string // what the last record must bring back
	who    map[string]string // letter -> member id
	calls  map[call]string
	last   call
}

func (s *coordinatorStory) step() {
	d, c := s.d, s.c
	switch d.Cmd {
	case "new":
		limits := coordinatorLimits{}
		d.MaybeScanArgs(s.t, "delay", &limits.initialDelay)
		d.MaybeScanArgs(s.t, "max", &limits.maxSize)
		d.MaybeScanArgs(s.t, "bytes", &limits.maxBytes)
		s.c = newCoordinator("g", limits)
		s.now, s.record, s.stored = 1000, nil, nil
		s.who, s.calls = map[string]string{}, map[call]string{}
		return
	case "join":
		s.join()
	case "sync":
		r := SyncRequest{MemberID: s.id(), InstanceID: s.text("instance", ""), Generation: s.generation()}
		for _, give := range s.list("give") {
			to, what, _ := strings.Cut(give, ":")
			r.Assignments = giveTo(r.Assignments, s.who[to], what)
		}
		c.syncWith(s.now, &r, s.park())
	case "heartbeat":
		r := HeartbeatRequest{MemberID: s.id(), InstanceID: s.text("instance", ""), Generation: s.generation()}
		s.verdict(c.heartbeat(s.now, &r))
	case "leave":
		var r LeaveRequest
		for _, a := range d.CmdArgs {
			if a.Key == "instance" {
				r.Members = append(r.Members, LeavingMember{InstanceID: a.Vals[0]})
			} else {
				r.Members = append(r.Members, LeavingMember{MemberID: s.who[a.Key]})
			}
		}
		for _, err := range c.leave(s.now, &r) {
			s.verdict(err)
		}
	case "commit":
		id := ""
		if s.letter() != "-" {
			id = s.id()
		}
		s.verdict(c.checkCommit(s.now, id, s.text("instance", ""), s.generation()))
	case "wait":
		ms, _ := strconv.ParseInt(d.CmdArgs[0].Key, 10, 64)
		s.wait(ms)
	case "delete":
		s.verdict(c.kill())
	case "restart":
		s.c = s.rebuilt()
		s.calls = map[call]string{}
	default:
		s.t.Fatalf("what is %q", d.Cmd)
	}
	s.settle()
	fmt.Fprintf(&s.say, "%s", s.picture())
}

// wait lets time pass the way the driver does: from deadline to deadline.
func (s *coordinatorStory) wait(ms int64) {
	for end := s.now + ms; ; s.settle() {
		at := s.c.next()
		if at > end {
			s.now = end
			return
		}
		s.now = max(s.now, at)
		s.c.expire(s.now)
	}
}

func (s *coordinatorStory) join() {
	d := s.d
	r := JoinRequest{
		MemberID: s.id(), InstanceID: s.text("instance", ""), ClientID: strings.ToLower(s.letter()), Host: "10.0.0.1",
		ProtocolType: s.text("type", "consumer"), SessionTimeout: 10_000, RebalanceTimeout: 30_000,
		RequireID: !d.HasArg("old"), SkipAssignment: d.HasArg("skip"),
	}
	d.MaybeScanArgs(s.t, "session", &r.SessionTimeout)
	d.MaybeScanArgs(s.t, "rebalance", &r.RebalanceTimeout)
	protocols := s.list("protocols")
	if protocols == nil {
		protocols = []string{"range"}
	}
	for _, p := range protocols {
		r.Protocols = append(r.Protocols, Protocol{p, subscription(s.list("topics")...)})
	}
	s.fresh++
	s.c.join(s.now, &r, strconv.Itoa(s.fresh), s.park())
}

func (s *coordinatorStory) letter() string { return s.d.CmdArgs[0].Key }

func (s *coordinatorStory) park() call {
	s.last++
	s.calls[s.last] = s.letter()
	return s.last
}

func (s *coordinatorStory) text(key, or string) string {
	s.d.MaybeScanArgs(s.t, key, &or)
	return or
}

func (s *coordinatorStory) list(key string) []string {
	for _, a := range s.d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return nil
}

func (s *coordinatorStory) id() string { return s.text("id", s.who[s.letter()]) }

func (s *coordinatorStory) generation() int32 {
	g := s.c.generation
	s.d.MaybeScanArgs(s.t, "generation", &g)
	return g
}

func (s *coordinatorStory) verdict(err error) {
	if err == nil {
		err = errors.New("ok")
	}
	fmt.Fprintf(&s.say, "%v\n", err)
}

// settle carries out the effects: keeps the record, tells the answers, and replays.
func (s *coordinatorStory) settle() {
	e := s.c.take()
	if e.store {
		s.record = s.c.appendRecord(nil)
		s.stored = durable(s.c)
		fmt.Fprintf(&s.say, "record: generation %d, %d members\n", s.c.generation, len(s.c.order))
	}
	for _, m := range e.moves {
		fmt.Fprintf(&s.say, "move %s/%d to %s\n", m.Topic, m.Partition, orNobody(m.to))
	}
	for _, j := range e.joins {
		s.told(j.to, j.reply.MemberID)
		r := j.reply
		if r.Err != nil {
			fmt.Fprintf(&s.say, "%s join: %v\n", s.calls[j.to], r.Err)
			continue
		}
		var members []string
		for _, m := range r.Members {
			members = append(members, m.ID)
		}
		fmt.Fprintf(&s.say, "%s join: generation %d %s leader=%s me=%s members=%v", s.calls[j.to], r.Generation, r.Protocol, r.Leader, r.MemberID, members)
		if r.SkipAssignment {
			s.say.WriteString(" skip assignment")
		}
		s.say.WriteByte('\n')
	}
	for _, y := range e.syncs {
		if y.reply.Err != nil {
			fmt.Fprintf(&s.say, "%s sync: %v\n", s.calls[y.to], y.reply.Err)
			continue
		}
		fmt.Fprintf(&s.say, "%s sync: %v\n", s.calls[y.to], assignedPartitions(y.reply.Assignment))
	}
	if s.record != nil && !maps.Equal(durable(s.rebuilt()), s.stored) {
		s.t.Fatalf("%s: replayed\n%v\nstored\n%v", s.d.Pos, durable(s.rebuilt()), s.stored)
	}
	if st := s.c.state; s.record != nil && (st == groupStable || st == groupEmpty) && !maps.Equal(durable(s.c), s.stored) {
		s.t.Fatalf("%s: changed without a record:\n%v\nstored\n%v", s.d.Pos, durable(s.c), s.stored)
	}
}

func (s *coordinatorStory) told(k call, id string) {
	if id != "" {
		s.who[s.calls[k]] = id
	}
}

func (s *coordinatorStory) rebuilt() *coordinator {
	c := newCoordinator("g", s.c.limits)
	if s.record != nil {
		if err := c.replay(s.now, s.record); err != nil {
			s.t.Fatal(err)
		}
	}
	return c
}

func (s *coordinatorStory) picture() string {
	var members []string
	for _, m := range s.c.order {
		mark := m.id
		if m.join != 0 {
			mark += "(joining)"
		}
		if m.sync != 0 {
			mark += "(syncing)"
		}
		members = append(members, mark)
	}
	return fmt.Sprintf("%d %s %v\n", s.c.generation, s.c.state, members)
}

// durable is what a record must bring back.
func durable(c *coordinator) map[string]string {
	out := map[string]string{
		"group": fmt.Sprint(c.generation, c.protocol, c.leader, c.state, c.protocolType),
	}
	for tp, to := range c.owned {
		out[fmt.Sprint("owner of ", tp)] = to
	}
	for i, m := range c.order {
		out["member "+m.id] = fmt.Sprintf("%d %q %q %q %d %d %q %x", i, m.instance, m.clientID, m.host, m.session, m.rebalance, m.protocols, m.assignment)
	}
	return out
}

func orNobody(s string) string {
	if s == "" {
		return "nobody"
	}
	return s
}

// subscription writes a version-0 subscription of the consumer protocol.
func subscription(topics ...string) []byte {
	b := binary.BigEndian.AppendUint16(nil, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = appendShort(b, t)
	}
	return binary.BigEndian.AppendUint32(b, 0xffffffff) // no user data
}

// assignment writes a version-0 assignment of the consumer protocol.
func assignment(tps ...TopicPartition) []byte {
	b := binary.BigEndian.AppendUint16(nil, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(tps)))
	for _, tp := range tps {
		b = appendShort(b, tp.Topic)
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint32(b, uint32(tp.Partition))
	}
	return binary.BigEndian.AppendUint32(b, 0xffffffff)
}

func appendShort(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// giveTo adds `topic/partition` to a member's assignment.
func giveTo(as []Assignment, id, what string) []Assignment {
	topic, number, _ := strings.Cut(what, "/")
	p, _ := strconv.Atoi(number)
	tp := TopicPartition{topic, int32(p)}
	if i := slices.IndexFunc(as, func(a Assignment) bool { return a.MemberID == id }); i >= 0 {
		as[i].Bytes = assignment(append(assignedPartitions(as[i].Bytes), tp)...)
		return as
	}
	return append(as, Assignment{id, assignment(tp)})
}
