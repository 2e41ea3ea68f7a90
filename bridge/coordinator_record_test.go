package bridge

import (
	"bytes"
	"testing"
)

// Whatever bytes stand in a record, reading it neither fails wildly nor allocates by a claimed
// length; what it accepts it writes back the same.
func FuzzGroupRecord(f *testing.F) {
	c := newCoordinator("g", coordinatorLimits{})
	f.Add(c.appendRecord(nil))
	c.join(0, &JoinRequest{
		ClientID: "c", Host: "/127.0.0.1", ProtocolType: "consumer", Protocols: []Protocol{{"range", subscription("t")}},
		SessionTimeout: 10_000, RebalanceTimeout: 60_000, InstanceID: "i",
	}, "1", 1)
	c.expire(0)
	c.syncWith(0, &SyncRequest{
		MemberID: "i-1", InstanceID: "i", Generation: 1, Assignments: []Assignment{{"i-1", assignment(TopicPartition{"t", 0})}},
	}, 2)
	f.Add(c.appendRecord(nil))
	f.Fuzz(func(t *testing.T, record []byte) {
		c := newCoordinator("g", coordinatorLimits{})
		if c.replay(0, record) != nil {
			return
		}
		if again := c.appendRecord(nil); !bytes.Equal(again, record) {
			t.Fatalf("read %x, wrote %x", record, again)
		}
	})
}

// Assignments and subscriptions come from clients: whatever they hold is read within bounds.
func FuzzConsumerProtocol(f *testing.F) {
	f.Add(assignment(TopicPartition{"t", 3}, TopicPartition{"u", 0}))
	f.Add(subscription("t", "u"))
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 1, 't', 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, tp := range assignedPartitions(b) {
			if tp.Partition < 0 {
				t.Fatal(tp)
			}
		}
		if n := len(subscribedTopics(b)); n > len(b) {
			t.Fatal(n)
		}
	})
}

// A byte string that claims one byte more than there is, found by the fuzzer.
func TestRecordCutShort(t *testing.T) {
	c := newCoordinator("g", coordinatorLimits{})
	if err := c.replay(0, []byte{groupRecordVersion, 0, 3, 'a', 'b'}); err == nil {
		t.Fatal("read")
	}
}
