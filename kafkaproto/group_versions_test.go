package kafkaproto

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Every group request is answered at every version from its floor to the newest, with a body that is read without rest.
func TestGroupRequestsAtEveryVersion(t *testing.T) {
	s := &groupStory{addr: startGroupsWeir(t), clients: map[string]*storyClient{}}
	defer s.close()
	c := s.client(t, "c")
	for _, r := range groupRows(&Server{}) {
		if newest := kmsg.RequestForKey(r.key).MaxVersion(); r.max != newest {
			t.Errorf("%s: served up to %d, known up to %d", r.name, r.max, newest)
		}
		for v := r.min; v <= r.max; v++ {
			req := kmsg.RequestForKey(r.key)
			req.SetVersion(v)
			if flexible := req.IsFlexible(); flexible != (v >= r.flexible) {
				t.Errorf("%s v%d: flexible %v", r.name, v, flexible)
			}
			minimal(req)
			if err := c.say(req); err != nil {
				t.Fatal(err)
			}
			body := c.body(t)
			if req.IsFlexible() {
				body = body[1:]
			}
			resp := req.ResponseKind()
			if err := resp.ReadFrom(body); err != nil {
				t.Errorf("%s v%d: %v", r.name, v, err)
				continue
			}
			if again := resp.AppendTo(nil); !bytes.Equal(again, body) {
				t.Errorf("%s v%d: read\n%x\nwritten again\n%x", r.name, v, body, again)
			}
		}
	}
}

// minimal puts one element into what lists a request has.
func minimal(req kmsg.Request) {
	switch r := req.(type) {
	case *kmsg.OffsetCommitRequest:
		r.Group, r.Generation = "g", -1
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	case *kmsg.OffsetFetchRequest:
		r.Group, r.Topics = "g", []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
		r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
	case *kmsg.FindCoordinatorRequest:
		r.CoordinatorKey, r.CoordinatorKeys = "g", []string{"g"}
	case *kmsg.JoinGroupRequest:
		r.Group, r.SessionTimeoutMillis, r.ProtocolType = "g", 1000, "p"
		r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "p"}}
		r.MemberID = "somebody" // refused at once, whatever the version
	case *kmsg.LeaveGroupRequest:
		r.Group, r.MemberID, r.Members = "g", "m", []kmsg.LeaveGroupRequestMember{{MemberID: "m"}}
	case *kmsg.DescribeGroupsRequest:
		r.Groups = []string{"g"}
	case *kmsg.DeleteGroupsRequest:
		r.Groups = []string{"g"}
	case *kmsg.OffsetDeleteRequest:
		r.Group = "g"
	}
}

// C14: the reply to a commit has the topics and partitions of the request, in its order.
func TestCommitReplyMirrorsTheRequest(t *testing.T) {
	s := &groupStory{addr: startGroupsWeir(t), clients: map[string]*storyClient{}}
	defer s.close()
	c := s.client(t, "c")
	create := kmsg.NewPtrCreateTopicsRequest()
	create.SetVersion(4)
	for _, name := range []string{"a", "b", "c"} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 8, 1
		create.Topics = append(create.Topics, topic)
	}
	if err := c.say(create); err != nil {
		t.Fatal(err)
	}
	c.body(t)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(8)
	req.Group, req.Generation = "g", -1
	for _, name := range []string{"b", "a", "c", "a"} {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = name
		for _, p := range []int32{7, 0, 3, 0} {
			one := kmsg.NewOffsetCommitRequestTopicPartition()
			one.Partition = p
			topic.Partitions = append(topic.Partitions, one)
		}
		req.Topics = append(req.Topics, topic)
	}
	if err := c.say(req); err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	resp.SetVersion(8)
	if err := resp.ReadFrom(c.body(t)[1:]); err != nil {
		t.Fatal(err)
	}
	if len(resp.Topics) != len(req.Topics) {
		t.Fatalf("%d topics", len(resp.Topics))
	}
	for i, topic := range resp.Topics {
		if topic.Topic != req.Topics[i].Topic || len(topic.Partitions) != 4 {
			t.Fatalf("topic %d is %q with %d partitions", i, topic.Topic, len(topic.Partitions))
		}
		for j, p := range topic.Partitions {
			if p.Partition != req.Topics[i].Partitions[j].Partition || p.ErrorCode != none {
				t.Fatalf("partition %d of %q: %+v", j, topic.Topic, p)
			}
		}
	}
}
