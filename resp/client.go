package resp

import (
	"slices"
	"strings"
	"time"
)

// CLIENT SETNAME GETNAME ID INFO LIST SETINFO KILL UNBLOCK NO-EVICT NO-TOUCH REPLY HELP.
//
// Left out, refused as unknown subcommands: TRACKING, TRACKINGINFO, CACHING, GETREDIR (no client-side caching), PAUSE, UNPAUSE,
// MAINT_NOTIFICATIONS. NO-EVICT and NO-TOUCH are kept and shown; nothing here evicts, so there is nothing more to do.

func clientRow() *command {
	const usual = noScript | loading | stale
	all := []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	random := []string{"nondeterministic_output"}
	sub := func(name string, arity int, f flags, since string, tips []string, summary string, run func(*call)) *command {
		cats := catConnection
		return &command{name: "client|" + name, arity: arity, flags: f, cats: cats, tips: tips, since: since, group: "connection",
			summary: summary, run: run}
	}
	return &command{name: "client", arity: -2, since: "2.4.0", group: "connection", summary: "About connections.", subs: []*command{
		sub("list", -2, admin|usual, "2.4.0", random, "Lists the connections.", clientList),
		sub("setinfo", 4, usual, "7.2.0", all, "Tells the library's name and version.", clientSetInfo),
		sub("no-evict", 3, admin|usual, "7.0.0", nil, "Keeps the connection from eviction.", clientNoEvict),
		sub("setname", 3, usual, "2.6.9", all, "Names the connection.", clientSetName),
		sub("kill", -3, admin|usual, "2.4.0", nil, "Closes connections.", clientKill),
		sub("reply", 3, usual, "3.2.0", nil, "Turns replies on or off, or skips one.", clientReply),
		sub("info", 2, usual, "6.2.0", random, "Describes this connection.", clientInfo),
		sub("unblock", -3, admin|usual, "5.0.0", nil, "Ends the waiting of another connection.", clientUnblock),
		sub("help", 2, loading|stale, "5.0.0", nil, "Lists the subcommands.", clientHelp),
		sub("id", 2, usual, "5.0.0", nil, "Answers this connection's id.", clientID),
		sub("getname", 2, usual, "2.6.9", nil, "Answers this connection's name.", clientGetName),
		sub("no-touch", 3, usual, "7.2.0", nil, "Keeps this connection's commands from changing access times.", clientNoTouch),
	}}
}

func clientID(c *call) { c.Int(c.conn.sess.id) }

func clientGetName(c *call) {
	if name := c.conn.sess.getName(); name != "" {
		c.BulkString(name)
		return
	}
	c.Null()
}

func clientSetName(c *call) {
	if !cleanName(c.args[2]) {
		c.Err(errClientName)
		return
	}
	c.conn.sess.setName(string(c.args[2]))
	c.OK()
}

// clientSetInfo: CLIENT SETINFO LIB-NAME|LIB-VER value.
func clientSetInfo(c *call) {
	value := string(c.args[3])
	var name, ver *string
	switch {
	case foldEqual(c.args[2], "lib-name"):
		name = &value
	case foldEqual(c.args[2], "lib-ver"):
		ver = &value
	default:
		c.Err("ERR Unrecognized option '" + string(cut(c.args[2], 128)) + "'")
		return
	}
	if !cleanName(c.args[3]) {
		c.Err("ERR " + string(c.args[2]) + " cannot contain spaces, newlines or special characters.")
		return
	}
	c.conn.sess.setLib(name, ver)
	c.OK()
}

func clientInfo(c *call) { c.Verbatim(c.conn.sess.line(c.now) + "\n") }

// clientTypes are the types that CLIENT LIST and KILL know; all connections here are normal ones.
var clientTypes = []string{"normal", "master", "replica", "slave", "pubsub"}

// clientType reads a type; whether a connection here can be of it.
func clientType(word []byte) (normal, ok bool) {
	w := strings.ToLower(string(word))
	return w == "normal", slices.Contains(clientTypes, w)
}

// clientList: CLIENT LIST [TYPE type] | [ID id ...].
func clientList(c *call) {
	want := func(*conn) bool { return true }
	switch {
	case len(c.args) == 2:
	case len(c.args) == 4 && foldEqual(c.args[2], "type"):
		normal, ok := clientType(c.args[3])
		if !ok {
			c.Err("ERR Unknown client type '" + string(cut(c.args[3], 128)) + "'")
			return
		}
		want = func(*conn) bool { return normal }
	case len(c.args) > 3 && foldEqual(c.args[2], "id"):
		var ids []int64
		for _, a := range c.args[3:] {
			id, ok := parseInt(a)
			if !ok {
				c.Err("ERR Invalid client ID")
				return
			}
			ids = append(ids, id)
		}
		want = func(o *conn) bool { return slices.Contains(ids, o.sess.id) }
	default:
		c.Err(errSyntax)
		return
	}
	var b strings.Builder
	for _, o := range c.srv.everyone() {
		if want(o) {
			b.WriteString(o.sess.line(c.now))
			b.WriteByte('\n')
		}
	}
	c.Verbatim(b.String())
}

// onOff reads ON or OFF.
func onOff(word []byte) (on, ok bool) {
	on = foldEqual(word, "on")
	return on, on || foldEqual(word, "off")
}

func clientNoEvict(c *call) { c.sessionFlag(sessNoEvict) }
func clientNoTouch(c *call) { c.sessionFlag(sessNoTouch) }

func (c *call) sessionFlag(flag uint32) {
	on, ok := onOff(c.args[2])
	if !ok {
		c.Err(errSyntax)
		return
	}
	c.conn.sess.set(flag, on)
	c.OK()
}

// clientReply: CLIENT REPLY ON|OFF|SKIP. Only ON is answered; OFF silences all until ON, SKIP the next command.
func clientReply(c *call) {
	switch {
	case foldEqual(c.args[2], "on"):
		c.conn.sess.set(sessReplyOff, false)
		c.OK()
	case foldEqual(c.args[2], "off"):
		c.conn.sess.set(sessReplyOff, true)
		c.silent = true
	case foldEqual(c.args[2], "skip"):
		c.silent = true
		// While replies are off SKIP changes nothing, or ON's own answer would be lost.
		c.conn.skipNext = c.conn.sess.flags.Load()&sessReplyOff == 0
	default:
		c.Err(errSyntax)
	}
}

// clientUnblock: CLIENT UNBLOCK id [TIMEOUT|ERROR]. The waiting command is answered by its own loop; on other loops it may at this
// moment be served after all, which then counts as unblocked.
func clientUnblock(c *call) {
	how := unblockTimeout
	if len(c.args) > 4 {
		c.Err("ERR unknown subcommand or wrong number of arguments for '" + string(cut(c.args[1], 128)) + "'. Try CLIENT HELP.")
		return
	}
	if len(c.args) == 4 {
		switch {
		case foldEqual(c.args[3], "error"):
			how = unblockError
		case foldEqual(c.args[3], "timeout"):
		default:
			c.Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
			return
		}
	}
	id, ok := parseInt(c.args[2])
	if !ok {
		c.Err(errNotInteger)
		return
	}
	o := c.srv.client(id)
	if o == nil || !o.sess.waiting.CompareAndSwap(waitingYes, how) {
		c.Int(0)
		return
	}
	o.loop.notify(o)
	c.Int(1)
}

// killFilter is what CLIENT KILL's new form asks for; all of it must hold.
type killFilter struct {
	ids                []int64
	addr, laddr, user  string
	hasUser, wrongType bool
	maxAge             time.Duration
	keepMe             bool
}

func (f *killFilter) matches(o, me *conn, now time.Time) bool {
	switch {
	case f.wrongType,
		f.ids != nil && !slices.Contains(f.ids, o.sess.id),
		f.addr != "" && o.sess.addr != f.addr,
		f.laddr != "" && o.sess.laddr != f.laddr,
		f.hasUser && o.sess.getUser() != f.user,
		f.maxAge > 0 && now.Sub(o.sess.created) < f.maxAge,
		f.keepMe && o == me:
		return false
	}
	return true
}

// clientKill: CLIENT KILL addr:port, or CLIENT KILL [ID id] [TYPE t] [ADDR a] [LADDR a] [USER u] [SKIPME yes|no] [MAXAGE s].
func clientKill(c *call) {
	if len(c.args) == 3 {
		for _, o := range c.srv.everyone() {
			if o.sess.addr == string(c.args[2]) {
				c.kill(o)
				c.OK()
				return
			}
		}
		c.Err(errNoSuchClient)
		return
	}
	f := killFilter{keepMe: true}
	if refusal := f.parse(c.args[2:]); refusal != "" {
		c.Err(refusal)
		return
	}
	n := int64(0)
	for _, o := range c.srv.everyone() {
		if f.matches(o, c.conn, c.now) {
			c.kill(o)
			n++
		}
	}
	c.Int(n)
}

// kill closes a connection: at once, but the own one when it has been answered.
func (c *call) kill(o *conn) {
	if o == c.conn {
		o.closing = true
		return
	}
	o.sess.killed.Store(true)
	o.loop.notify(o)
}

func (f *killFilter) parse(words [][]byte) (refusal string) {
	if len(words)%2 != 0 {
		return errSyntax
	}
	for ; len(words) > 0; words = words[2:] {
		value := words[1]
		switch strings.ToLower(string(words[0])) {
		case "id":
			id, ok := parseInt(value)
			if !ok || id < 1 {
				return "ERR client-id should be greater than 0"
			}
			f.ids = append(f.ids, id)
		case "type":
			normal, ok := clientType(value)
			if !ok {
				return "ERR Unknown client type '" + string(cut(value, 128)) + "'"
			}
			f.wrongType = f.wrongType || !normal
		case "addr":
			f.addr = string(value)
		case "laddr":
			f.laddr = string(value)
		case "user":
			if string(value) != "default" {
				return "ERR No such user '" + string(cut(value, 128)) + "'"
			}
			f.user, f.hasUser = string(value), true
		case "skipme":
			switch strings.ToLower(string(value)) {
			case "yes":
				f.keepMe = true
			case "no":
				f.keepMe = false
			default:
				return errSyntax
			}
		case "maxage":
			n, ok := parseInt(value)
			if !ok {
				return "ERR maxage is not an integer or out of range"
			}
			if n <= 0 || n > int64(time.Duration(1<<63-1)/time.Second) {
				return "ERR maxage should be greater than 0"
			}
			f.maxAge = time.Duration(n) * time.Second
		default:
			return errSyntax
		}
	}
	return ""
}

func clientHelp(c *call) {
	c.help("CLIENT", "GETNAME", "Answer the connection's name.", "ID", "Answer the connection's id.",
		"INFO", "Describe this connection.", "KILL <ip:port> | <option> <value> [...]", "Close connections. Options: ID, TYPE, ADDR, LADDR, USER, SKIPME, MAXAGE.",
		"LIST [TYPE <type> | ID <id> ...]", "Describe connections.", "NO-EVICT (ON|OFF)", "Keep the connection from eviction.",
		"NO-TOUCH (ON|OFF)", "Keep commands from changing access times.", "REPLY (ON|OFF|SKIP)", "Which commands are answered.",
		"SETINFO <LIB-NAME|LIB-VER> <value>", "Tell the library's name or version.", "SETNAME <name>", "Name the connection.",
		"UNBLOCK <id> [TIMEOUT|ERROR]", "End another connection's waiting.")
}

// help replies a container's HELP: an array of simple strings in Redis's layout. lines are pairs: usage, explanation.
func (c *call) help(container string, lines ...string) {
	lines = append(lines, "HELP", "Print this help.")
	c.Array(1 + len(lines))
	c.Simple(container + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for i, line := range lines {
		if i%2 == 1 {
			line = "    " + line
		}
		c.Simple(line)
	}
}
