package resp

// XADD key [NOMKSTREAM] [MAXLEN|MINID [=|~] threshold [LIMIT count]] *|ms-*|ms-seq field value [field value ...]
// XSETID key id [ENTRIESADDED n] [MAXDELETEDID id]
//
// `*` is the clock's millisecond with seq 0 if that is greater than the last ID, else the last ID's successor; `ms-*` the next seq
// of that millisecond. Options are read up to the first word that is none, which is the ID. What is checked, in order: options
// and ID, the number of fields, 0-0, the key, exhausted IDs, order, size. Trimming follows the append, and both are one change.
//
// On a topic of several partitions the entry goes where the topic's key field sends it, as Kafka's default partitioner
// would; an ID chosen by the client is refused there and taken on `T#p` (bridge/fan.go).
//
// Left out: KEEPREF, DELREF, ACKED (8.2), IDMP, IDMPAUTO (8.6): refused as Redis before them did, as no valid ID.

import (
	"errors"

	"weir/bridge"
	"weir/engine"
)

const (
	errAddZero     = "ERR The ID specified in XADD must be greater than 0-0"
	errAddTooLarge = "ERR Elements are too large to be stored"
	errAddRouted   = "ERR explicit IDs are refused on a key of several partitions: use *, or one partition's key, name#partition"

	errSetIDAdded   = "ERR entries_added must be positive"
	errSetIDDeleted = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
	errSetIDRouted  = "ERR XSETID is refused on a key of several partitions: use one partition's key, name#partition"
)

// largestEntry is how many bytes the fields of one entry may have together (Redis: 1 GiB).
const largestEntry = 1 << 30

// addition is an XADD, parsed.
type addition struct {
	trim     trimOption
	noStream bool // NOMKSTREAM
	entry    engine.AppendArgs
}

// parse reads all words; it answers the error's text.
func (a *addition) parse(c *call) string {
	args := c.args
	i := 2
	for ; i < len(args); i++ {
		if len(args[i]) == 1 && args[i][0] == '*' {
			a.entry.Auto = true
			break
		}
		used, text := a.trim.take(args, i)
		if text != "" {
			return text
		}
		if used > 0 {
			i += used - 1
			continue
		}
		if foldEqual(args[i], "nomkstream") {
			a.noStream = true
			continue
		}
		id, auto, ok := parseNewID(args[i])
		if !ok {
			return errInvalidID
		}
		a.entry.ID, a.entry.AutoSeq = id, auto
		break
	}
	if text := a.trim.check(c, false); text != "" {
		return text
	}
	if fields := len(args) - i - 1; fields < 2 || fields%2 == 1 {
		return errArity(c.row)
	}
	a.entry.Fields = args[i+1:]
	if !a.entry.Auto && !a.entry.AutoSeq && a.entry.ID == (engine.ID{}) {
		return errAddZero
	}
	return ""
}

// tooLarge says whether the fields exceed what an entry may hold.
func tooLarge(fields [][]byte) bool {
	var n int
	for _, f := range fields {
		n += len(f)
	}
	return n > largestEntry
}

func xadd(c *call) {
	var a addition
	if text := a.parse(c); text != "" {
		c.Err(text)
		return
	}
	route, ok := c.bridge().Resolve(c.args[1])
	if !ok {
		if a.noStream {
			c.Null()
			return
		}
		var err error
		if route, err = c.bridge().CreateKey(c.turn, c.args[1]); err != nil {
			c.Fail(err)
			return
		}
	}
	if tooLarge(a.entry.Fields) {
		c.Err(errAddTooLarge)
		return
	}
	added, err := route.Append(c.bridge(), c.turn, a.entry)
	if err != nil {
		if errors.Is(err, bridge.ErrExplicitID) {
			c.Err(errAddRouted)
			return
		}
		c.Fail(err)
		return
	}
	if a.trim.args.Kind != 0 {
		if _, err = route.Trim(c.turn, a.trim.args); err != nil {
			c.Fail(err)
			return
		}
	}
	c.changed(1)
	c.ID(added.FirstID)
}

func xsetid(c *call) {
	at := engine.SetIDArgs{EntriesAdded: -1}
	var text string
	if at.ID, text = orInvalidID(parseID(c.args[2], 0)); text == "" {
		text = parseSetIDOptions(&at, c.args[3:])
	}
	if text != "" {
		c.Err(text)
		return
	}
	route, ok := c.bridge().Resolve(c.args[1])
	if !ok {
		c.Err(errNoKey)
		return
	}
	if err := route.SetID(c.turn, at); err != nil {
		if errors.Is(err, bridge.ErrExplicitID) {
			c.Err(errSetIDRouted)
			return
		}
		c.Fail(err)
		return
	}
	c.changed(1)
	c.OK()
}

func parseSetIDOptions(at *engine.SetIDArgs, args [][]byte) string {
	for i := 0; i < len(args); i += 2 {
		if i+1 == len(args) {
			return errSyntax
		}
		switch {
		case foldEqual(args[i], "entriesadded"):
			n, ok := signed(args[i+1])
			if !ok {
				return errNotInteger
			}
			if n < 0 {
				return errSetIDAdded
			}
			at.EntriesAdded = n
		case foldEqual(args[i], "maxdeletedid"):
			id, ok := parseID(args[i+1], 0)
			if !ok {
				return errInvalidID
			}
			if at.ID.Less(id) {
				return errSetIDDeleted
			}
			if at.MaxDeleted = &id; id == (engine.ID{}) {
				at.MaxDeleted = nil // Redis takes 0-0 as not given
			}
		default:
			return errSyntax
		}
	}
	return ""
}
