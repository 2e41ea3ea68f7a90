package resp

// XTRIM key MAXLEN|MINID [=|~] threshold [LIMIT count]
//
// The options are XADD's too (trimOption). With `=`, or nothing, entries go until the length is MAXLEN or the first ID is
// at least MINID. With `~` whole nodes of stream-node-max-entries entries go and LIMIT bounds how many entries; without a
// LIMIT it is 100 nodes' worth, LIMIT 0 none. Trimming does not move max-deleted-entry-id. On a topic of several
// partitions MAXLEN speaks of all of them together (bridge/fan_trim.go).
//
// Left out: KEEPREF, DELREF, ACKED (8.2), refused as syntax errors.

import (
	"weir/engine"
)

const (
	errTrimBoth      = "ERR syntax error, MAXLEN and MINID options at the same time are not compatible"
	errTrimMaxLen    = "ERR The MAXLEN argument must be >= 0."
	errTrimLimit     = "ERR The LIMIT argument must be >= 0."
	errTrimLimitNot  = "ERR syntax error, LIMIT cannot be used without the special ~ option"
	errTrimLimitBare = "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy"
	errTrimNone      = "ERR syntax error, XTRIM must be called with a trimming strategy"
)

// trimOption collects MAXLEN, MINID and LIMIT.
type trimOption struct {
	args     engine.TrimArgs // Kind 0: none given
	hasLimit bool
}

// take reads the option at args[i]. used is how many words it took; 0: it is none of these.
func (o *trimOption) take(args [][]byte, i int) (used int, errText string) {
	more := len(args) - 1 - i
	word := args[i]
	switch {
	case more == 0:
		return 0, ""
	case foldEqual(word, "maxlen"), foldEqual(word, "minid"):
		if o.args.Kind != 0 {
			return 0, errTrimBoth
		}
		used = 2
		o.args.Approx = false
		if next := args[i+1]; more >= 2 && len(next) == 1 && (next[0] == '~' || next[0] == '=') {
			o.args.Approx = next[0] == '~'
			used = 3
		}
		return used, o.threshold(word, args[i+used-1])
	case foldEqual(word, "limit"):
		n, ok := signed(args[i+1])
		if !ok {
			return 0, errNotInteger
		}
		if n < 0 {
			return 0, errTrimLimit
		}
		o.args.Limit, o.hasLimit = n, true
		return 2, ""
	}
	return 0, ""
}

// threshold reads how far to trim.
func (o *trimOption) threshold(word, arg []byte) string {
	var ok bool
	if foldEqual(word, "minid") {
		o.args.Kind = engine.TrimMinID
		if o.args.MinID, ok = parseID(arg, 0); !ok {
			return errInvalidID
		}
		return ""
	}
	o.args.Kind = engine.TrimMaxLen
	if o.args.MaxLen, ok = signed(arg); !ok {
		return errNotInteger
	}
	if o.args.MaxLen < 0 {
		return errTrimMaxLen
	}
	return ""
}

// check is what can be said once all options are read, and fills in the default LIMIT.
func (o *trimOption) check(c *call, mustTrim bool) string {
	switch {
	case o.args.Limit != 0 && o.args.Kind == 0:
		return errTrimLimitBare
	case mustTrim && o.args.Kind == 0:
		return errTrimNone
	case o.hasLimit && !o.args.Approx:
		return errTrimLimitNot
	}
	if !o.args.Approx {
		return ""
	}
	o.args.NodeEntries = c.nodeEntries()
	if !o.hasLimit {
		o.args.Limit = defaultTrimLimit(c.srv.conf.nodeEntries.Load())
	}
	return ""
}

// defaultTrimLimit is how many entries one approximate trimming removes at most: 100 nodes' worth, between Redis's bounds.
func defaultTrimLimit(nodeEntries int64) int64 {
	const least, most = 10000, 1000000
	switch n := 100 * nodeEntries; {
	case n <= 0:
		return least
	case n > most:
		return most
	default:
		return n
	}
}

func xtrim(c *call) {
	var o trimOption
	for i := 2; i < len(c.args); {
		used, text := o.take(c.args, i)
		if text != "" {
			c.Err(text)
			return
		}
		if used == 0 {
			c.Err(errSyntax)
			return
		}
		i += used
	}
	if text := o.check(c, true); text != "" {
		c.Err(text)
		return
	}
	route, ok := c.bridge().Resolve(c.args[1])
	if !ok {
		c.Int(0)
		return
	}
	n, err := route.Trim(c.turn, o.args)
	if err != nil {
		c.Fail(err)
		return
	}
	c.changed(n)
	c.Int(n)
}
