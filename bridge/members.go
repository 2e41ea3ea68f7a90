package bridge

import (
	"context"
	"errors"

	"weir/engine"
)

// What members of classic groups ask for. Each call feeds the group's machine one input; JoinGroup and SyncGroup park until
// the machine answers.

// JoinGroup lets a member into a group and waits for the generation that it is in. If ctx ends first the member stays, as in Kafka:
// its client may ask again, or its session ends.
func (b *Bridge) JoinGroup(ctx context.Context, r *JoinRequest) JoinReply {
	session := int64(r.SessionTimeout)
	switch {
	case r.Group == "":
		return refusedJoin(r.MemberID, ErrInvalidGroup)
	case session < b.o.MinSessionTimeout.Milliseconds(), session > b.o.MaxSessionTimeout.Milliseconds():
		return refusedJoin(r.MemberID, ErrSessionTimeout)
	}
	told := make(chan JoinReply, 1)
	var g *group
	var k call
	err := b.groups.input(r.Group, r.MemberID == "", func(now int64, in *group, _ *engine.Turn) error {
		in.last++
		g, k = in, in.last
		g.joins[k] = told
		g.machine.join(now, r, freshID(), k)
		return nil
	})
	if err != nil {
		return refusedJoin(r.MemberID, unknownGroup(err))
	}
	b.o.Logger.Debug("join", "group", r.Group, "member", r.MemberID, "client", r.ClientID, "reason", r.Reason)
	select {
	case reply := <-told:
		return reply
	case <-ctx.Done():
		g.mu.Lock()
		delete(g.joins, k)
		g.mu.Unlock()
		return refusedJoin(r.MemberID, ErrCoordinatorUnavailable)
	}
}

// SyncGroup waits for the member's assignment; the leader brings all of them. It is told after the partitions that
// changed hands were claimed for their new owners and the record was written.
func (b *Bridge) SyncGroup(ctx context.Context, r *SyncRequest) SyncReply {
	if r.Group == "" {
		return SyncReply{Err: ErrInvalidGroup}
	}
	told := make(chan SyncReply, 1)
	var g *group
	var k call
	err := b.groups.input(r.Group, false, func(now int64, in *group, _ *engine.Turn) error {
		in.last++
		g, k = in, in.last
		g.syncs[k] = told
		g.machine.syncWith(now, r, k)
		return nil
	})
	if err != nil {
		return SyncReply{Err: unknownGroup(err)}
	}
	select {
	case reply := <-told:
		return reply
	case <-ctx.Done():
		g.mu.Lock()
		delete(g.syncs, k)
		g.mu.Unlock()
		return SyncReply{Err: ErrCoordinatorUnavailable}
	}
}

// Heartbeat keeps a member's session alive: nil, ErrRebalanceInProgress, ErrUnknownMember, ErrIllegalGeneration,
// ErrFencedInstance, ErrInvalidGroup or ErrCoordinatorUnavailable.
func (b *Bridge) Heartbeat(r *HeartbeatRequest) error {
	if r.Group == "" {
		return ErrInvalidGroup
	}
	return unknownGroup(b.groups.input(r.Group, false, func(now int64, g *group, _ *engine.Turn) error {
		return g.machine.heartbeat(now, r)
	}))
}

// LeaveGroup takes members out. The errors are in the order of r.Members.
func (b *Bridge) LeaveGroup(r *LeaveRequest) ([]error, error) {
	if r.Group == "" {
		return nil, ErrInvalidGroup
	}
	for _, l := range r.Members {
		b.o.Logger.Debug("leave", "group", r.Group, "member", l.MemberID, "instance", l.InstanceID, "reason", l.Reason)
	}
	var errs []error
	err := b.groups.input(r.Group, false, func(now int64, g *group, _ *engine.Turn) error {
		errs = g.machine.leave(now, r)
		return nil
	})
	if errors.Is(err, ErrGroupNotFound) {
		errs, err = make([]error, len(r.Members)), nil
		for i := range errs {
			errs[i] = ErrUnknownMember
		}
	}
	return errs, unknownGroup(err)
}

// unknownGroup turns what input answers into what members are told: of a group that is not there they are not members.
func unknownGroup(err error) error {
	switch {
	case errors.Is(err, ErrGroupNotFound):
		return ErrUnknownMember
	case errors.Is(err, engine.ErrFailed), errors.Is(err, engine.ErrClosed):
		return ErrCoordinatorUnavailable
	}
	return err
}
