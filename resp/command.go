package resp

import (
	"strings"
)

// COMMAND, COMMAND COUNT INFO DOCS LIST GETKEYS HELP: the one list, as clients read it.
//
// Left out: GETKEYSANDFLAGS; arguments and complexity in DOCS (redis-cli then shows no hints while typing).

func commandRow() *command {
	const usual = loading | stale
	unordered := []string{"nondeterministic_output_order"}
	sub := func(name string, arity int, since string, tips []string, summary string, run func(*call)) *command {
		return &command{name: "command|" + name, arity: arity, flags: usual, cats: catConnection, tips: tips, since: since, group: "server", summary: summary, run: run}
	}
	return &command{name: "command", arity: -1, flags: usual, cats: catConnection, tips: unordered, since: "2.8.13", group: "server",
		summary: "Describes all commands.", run: commandAll, subs: []*command{
			sub("count", 2, "2.8.13", nil, "Answers how many commands there are.", commandCount),
			sub("docs", -2, "7.0.0", unordered, "Documents commands.", commandDocs),
			sub("list", -2, "7.0.0", unordered, "Lists the names of commands.", commandList),
			sub("help", 2, "5.0.0", nil, "Lists the subcommands.", commandHelp),
			sub("getkeys", -3, "2.8.13", nil, "Answers the keys in a command.", commandGetKeys),
			sub("info", -2, "2.8.13", unordered, "Describes commands.", commandInfo),
		}}
}

// flagNames are Redis's, in its order; movablekeys is derived.
var flagNames = []struct {
	flag flags
	name string
}{
	{write, "write"}, {readonly, "readonly"}, {denyOOM, "denyoom"}, {admin, "admin"}, {noScript, "noscript"}, {blocking, "blocking"},
	{loading, "loading"}, {stale, "stale"}, {skipMonitor, "skip_monitor"}, {skipSlowlog, "skip_slowlog"}, {fast, "fast"}, {noAuth, "no_auth"},
	{noAsyncLoading, "no_async_loading"}, {noMulti, "no_multi"}, {movableKeys, "movablekeys"}, {allowBusy, "allow_busy"},
}

func (r *command) flagWords() (words []string) {
	for _, f := range flagNames {
		if r.flags&f.flag != 0 {
			words = append(words, f.name)
		}
	}
	return words
}

// categories are the ACL categories, those that follow from the flags included, in Redis's order.
func (r *command) categories() (words []string) {
	add := func(yes bool, word string) {
		if yes {
			words = append(words, "@"+word)
		}
	}
	add(r.cats&catKeyspace != 0, "keyspace")
	add(r.flags&readonly != 0, "read")
	add(r.flags&write != 0, "write")
	add(r.cats&catStream != 0, "stream")
	add(r.flags&admin != 0, "admin")
	add(r.flags&fast != 0, "fast")
	add(r.flags&fast == 0, "slow")
	add(r.flags&blocking != 0, "blocking")
	add(r.flags&admin != 0 || r.cats&catDangerous != 0, "dangerous")
	add(r.cats&catConnection != 0, "connection")
	return words
}

// legacyKeys is first, last, step as COMMAND has told them since 2.8; keys that move are told by the flag only.
func (r *command) legacyKeys() (first, last, step int) {
	for _, k := range r.keys {
		if k.keyword == "" {
			last := k.last
			if last >= 0 {
				last += k.index
			}
			return k.index, last, k.step
		}
	}
	return 0, 0, 0
}

// describe replies one row of COMMAND.
func (r *command) describe(c *call) {
	c.Array(10)
	c.BulkString(r.name)
	c.Int(int64(r.arity))
	c.statusSet(r.flagWords())
	first, last, step := r.legacyKeys()
	c.Int(int64(first))
	c.Int(int64(last))
	c.Int(int64(step))
	c.statusSet(r.categories())
	c.Set(len(r.tips))
	for _, tip := range r.tips {
		c.BulkString(tip)
	}
	c.Set(len(r.keys))
	for i := range r.keys {
		r.keys[i].describe(c)
	}
	c.Set(len(r.subs))
	for _, sub := range r.subs {
		sub.describe(c)
	}
}

// statusSet replies a set of simple strings.
func (c *call) statusSet(words []string) {
	c.Set(len(words))
	for _, w := range words {
		c.Simple(w)
	}
}

func (k *keySpec) describe(c *call) {
	c.Map(3)
	c.BulkString("flags")
	c.statusSet(k.flags)
	c.BulkString("begin_search")
	c.Map(2)
	c.BulkString("type")
	if k.keyword == "" {
		c.BulkString("index")
		c.BulkString("spec")
		c.Map(1)
		c.BulkString("index")
		c.Int(int64(k.index))
	} else {
		c.BulkString("keyword")
		c.BulkString("spec")
		c.Map(2)
		c.BulkString("keyword")
		c.BulkString(k.keyword)
		c.BulkString("startfrom")
		c.Int(int64(k.from))
	}
	c.BulkString("find_keys")
	c.Map(2)
	c.BulkString("type")
	c.BulkString("range")
	c.BulkString("spec")
	c.Map(3)
	c.BulkString("lastkey")
	c.Int(int64(k.last))
	c.BulkString("keystep")
	c.Int(int64(k.step))
	c.BulkString("limit")
	c.Int(int64(k.limit))
}

func commandAll(c *call) {
	c.Array(len(c.srv.list.rows))
	for _, row := range c.srv.list.rows {
		row.describe(c)
	}
}

func commandCount(c *call) { c.Int(int64(len(c.srv.list.rows))) }

// named finds a row by "name" or "container|sub".
func (l *list) named(word []byte) *command {
	name, sub, has := strings.Cut(string(word), "|")
	row := l.lookup([]byte(name))
	if row != nil && has {
		row = row.sub([]byte(sub))
	}
	return row
}

// commandInfo: COMMAND INFO [name ...]; a null for each name that is not known.
func commandInfo(c *call) {
	if len(c.args) == 2 {
		commandAll(c)
		return
	}
	c.Array(len(c.args) - 2)
	for _, word := range c.args[2:] {
		if row := c.srv.list.named(word); row != nil {
			row.describe(c)
		} else {
			c.Null()
		}
	}
}

// commandDocs: COMMAND DOCS [name ...]; names that are not known are left out.
func commandDocs(c *call) {
	rows := c.srv.list.rows
	if len(c.args) > 2 {
		rows = nil
		for _, word := range c.args[2:] {
			if row := c.srv.list.named(word); row != nil {
				rows = append(rows, row)
			}
		}
	}
	c.Map(len(rows))
	for _, row := range rows {
		row.document(c)
	}
}

func (r *command) document(c *call) {
	c.BulkString(r.name)
	n := 3
	if len(r.subs) > 0 {
		n++
	}
	c.Map(n)
	c.BulkString("summary")
	c.BulkString(r.summary)
	c.BulkString("since")
	c.BulkString(r.since)
	c.BulkString("group")
	c.BulkString(r.group)
	if len(r.subs) > 0 {
		c.BulkString("subcommands")
		c.Map(len(r.subs))
		for _, sub := range r.subs {
			sub.document(c)
		}
	}
}

// commandList: COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern]. Without a filter subcommands are not
// listed; with one they are.
func commandList(c *call) {
	var names []string
	switch {
	case len(c.args) == 2:
		for _, row := range c.srv.list.rows {
			names = append(names, row.name)
		}
	case len(c.args) == 5 && foldEqual(c.args[2], "filterby"):
		keep, ok := commandFilter(c.args[3], c.args[4])
		if !ok {
			c.Err(errSyntax)
			return
		}
		c.srv.list.each(func(row *command) {
			if keep(row) {
				names = append(names, row.name)
			}
		})
	default:
		c.Err(errSyntax)
		return
	}
	c.Array(len(names))
	for _, name := range names {
		c.BulkString(name)
	}
}

func commandFilter(kind, value []byte) (keep func(*command) bool, ok bool) {
	switch {
	case foldEqual(kind, "module"):
		return func(*command) bool { return false }, true
	case foldEqual(kind, "aclcat"):
		return func(row *command) bool {
			for _, cat := range row.categories() {
				if foldEqual(value, cat[1:]) {
					return true
				}
			}
			return false
		}, true
	case foldEqual(kind, "pattern"):
		return func(row *command) bool { return globMatch(value, []byte(row.name), true) }, true
	}
	return nil, false
}

// commandGetKeys: COMMAND GETKEYS command [arg ...].
func commandGetKeys(c *call) {
	args := c.args[2:]
	row := c.srv.list.lookup(args[0])
	if row != nil && row.bySub != nil && len(args) > 1 {
		row = row.sub(args[1])
	}
	switch {
	case row == nil:
		c.Err(errGetKeysCmd)
		return
	case len(row.keys) == 0:
		c.Err(errGetKeysNone)
		return
	case !row.arityOK(len(args)):
		c.Err(errGetKeysArity)
		return
	}
	var places []int
	for i := range row.keys {
		var ok bool
		if places, ok = row.keys[i].positions(args, places); !ok {
			c.Err(errGetKeysArgs)
			return
		}
	}
	c.Array(len(places))
	for _, i := range places {
		c.Bulk(args[i])
	}
}

func commandHelp(c *call) {
	c.help("COMMAND", "(no subcommand)", "Describe all commands.", "COUNT", "Answer how many there are.", "LIST [FILTERBY ...]", "List names.",
		"INFO [<name> ...]", "Describe commands.", "DOCS [<name> ...]", "Document commands.", "GETKEYS <full-command>", "Answer the keys in a command.")
}
