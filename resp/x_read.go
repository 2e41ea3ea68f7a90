package resp

// XREAD [COUNT n] [BLOCK ms] STREAMS key [key ...] id [id ...]
// XREADGROUP GROUP group consumer [COUNT n] [BLOCK ms] [NOACK] STREAMS key [key ...] id [id ...]
//
//	XREAD       id: entries after it; $: after the last ID as it is now; +: the last living entry, whatever COUNT
//	XREADGROUP  >: new entries, delivered and pending (NOACK: not pending); id: what the consumer holds after it
//
// Streams without entries are left out; a history read always shows its key. Nothing at all: a null array, or with BLOCK the
// client waits. A waiting reader evaluates its command anew whenever something happened to its streams, keeps its place among the
// waiting and its deadline, and has frozen what $ meant. A reader of a group gets NOGROUP when the stream or the group goes; a
// reader without group goes on waiting, also for a stream that does not exist.
//
// Every XREADGROUP creates its consumer and sets its seen time. COUNT below 0 is no COUNT. RESP3: the reply is a map.
//
// Left out, refused as syntax errors: CLAIM (8.4), MAXCOUNT, MAXSIZE (8.10).

import (
	"errors"
	"slices"
	"time"

	"weir/bridge"
	"weir/engine"
)

const (
	errReadUnbalanced  = "ERR Unbalanced 'xread' list of streams: for each stream key an ID, '+', or '$' must be specified."
	errGroupUnbalanced = "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be specified."
	errReadGroup       = "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead."
	errReadNoAck       = "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead."
	errReadNew         = "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
	errGroupMissing    = "ERR Missing GROUP option for XREADGROUP"
	errGroupDollar     = "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set."
	errGroupPlus       = "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would just return an empty result set."
	errTimeoutRange    = "ERR timeout is out of range"
)

// readStart is where reading of one stream begins.
type readStart uint8

const (
	afterID     readStart = iota
	afterNow              // $, becomes afterID when it is first evaluated
	lastEntry             // +
	newEntries            // >
	noReadStart           // no valid ID; told once its key has been looked at
)

// readFrom is the ID of one stream.
type readFrom struct {
	start readStart
	after engine.ID   // afterID
	each  []engine.ID // instead, one for each partition ($ of a whole topic)
	text  string      // noReadStart: the error
}

// reading is an XREAD or XREADGROUP, parsed.
type reading struct {
	isGroup         bool
	group, consumer string
	count           int64 // 0: no limit
	block           int64 // ms; 0 for ever; -1: do not wait
	noAck           bool
	keysAt, streams int // the keys are args[keysAt : keysAt+streams]
	from            []readFrom
	queues          []queueName // one for each stream, while it waits

	unsettled int64       // ms until a whole topic has more to show; 0 nothing (bridge: Route.Unsettled)
	timer     *time.Timer // which wakes a waiting reader then
}

func (rd *reading) key(c *call, i int) []byte { return c.args[rd.keysAt+i] }

// parse reads all words; it answers the error's text.
func (rd *reading) parse(c *call) string {
	args := c.args
	rd.block = -1
	rd.isGroup = len(args[0]) == len("xreadgroup")
	var group, consumer []byte
options:
	for i := 1; i < len(args); i++ {
		more := len(args) - 1 - i
		switch word := args[i]; {
		case more >= 1 && foldEqual(word, "block"):
			i++
			text := ""
			if rd.block, text = parseTimeout(args[i], c.now.UnixMilli()); text != "" {
				return text
			}
		case more >= 1 && foldEqual(word, "count"):
			i++
			n, ok := signed(args[i])
			if !ok {
				return errNotInteger
			}
			rd.count = max(n, 0)
		case more >= 1 && foldEqual(word, "streams"):
			rd.keysAt = i + 1
			if more%2 != 0 {
				if rd.isGroup {
					return errGroupUnbalanced
				}
				return errReadUnbalanced
			}
			rd.streams = more / 2
			break options
		case more >= 2 && foldEqual(word, "group"):
			if !rd.isGroup {
				return errReadGroup
			}
			group, consumer = args[i+1], args[i+2]
			i += 2
		case foldEqual(word, "noack"):
			if !rd.isGroup {
				return errReadNoAck
			}
			rd.noAck = true
		default:
			return errSyntax
		}
	}
	switch {
	case rd.keysAt == 0:
		return errSyntax
	case rd.isGroup && group == nil:
		return errGroupMissing
	}
	if rd.isGroup {
		rd.group, rd.consumer = c.conn.names.get(group), c.conn.names.get(consumer)
	}
	return ""
}

// parseTimeout reads BLOCK's milliseconds. Redis adds the clock to it and refuses what overflows.
func parseTimeout(b []byte, now int64) (int64, string) {
	n, ok := signed(b)
	switch {
	case !ok:
		return 0, errTimeoutInt
	case n < 0:
		return 0, errTimeoutNeg
	case n > 1<<63-1-now:
		return 0, errTimeoutRange
	}
	return n, ""
}

// parseFrom reads the ID of one stream.
func (rd *reading) parseFrom(b []byte) readFrom {
	if len(b) == 1 {
		switch b[0] {
		case '$':
			if rd.isGroup {
				return readFrom{start: noReadStart, text: errGroupDollar}
			}
			return readFrom{start: afterNow}
		case '+':
			if rd.isGroup {
				return readFrom{start: noReadStart, text: errGroupPlus}
			}
			return readFrom{start: lastEntry}
		case '>':
			if !rd.isGroup {
				return readFrom{start: noReadStart, text: errReadNew}
			}
			return readFrom{start: newEntries}
		}
	}
	id, ok := parseID(b, 0)
	if !ok {
		return readFrom{start: noReadStart, text: errInvalidID}
	}
	if rd.isGroup && id == engine.MaxID { // Redis keeps > as this ID, so it means the same
		return readFrom{start: newEntries}
	}
	return readFrom{start: afterID, after: id}
}

func xread(c *call) {
	// The connection's own: a command that waits takes a copy (wait).
	rd := &c.conn.reading
	*rd = reading{from: rd.from[:0]}
	defer func() {
		if cap(rd.from) > mostStreamsKept {
			rd.from = nil
		}
	}()
	if text := rd.parse(c); text != "" {
		c.Err(text)
		return
	}
	for i := range rd.streams {
		rd.from = append(rd.from, rd.parseFrom(c.args[rd.keysAt+rd.streams+i]))
	}
	if !rd.checkFirst(c) {
		return
	}
	if rd.serve(c) {
		return
	}
	if rd.block < 0 {
		if rd.unsettled == 0 {
			c.NullArray()
			return
		}
		rd.block = rd.unsettled + 1 // what was added a moment ago shall not be missed by who does not wait
	}
	rd.wait(c)
}

// checkFirst looks at keys, groups and IDs in Redis's order before anything is done, and freezes $. False: an error is
// replied. One stream with a good ID is left to serve, whose first verb asks for the group anyway.
func (rd *reading) checkFirst(c *call) bool {
	if rd.isGroup && rd.streams == 1 && rd.from[0].start != noReadStart {
		return true
	}
	for i := range rd.from {
		from := &rd.from[i]
		route, ok := bridge.Route{}, false
		if rd.isGroup || from.start == afterNow {
			route, ok = c.bridge().Resolve(rd.key(c, i))
		}
		if rd.isGroup {
			var err error
			if ok {
				ok, err = route.Group(c.bridge(), c.turn, rd.group).Exists()
			}
			if err != nil || !ok {
				rd.fail(c, i, err)
				return false
			}
		}
		switch from.start {
		case noReadStart:
			c.Err(from.text)
			return false
		case afterNow:
			from.start = afterID
			if ok {
				var err error
				if from.each, err = route.LastIDs(c.turn); err != nil {
					c.Fail(err)
					return false
				}
			}
		}
	}
	return true
}

// fail replies an error of stream i; none, or a missing stream or group: NOGROUP.
func (rd *reading) fail(c *call, i int, err error) {
	if rd.isGroup && (err == nil || errors.Is(err, engine.ErrNoGroup) || errors.Is(err, engine.ErrNoStream)) {
		c.Err("NOGROUP No such key '" + string(rd.key(c, i)) + "' or consumer group '" + rd.group +
			"' in XREADGROUP with GROUP option")
		return
	}
	c.Fail(err)
}

// serve replies what there is now; false, and nothing appended, when there is nothing.
func (rd *reading) serve(c *call) bool {
	r := &c.conn.entries
	rd.unsettled = 0
	for i := range rd.from {
		route, ok := c.bridge().Resolve(rd.key(c, i))
		var entries bridge.EntryReader
		var err error
		switch {
		case !ok && rd.isGroup:
			err = engine.ErrNoGroup
		case !ok:
			continue
		case rd.isGroup:
			entries, ok, err = rd.ofGroup(c, &route, i)
		default:
			entries, ok, err = rd.ofStream(c, &route, &rd.from[i])
		}
		if err != nil {
			r.close()
			rd.fail(c, i, err)
			return true
		}
		if ok {
			r.add(segment{key: rd.key(c, i), keyed: true, entries: entries})
		}
	}
	if len(r.segments) == 0 {
		return false
	}
	begin := len(c.b)
	if c.resp3 {
		c.Map(len(r.segments))
	} else {
		c.Array(len(r.segments))
	}
	r.send(c, begin)
	return true
}

// ofStream reads one stream without a group; false when it has nothing.
func (rd *reading) ofStream(c *call, route *bridge.Route, from *readFrom) (entries bridge.EntryReader, ok bool, err error) {
	if from.start == lastEntry {
		entries, err = route.Range(c.bridge(), c.turn, engine.RangeArgs{To: engine.MaxID, Count: 1, Reverse: true})
	} else {
		most := int64(-1)
		if rd.count > 0 {
			most = rd.count
		}
		entries, err = route.ReadAfter(c.bridge(), c.turn, from.after, from.each, most)
	}
	if err == nil && entries.Count() == 0 {
		entries.Close()
		var ms int64
		if from.start == afterID {
			ms, err = route.Unsettled(c.turn, from.after, from.each)
		}
		if ms > 0 && (rd.unsettled == 0 || ms < rd.unsettled) {
			rd.unsettled = ms
		}
		return entries, false, err
	}
	return entries, err == nil, err
}

// ofGroup delivers new entries of stream i, or reads the consumer's history.
func (rd *reading) ofGroup(c *call, route *bridge.Route, i int) (entries bridge.EntryReader, ok bool, err error) {
	from := &rd.from[i]
	group := route.Group(c.bridge(), c.turn, rd.group)
	if from.start == newEntries {
		if err = group.Touch(rd.consumer); err != nil {
			return entries, false, err
		}
		if rd.queues != nil && !c.srv.wait.first(c.conn, rd.queues[i]) {
			return entries, false, nil
		}
		entries, ok, err = group.Deliver(rd.consumer, engine.DeliverArgs{Count: rd.count, NoAck: rd.noAck, Kind: engine.RedisConsumer})
		if ok {
			c.changed(1)
		}
		return entries, ok, err
	}
	made, err := group.ConsumerCreate(rd.consumer)
	if err == nil {
		err = group.Touch(rd.consumer)
	}
	if err != nil {
		return entries, false, err
	}
	if made {
		c.changed(1)
	}
	entries, err = group.History(rd.consumer, from.after, rd.count)
	return entries, true, err
}

// wait parks the client. It waits at each stream and at each name: a name comes to exist, or gets more partitions.
func (rd *reading) wait(c *call) {
	kept := &reading{}
	*kept = *rd
	kept.from = slices.Clone(rd.from)
	b := &blocked{
		places:   kept.places(c),
		deadline: c.deadlineIn(rd.block),
		again: func(c *call) bool {
			if kept.serve(c) {
				return true
			}
			c.waitFor(kept.places(c))
			kept.settle(c)
			return false
		},
		left: func() {
			if kept.timer != nil {
				kept.timer.Stop()
			}
		},
	}
	if rd.isGroup {
		for i := range rd.streams {
			kept.queues = append(kept.queues, queueName{key: string(rd.key(c, i)), group: rd.group})
		}
		conn := c.conn
		conn.srv.wait.join(conn, kept.queues)
		b.left = func() { conn.srv.wait.leave(conn, kept.queues) }
	}
	c.park(b)
}

// settle wakes the waiting reader when a whole topic has more to show: nobody else will.
func (rd *reading) settle(c *call) {
	if rd.unsettled == 0 {
		return
	}
	d := time.Duration(rd.unsettled) * time.Millisecond
	if rd.timer == nil {
		rd.timer = time.AfterFunc(d, c.conn.waiter.Wake)
		return
	}
	rd.timer.Reset(d)
}

// places are where a wake-up may come from, as things are now. A key that is given twice stands there twice, which is harmless;
// looking for such keys would cost the square of their number.
func (rd *reading) places(c *call) []engine.Place {
	places := make([]engine.Place, 0, 2*rd.streams)
	for i := range rd.streams {
		key := rd.key(c, i)
		places = append(places, engine.Place{Name: string(key)})
		if route, ok := c.bridge().Resolve(key); ok {
			for _, no := range route.Streams {
				places = append(places, engine.Place{Stream: no})
			}
		}
	}
	return places
}
