package resp

// XACK key group id [id ...]
//
// Answers how many were pending. No key or no group: 0, and the IDs are not even looked at; otherwise a bad ID fails the whole
// command before anything is acknowledged.
//
// Left out: XACKDEL (8.2), XNACK (8.8), unknown commands for now.

import (
	"weir/engine"
)

func xack(c *call) {
	route, ok := c.bridge().Resolve(c.args[1])
	if !ok {
		c.Int(0)
		return
	}
	group := route.Group(c.bridge(), c.turn, c.conn.names.get(c.args[2]))
	var few [16]engine.ID
	ids, ok := parseIDs(few[:0], c.args[3:])
	if !ok {
		if there, err := group.Exists(); err == nil && !there {
			c.Int(0)
			return
		}
		c.Err(errInvalidID)
		return
	}
	n, err := group.Ack(ids)
	if err != nil {
		c.Fail(err)
		return
	}
	c.changed(n)
	c.Int(n)
}
