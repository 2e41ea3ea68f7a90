package resp

// XINFO STREAM key [FULL [COUNT n]]
// XINFO GROUPS key
// XINFO CONSUMERS key group
// XINFO HELP
//
// Maps in RESP3, flat arrays in RESP2. FULL: COUNT bounds the entries, each group's and each consumer's pending entries; 10 when
// absent or negative, 0: all. entries-read and lag are null when unknown; a lag may be negative. radix-tree-keys is the number of virtual nodes of
// stream-node-max-entries entries that hold something, radix-tree-nodes one more (two numbers of Redis's own insides that tools read).
//
// Left out: the six IDMP fields of 8.6, nacked-count (8.8).

import (
	"errors"
	"math"

	"weir/bridge"
	"weir/engine"
)

// infoRoute finds the key of an XINFO; false: the error is replied.
func infoRoute(c *call) (bridge.Route, bool) {
	route, ok := c.bridge().Resolve(c.args[2])
	if !ok {
		c.Err(errNoKey)
	}
	return route, ok
}

func xinfoStream(c *call) {
	route, ok := infoRoute(c)
	if !ok {
		return
	}
	full, count, text := parseInfoStream(c)
	if text != "" {
		c.Err(text)
		return
	}
	st, err := route.Stat(c.turn)
	var nodes int64
	if err == nil {
		nodes, err = route.Nodes(c.turn, c.srv.conf.nodeEntries.Load())
	}
	if err != nil {
		c.Fail(err)
		return
	}
	if full {
		infoFull(c, &route, &st, nodes, count)
		return
	}
	begin := len(c.b)
	c.Map(10)
	infoHead(c.reply, &st, nodes)
	c.BulkString("groups")
	c.Int(int64(st.Groups))
	c.BulkString("first-entry")
	if err = infoEntry(c, &route, false); err == nil {
		c.BulkString("last-entry")
		err = infoEntry(c, &route, true)
	}
	if err != nil {
		c.b = c.b[:begin]
		c.Fail(err)
	}
}

// parseInfoStream reads [FULL [COUNT n]]; count 0 is all.
func parseInfoStream(c *call) (full bool, count int64, text string) {
	options := c.args[3:]
	count = 10
	switch {
	case len(options) == 0:
		return false, 0, ""
	case len(options) != 1 && len(options) != 3 || !foldEqual(options[0], "full"):
		return false, 0, errSubSyntax(c)
	case len(options) == 1:
		return true, count, ""
	case !foldEqual(options[1], "count"):
		return false, 0, errSubSyntax(c)
	}
	n, ok := signed(options[2])
	if !ok {
		return false, 0, errNotInteger
	}
	if n >= 0 {
		count = n
	}
	return true, count, ""
}

// infoHead appends the seven fields that both forms have.
func infoHead(w *reply, st *engine.StreamStat, nodes int64) {
	w.BulkString("length")
	w.Int(st.Length)
	w.BulkString("radix-tree-keys")
	w.Int(nodes)
	w.BulkString("radix-tree-nodes")
	w.Int(nodes + 1)
	w.BulkString("last-generated-id")
	w.ID(st.LastID)
	w.BulkString("max-deleted-entry-id")
	w.ID(st.MaxDeletedID)
	w.BulkString("entries-added")
	w.Int(st.EntriesAdded)
	w.BulkString("recorded-first-entry-id")
	w.ID(st.FirstID)
}

// infoEntry appends the first or the last living entry, or null.
func infoEntry(c *call, route *bridge.Route, last bool) error {
	entries, err := route.Range(c.bridge(), c.turn, engine.RangeArgs{To: engine.MaxID, Count: 1, Reverse: last})
	if err != nil {
		return err
	}
	defer entries.Close()
	if entries.Count() == 0 {
		c.Null()
		return nil
	}
	_, err = entries.Next(func(e *bridge.Entry) bool {
		writeEntry(c.reply, e)
		return true
	})
	return err
}

// infoFull replies XINFO STREAM FULL: what comes after the entries is made first, because they are made as they are taken.
func infoFull(c *call, route *bridge.Route, st *engine.StreamStat, nodes, count int64) {
	most := count
	if count == 0 {
		most = -1
	}
	tail := reply{resp3: c.resp3}
	if err := infoFullGroups(c, &tail, route, count); err != nil {
		c.Fail(err)
		return
	}
	entries, err := route.Range(c.bridge(), c.turn, engine.RangeArgs{To: engine.MaxID, Count: most})
	if err != nil {
		c.Fail(err)
		return
	}
	begin := len(c.b)
	c.Map(9)
	infoHead(c.reply, st, nodes)
	c.BulkString("entries")
	r := &c.conn.entries
	r.add(segment{entries: entries})
	r.tail = tail.b
	r.send(c, begin)
}

// infoFullGroups appends the groups field of FULL.
func infoFullGroups(c *call, w *reply, route *bridge.Route, count int64) error {
	if count == 0 {
		count = math.MaxInt64
	}
	groups, err := route.Groups(c.bridge(), c.turn)
	if err != nil {
		return err
	}
	w.BulkString("groups")
	w.Array(len(groups))
	for i := range groups {
		g := &groups[i]
		group := route.Group(c.bridge(), c.turn, g.Name)
		w.Map(7)
		w.BulkString("name")
		w.BulkString(g.Name)
		infoProgress(w, g)
		w.BulkString("pel-count")
		w.Int(g.Pending)
		held, err := group.Pending(engine.PendingArgs{To: engine.MaxID, Count: count})
		if err != nil {
			return err
		}
		w.BulkString("pending")
		w.Array(len(held))
		for i := range held {
			w.Array(4)
			w.ID(held[i].ID)
			w.BulkString(held[i].Consumer)
			infoDelivery(w, &held[i], c.turn.Now())
		}
		if err = infoFullConsumers(c, w, group, count); err != nil {
			return err
		}
	}
	return nil
}

// infoFullConsumers appends the consumers field of a group of FULL.
func infoFullConsumers(c *call, w *reply, group bridge.RouteGroup, count int64) error {
	consumers, err := group.Consumers()
	if err != nil {
		return err
	}
	w.BulkString("consumers")
	w.Array(len(consumers))
	for i := range consumers {
		who := &consumers[i]
		held, err := group.Pending(engine.PendingArgs{To: engine.MaxID, Count: count, Consumer: &who.Name})
		if err != nil {
			return err
		}
		w.Map(5)
		w.BulkString("name")
		w.BulkString(who.Name)
		w.BulkString("seen-time")
		w.Int(who.Seen)
		w.BulkString("active-time")
		w.Int(who.Active)
		w.BulkString("pel-count")
		w.Int(who.Pending)
		w.BulkString("pending")
		w.Array(len(held))
		for i := range held {
			w.Array(3)
			w.ID(held[i].ID)
			infoDelivery(w, &held[i], c.turn.Now())
		}
	}
	return nil
}

// infoDelivery appends a pending entry's delivery time and count.
func infoDelivery(w *reply, h *engine.HeldDetail, now int64) {
	if h.Idle < 0 { // released
		w.Int(0)
	} else {
		w.Int(now - h.Idle)
	}
	w.Int(int64(min(h.Count, 1<<63-1)))
}

// infoProgress appends a group's last-delivered-id, entries-read and lag.
func infoProgress(w *reply, g *engine.GroupStat) {
	w.BulkString("last-delivered-id")
	w.ID(g.LastID)
	w.BulkString("entries-read")
	infoKnown(w, g.EntriesRead)
	w.BulkString("lag")
	if g.Lag == engine.UnknownLag {
		w.Null()
		return
	}
	w.Int(g.Lag)
}

// infoKnown appends a counter of which -1 is unknown.
func infoKnown(w *reply, n int64) {
	if n < 0 {
		w.Null()
		return
	}
	w.Int(n)
}

func xinfoGroups(c *call) {
	route, ok := infoRoute(c)
	if !ok {
		return
	}
	groups, err := route.Groups(c.bridge(), c.turn)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Array(len(groups))
	for i := range groups {
		g := &groups[i]
		c.Map(6)
		c.BulkString("name")
		c.BulkString(g.Name)
		c.BulkString("consumers")
		c.Int(int64(g.Consumers))
		c.BulkString("pending")
		c.Int(g.Pending)
		infoProgress(c.reply, g)
	}
}

func xinfoConsumers(c *call) {
	route, ok := infoRoute(c)
	if !ok {
		return
	}
	name := string(c.args[3])
	consumers, err := route.Group(c.bridge(), c.turn, name).Consumers()
	if errors.Is(err, engine.ErrNoGroup) {
		c.Err(errNoSuchGroup(name, c.args[2]))
		return
	}
	if err != nil {
		c.Fail(err)
		return
	}
	now := c.turn.Now()
	c.Array(len(consumers))
	for i := range consumers {
		who := &consumers[i]
		c.Map(4)
		c.BulkString("name")
		c.BulkString(who.Name)
		c.BulkString("pending")
		c.Int(who.Pending)
		c.BulkString("idle")
		c.Int(max(now-who.Seen, 0))
		c.BulkString("inactive")
		if who.Active < 0 {
			c.Int(-1)
			continue
		}
		c.Int(max(now-who.Active, 0))
	}
}

func xinfoHelp(c *call) {
	replyHelp(c, []string{
		"XINFO <subcommand> [<arg> ...]. Subcommands:",
		"STREAM <key> [FULL [COUNT <n>]]",
		"    Show the stream; FULL with entries, groups and what they hold.",
		"GROUPS <key>",
		"    List the stream's groups.",
		"CONSUMERS <key> <group>",
		"    List the group's consumers.",
		"HELP",
		"    This text.",
	})
}
