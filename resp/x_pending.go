package resp

// XPENDING key group
// XPENDING key group [IDLE ms] start end count [consumer]
//
// The short form: number, smallest and greatest ID, and [consumer, number as a bulk string] of those that hold something; [0, nil,
// nil, nil] when nothing is pending. The long form: [id, consumer, idle ms, deliveries]; entries released by a Kafka share
// member have consumer "" and idle -1. All words are read before the key is looked at, count first; count below 0 is 0; three
// words or six to nine, else a syntax error.
//
// Nothing is left out.

import (
	"errors"

	"weir/engine"
)

// errNoKeyOrGroup is the NOGROUP of XPENDING, XCLAIM and XAUTOCLAIM.
func errNoKeyOrGroup(key, group []byte) string {
	return "NOGROUP No such key '" + string(key) + "' or consumer group '" + string(group) + "'"
}

// failPending replies the error of a verb on the group that args[1] and args[2] name.
func failPending(c *call, err error) {
	if errors.Is(err, engine.ErrNoGroup) || errors.Is(err, engine.ErrNoStream) {
		c.Err(errNoKeyOrGroup(c.args[1], c.args[2]))
		return
	}
	c.Fail(err)
}

func xpending(c *call) {
	a, text := parsePending(c.args)
	if text != "" {
		c.Err(text)
		return
	}
	route, ok := c.bridge().Resolve(c.args[1])
	if !ok {
		c.Err(errNoKeyOrGroup(c.args[1], c.args[2]))
		return
	}
	group := route.Group(c.bridge(), c.turn, c.conn.names.get(c.args[2]))
	if len(c.args) == 3 {
		sum, err := group.PendingSummary()
		if err != nil {
			failPending(c, err)
			return
		}
		replyPendingSummary(c, &sum)
		return
	}
	held, err := group.Pending(a)
	if err != nil {
		failPending(c, err)
		return
	}
	c.Array(len(held))
	for i := range held {
		h := &held[i]
		c.Array(4)
		c.ID(h.ID)
		c.BulkString(h.Consumer)
		c.Int(h.Idle)
		c.Int(int64(min(h.Count, 1<<63-1)))
	}
}

func replyPendingSummary(c *call, sum *engine.PendingSummary) {
	c.Array(4)
	c.Int(sum.Count)
	if sum.Count == 0 {
		c.Null()
		c.Null()
		c.NullArray()
		return
	}
	c.ID(sum.Min)
	c.ID(sum.Max)
	c.Array(len(sum.Consumers))
	for _, holder := range sum.Consumers {
		c.Array(2)
		c.BulkString(holder.Name)
		c.BulkInt(holder.Count)
	}
}

// parsePending reads the long form; it answers the error's text.
func parsePending(args [][]byte) (a engine.PendingArgs, text string) {
	if len(args) == 3 {
		return a, ""
	}
	if len(args) < 6 || len(args) > 9 {
		return a, errSyntax
	}
	var ok bool
	at := 3
	if foldEqual(args[3], "idle") {
		if a.MinIdle, ok = signed(args[4]); !ok {
			return a, errNotInteger
		}
		if len(args) < 8 {
			return a, errSyntax
		}
		at = 5
	}
	a.MinIdle = max(a.MinIdle, 0)
	if a.Count, ok = signed(args[at+2]); !ok {
		return a, errNotInteger
	}
	a.Count = max(a.Count, 0)
	if a.From, text = parseStart(args[at]); text != "" {
		return a, text
	}
	if a.To, text = parseEnd(args[at+1]); text != "" {
		return a, text
	}
	if at+3 < len(args) {
		consumer := string(args[at+3])
		a.Consumer = &consumer
	}
	return a, ""
}
