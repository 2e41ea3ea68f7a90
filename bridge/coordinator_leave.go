package bridge

// LeaveGroup (classic): one member, or several at once (v3+), which lets an administrator remove static
// members by instance id alone (an empty member id).

// LeaveRequest is a LeaveGroup.
type LeaveRequest struct {
	Group   string
	Members []LeavingMember
}

// LeavingMember names one member that leaves.
type LeavingMember struct {
	MemberID   string
	InstanceID string
	Reason     string // KIP-800
}

// leave removes members; the errors are in the order of the request.
func (c *coordinator) leave(now int64, r *LeaveRequest) []error {
	errs := make([]error, len(r.Members))
	gone := false
	for i, l := range r.Members {
		id, instance := l.MemberID, l.InstanceID
		if c.state == groupDead {
			errs[i] = ErrCoordinatorUnavailable
			continue
		}
		if id == "" {
			id = c.static[instance]
		} else if _, promised := c.promised[id]; promised {
			delete(c.promised, id)
			gone = true
			continue
		}
		m, err := c.check(id, instance)
		if err != nil {
			errs[i] = err
			continue
		}
		c.remove(m, ErrUnknownMember)
		gone = true
	}
	if gone {
		c.afterRemoval(now)
	}
	return errs
}

// afterRemoval goes on without those who were removed.
func (c *coordinator) afterRemoval(now int64) {
	switch c.state {
	case groupStable, groupCompleting:
		c.rebalance(now)
	case groupPreparing:
		c.maybeCompleteJoin(now)
	}
}
