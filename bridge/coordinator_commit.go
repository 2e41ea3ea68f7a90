package bridge

// Who may commit offsets, and when a group may be deleted.

// checkCommit says whether a member (or, with generation -1 and no id, somebody without membership) may commit now,
// and keeps the member's session alive.
func (c *coordinator) checkCommit(now int64, id, instance string, generation int32) error {
	if c.state == groupDead {
		return ErrCoordinatorUnavailable
	}
	if c.state == groupEmpty && generation < 0 {
		return nil // an administrator, or a consumer that assigns itself
	}
	if generation < 0 && id == "" && instance == "" {
		return ErrUnknownMember // members own the offsets now
	}
	m, err := c.check(id, instance)
	switch {
	case err != nil:
		return err
	case generation != c.generation:
		return ErrIllegalGeneration
	case c.state == groupCompleting:
		return ErrRebalanceInProgress
	}
	m.deadline = now + m.session
	return nil
}

// kill deletes the group: ErrNonEmptyGroup while it has members.
func (c *coordinator) kill() error {
	switch c.state {
	case groupDead:
		return ErrGroupNotFound
	case groupEmpty:
		c.state = groupDead
		clear(c.promised)
		return nil
	}
	return ErrNonEmptyGroup
}
