package resp

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weir/bridge"
	"weir/engine"
)

// DEL UNLINK EXISTS TYPE KEYS SCAN DBSIZE FLUSHDB FLUSHALL RANDOMKEY: keys are topics (dictionary 2). `T#p` exists and has a
// type, is not listed, and cannot be deleted by itself.
//
// FLUSHALL and FLUSHDB take SYNC and ASYNC and do the same for both. SCAN's order is that of creation, so that a full
// iteration returns every key that is there all the while exactly once.
//
// Left out: EXPIRE and its kin, RENAME, COPY, OBJECT, TOUCH.

func keyRows() []*command {
	row := func(name string, arity int, f flags, cats category, since, group, summary string, tips string, keys []keySpec, run func(*call)) *command {
		return &command{name: name, arity: arity, flags: f, cats: cats, since: since, group: group, summary: summary, tips: strings.Fields(tips), keys: keys, run: run}
	}
	every := func(kind ...string) []keySpec { return []keySpec{{flags: kind, index: 1, last: -1, step: 1}} }
	const sum = "request_policy:multi_shard response_policy:agg_sum"
	const allShards = "request_policy:all_shards "
	return []*command{
		row("del", -2, write, catKeyspace, "1.0.0", "generic", "Deletes keys.", sum, every("RM", "delete"), del),
		row("unlink", -2, write|fast, catKeyspace, "4.0.0", "generic", "Deletes keys.", sum, every("RM", "delete"), del),
		row("exists", -2, readonly|fast, catKeyspace, "1.0.0", "generic", "Counts those keys that exist.", sum, every("RO"), exists),
		row("type", 2, readonly|fast, catKeyspace, "1.0.0", "generic", "Answers stream, or none.", "", firstKey(1, "RO"), typeOf),
		row("keys", 2, readonly, catKeyspace|catDangerous, "1.0.0", "generic", "Lists the keys that match.", allShards+"nondeterministic_output_order", nil, keys),
		row("scan", -2, readonly, catKeyspace, "2.8.0", "generic", "Lists the keys bit by bit.", "nondeterministic_output request_policy:special response_policy:special", nil, scan),
		row("dbsize", 1, readonly|fast, catKeyspace, "1.0.0", "server", "Counts the keys.", allShards+"response_policy:agg_sum", nil, dbSize),
		row("flushdb", -1, write, catKeyspace|catDangerous, "1.0.0", "server", "Deletes everything.", allShards+"response_policy:all_succeeded", nil, flush),
		row("flushall", -1, write, catKeyspace|catDangerous, "1.0.0", "server", "Deletes everything.", allShards+"response_policy:all_succeeded", nil, flush),
		row("randomkey", 1, readonly, catKeyspace, "1.0.0", "generic", "Answers some key.", allShards+"response_policy:special nondeterministic_output", nil, randomKey),
	}
}

// del: DEL key [key ...].
func del(c *call) {
	n := int64(0)
	for _, key := range c.args[1:] {
		gone, err := c.bridge().DropKey(c.turn, key)
		if err != nil {
			c.Fail(err)
			return
		}
		if gone {
			n++
		}
	}
	c.changed(n)
	c.Int(n)
}

// exists: EXISTS key [key ...]; a key given twice counts twice.
func exists(c *call) {
	n := int64(0)
	for _, key := range c.args[1:] {
		if _, ok := c.find(key); ok {
			n++
		}
	}
	c.Int(n)
}

// find resolves a key for reading, and counts INFO's keyspace hits and misses.
func (c *call) find(key []byte) (bridge.Route, bool) {
	r, ok := c.bridge().Resolve(key)
	if ok {
		c.srv.stats.hits.Add(1)
	} else {
		c.srv.stats.misses.Add(1)
	}
	return r, ok
}

func typeOf(c *call) {
	if _, ok := c.bridge().Resolve(c.args[1]); ok {
		c.Simple("stream")
		return
	}
	c.Simple("none")
}

func dbSize(c *call) { c.Int(int64(len(c.bridge().Topics()))) }

// flush: FLUSHALL [ASYNC|SYNC].
func flush(c *call) {
	if len(c.args) > 2 || (len(c.args) == 2 && !foldEqual(c.args[1], "async") && !foldEqual(c.args[1], "sync")) {
		c.Err(errSyntax)
		return
	}
	n := len(c.bridge().Topics())
	if err := c.bridge().DropAll(c.turn); err != nil {
		c.Fail(err)
		return
	}
	c.changed(int64(n))
	c.OK()
}

func randomKey(c *call) {
	all := c.bridge().Topics()
	if len(all) == 0 {
		c.Null()
		return
	}
	c.BulkString(all[rand.IntN(len(all))].Name)
}

// names is a long reply of topic names.
type names struct{ topics []*bridge.Topic }

func (n *names) next(w *reply) (bool, error) {
	for from := len(w.b); len(n.topics) > 0 && len(w.b)-from < restChunk; n.topics = n.topics[1:] {
		w.BulkString(n.topics[0].Name)
	}
	return len(n.topics) > 0, nil
}

func (n *names) close() {}

// keys: KEYS pattern.
func keys(c *call) {
	all := c.bridge().Topics()
	var found []*bridge.Topic
	if string(c.args[1]) == "*" {
		found = slices.Clone(all)
	} else {
		for _, t := range all {
			if globMatch(c.args[1], []byte(t.Name), false) {
				found = append(found, t)
			}
		}
	}
	c.Array(len(found))
	if len(found) > 0 {
		c.continueWith(&names{found})
	}
}

// scanOrder remembers the topics in the order of their numbers, as long as they are the same list. SCAN would
// otherwise sort all of them for each ten that it answers.
type scanOrder struct {
	mu     sync.Mutex
	of     []*bridge.Topic // the list that sorted was made of
	sorted []*bridge.Topic
}

func (o *scanOrder) topics(all []*bridge.Topic) []*bridge.Topic {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.of) != len(all) || !slices.Equal(o.of, all) {
		o.of = slices.Clone(all)
		o.sorted = slices.Clone(all)
		slices.SortFunc(o.sorted, func(a, b *bridge.Topic) int { return cmp.Compare(scanPlace(a), scanPlace(b)) })
	}
	return o.sorted
}

// scanPlace is a topic's place in SCAN's order: never re-used, never changed. It is the cursor that stands before it.
func scanPlace(t *bridge.Topic) engine.StreamNo { return t.Streams[0] }

// scan: SCAN cursor [MATCH pattern] [COUNT n] [TYPE type].
func scan(c *call) {
	cursor, err := strconv.ParseUint(string(c.args[1]), 10, 64)
	if err != nil {
		c.Err("ERR invalid cursor")
		return
	}
	count, pattern, kind := int64(10), []byte("*"), true
	for words := c.args[2:]; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			c.Err(errSyntax)
			return
		}
		switch {
		case foldEqual(words[0], "count"):
			n, ok := parseInt(words[1])
			if !ok {
				c.Err(errNotInteger)
				return
			}
			if n < 1 {
				c.Err(errSyntax)
				return
			}
			count = n
		case foldEqual(words[0], "match"):
			pattern = words[1]
		case foldEqual(words[0], "type"):
			kind = foldEqual(words[1], "stream")
		default:
			c.Err(errSyntax)
			return
		}
	}
	order := c.srv.scan.topics(c.bridge().Topics())
	from, _ := slices.BinarySearchFunc(order, engine.StreamNo(cursor), func(t *bridge.Topic, no engine.StreamNo) int {
		return cmp.Compare(scanPlace(t), no)
	})
	order = order[from:]
	next := uint64(0)
	if int64(len(order)) > count {
		next = uint64(scanPlace(order[count]))
		order = order[:count]
	}
	var found []*bridge.Topic
	for _, t := range order {
		if kind && (bytes.Equal(pattern, []byte("*")) || globMatch(pattern, []byte(t.Name), false)) {
			found = append(found, t)
		}
	}
	c.Array(2)
	c.BulkString(strconv.FormatUint(next, 10))
	c.Array(len(found))
	if len(found) > 0 {
		c.continueWith(&names{found})
	}
}
