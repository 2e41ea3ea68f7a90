package bridge

// SyncGroup (classic). Followers wait for the leader's; a member that the leader left out gets an empty
// assignment; what others than the leader send along is ignored.

// SyncRequest is a SyncGroup.
type SyncRequest struct {
	Group        string
	MemberID     string
	InstanceID   string
	Generation   int32
	ProtocolType *string // v5+; nil unchecked
	Protocol     *string
	Assignments  []Assignment
}

// Assignment is the leader's word for one member.
type Assignment struct {
	MemberID string
	Bytes    []byte // kept
}

// SyncReply answers a SyncGroup.
type SyncReply struct {
	// Err is nil or one of ErrInvalidGroup, ErrUnknownMember, ErrFencedInstance, ErrIllegalGeneration,
	// ErrInconsistentProtocol, ErrRebalanceInProgress, ErrGroupBytes, ErrCoordinatorUnavailable.
	Err          error
	ProtocolType string
	Protocol     string
	Assignment   []byte
}

// syncWith parks a member, answers it, or takes the leader's assignment.
func (c *coordinator) syncWith(now int64, r *SyncRequest, k call) {
	m, err := c.checkSync(r)
	if err != nil {
		c.out.syncs = append(c.out.syncs, syncAnswer{k, SyncReply{Err: err}})
		return
	}
	m.synced = true
	if m.sync != 0 { // repeated: the client has given the parked one up
		c.answerSync(m, SyncReply{Err: ErrRebalanceInProgress})
	}
	m.sync = k
	if c.state == groupStable {
		c.answerSync(m, c.assignmentFor(m))
		m.deadline = now + m.session
		c.settleSync()
		return
	}
	if m.id != c.leader {
		return
	}
	for _, o := range c.order {
		o.assignment = nil
	}
	for _, a := range r.Assignments {
		if o := c.members[a.MemberID]; o != nil {
			o.assignment = a.Bytes
		}
	}
	if !c.fits(nil, nil) {
		// Nothing of it can be kept: whoever waits hears so, and all join again.
		for _, o := range c.order {
			c.answerSync(o, SyncReply{Err: ErrGroupBytes})
		}
		c.rebalance(now)
		return
	}
	c.state = groupStable
	c.own()
	c.out.store = true
	for _, o := range c.order {
		if o.sync != 0 {
			c.answerSync(o, c.assignmentFor(o))
			o.deadline = now + o.session
		}
	}
	c.settleSync()
}

// checkSync finds the member that may sync now.
func (c *coordinator) checkSync(r *SyncRequest) (*member, error) {
	if c.state == groupDead {
		return nil, ErrCoordinatorUnavailable
	}
	m, err := c.check(r.MemberID, r.InstanceID)
	switch {
	case err != nil:
		return nil, err
	case r.Generation != c.generation:
		return nil, ErrIllegalGeneration
	case r.ProtocolType != nil && *r.ProtocolType != c.protocolType,
		r.Protocol != nil && c.protocol != "" && *r.Protocol != c.protocol:
		return nil, ErrInconsistentProtocol
	case c.state == groupPreparing:
		return nil, ErrRebalanceInProgress
	}
	return m, nil
}

// assignmentFor is the answer to a sync of the current generation.
func (c *coordinator) assignmentFor(m *member) SyncReply {
	return SyncReply{ProtocolType: c.protocolType, Protocol: c.protocol, Assignment: m.assignment}
}

// settleSync drops the deadline for SyncGroups once all members have sent theirs.
func (c *coordinator) settleSync() {
	for _, m := range c.order {
		if !m.synced {
			return
		}
	}
	c.syncDeadline = never
}
