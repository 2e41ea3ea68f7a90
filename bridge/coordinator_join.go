package bridge

import "slices"

// JoinGroup (classic).
//
// A new dynamic member of JoinGroup v4+ is sent back once with its id (KIP-394), so that a client
// that gives up leaves no ghost in the group; a static one (KIP-345) is let in at
// once and, when its instance id is taken, takes the place over: without a rebalance
// if the group is stable and would choose the same protocol. From v9 on such a new leader is told to skip the
// assignment (KIP-814); an older client is shown the old leader's id, so that it does not assign.

// JoinRequest is a JoinGroup. Times are ms.
type JoinRequest struct {
	Group            string
	MemberID         string
	InstanceID       string // "" none
	ClientID         string
	Host             string // as DescribeGroups shows it
	ProtocolType     string
	Protocols        []Protocol // in order of preference; kept
	SessionTimeout   int32
	RebalanceTimeout int32
	Reason           string // KIP-800
	// RequireID: the client knows MEMBER_ID_REQUIRED (v4+). SkipAssignment: it knows that flag (v9+).
	RequireID      bool
	SkipAssignment bool
}

// JoinReply answers a JoinGroup.
type JoinReply struct {
	// Err is nil or one of ErrInvalidGroup, ErrSessionTimeout, ErrGroupFull, ErrInconsistentProtocol, ErrMemberIDRequired,
	// ErrUnknownMember, ErrFencedInstance, ErrCoordinatorUnavailable.
	Err            error
	Generation     int32 // -1 with Err
	ProtocolType   string
	Protocol       string
	Leader         string
	MemberID       string
	SkipAssignment bool
	Members        []JoinMember // for the leader
}

// JoinMember is a member as the leader sees it.
type JoinMember struct {
	ID, InstanceID string
	Metadata       []byte
}

// refusedJoin is the reply that carries only an error.
func refusedJoin(id string, err error) JoinReply {
	return JoinReply{Err: err, Generation: -1, MemberID: id}
}

// join lets a member in, or in again. fresh makes the id of a new one unique.
func (c *coordinator) join(now int64, r *JoinRequest, fresh string, k call) {
	refuse := func(id string, err error) {
		c.out.joins = append(c.out.joins, joinAnswer{k, refusedJoin(id, err)})
	}
	_, promised := c.promised[r.MemberID]
	switch {
	case c.state == groupDead:
		refuse(r.MemberID, ErrCoordinatorUnavailable)
	case !c.hasRoom(r.MemberID):
		delete(c.promised, r.MemberID)
		if m := c.members[r.MemberID]; m != nil {
			c.remove(m, ErrGroupFull)
		}
		refuse("", ErrGroupFull)
		c.maybeCompleteJoin(now)
	case !c.fits(r.Protocols, c.members[r.MemberID]):
		refuse(r.MemberID, ErrGroupFull)
	case !c.supports(r.ProtocolType, r.Protocols):
		refuse(r.MemberID, ErrInconsistentProtocol)
	case r.MemberID == "" && r.InstanceID != "":
		id := r.InstanceID + "-" + fresh
		if old := c.members[c.static[r.InstanceID]]; old != nil {
			c.takeOver(now, r, old, id, k)
		} else {
			c.admit(now, r, id, k)
		}
	case r.MemberID == "":
		id := r.ClientID + "-" + fresh
		if r.RequireID {
			c.promised[id] = now + int64(r.SessionTimeout)
			refuse(id, ErrMemberIDRequired)
			return
		}
		c.admit(now, r, id, k)
	case promised && r.InstanceID == "":
		c.admit(now, r, r.MemberID, k)
	default:
		m, err := c.check(r.MemberID, r.InstanceID)
		if err != nil {
			refuse(r.MemberID, err)
			return
		}
		c.rejoin(now, r, m, k)
	}
}

// hasRoom says whether group.max.size leaves a place: while the group prepares, the
// first to re-join keep theirs.
func (c *coordinator) hasRoom(id string) bool {
	if c.limits.maxSize == 0 || c.state == groupEmpty {
		return true
	}
	m := c.members[id]
	if c.state == groupPreparing {
		waiting := 0
		for _, o := range c.order {
			if o.join != 0 {
				waiting++
			}
		}
		return m != nil && m.join != 0 || waiting < c.limits.maxSize
	}
	return m != nil || len(c.members) < c.limits.maxSize
}

// supports says whether a member with these protocols can be in the group: one of them is
// offered by every member.
func (c *coordinator) supports(protocolType string, protocols []Protocol) bool {
	if protocolType == "" || len(protocols) == 0 {
		return false
	}
	if len(c.members) == 0 {
		return true
	}
	return protocolType == c.protocolType && slices.ContainsFunc(protocols, func(p Protocol) bool {
		return c.order.everyoneOffers(p.Name)
	})
}

// admit adds a new member, parked in its JoinGroup.
func (c *coordinator) admit(now int64, r *JoinRequest, id string, k call) {
	if c.initial {
		c.joinedSince = true
	}
	m := &member{id: id, instance: r.InstanceID, isNew: true, deadline: now + newMemberPatience}
	m.update(r, k)
	c.add(m, r.ProtocolType)
	c.rebalance(now)
}

// update takes over what a JoinGroup says.
func (m *member) update(r *JoinRequest, k call) {
	m.clientID, m.host = r.ClientID, r.Host
	m.session, m.rebalance = int64(r.SessionTimeout), int64(r.RebalanceTimeout)
	m.protocols = r.Protocols
	m.join = k
}

// rejoin is JoinGroup by a member of the group.
func (c *coordinator) rejoin(now int64, r *JoinRequest, m *member, k call) {
	same := m.offers(r.Protocols)
	if same && (c.state == groupCompleting || c.state == groupStable && m.id != c.leader) {
		// It did not hear the answer, or asks without anything new: the current generation. In
		// a stable group the leader alone may force a rebalance (its topics may have grown).
		m.join = k
		c.answerJoin(m, c.generationFor(m))
		m.deadline = now + m.session
		return
	}
	// A repeated JoinGroup replaces one that is still parked: its client has given that up.
	c.answerJoin(m, refusedJoin(m.id, ErrRebalanceInProgress))
	m.update(r, k)
	c.rebalance(now)
}

// generationFor is the answer to a join of the current generation.
func (c *coordinator) generationFor(m *member) JoinReply {
	r := JoinReply{
		Generation: c.generation, ProtocolType: c.protocolType, Protocol: c.protocol,
		Leader: c.leader, MemberID: m.id,
	}
	if m.id == c.leader {
		r.Members = make([]JoinMember, len(c.order))
		for i, o := range c.order {
			r.Members[i] = JoinMember{o.id, o.instance, o.metadata(c.protocol)}
		}
	}
	return r
}

// takeOver replaces a static member by a new process with the same instance id.
func (c *coordinator) takeOver(now int64, r *JoinRequest, old *member, id string, k call) {
	oldLeader := c.leader
	c.answerJoin(old, refusedJoin(old.id, ErrFencedInstance))
	c.answerSync(old, SyncReply{Err: ErrFencedInstance})
	m := &member{id: id, instance: old.instance, assignment: old.assignment, synced: old.synced}
	m.update(r, k)
	m.deadline = now + m.session
	delete(c.members, old.id)
	c.members[id] = m
	c.order[slices.Index(c.order, old)] = m
	c.static[m.instance] = id
	if c.leader == old.id {
		c.leader = id
	}
	c.out.owners = true // the same consumer at another address

	if c.state != groupStable || c.order.vote() != c.protocol {
		c.rebalance(now)
		return
	}
	c.out.store = true
	reply := c.generationFor(m)
	if r.SkipAssignment {
		reply.SkipAssignment = m.id == c.leader
	} else {
		reply.Leader, reply.Members = oldLeader, nil
	}
	c.answerJoin(m, reply)
}

// rebalance begins one, or, when one is on its way, ends its first half if all are there.
func (c *coordinator) rebalance(now int64) {
	if c.state == groupPreparing {
		c.maybeCompleteJoin(now)
		return
	}
	if c.state == groupCompleting {
		for _, m := range c.order {
			m.assignment = nil
			if m.sync != 0 {
				c.answerSync(m, SyncReply{Err: ErrRebalanceInProgress})
				m.deadline = now + m.session
			}
		}
	}
	c.syncDeadline = never
	first := c.state == groupEmpty
	c.state = groupPreparing
	if first {
		c.initial, c.joinedSince = true, false
		c.joinDeadline = now + c.limits.initialDelay
		c.spare = max(c.order.patience()-c.limits.initialDelay, 0)
		return
	}
	if c.allJoined() {
		c.completeJoin(now)
		return
	}
	c.joinDeadline = now + c.order.patience()
}

// allJoined says that every member waits in its JoinGroup and no promised id is outstanding.
func (c *coordinator) allJoined() bool {
	for _, m := range c.order {
		if m.join == 0 {
			return false
		}
	}
	return len(c.promised) == 0
}

// maybeCompleteJoin ends PreparingRebalance early, but not the initial delay.
func (c *coordinator) maybeCompleteJoin(now int64) {
	if c.state == groupPreparing && !c.initial && c.allJoined() {
		c.completeJoin(now)
	}
}

// completeJoin ends PreparingRebalance: dynamic members that did not come are out, static ones stay until their
// session ends. The next generation begins.
func (c *coordinator) completeJoin(now int64) {
	c.joinDeadline, c.initial = never, false
	for _, m := range slices.Clone(c.order) {
		if m.join == 0 && m.instance == "" {
			c.remove(m, ErrUnknownMember)
		}
	}
	if len(c.order) > 0 && !c.electLeader() {
		// Nobody but silent static members: wait for one of them, or for their sessions to end.
		c.joinDeadline = now + c.order.patience()
		return
	}
	c.generation++
	if len(c.order) == 0 {
		c.state, c.protocol, c.leader = groupEmpty, "", ""
		c.own()
		c.out.store = true
		return
	}
	c.state, c.protocol = groupCompleting, c.order.vote()
	for _, m := range c.order {
		c.answerJoin(m, c.generationFor(m))
		m.deadline, m.isNew, m.synced = now+m.session, false, false
	}
	c.syncDeadline = now + c.order.patience()
}

// electLeader keeps the leader if it has joined, else takes the first member that has.
func (c *coordinator) electLeader() bool {
	if m := c.members[c.leader]; m != nil && m.join != 0 {
		return true
	}
	for _, m := range c.order {
		if m.join != 0 {
			c.leader = m.id
			return true
		}
	}
	return false
}
