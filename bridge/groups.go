package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"weir/engine"
)

// The impure half of the group coordinators: it looks groups up, locks, feeds the
// machine its inputs with the time, and carries its effects out.
//
//	request ─► group.mu: machine(input, now) ─► effects ─► one engine turn: record, claims, put-backs
//	timer  ──►     │                                                │
//	               └ unlock ─► turn.Wait ─► parked callers are told ◄┘
//
// # Locks
//
//	groups.mu            the map; never held while a group is locked
//	group.mu             one machine and its parked callers ─► owners.mu, engine shards
//	owners.mu            who owns which partition (fetch_tie.go) ─► owner.mu
//	none is held across a commit or a wait
//
// The machine goes on while a record is being committed. So an answer waits not only for
// the turn that it came from but for every earlier record of its group (settlement): a follower's SyncGroup
// never tells an assignment that a crash could take back.

// mostGroupBytes bounds what the members of one group bring and are given, all together: it is one record, and kept in
// memory. (In Kafka it is one record of at most message.max.bytes, 1 MB.)
const mostGroupBytes = 8 << 20

// groups are the coordinators of this node.
type groups struct {
	b      *Bridge
	limits coordinatorLimits
	opened time.Time
	owners owners

	mu     sync.RWMutex
	byName map[string]*group
	closed bool
}

// group is one coordinator with what hangs on it. mu guards all of it.
type group struct {
	mu      sync.Mutex
	machine *coordinator
	timer   *time.Timer
	armed   int64 // when the timer goes off; never when it does not
	last    call
	joins   map[call]chan<- JoinReply
	syncs   map[call]chan<- SyncReply
	settled *settlement // of the last record
	owns    map[TopicPartition]*owner
}

// settlement is a record on its way to the disk.
type settlement struct {
	done chan struct{}
	err  error // after done
}

func newGroups(b *Bridge) *groups {
	return &groups{
		b: b, opened: time.Now(), byName: map[string]*group{},
		limits: coordinatorLimits{initialDelay: b.o.InitialRebalanceDelay.Milliseconds(), maxSize: b.o.MaxGroupSize, maxBytes: mostGroupBytes},
	}
}

// now is the machines' clock: ms, monotonic, so that a stepped clock ends no session.
func (gs *groups) now() int64 { return time.Since(gs.opened).Milliseconds() }

// load rebuilds the coordinators from their records and says again who owns what. Sessions start anew. Nothing is
// claimed: the claims were committed with the record, and what Redis consumers have claimed since stays theirs.
func (gs *groups) load(ctx context.Context) error {
	turn := gs.b.eng.Begin(engine.Written)
	err := gs.b.eng.EachRecord(spaceGroups, func(name, value []byte) error {
		g := gs.newGroup(string(name))
		if err := g.machine.replay(gs.now(), value); err != nil {
			return fmt.Errorf("group %q: %w", name, err)
		}
		gs.byName[string(name)] = g
		g.mu.Lock()
		defer g.mu.Unlock()
		g.machine.take()
		gs.owners.replace(g)
		for tp, consumer := range g.machine.owned {
			no, ok := gs.b.streamOf(tp)
			if !ok {
				continue
			}
			g.owns[tp].stream.Store(uint64(no))
			if err := ignoreGone(turn.Group(no, string(name)).SetReader(consumer)); err != nil {
				return err
			}
		}
		gs.arm(g)
		return nil
	})
	if err != nil {
		return fmt.Errorf("bridge: load groups: %w", err)
	}
	return turn.Wait(ctx)
}

// close stops the timers; whoever is parked is told to look for another coordinator.
func (gs *groups) close() {
	gs.mu.Lock()
	gs.closed = true
	all := gs.byName
	gs.byName = map[string]*group{}
	gs.mu.Unlock()
	for _, g := range all {
		g.mu.Lock()
		if g.timer != nil {
			g.timer.Stop()
		}
		g.machine.state = groupDead
		for _, to := range g.joins {
			to <- refusedJoin("", ErrCoordinatorUnavailable)
		}
		for _, to := range g.syncs {
			to <- SyncReply{Err: ErrCoordinatorUnavailable}
		}
		clear(g.joins)
		clear(g.syncs)
		g.mu.Unlock()
	}
}

func (gs *groups) newGroup(name string) *group {
	return &group{
		machine: newCoordinator(name, gs.limits), armed: never, joins: map[call]chan<- JoinReply{},
		syncs: map[call]chan<- SyncReply{}, owns: map[TopicPartition]*owner{},
	}
}

// find returns a group, made if it is missing and asked for, with its lock held; nil when there is none.
func (gs *groups) find(name string, create bool) *group {
	for {
		gs.mu.RLock()
		g, closed := gs.byName[name], gs.closed
		gs.mu.RUnlock()
		if closed || g == nil && !create {
			return nil
		}
		if g == nil {
			gs.mu.Lock()
			if g = gs.byName[name]; g == nil && !gs.closed {
				g = gs.newGroup(name)
				gs.byName[name] = g
			}
			gs.mu.Unlock()
			if g == nil {
				return nil
			}
		}
		g.mu.Lock()
		if g.machine.state != groupDead {
			return g
		}
		// Deleted between the look-up and the lock: it leaves the map before its lock is released.
		g.mu.Unlock()
	}
}

// forget takes a locked group out of the map. Whoever finds it later sees that it is dead.
func (gs *groups) forget(g *group) {
	g.machine.state = groupDead
	if g.timer != nil {
		g.timer.Stop()
	}
	// groups.mu is never held while a group's lock is waited for, so this order is safe.
	gs.mu.Lock()
	if gs.byName[g.machine.name] == g {
		delete(gs.byName, g.machine.name)
	}
	gs.mu.Unlock()
}

// input feeds a group, found or with create made, under its lock, and carries the effects out: feed may evaluate verbs in
// the turn, which is committed before input returns. ErrGroupNotFound when there is no group, ErrCoordinatorUnavailable after close,
// the commit's error (then nothing may be told), or feed's own.
func (gs *groups) input(name string, create bool, feed func(now int64, g *group, turn *engine.Turn) error) error {
	g := gs.find(name, create)
	if g == nil {
		gs.mu.RLock()
		defer gs.mu.RUnlock()
		if gs.closed {
			return ErrCoordinatorUnavailable
		}
		return ErrGroupNotFound
	}
	turn := gs.b.eng.Begin(engine.Written)
	now := gs.now()
	fed := feed(now, g, turn)
	tell := gs.carryOut(g, now, turn)
	g.mu.Unlock()
	if err := tell.wait(turn); err != nil {
		return err
	}
	return fed
}

// outcome is what a step leaves to be told, once it is settled.
type outcome struct {
	joins []toJoin
	syncs []toSync
	after *settlement // of earlier steps; nil none
	mine  *settlement // of this step; nil when it stored nothing
	err   error       // of evaluating it
}

type toJoin struct {
	ch    chan<- JoinReply
	reply JoinReply
}

type toSync struct {
	ch    chan<- SyncReply
	reply SyncReply
}

// carryOut evaluates the effects of an input, and of what is due by now, into the turn. Call it with the group locked.
func (gs *groups) carryOut(g *group, now int64, turn *engine.Turn) *outcome {
	out := &outcome{after: g.settled}
	for {
		e := g.machine.take()
		for _, j := range e.joins {
			if ch := g.joins[j.to]; ch != nil {
				delete(g.joins, j.to)
				out.joins = append(out.joins, toJoin{ch, j.reply})
			}
		}
		for _, s := range e.syncs {
			if ch := g.syncs[s.to]; ch != nil {
				delete(g.syncs, s.to)
				out.syncs = append(out.syncs, toSync{ch, s.reply})
			}
		}
		if out.err == nil {
			out.err = gs.store(g, &e, turn)
		}
		if e.store && out.mine == nil {
			out.mine = &settlement{done: make(chan struct{})}
			g.settled = out.mine
		}
		if g.machine.state == groupDead || g.machine.next() > now {
			break
		}
		g.machine.expire(now)
	}
	if g.machine.blank() {
		gs.forget(g)
	}
	gs.arm(g)
	return out
}

// store evaluates the record and the moves of one step.
func (gs *groups) store(g *group, e *effects, turn *engine.Turn) error {
	if e.store {
		name := []byte(g.machine.name)
		if err := turn.PutRecord(name, spaceGroups, name, g.machine.appendRecord(nil)); err != nil {
			return err
		}
		gs.b.o.Logger.Debug("group", "group", g.machine.name, "state", g.machine.state.String(),
			"generation", g.machine.generation, "members", len(g.machine.order), "moved", len(e.moves))
	}
	if e.owners {
		return gs.claim(turn, g, e.moves)
	}
	return nil
}

// wait commits the step and tells the parked callers. It is called without locks, by whoever took the step.
func (o *outcome) wait(turn *engine.Turn) error {
	err := o.err
	// Somebody must wait, or nothing is committed; a caller that has gone is no reason not to.
	if werr := turn.Wait(context.Background()); err == nil {
		err = werr
	}
	if o.after != nil && (o.mine != nil || len(o.joins)+len(o.syncs) > 0) {
		<-o.after.done
		err = firstError(err, o.after.err)
	}
	if o.mine != nil {
		o.mine.err = err
		close(o.mine.done)
	}
	for _, j := range o.joins {
		if err != nil {
			j.reply = refusedJoin(j.reply.MemberID, ErrCoordinatorUnavailable)
		}
		j.ch <- j.reply
	}
	for _, s := range o.syncs {
		if err != nil {
			s.reply = SyncReply{Err: ErrCoordinatorUnavailable}
		}
		s.ch <- s.reply
	}
	return err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// arm sets the group's timer to its next deadline. A deadline that moved away leaves the timer alone: it
// goes off, finds nothing due, and is set again, so that heartbeats cost no timer.
func (gs *groups) arm(g *group) {
	at := int64(never)
	if g.machine.state != groupDead {
		at = g.machine.next()
	}
	if at >= g.armed {
		return
	}
	g.armed = at
	d := time.Duration(max(at-gs.now(), 0)) * time.Millisecond
	if g.timer == nil {
		g.timer = time.AfterFunc(d, func() { gs.due(g) })
		return
	}
	g.timer.Reset(d)
}

// due is the timer's input.
func (gs *groups) due(g *group) {
	g.mu.Lock()
	if g.machine.state == groupDead {
		g.mu.Unlock()
		return
	}
	g.armed = never
	now := gs.now()
	turn := gs.b.eng.Begin(engine.Written)
	g.machine.expire(now)
	tell := gs.carryOut(g, now, turn)
	g.mu.Unlock()
	if err := tell.wait(turn); err != nil {
		gs.b.o.Logger.Error("group coordinator cannot write", "group", g.machine.name, "error", err)
	}
}

// claim carries a rebalance out on the streams (dictionary 5, rules 6 and 7), and says who owns the partitions now.
// A group that is not on a stream yet is made by its first commit or fetch, not here.
func (gs *groups) claim(turn *engine.Turn, g *group, moves []move) error {
	gs.owners.replace(g)
	for _, m := range moves {
		no, ok := gs.b.streamOf(m.TopicPartition)
		if !ok {
			continue
		}
		if err := moveTo(turn.Group(no, g.machine.name), m.to); err != nil {
			return err
		}
		if o := g.owns[m.TopicPartition]; o != nil {
			o.stream.Store(uint64(no))
		}
	}
	return nil
}

// moveTo gives a partition to a consumer, or back to the group when there is none. A stream that is gone is no error.
func moveTo(on engine.Group, consumer string) error {
	if consumer == "" {
		return ignoreGone(on.PutBack())
	}
	if err := on.SetReader(consumer); err != nil {
		return ignoreGone(err)
	}
	return ignoreGone(on.ClaimAll(consumer, engine.ClassicMember))
}

func ignoreGone(err error) error {
	if errors.Is(err, engine.ErrNoGroup) || errors.Is(err, engine.ErrNoStream) {
		return nil
	}
	return err
}

// freshID makes a member id unique: a random UUID, as in Kafka's ids.
func freshID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
