package bridge

// Heartbeat (classic): keeps a member's session alive and tells it of a rebalance.

// HeartbeatRequest is a Heartbeat.
type HeartbeatRequest struct {
	Group      string
	MemberID   string
	InstanceID string
	Generation int32
}

// heartbeat answers nil, ErrRebalanceInProgress, or why the member is none.
func (c *coordinator) heartbeat(now int64, r *HeartbeatRequest) error {
	if c.state == groupDead {
		return ErrCoordinatorUnavailable
	}
	m, err := c.check(r.MemberID, r.InstanceID)
	switch {
	case err != nil:
		return err
	case r.Generation != c.generation:
		return ErrIllegalGeneration
	}
	// Between JoinGroup's answer and SyncGroup some clients send heartbeats already: they count.
	m.deadline = now + m.session
	if c.state == groupPreparing {
		return ErrRebalanceInProgress
	}
	return nil
}
