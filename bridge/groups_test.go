package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/engine"
	"weir/storage"
)

// gatedStore is a store whose commits wait, or fail, when a test says so.
type gatedStore struct {
	storage.Store
	broken atomic.Bool
	hold   atomic.Pointer[chan struct{}] // commits wait until it is closed
}

var errDisk = errors.New("the disk is gone")

func (s *gatedStore) Shard(id storage.ShardID) (storage.Shard, error) {
	sh, err := s.Store.Shard(id)
	return gatedShard{sh, s}, err
}

func (s *gatedStore) pass() error {
	if hold := s.hold.Load(); hold != nil {
		<-*hold
	}
	if s.broken.Load() {
		return errDisk
	}
	return nil
}

func (s *gatedStore) CommitTogether(ctx context.Context, b []storage.Batch) ([]storage.Pos, error) {
	if err := s.pass(); err != nil {
		return nil, err
	}
	return s.Store.CommitTogether(ctx, b)
}

type gatedShard struct {
	storage.Shard
	s *gatedStore
}

func (sh gatedShard) Lead(ctx context.Context) (storage.Writer, error) {
	w, err := sh.Shard.Lead(ctx)
	return gatedWriter{w, sh.s}, err
}

type gatedWriter struct {
	storage.Writer
	s *gatedStore
}

func (w gatedWriter) Commit(ctx context.Context, b storage.Batch) (storage.Pos, error) {
	if err := w.s.pass(); err != nil {
		return storage.Pos{}, err
	}
	return w.Writer.Commit(ctx, b)
}

// openOn opens a bridge with a topic "t" of n partitions on a store; the returned function closes it.
func openOn(t *testing.T, store storage.Store, n int32) (*Bridge, func()) {
	t.Helper()
	ctx := context.Background()
	eng, err := engine.Open(ctx, store, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(ctx, eng, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := b.Topic("t"); !ok {
		if _, err := b.CreateTopic(ctx, NewTopic{Name: "t", Partitions: n, Replication: 1}, false); err != nil {
			t.Fatal(err)
		}
	}
	return b, func() {
		b.Close(ctx)
		eng.Close(ctx)
	}
}

func joinAs(id string) *JoinRequest {
	return &JoinRequest{
		Group: "g", MemberID: id, ClientID: "c", Host: "/127.0.0.1", ProtocolType: consumerProtocol,
		Protocols: []Protocol{{"range", subscription("t")}}, SessionTimeout: 10_000, RebalanceTimeout: 60_000,
	}
}

// No assignment is told before the record that holds it is down, not even to a follower that asks while it is being written.
func TestNoAssignmentBeforeItsRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gatedStore{Store: storage.NewMem(2)}
		b, shut := openOn(t, store, 1)
		defer shut()
		ctx := context.Background()
		leader := b.JoinGroup(ctx, joinAs(""))
		sync := &SyncRequest{Group: "g", MemberID: leader.MemberID, Generation: 1, Assignments: []Assignment{
			{leader.MemberID, assignment(TopicPartition{"t", 0})},
		}}
		hold := make(chan struct{})
		store.hold.Store(&hold)
		var told atomic.Int32
		for range 3 { // the leader, and twice more as a client that asks again
			go func() {
				if r := b.SyncGroup(ctx, sync); r.Err == nil || r.Err == ErrRebalanceInProgress {
					told.Add(1)
				}
			}()
		}
		synctest.Wait()
		if told.Load() != 0 {
			t.Fatal("told before the commit")
		}
		// Heartbeats wait for nobody's commit.
		if err := b.Heartbeat(&HeartbeatRequest{Group: "g", MemberID: leader.MemberID, Generation: 1}); err != nil {
			t.Fatal(err)
		}
		close(hold)
		synctest.Wait()
		if told.Load() != 3 {
			t.Fatalf("%d of 3 were told after the commit", told.Load())
		}
	})
}

// When the disk fails, whoever waits for a commit hears COORDINATOR_NOT_AVAILABLE, and reads go on.
func TestGroupsOnABrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &gatedStore{Store: storage.NewMem(2)}
		b, shut := openOn(t, store, 1)
		defer shut()
		ctx := context.Background()
		commit := &CommitRequest{Group: "h", Generation: -1, Partitions: []PartitionCommit{{TopicPartition: TopicPartition{"t", 0}, Offset: 5}}}
		if errs, err := b.CommitOffsets(commit); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
		me := b.JoinGroup(ctx, joinAs(""))
		store.broken.Store(true)
		if r := b.SyncGroup(ctx, &SyncRequest{Group: "g", MemberID: me.MemberID, Generation: 1}); r.Err != ErrCoordinatorUnavailable {
			t.Fatal(r.Err)
		}
		if _, err := b.CommitOffsets(commit); err != ErrCoordinatorUnavailable {
			t.Fatal(err)
		}
		if err := b.DeleteGroup("h"); err != ErrCoordinatorUnavailable {
			t.Fatal(err)
		}
		if got, err := b.CommittedOffsets("h", []TopicPartition{{"t", 0}}); err == nil && got[0].Offset != 5 {
			t.Fatal(got)
		}
	})
}

// A client that goes away while it waits leaves nothing behind but a member whose session ends.
func TestJoinGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, shut := openOn(t, storage.NewMem(2), 1)
		defer shut()
		first := b.JoinGroup(context.Background(), joinAs(""))
		ctx, leave := context.WithCancel(context.Background())
		done := make(chan JoinReply)
		go func() { done <- b.JoinGroup(ctx, joinAs("")) }()
		synctest.Wait()
		leave()
		if r := <-done; r.Err != ErrCoordinatorUnavailable {
			t.Fatal(r.Err)
		}
		if err := b.Heartbeat(&HeartbeatRequest{Group: "g", MemberID: first.MemberID, Generation: 1}); err != ErrRebalanceInProgress {
			t.Fatal(err)
		}
		again := b.JoinGroup(context.Background(), joinAs(first.MemberID))
		if again.Err != nil || len(again.Members) != 2 {
			t.Fatal(again)
		}
		if g := b.groups.find("g", false); len(g.joins) != 0 {
			t.Fatal("a call is still parked")
		} else {
			g.mu.Unlock()
		}
	})
}

// An id that nobody came back with, and its group, are forgotten.
func TestPromisedGroupIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, shut := openOn(t, storage.NewMem(2), 1)
		defer shut()
		r := joinAs("")
		r.RequireID = true
		if got := b.JoinGroup(context.Background(), r); got.Err != ErrMemberIDRequired {
			t.Fatal(got.Err)
		}
		if n := len(b.ListGroups()); n != 1 {
			t.Fatalf("%d groups", n)
		}
		<-time.After(11 * time.Second)
		synctest.Wait()
		if n := len(b.groups.byName); n != 0 {
			t.Fatalf("%d groups are kept", n)
		}
	})
}

// C16: members come, go and fall silent a hundred times; at no time do two of one generation own the same partition, the group's
// reader on each stream is its owner, and nobody who behaves hears UNKNOWN_MEMBER_ID.
func TestChurn(t *testing.T) {
	const partitions, rounds = 6, 100
	synctest.Test(t, func(t *testing.T) {
		b, shut := openOn(t, storage.NewMem(2), partitions)
		defer shut()
		var mu sync.Mutex
		owned := map[string]string{} // "generation/partition" -> member
		claim := func(generation int32, member string, bytes []byte) {
			mu.Lock()
			defer mu.Unlock()
			for _, tp := range assignedPartitions(bytes) {
				key := fmt.Sprint(generation, "/", tp.Partition)
				if who, ok := owned[key]; ok && who != member {
					t.Errorf("generation and partition %s belong to %s and to %s", key, who, member)
				}
				owned[key] = member
			}
		}
		var wait sync.WaitGroup
		for i := range 3 {
			wait.Go(func() {
				rng := rand.New(rand.NewSource(int64(i)))
				id := ""
				for range rounds {
					id = oneStay(t, b, id, rng, claim)
				}
			})
		}
		wait.Wait()
		if t.Failed() || len(owned) < rounds {
			t.Fatalf("%d partitions were owned", len(owned))
		}
	})
}

// oneStay joins, syncs, works for a while with heartbeats, and leaves, falls silent, or goes on as the same member.
func oneStay(t *testing.T, b *Bridge, id string, rng *rand.Rand, claim func(int32, string, []byte)) string {
	ctx := context.Background()
	for {
		j := b.JoinGroup(ctx, joinAs(id))
		if j.Err != nil {
			t.Errorf("join as %q: %v", id, j.Err)
			return ""
		}
		id = j.MemberID
		r := &SyncRequest{Group: "g", MemberID: id, Generation: j.Generation}
		for i, topic := 0, "t"; i < 6 && len(j.Members) > 0; i++ {
			r.Assignments = giveTo(r.Assignments, j.Members[i%len(j.Members)].ID, fmt.Sprint(topic, "/", i))
		}
		s := b.SyncGroup(ctx, r)
		if s.Err == ErrRebalanceInProgress {
			continue
		}
		if s.Err != nil {
			t.Errorf("sync as %q: %v", id, s.Err)
			return ""
		}
		claim(j.Generation, id, s.Assignment)
		for range 1 + rng.Intn(5) {
			<-time.After(time.Duration(1+rng.Intn(2000)) * time.Millisecond)
			err := b.Heartbeat(&HeartbeatRequest{Group: "g", MemberID: id, Generation: j.Generation})
			if err == ErrRebalanceInProgress {
				break
			}
			if err != nil {
				t.Errorf("heartbeat of %q: %v", id, err)
				return ""
			}
		}
		switch rng.Intn(4) {
		case 0:
			if errs, err := b.LeaveGroup(&LeaveRequest{Group: "g", Members: []LeavingMember{{MemberID: id}}}); err != nil || errs[0] != nil {
				t.Errorf("leave of %q: %v %v", id, errs, err)
			}
			return ""
		case 1:
			return "" // silent: the session ends by itself
		}
		return id
	}
}
