package bridge

import "slices"

// Time passing: the only input that nobody sends.

// expire does what is due at now.
func (c *coordinator) expire(now int64) {
	c.expireJoin(now)
	c.expireSync(now)
	c.expireSessions(now)
}

// expireJoin ends PreparingRebalance, unless the first rebalance of the group may still be put off because somebody
// came meanwhile (KIP-134).
func (c *coordinator) expireJoin(now int64) {
	if now < c.joinDeadline {
		return
	}
	if c.initial && c.joinedSince && c.spare > 0 {
		c.joinedSince = false
		c.joinDeadline = now + min(c.limits.initialDelay, c.spare)
		c.spare = max(c.spare-c.limits.initialDelay, 0)
		return
	}
	c.completeJoin(now)
}

// expireSync removes members that joined and never synced: their heartbeats alone would
// keep partitions that nobody reads.
func (c *coordinator) expireSync(now int64) {
	if now < c.syncDeadline {
		return
	}
	c.syncDeadline = never
	gone := false
	for _, m := range slices.Clone(c.order) {
		if !m.synced {
			c.remove(m, ErrUnknownMember)
			gone = true
		}
	}
	if gone {
		c.afterRemoval(now)
	}
}

// expireSessions removes members that were not heard of, and ids that nobody came back with.
func (c *coordinator) expireSessions(now int64) {
	gone := false
	for id, deadline := range c.promised {
		if now >= deadline {
			delete(c.promised, id)
			gone = true
		}
	}
	removed := false
	for _, m := range slices.Clone(c.order) {
		switch {
		case now < m.deadline:
		case !m.isNew && (m.join != 0 || m.sync != 0):
			m.deadline = never // it waits for us; the answer starts its session anew
		default:
			c.remove(m, ErrUnknownMember)
			removed = true
		}
	}
	switch {
	case removed:
		c.afterRemoval(now)
	case gone:
		c.maybeCompleteJoin(now)
	}
}
