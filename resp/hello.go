package resp

import "crypto/subtle"

// HELLO, AUTH, SELECT, QUIT, RESET, PING, ECHO: what a client says about its connection.
//
// Left out: users other than `default` (ACL comes later: any other name is WRONGPASS), databases other than 0.

// connectionRows are Redis's group "connection", but for CLIENT.
func connectionRows() []*command {
	const session = noScript | loading | stale | fast | noAuth | allowBusy
	return []*command{
		{name: "auth", arity: -2, flags: session, cats: catConnection, since: "1.0.0", group: "connection",
			summary: "Logs the connection in.", run: auth},
		{name: "hello", arity: -1, flags: session, cats: catConnection, since: "6.0.0", group: "connection",
			summary: "Chooses the protocol version; may log in and name the connection as well.", run: hello},
		{name: "quit", arity: -1, flags: session, cats: catConnection, since: "1.0.0", group: "connection",
			summary: "Closes the connection once it is answered.", run: quit},
		{name: "reset", arity: 1, flags: session, cats: catConnection, since: "6.2.0", group: "connection",
			summary: "Makes the connection as it was when new.", run: reset},
		{name: "ping", arity: -1, flags: fast, cats: catConnection, since: "1.0.0", group: "connection",
			tips: []string{"request_policy:all_shards", "response_policy:all_succeeded"}, summary: "Answers PONG, or the given text.", run: ping},
		{name: "echo", arity: 2, flags: loading | stale | fast, cats: catConnection, since: "1.0.0", group: "connection",
			summary: "Answers what it is given.", run: echo},
		{name: "select", arity: 2, flags: loading | stale | fast, cats: catConnection, since: "1.0.0", group: "connection",
			summary: "Chooses the database; there is one, 0.", run: selectDB},
		clientRow(),
	}
}

// ping: PING [message].
func ping(c *call) {
	switch len(c.args) {
	case 1:
		c.b = append(c.b, "+PONG\r\n"...)
	case 2:
		c.Bulk(c.args[1])
	default:
		c.Err(errArity(c.row))
	}
}

func echo(c *call) { c.Bulk(c.args[1]) }

// selectDB: SELECT index.
func selectDB(c *call) {
	n, ok := parseInt(c.args[1])
	switch {
	case !ok:
		c.Err(errNotInteger)
	case n != 0:
		c.Err(errDBIndex)
	default:
		c.OK()
	}
}

// quit answers, and drops what was pipelined behind it.
func quit(c *call) {
	c.OK()
	c.conn.closing = true
}

// reset: back to RESP2, no name, not logged in where a password is asked for, replies on.
func reset(c *call) {
	c.conn.sess.flags.Store(0)
	c.conn.sess.setName("")
	c.conn.sess.setUser("default")
	c.conn.setProto(2)
	c.conn.authed = c.srv.password() == ""
	c.Simple("RESET")
}

func (c *conn) setProto(v int32) {
	c.out.resp3 = v == 3
	c.sess.resp.Store(v)
}

// login says whether a name and a password are the default user's. Without a password set, any is right, as Redis's `nopass`.
func (s *Server) login(user, pass []byte) bool {
	want := s.password()
	if string(user) != "default" {
		return false
	}
	return want == "" || subtle.ConstantTimeCompare([]byte(want), pass) == 1
}

// auth: AUTH [username] password.
func auth(c *call) {
	user, pass := []byte("default"), c.args[1]
	switch {
	case len(c.args) > 3:
		c.Err(errSyntax)
		return
	case len(c.args) == 3:
		user, pass = c.args[1], c.args[2]
	case c.srv.password() == "":
		c.Err(errNoPassword)
		return
	}
	if !c.srv.login(user, pass) {
		c.Err(errWrongPass)
		return
	}
	c.conn.authed = true
	c.OK()
}

// hello: HELLO [protover [AUTH username password] [SETNAME clientname]]. Its reply is in the new protocol already.
func hello(c *call) {
	proto := int64(0)
	if len(c.args) > 1 {
		n, ok := parseInt(c.args[1])
		if !ok {
			c.Err(errProtoInt)
			return
		}
		if n < 2 || n > 3 {
			c.Err(errNoProto)
			return
		}
		proto = n
	}
	var user, pass, name []byte
	hasAuth, hasName := false, false
	for i := 2; i < len(c.args); {
		more := len(c.args) - i - 1
		switch {
		case foldEqual(c.args[i], "auth") && more >= 2:
			user, pass, hasAuth = c.args[i+1], c.args[i+2], true
			i += 3
		case foldEqual(c.args[i], "setname") && more >= 1:
			name, hasName = c.args[i+1], true
			if !cleanName(name) {
				c.Err(errClientName)
				return
			}
			i += 2
		default:
			c.Err("ERR Syntax error in HELLO option '" + string(cut(c.args[i], 128)) + "'")
			return
		}
	}
	if hasAuth {
		if !c.srv.login(user, pass) {
			c.Err(errWrongPass)
			return
		}
		c.conn.authed = true
	}
	if !c.conn.authed {
		c.Err(errHelloAuth)
		return
	}
	if hasName {
		c.conn.sess.setName(string(name))
	}
	if proto != 0 {
		c.conn.setProto(int32(proto))
	}
	c.Map(7)
	c.BulkString("server")
	c.BulkString("redis")
	c.BulkString("version")
	c.BulkString(RedisVersion)
	c.BulkString("proto")
	c.Int(int64(c.conn.sess.resp.Load()))
	c.BulkString("id")
	c.Int(c.conn.sess.id)
	c.BulkString("mode")
	c.BulkString("standalone")
	c.BulkString("role")
	c.BulkString("master")
	c.BulkString("modules")
	c.Array(0)
}

// cleanName says whether a client's name holds printable ASCII without spaces only, so that CLIENT LIST stays one line a
// client.
func cleanName(name []byte) bool {
	for _, b := range name {
		if b < '!' || b > '~' {
			return false
		}
	}
	return true
}
