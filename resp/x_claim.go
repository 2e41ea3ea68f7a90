package resp

// XCLAIM key group consumer min-idle id [id ...] [IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID] [LASTID id]
// XAUTOCLAIM key group consumer min-idle start [COUNT n] [JUSTID]
//
// XCLAIM looks at the group before it looks at its numbers, XAUTOCLAIM reads all words first. IDs are read up to the first word that
// is none. Times out of range become now, a negative RETRYCOUNT is as if not given. Each claimed entry counts one delivery more, but for
// JUSTID and RETRYCOUNT. Entries that are gone from the stream are dropped from the PEL: XCLAIM leaves them out, XAUTOCLAIM lists
// them in its third part and counts them against COUNT (default 100). XAUTOCLAIM looks at most at 10 times COUNT pending entries;
// its cursor is the next one, 0-0 at the end.
//
// Nothing is left out.

import (
	"weir/bridge"
	"weir/engine"
)

const (
	errClaimMinIdle     = "ERR Invalid min-idle-time argument for XCLAIM"
	errClaimIdle        = "ERR Invalid IDLE option argument for XCLAIM"
	errClaimTime        = "ERR Invalid TIME option argument for XCLAIM"
	errClaimRetry       = "ERR Invalid RETRYCOUNT option argument for XCLAIM"
	errAutoClaimMinIdle = "ERR Invalid min-idle-time argument for XAUTOCLAIM"
	errAutoClaimCount   = "ERR COUNT must be > 0"
)

// mostAutoClaim is the largest COUNT of XAUTOCLAIM (Redis: LONG_MAX / 16, the size of an ID).
const mostAutoClaim = (1<<63 - 1) / 16

func xclaim(c *call) {
	route, ok := c.bridge().Resolve(c.args[1])
	var group bridge.RouteGroup
	var err error
	if ok {
		group = route.Group(c.bridge(), c.turn, c.conn.names.get(c.args[2]))
		ok, err = group.Exists()
	}
	if err != nil {
		c.Fail(err)
		return
	}
	if !ok {
		c.Err(errNoKeyOrGroup(c.args[1], c.args[2]))
		return
	}
	var few [16]engine.ID
	a := engine.ClaimArgs{IDs: few[:0], Kind: engine.RedisConsumer, Time: -1}
	if text := parseClaim(&a, c.args, c.turn.Now()); text != "" {
		c.Err(text)
		return
	}
	a.Consumer = c.conn.names.get(c.args[3])
	entries, err := group.Claim(a)
	if err != nil {
		failPending(c, err)
		return
	}
	c.changed(entries.Count())
	r := &c.conn.entries
	r.add(segment{entries: entries, justID: a.JustID})
	r.send(c, len(c.b))
}

// parseClaim reads everything after the consumer; it answers the error's text.
func parseClaim(a *engine.ClaimArgs, args [][]byte, now int64) string {
	var ok bool
	if a.MinIdle, ok = signed(args[4]); !ok {
		return errClaimMinIdle
	}
	a.MinIdle = max(a.MinIdle, 0)
	i := 5
	for ; i < len(args); i++ {
		id, ok := parseID(args[i], 0)
		if !ok {
			break
		}
		a.IDs = append(a.IDs, id)
	}
	for ; i < len(args); i++ {
		used, text := claimOption(a, args[i:], now)
		if text != "" {
			return text
		}
		i += used - 1
	}
	return ""
}

// claimOption reads the option at args[0] and answers how many words it took.
func claimOption(a *engine.ClaimArgs, args [][]byte, now int64) (used int, text string) {
	word := args[0]
	switch {
	case foldEqual(word, "force"):
		a.Force = true
		return 1, ""
	case foldEqual(word, "justid"):
		a.JustID = true
		return 1, ""
	case len(args) == 1:
	case foldEqual(word, "idle"):
		n, ok := signed(args[1])
		if !ok {
			return 0, errClaimIdle
		}
		a.Time = claimTime(now-n, now)
		return 2, ""
	case foldEqual(word, "time"):
		n, ok := signed(args[1])
		if !ok {
			return 0, errClaimTime
		}
		a.Time = claimTime(n, now)
		return 2, ""
	case foldEqual(word, "retrycount"):
		n, ok := signed(args[1])
		if !ok {
			return 0, errClaimRetry
		}
		if a.RetryCount = nil; n >= 0 {
			count := uint64(n)
			a.RetryCount = &count
		}
		return 2, ""
	case foldEqual(word, "lastid"):
		id, ok := parseID(args[1], 0)
		if !ok {
			return 0, errInvalidID
		}
		a.LastID = &id
		return 2, ""
	}
	return 0, "ERR Unrecognized XCLAIM option '" + string(word) + "'"
}

// claimTime is the delivery time that IDLE or TIME asks for, or now where that is not in the past. Clients compute it from
// clocks of their own, so it is never an error.
func claimTime(t, now int64) int64 {
	if t < 0 || t > now {
		return now
	}
	return t
}

func xautoclaim(c *call) {
	a := engine.AutoClaimArgs{Kind: engine.RedisConsumer, Count: 100}
	if text := parseAutoClaim(&a, c.args); text != "" {
		c.Err(text)
		return
	}
	a.Consumer = c.conn.names.get(c.args[3])
	route, ok := c.bridge().Resolve(c.args[1])
	if !ok {
		c.Err(errNoKeyOrGroup(c.args[1], c.args[2]))
		return
	}
	got, err := route.Group(c.bridge(), c.turn, c.conn.names.get(c.args[2])).AutoClaim(a)
	if err != nil {
		failPending(c, err)
		return
	}
	c.changed(got.Entries.Count() + got.Deleted.Count())
	begin := len(c.b)
	c.Array(3)
	c.ID(got.Next)
	r := &c.conn.entries
	r.add(segment{entries: got.Entries, justID: a.JustID})
	r.add(segment{entries: got.Deleted, justID: true})
	r.send(c, begin)
}

// parseAutoClaim reads everything but the key, the group and the consumer; it answers the error's text.
func parseAutoClaim(a *engine.AutoClaimArgs, args [][]byte) (text string) {
	var ok bool
	if a.MinIdle, ok = signed(args[4]); !ok {
		return errAutoClaimMinIdle
	}
	a.MinIdle = max(a.MinIdle, 0)
	if a.Start, text = parseStart(args[5]); text != "" {
		return text
	}
	for i := 6; i < len(args); i++ {
		switch {
		case i+1 < len(args) && foldEqual(args[i], "count"):
			i++
			if a.Count, ok = signed(args[i]); !ok || a.Count < 1 || a.Count > mostAutoClaim {
				return errAutoClaimCount
			}
		case foldEqual(args[i], "justid"):
			a.JustID = true
		default:
			return errSyntax
		}
	}
	return ""
}
