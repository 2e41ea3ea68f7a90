package resp

import (
	"errors"
	"runtime/debug"
	"slices"
	"time"

	"weir/engine"
)

// loop is what feeds a connection. It belongs to the loop's goroutine but for notify.
type loop interface {
	// notify asks the loop to look at the connection: it was woken, killed or unblocked. Any goroutine, never blocks.
	notify(*conn)
	// evaluated is called after each command, with the turn: parked readers of what it touched are served now.
	evaluated(t *engine.Turn)
	// parked tells the loop that a connection began (or ceased) to wait.
	parked(c *conn, on bool)
}

// conn is one connection as a value: bytes in, commands evaluated, replies appended. It has no goroutine and no
// socket; all methods but those of sess belong to its loop.
//
//	feed ──► in ──► execute ──► out ─── settle(after Turn.Wait) ──► output ──► the loop writes
//	                   │                  mark: replies after it are of this turn
//	                   ├── park: nothing more is executed until again replies, the deadline, UNBLOCK
//	                   └── rest: nothing more is executed until the reply is whole and taken
type conn struct {
	srv  *Server
	loop loop
	sess session

	in      reader
	out     reply
	written int // of out: what the socket has taken
	mark    int // of out: where this turn's replies begin; what is before is released
	replies int // evaluated in this turn
	inTurn  bool
	large   bool // the last replies did not fit a buffer of its own

	rest    rest
	block   *blocked
	waiter  engine.Waiter
	names   nameCache    // of groups and consumers (x_names.go)
	reading reading      // of the XREAD that is evaluated (x_read.go)
	entries entriesReply // of the command that is evaluated (x_range.go)
	moved   bool         // waitFor changed the places
	expires int          // index in the loop's heap of deadlines, -1 not there

	cur    call
	authed bool
	before int // of out: where the command's reply begins
	// CLIENT REPLY SKIP: the next reply is dropped; this one is.
	skipNext, skipping bool

	closing bool // evaluate nothing more; close when out is written
	eof     bool // the client sends no more; close when all that it sent is answered and written
	dead    bool // closed: nothing may be done with it any more

	later func() // started on a goroutine once the turn is settled (WAITAOF)
	sock  *sock  // the event loop's; nil where a goroutine serves the connection
}

// parkedInput is how many bytes a waiting connection may send ahead before it is not read any more.
const parkedInput = 1 << 20

func newConn(srv *Server, l loop, id int64, addr, laddr string, now time.Time) *conn {
	c := &conn{srv: srv, loop: l, in: newReader(&srv.o.Limits), expires: -1}
	c.sess.id, c.sess.addr, c.sess.laddr, c.sess.created = id, addr, laddr, now
	c.sess.last.Store(now.UnixMilli())
	c.sess.resp.Store(2)
	c.sess.user = "default"
	c.authed = srv.password() == ""
	c.cur = call{reply: &c.out, srv: srv, conn: c}
	c.waiter = engine.Waiter{Owner: c, Wake: func() { l.notify(c) }}
	return c
}

// begin puts the connection into a turn; true when it was not in it. What is evaluated from now on is told only after settle.
func (c *conn) begin(t *engine.Turn) bool {
	c.cur.turn = t
	if c.inTurn {
		return false
	}
	if c.large && c.out.b == nil {
		c.out.b = c.srv.buffers.get()
	}
	c.inTurn, c.mark, c.replies = true, len(c.out.b), 0
	return true
}

// feed evaluates what was received, and keeps what is not a whole command. The chunk is the caller's again afterwards.
func (c *conn) feed(chunk []byte, now time.Time) {
	c.sess.in.Add(int64(len(chunk)))
	c.in.feed(chunk)
	c.run(now)
	c.in.release()
}

// proceed goes on with what was received earlier (after a wait, after a long reply was taken).
func (c *conn) proceed(now time.Time) {
	c.run(now)
	c.in.release()
}

// mayRun says whether the next command may be evaluated. A client that was killed by another loop, which has answered its own
// client already, is served nothing more; ours closes the connection presently.
func (c *conn) mayRun() bool {
	return !c.closing && !c.dead && !c.sess.killed.Load() && c.block == nil && c.rest == nil && len(c.out.b)-c.written < restChunk
}

// ready says that received bytes wait which may now be evaluated. (They may turn out to be no whole command.)
func (c *conn) ready() bool { return c.in.unread() && c.mayRun() }

// wantsRead says whether the loop shall read from the socket. Not while the client owes us reading, nor beyond
// what a waiting client may send ahead.
func (c *conn) wantsRead() bool {
	if c.closing || c.eof || c.dead || c.rest != nil || len(c.out.b)-c.written >= restChunk {
		return false
	}
	return c.block == nil || c.in.pending() < parkedInput
}

// run evaluates whole commands as long as it may. A panic in a handler costs this connection only.
func (c *conn) run(now time.Time) {
	defer c.recovered()
	n := int64(0)
	for c.mayRun() {
		args, ok, err := c.in.next(c.authed)
		if err != nil {
			c.protocolError(err)
			break
		}
		if !ok {
			break
		}
		n++
		now = c.execute(args, now)
		c.loop.evaluated(c.cur.turn)
	}
	if n > 0 {
		c.sess.cmds.Add(n)
		c.sess.last.Store(now.UnixMilli())
		c.srv.stats.commands.Add(n)
	}
}

func (c *conn) recovered() {
	p := recover()
	if p == nil {
		return
	}
	c.srv.log.Error("command panicked; closing the connection", "command", c.cur.row.name, "client", c.sess.addr,
		"panic", p, "stack", string(debug.Stack()))
	c.dropRest()
	c.entries.close()
	c.leave()
	c.out.b = c.out.b[:max(c.before, c.mark)] // not half a reply
	c.cur.Err(errInternal)
	c.replies++
	c.closing = true
}

func (c *conn) protocolError(err error) {
	c.closing = true
	if errors.Is(err, errCommandSize) {
		c.srv.stats.inputLimit.Add(1)
		return
	}
	c.cur.Err(err.Error())
	c.replies++
}

// execute runs one command and returns the clock after it.
func (c *conn) execute(args [][]byte, now time.Time) time.Time {
	k := &c.cur
	k.args, k.now, k.failed, k.silent = args, now, false, false
	c.before = len(c.out.b)
	row, refusal := c.srv.list.resolve(args)
	if row != nil && refusal == "" && !c.authed && row.flags&noAuth == 0 {
		refusal = errNoAuth
	}
	k.row = row
	if row == nil && isHTTP(args[0]) {
		c.closing = true // a browser was made to talk to us: what follows is not a person's commands
		return now
	}
	if refusal != "" {
		if row != nil {
			row.stats.rejected.Add(1)
		}
		k.Err(refusal)
		c.finish()
		return now
	}
	c.sess.row.Store(row)
	row.stats.in.Add(int64(c.in.size))
	k.tick()
	row.run(k)
	end := c.srv.now()
	if c.block == nil {
		c.count(row, end.Sub(now))
		c.finish()
	}
	return end
}

// isHTTP recognises the words by which a web page's request would be read as commands. Redis hangs up on them, too.
func isHTTP(word []byte) bool { return foldEqual(word, "post") || foldEqual(word, "host:") }

// count adds a finished command to its row.
func (c *conn) count(row *command, took time.Duration) {
	row.stats.calls.Add(1)
	row.stats.nsec.Add(int64(took))
	row.stats.out.Add(int64(len(c.out.b) - c.before))
	if c.cur.failed {
		row.stats.failed.Add(1)
	}
}

// finish accounts for the reply that began at c.before, or drops it when the client asked for none (CLIENT REPLY).
func (c *conn) finish() {
	drop := c.skipping || c.cur.silent || c.sess.flags.Load()&sessReplyOff != 0
	c.skipping, c.skipNext = c.skipNext, false
	if !drop {
		c.replies++
		return
	}
	c.dropRest()
	c.out.b = c.out.b[:c.before]
}

// resolve finds the row of a command, or says why it is refused. Both may be given: the refusal counts for the row.
func (l *list) resolve(args [][]byte) (row *command, refusal string) {
	row = l.lookup(args[0])
	if row == nil {
		return nil, errUnknownCommand(args)
	}
	if row.bySub != nil && len(args) > 1 {
		sub := row.sub(args[1])
		if sub == nil {
			return nil, errUnknownSubcommand(row, args[1])
		}
		row = sub
	}
	if !row.arityOK(len(args)) || row.run == nil {
		return row, errArity(row)
	}
	return row, ""
}

// park makes the connection wait (call.park).
func (c *conn) park(k *call, b *blocked) {
	b.row = k.row
	b.args = make([][]byte, len(k.args))
	for i, a := range k.args {
		b.args[i] = slices.Clone(a)
	}
	c.block = b
	if len(b.places) > 0 {
		c.srv.engine().Park(&c.waiter, b.places)
	}
	c.sess.waiting.Store(waitingYes)
	c.srv.stats.blocked.Add(1)
	c.loop.parked(c, true)
	if c.again(k) {
		c.leave()
	}
}

// again evaluates the waiting command, anew as often as what it waits for changes under it.
func (c *conn) again(k *call) bool {
	for range 8 {
		c.moved = false
		if c.block.again(k) {
			return true
		}
		if !c.moved {
			return false
		}
	}
	// Eight changes of place in one evaluation: something makes and drops the stream at the same time. The next wake-up
	// evaluates again.
	return false
}

// waitFor is call.waitFor. Places that stay lose their turn when others change: a stream made anew has a new queue anyway.
func (c *conn) waitFor(places []engine.Place) {
	if slices.Equal(places, c.block.places) {
		return
	}
	if len(c.block.places) > 0 {
		c.srv.engine().Unpark(&c.waiter)
	}
	c.block.places = slices.Clone(places)
	if len(places) > 0 {
		c.srv.engine().Park(&c.waiter, c.block.places)
	}
	c.moved = true
}

// leave ends the waiting, whatever the reason.
func (c *conn) leave() {
	if c.block == nil {
		return
	}
	if len(c.block.places) > 0 {
		c.srv.engine().Unpark(&c.waiter)
	}
	c.loop.parked(c, false)
	left := c.block.left
	c.block = nil
	if left != nil {
		left()
	}
	c.sess.waiting.Store(waitingNo)
	c.srv.stats.blocked.Add(-1)
}

// wake evaluates the waiting command after a wake-up, a deadline or CLIENT UNBLOCK; the caller has called begin. What was
// pipelined behind it is left to proceed.
func (c *conn) wake(now time.Time) {
	b := c.block
	if b == nil || c.dead {
		return
	}
	defer c.recovered()
	k := &c.cur
	k.args, k.row, k.now, k.failed, k.silent = b.args, b.row, now, false, false
	c.before = len(c.out.b)
	switch state := c.sess.waiting.Load(); {
	case state == unblockError:
		k.Err(errUnblocked)
	case state == unblockTimeout:
		b.expire(k)
	default:
		if len(b.places) > 0 {
			c.srv.engine().Rearm(&c.waiter)
		}
		k.tick()
		if c.again(k) {
			break
		}
		if b.deadline.IsZero() || now.Before(b.deadline) {
			return
		}
		b.expire(k)
	}
	c.leave()
	c.count(b.row, c.srv.now().Sub(now))
	c.finish()
}

// expire replies that nothing came.
func (b *blocked) expire(k *call) {
	if b.expired != nil {
		b.expired(k)
		return
	}
	k.NullArray()
}

// settle releases this turn's replies once Turn.Wait has returned. When it returned an error nothing that was evaluated may be told:
// every reply of the turn becomes that error, their number kept.
func (c *conn) settle(err error) {
	if !c.inTurn {
		return
	}
	c.inTurn = false
	if f := c.later; f != nil {
		c.later = nil
		go f()
	}
	if err == nil {
		return
	}
	c.dropRest()
	c.out.b = c.out.b[:c.mark]
	for range c.replies {
		c.cur.Err(errorText(err))
	}
}

// output is what may be written to the socket. Within a turn that is what earlier turns left.
func (c *conn) output() []byte {
	if c.inTurn {
		return c.out.b[c.written:c.mark]
	}
	return c.out.b[c.written:]
}

// wrote says how much of output the socket has taken.
func (c *conn) wrote(n int) {
	c.written += n
	c.sess.out.Add(int64(n))
	if c.written == len(c.out.b) && !c.inTurn {
		c.written, c.mark = 0, 0
		if c.large = cap(c.out.b) > smallReply; c.large {
			c.srv.buffers.put(c.out.b)
			c.out.b = nil
			return
		}
		c.out.b = c.out.b[:0]
	}
}

// produce appends the next chunk of a long reply, once all before is written; false when there is none.
func (c *conn) produce() bool {
	if c.rest == nil || c.inTurn || c.dead || len(c.out.b) > 0 {
		return false
	}
	defer c.recovered()
	if c.out.b == nil {
		c.out.b = c.srv.buffers.get()
	}
	more, err := c.rest.next(&c.out)
	c.cur.row.stats.out.Add(int64(len(c.out.b))) // the row is still that of the command: none was evaluated since
	if err != nil {
		c.srv.log.Error("a long reply ended early; closing the connection", "client", c.sess.addr, "error", err)
		c.closing = true
	}
	if !more || err != nil {
		c.dropRest()
	}
	return true
}

func (c *conn) dropRest() {
	if c.rest != nil {
		c.rest.close()
		c.rest = nil
	}
}

// afterTurn starts f, on a goroutine of its own, when what this turn wrote is committed.
func (c *conn) afterTurn(f func()) { c.later = f }

// hangUp says that nothing more will come from the client. A waiting command is given up; what was received before is
// answered.
func (c *conn) hangUp() {
	c.eof = true
	if c.block != nil {
		c.closing = true
		c.leave()
	}
}

// drained says that the connection may be closed: it shall be, and the client has all that it is due.
func (c *conn) drained() bool {
	return (c.closing || (c.eof && !c.ready() && c.block == nil)) && c.rest == nil && len(c.out.b) == c.written
}

// end gives everything back; the loop closes the socket.
func (c *conn) end() {
	if c.dead {
		return
	}
	c.leave()
	c.dropRest()
	c.dead = true
	c.srv.stats.netIn.Add(c.sess.in.Load())
	c.srv.stats.netOut.Add(c.sess.out.Load())
	c.out.b, c.in.own, c.in.buf = nil, nil, nil
	c.srv.forget(c)
}
