package clients

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ledger records which member holds which partition, as the members' own callbacks
// tell it, and what they consumed. Two holders at once are a failure of the test.
type ledger struct {
	t       *testing.T
	mu      sync.Mutex
	holder  map[int32]string
	seen    map[string]int // value -> times consumed
	changes map[string]int // member -> assignments it was told of
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, holder: map[int32]string{}, seen: map[string]int{}, changes: map[string]int{}}
}

func (l *ledger) take(member string, ps []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes[member]++
	for _, p := range ps {
		if other := l.holder[p]; other != "" && other != member {
			l.t.Errorf("partition %d given to %s while %s holds it", p, member, other)
		}
		l.holder[p] = member
	}
}

func (l *ledger) give(member string, ps []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range ps {
		if l.holder[p] == member {
			delete(l.holder, p)
		}
	}
}

func (l *ledger) saw(rs []*kgo.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range rs {
		l.seen[string(r.Value)]++
	}
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.seen)
}

func (l *ledger) held(member string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, m := range l.holder {
		if m == member {
			n++
		}
	}
	return n
}

// member is one consumer that polls until it is stopped.
type member struct {
	cl   *kgo.Client
	name string
	done chan struct{}
	stop context.CancelFunc
	errs chan error
}

// join starts a member of a group that commits what it has processed, and notes
// every assignment in the ledger.
func (l *ledger) join(name, group, tp string, opts ...kgo.Opt) *member {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{name: name, done: make(chan struct{}), stop: cancel, errs: make(chan error, 100)}
	give := func(_ context.Context, cl *kgo.Client, lost map[string][]int32) { l.give(name, lost[tp]) }
	m.cl = kafka(l.t, append([]kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(100 * time.Millisecond), kgo.ClientID(name),
		kgo.AutoCommitInterval(100 * time.Millisecond), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { l.take(name, got[tp]) }),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, lost map[string][]int32) {
			if err := cl.CommitUncommittedOffsets(ctx); err != nil && ctx.Err() == nil {
				l.t.Logf("%s commits before it gives up partitions: %v", name, err)
			}
			give(ctx, cl, lost)
		}),
		kgo.OnPartitionsLost(give),
	}, opts...)...)
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			fs := m.cl.PollFetches(ctx)
			fs.EachError(func(_ string, _ int32, err error) {
				if ctx.Err() == nil {
					select {
					case m.errs <- err:
					default:
					}
				}
			})
			l.saw(fs.Records())
		}
	}()
	return m
}

// leave stops polling, commits, and leaves the group (a static member keeps its place).
func (m *member) leave() {
	m.stop()
	<-m.done
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = m.cl.CommitUncommittedOffsets(ctx)
	m.cl.Close()
}

// C16: three members in churn while records flow: every record is consumed, no
// partition has two owners, and at the end nothing is left (C20).
func TestThreeMembersInChurn(t *testing.T) {
	balancers := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()}
	for balancer, b := range balancers {
		t.Run(balancer, func(t *testing.T) {
			const rounds, per, partitions = 6, 300, 5
			tp, group := topic(t, partitions, nil), name(t)
			l := newLedger(t)
			members := make([]*member, 3)
			for i := range members {
				members[i] = l.join(fmt.Sprintf("m%d", i), group, tp, kgo.Balancers(b))
			}
			cl := kafka(t)
			for round := range rounds {
				for i := range per {
					r := kgo.KeyStringRecord(fmt.Sprint(i), fmt.Sprintf("%d-%d", round, i))
					r.Topic = tp
					cl.Produce(within(t), r, nil)
				}
				if err := cl.Flush(within(t)); err != nil {
					t.Fatal(err)
				}
				members[round%3].leave()
				members[round%3] = l.join(fmt.Sprintf("m%d-%d", round%3, round), group, tp, kgo.Balancers(b))
			}
			eventually(t, "every record consumed", func() bool { return l.count() == rounds*per })
			for _, m := range members {
				m.leave()
			}
			lags, err := admin(t).Lag(within(t), group)
			if err != nil {
				t.Fatal(err)
			}
			if lag := lags[group]; lag.State != "Empty" || lag.Lag.Total() != 0 {
				t.Errorf("state %s, lag %d, want Empty and 0", lag.State, lag.Lag.Total())
			}
		})
	}
}

// A static member that comes back in time finds its partitions, and nobody else is disturbed.
func TestStaticMemberReturns(t *testing.T) {
	tp, group := topic(t, 4, nil), name(t)
	l := newLedger(t)
	a := l.join("a", group, tp, kgo.InstanceID("ia"))
	b := l.join("b", group, tp, kgo.InstanceID("ib"))
	eventually(t, "two partitions each", func() bool { return l.held("a") == 2 && l.held("b") == 2 })
	l.mu.Lock()
	before := l.changes["b"]
	l.mu.Unlock()
	a.leave()
	a = l.join("a", group, tp, kgo.InstanceID("ia"))
	eventually(t, "a has its two again", func() bool { return l.held("a") == 2 })
	l.mu.Lock()
	if now := l.changes["b"]; now != before {
		t.Errorf("b was told of %d assignments while a was away", now-before)
	}
	l.mu.Unlock()
	groups, err := admin(t).DescribeGroups(within(t), group)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, m := range groups[group].Members {
		if m.InstanceID != nil {
			ids[*m.InstanceID] = true
		}
	}
	if !ids["ia"] || !ids["ib"] || len(groups[group].Members) != 2 {
		t.Errorf("members: %+v", groups[group].Members)
	}
	a.leave()
	b.leave()
}

// A second member under the same instance id fences the first.
func TestStaticMemberIsFenced(t *testing.T) {
	tp, group := topic(t, 1, nil), name(t)
	first, second := newLedger(t), newLedger(t)
	older := first.join("older", group, tp, kgo.InstanceID("one"))
	eventually(t, "the older owns it", func() bool { return first.held("older") == 1 })
	newer := second.join("newer", group, tp, kgo.InstanceID("one"))
	eventually(t, "the newer owns it", func() bool { return second.held("newer") == 1 })
	eventually(t, "the older is told so", func() bool {
		select {
		case err := <-older.errs:
			return errors.Is(err, kerr.FencedInstanceID)
		default:
			return first.held("older") == 0
		}
	})
	older.leave()
	newer.leave()
	b := kadm.LeaveGroup(group).Reason("test is over").InstanceIDs("one")
	if res, err := admin(t).LeaveGroup(within(t), b); err != nil || res.Error() != nil {
		t.Errorf("an administrator removes the static member: %v, %v", err, res.Error())
	}
}

// A commit is where the next member starts, whoever made it.
func TestCommitIsWhereTheNextMemberStarts(t *testing.T) {
	tp, group := topic(t, 1, nil), name(t)
	cl, adm := kafka(t), admin(t)
	for i := range 10 {
		produce(t, cl, &kgo.Record{Topic: tp, Value: fmt.Appendf(nil, "%d", i)})
	}
	start := func() int64 {
		reader := kafka(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
		defer reader.Close()
		return consume(t, reader, 1)[0].Offset
	}
	if at := start(); at != 0 {
		t.Fatalf("a new group starts at %d", at)
	}
	for _, at := range []int64{4, 9, 2} { // forward, forward, back
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: tp, At: at, LeaderEpoch: -1, Metadata: fmt.Sprintf("to %d", at)})
		if err := adm.CommitAllOffsets(within(t), group, os); err != nil {
			t.Fatal(err)
		}
		got, err := adm.FetchOffsets(within(t), group)
		if err != nil {
			t.Fatal(err)
		}
		if o, _ := got.Lookup(tp, 0); o.At != at || o.Metadata != fmt.Sprintf("to %d", at) {
			t.Errorf("committed %d, read back %+v", at, o.Offset)
		}
		if s := start(); s != at {
			t.Errorf("after a commit of %d the next member starts at %d", at, s)
		}
	}
}

// A commit beyond the end or of an offset in between is returned to the letter.
func TestCommitIsReturnedToTheLetter(t *testing.T) {
	tp, group := topic(t, 2, nil), name(t)
	adm := admin(t)
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: tp, Partition: 0, At: 1000, LeaderEpoch: -1})
	os.Add(kadm.Offset{Topic: tp, Partition: 1, At: 0, LeaderEpoch: -1, Metadata: "m"})
	if err := adm.CommitAllOffsets(within(t), group, os); err != nil {
		t.Fatal(err)
	}
	got, err := adm.FetchOffsets(within(t), group)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := got.Lookup(tp, 0)
	b, _ := got.Lookup(tp, 1)
	if a.At != 1000 || b.At != 0 || b.Metadata != "m" {
		t.Errorf("read back %+v and %+v", a.Offset, b.Offset)
	}
}

// commitRaw sends one OffsetCommit to the coordinator of its group.
func commitRaw(t *testing.T, version int16, req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
	t.Helper()
	req.Version = version
	resp, err := req.RequestWith(within(t), kafka(t))
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return resp
}

func commitOf(group, tp string, at int64, partitions ...int32) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	ct := kmsg.NewOffsetCommitRequestTopic()
	ct.Topic = tp
	for _, p := range partitions {
		cp := kmsg.NewOffsetCommitRequestTopicPartition()
		cp.Partition, cp.Offset = p, at
		ct.Partitions = append(ct.Partitions, cp)
	}
	req.Topics = append(req.Topics, ct)
	return req
}

// C14 and C15: odd but legal commits, and a reply that mirrors the request.
func TestOddButLegalCommits(t *testing.T) {
	tp, group := topic(t, 2, nil), name(t)
	meta, err := admin(t).Metadata(within(t), tp)
	if err != nil {
		t.Fatal(err)
	}
	send := func(req *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse {
		for i := range req.Topics {
			req.Topics[i].TopicID = meta.Topics[tp].ID
		}
		return commitRaw(t, 10, req)
	}
	resp := send(commitOf(group, tp, 5, 1, 0))
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 || resp.Topics[0].Partitions[0].Partition != 1 {
		t.Fatalf("reply does not mirror the request: %+v", resp.Topics)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode != 0 {
			t.Errorf("partition %d: %v", p.Partition, kerr.ErrorForCode(p.ErrorCode))
		}
	}
	if resp := send(commitOf(group, tp, 3, 0)); resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Errorf("going backwards: %v", kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
	}
	if resp := send(commitOf(group, tp, 3, 55)); resp.Topics[0].Partitions[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("partition 55: %v", kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
	}
	none := commitOf(group, tp, 0)
	none.Topics = nil
	if resp := send(none); len(resp.Topics) != 0 {
		t.Errorf("no topics asked, %d answered", len(resp.Topics))
	}
	member := commitOf(group, tp, 3, 0)
	member.MemberID, member.Generation = "nobody", 7
	if resp := send(member); resp.Topics[0].Partitions[0].ErrorCode != kerr.UnknownMemberID.Code {
		t.Errorf("a member that is none: %v", kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode))
	}
}

// What the coordinator says to members it does not know, and of groups it does not know.
func TestUnknownGroupsAndMembers(t *testing.T) {
	group, tp := name(t), topic(t, 1, nil)
	cl, adm := kafka(t), admin(t)
	hb := kmsg.NewPtrHeartbeatRequest()
	hb.Group, hb.MemberID, hb.Generation = group, "nobody", 1
	if resp, err := hb.RequestWith(within(t), cl); err != nil || resp.ErrorCode != kerr.UnknownMemberID.Code {
		t.Errorf("heartbeat: %v, %v", err, resp)
	}
	sg := kmsg.NewPtrSyncGroupRequest()
	sg.Group, sg.MemberID, sg.Generation = group, "nobody", 1
	sg.ProtocolType, sg.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	if resp, err := sg.RequestWith(within(t), cl); err != nil || resp.ErrorCode != kerr.UnknownMemberID.Code {
		t.Errorf("sync: %v, %v", err, resp)
	}
	got, err := adm.FetchOffsetsForTopics(within(t), group, tp)
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := got.Lookup(tp, 0); !ok || o.Err != nil || o.At != -1 {
		t.Errorf("offsets of an unknown group: %+v", o)
	}
	jg := kmsg.NewPtrJoinGroupRequest()
	jg.Group, jg.SessionTimeoutMillis, jg.RebalanceTimeoutMillis, jg.ProtocolType = group, 1, 1000, "consumer"
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name = "range"
	jg.Protocols = append(jg.Protocols, p)
	if resp, err := jg.RequestWith(within(t), cl); err != nil || resp.ErrorCode != kerr.InvalidSessionTimeout.Code {
		t.Errorf("a session of 1 ms: %v, %v", err, resp)
	}
}

// C90's second half: a member that joins after ten join/leave cycles starts at the newest commit.
func TestTenCyclesKeepTheNewestCommit(t *testing.T) {
	tp, group := topic(t, 1, nil), name(t)
	cl := kafka(t)
	for i := range 11 {
		produce(t, cl, &kgo.Record{Topic: tp, Value: fmt.Appendf(nil, "%d", i)})
	}
	for i := range 11 {
		reader := kafka(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
		r := consume(t, reader, 1)[0]
		if r.Offset != int64(i) {
			t.Fatalf("cycle %d starts at %d", i, r.Offset)
		}
		if err := reader.CommitRecords(within(t), r); err != nil {
			t.Fatal(err)
		}
		reader.Close()
	}
}
