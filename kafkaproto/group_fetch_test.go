package kafkaproto

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
	"weir/engine"
)

// Dictionary 5, rule 1, over the wire: what the member that owns the partition fetches is pending under its name, what another client
// fetches is not, and a commit acks it.
func TestFetchByTheOwnerIsPending(t *testing.T) {
	addr, b := startGroupsBridge(t)
	s := &groupStory{addr: addr, clients: map[string]*storyClient{}}
	defer s.close()
	ctx := context.Background()
	topic, err := b.CreateTopic(ctx, bridge.NewTopic{Name: "t", Partitions: 1, Replication: 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	no, _ := topic.Stream(0)
	turn := b.Engine().Begin(engine.Written)
	for range 5 {
		if _, err := turn.Append(no, engine.AppendArgs{Auto: true, Fields: [][]byte{[]byte("value"), []byte("v")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := turn.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	owner, other := s.client(t, "owner"), s.client(t, "other")

	join := kmsg.NewPtrJoinGroupRequest()
	join.SetVersion(3)
	join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = "g", 10_000, 10_000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	joined := ask(t, owner, join).(*kmsg.JoinGroupResponse)

	sync := kmsg.NewPtrSyncGroupRequest()
	sync.SetVersion(3)
	sync.Group, sync.Generation, sync.MemberID = "g", joined.Generation, joined.MemberID
	assigned := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: []int32{0}}}}
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: assigned.AppendTo(nil)}}
	if r := ask(t, owner, sync).(*kmsg.SyncGroupResponse); r.ErrorCode != none {
		t.Fatal(r.ErrorCode)
	}

	fetch := func(c *storyClient, from int64) {
		r := kmsg.NewPtrFetchRequest()
		r.SetVersion(11)
		r.MaxBytes, r.SessionEpoch = 1<<20, -1
		at := kmsg.NewFetchRequestTopicPartition()
		at.FetchOffset, at.PartitionMaxBytes = from, 1<<20
		r.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{at}}}
		if got := ask(t, c, r).(*kmsg.FetchResponse); got.Topics[0].Partitions[0].ErrorCode != none || len(got.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Fatalf("%+v", got)
		}
	}
	pending := func(want int64) {
		t.Helper()
		turn := b.Engine().Begin(engine.Written)
		got, err := turn.Group(no, "g").PendingSummary()
		if err == engine.ErrNoGroup {
			got = engine.PendingSummary{}
		} else if err != nil {
			t.Fatal(err)
		}
		if got.Count != want || want > 0 && (len(got.Consumers) != 1 || got.Consumers[0].Name != joined.MemberID) {
			t.Fatalf("want %d pending: %+v", want, got)
		}
	}
	fetch(other, 0)
	pending(0)
	fetch(owner, 0)
	pending(5)

	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.SetVersion(7)
	commit.Group, commit.Generation, commit.MemberID = "g", joined.Generation, joined.MemberID
	one := kmsg.NewOffsetCommitRequestTopicPartition()
	one.Offset = 3
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{one}}}
	ask(t, owner, commit)
	pending(2)
}

// ask sends a request and reads its reply.
func ask(t *testing.T, c *storyClient, req kmsg.Request) kmsg.Response {
	t.Helper()
	if err := c.say(req); err != nil {
		t.Fatal(err)
	}
	b := c.body(t)
	if req.IsFlexible() {
		b = b[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		t.Fatalf("%T: %v", resp, err)
	}
	return resp
}
