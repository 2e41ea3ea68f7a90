package bridge

import (
	"fmt"
	"maps"
	"math/rand"
	"testing"
)

// Random clients, well-behaved and not, against one machine. At every step: each call is answered at most once; the leader is a member; a
// stable or empty group is what its record brings back; nobody owns a partition who is not a member or was not one in the last record.
// At the end, when all clients have gone silent, time alone answers every call and empties the group.
func TestCoordinatorAtRandom(t *testing.T) {
	for seed := range int64(300) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := &randomGroup{t: t, rng: rand.New(rand.NewSource(seed)), open: map[call]bool{}}
			w.c = newCoordinator("g", coordinatorLimits{
				initialDelay: int64(w.rng.Intn(2) * 3000), maxSize: w.rng.Intn(2) * 4, maxBytes: w.rng.Intn(2) * 400,
			})
			for range 400 {
				w.step()
				w.check()
			}
			for range 40 {
				w.pass(10 * 60 * 1000)
				w.check()
			}
			if len(w.open) != 0 || len(w.c.members) != 0 || w.c.next() != never {
				t.Fatalf("%d calls are parked, %s with %d members, next %d", len(w.open), w.c.state, len(w.c.members), w.c.next())
			}
		})
	}
}

type randomGroup struct {
	t      *testing.T
	rng    *rand.Rand
	c      *coordinator
	now    int64
	last   call
	open   map[call]bool
	ids    []string // given out, newest last
	stored map[string]string
	record []byte
}

func (w *randomGroup) park() call {
	w.last++
	w.open[w.last] = true
	return w.last
}

// somebody is an id that was given out, or none, or a stranger's.
func (w *randomGroup) somebody() string {
	switch n := w.rng.Intn(10); {
	case n == 0:
		return "stranger"
	case n < 8 && len(w.ids) > 0:
		return w.ids[max(0, len(w.ids)-1-w.rng.Intn(6))]
	}
	return ""
}

func (w *randomGroup) instance(id string) string {
	if m := w.c.members[id]; m != nil && w.rng.Intn(10) > 0 {
		return m.instance
	}
	return []string{"", "", "", "one", "two"}[w.rng.Intn(5)]
}

func (w *randomGroup) step() {
	c, rng := w.c, w.rng
	id := w.somebody()
	generation := c.generation - int32(rng.Intn(8)/7)
	switch rng.Intn(7) {
	case 0, 1:
		r := &JoinRequest{
			MemberID: id, InstanceID: w.instance(id), ClientID: "c", ProtocolType: []string{"consumer", "consumer", "connect"}[rng.Intn(20)/9],
			SessionTimeout: 6000 + rng.Int31n(20_000), RebalanceTimeout: 1000 + rng.Int31n(60_000),
			RequireID: rng.Intn(2) == 0, SkipAssignment: rng.Intn(2) == 0,
		}
		for _, p := range [][]string{{"range"}, {"range", "rr"}, {"rr", "range"}, {"sticky"}, {}}[rng.Intn(17)/4] {
			r.Protocols = append(r.Protocols, Protocol{p, subscription("t")})
		}
		c.join(w.now, r, fmt.Sprint(w.last), w.park())
	case 2, 3:
		if rng.Intn(2) == 0 {
			id = c.leader
		}
		r := &SyncRequest{MemberID: id, InstanceID: w.instance(id), Generation: generation}
		for i, m := range c.order {
			if rng.Intn(8) > 0 {
				r.Assignments = giveTo(r.Assignments, m.id, fmt.Sprint("t/", i))
			}
		}
		c.syncWith(w.now, r, w.park())
	case 4:
		c.heartbeat(w.now, &HeartbeatRequest{MemberID: id, InstanceID: w.instance(id), Generation: generation})
	case 5:
		if rng.Intn(4) == 0 {
			c.leave(w.now, &LeaveRequest{Members: []LeavingMember{{MemberID: id, InstanceID: w.instance(id)}}})
		} else {
			c.checkCommit(w.now, id, w.instance(id), generation)
		}
	case 6:
		w.pass(int64(rng.Intn(5000)))
	}
}

// pass lets time pass from deadline to deadline, as the driver does.
func (w *randomGroup) pass(ms int64) {
	end := w.now + ms
	for range 1000 {
		at := w.c.next()
		if at > end {
			w.now = end
			return
		}
		w.now = max(w.now, at)
		w.c.expire(w.now)
		w.settle()
	}
	w.t.Fatal("a deadline that is due again and again")
}

func (w *randomGroup) settle() {
	e := w.c.take()
	answer := func(k call) {
		if !w.open[k] {
			w.t.Fatalf("call %d is answered twice", k)
		}
		delete(w.open, k)
	}
	for _, j := range e.joins {
		answer(j.to)
		if j.reply.MemberID != "" && (j.reply.Err == nil || j.reply.Err == ErrMemberIDRequired) {
			w.ids = append(w.ids, j.reply.MemberID)
		}
	}
	for _, s := range e.syncs {
		answer(s.to)
	}
	if e.store {
		w.record, w.stored = w.c.appendRecord(nil), durable(w.c)
	}
}

func (w *randomGroup) check() {
	w.settle()
	c := w.c
	parked := 0
	for _, m := range c.order {
		if m.join != 0 {
			parked++
		}
		if m.sync != 0 {
			parked++
		}
		if m.deadline == never && m.join == 0 && m.sync == 0 {
			w.t.Fatalf("%s would be a member for ever", m.id)
		}
		if m.instance != "" && c.static[m.instance] != m.id {
			w.t.Fatalf("%s is not the holder of %s", m.id, m.instance)
		}
	}
	switch {
	case parked != len(w.open):
		w.t.Fatalf("%d calls are open, %d parked", len(w.open), parked)
	case len(c.order) != len(c.members):
		w.t.Fatalf("%d members in order, %d by id", len(c.order), len(c.members))
	case len(c.order) > 0 && c.members[c.leader] == nil:
		w.t.Fatalf("the leader %q is no member", c.leader)
	case len(c.order) == 0 && c.state != groupEmpty && c.state != groupPreparing:
		w.t.Fatalf("%s without members", c.state)
	case (c.state == groupPreparing) != (c.joinDeadline != never):
		w.t.Fatalf("%s with a join deadline of %d", c.state, c.joinDeadline)
	}
	if w.record == nil {
		return
	}
	again := newCoordinator("g", c.limits)
	if err := again.replay(w.now, w.record); err != nil {
		w.t.Fatal(err)
	}
	if !maps.Equal(durable(again), w.stored) {
		w.t.Fatalf("replayed\n%v\nstored\n%v", durable(again), w.stored)
	}
	if (c.state == groupStable || c.state == groupEmpty) && !maps.Equal(durable(c), w.stored) {
		w.t.Fatalf("changed without a record\n%v\nstored\n%v", durable(c), w.stored)
	}
}
