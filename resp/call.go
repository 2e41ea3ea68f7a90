package resp

import (
	"time"

	"weir/bridge"
	"weir/engine"
)

// call is one command while it is evaluated. Handlers get one, append exactly one reply (through the embedded
// reply), or park, and keep nothing of it.
type call struct {
	*reply
	srv  *Server
	conn *conn
	turn *engine.Turn
	row  *command
	// args are the words as received, args[0] the command's name. They alias memory that is overwritten after the
	// call: copy what must outlive it. (While a parked command is evaluated again they are a copy made by park.)
	args [][]byte
	now  time.Time // the clock of this command

	failed bool // an error was replied
	silent bool // this command has no reply (CLIENT REPLY OFF and SKIP)
}

// bridge is the names and the Kafka meaning; nil in tests of the socket alone.
func (c *call) bridge() *bridge.Bridge { return c.srv.bridge }

// tick sets the turn's clock for this command (one clock per command): the turn may be older than it. The engine's clock is read only
// when the millisecond has changed.
func (c *call) tick() {
	if c.turn != nil && c.turn.Now() != c.now.UnixMilli() {
		c.turn.Tick()
	}
}

// Err replies an error and counts it. text begins with its code ("ERR ...", "NOGROUP ...").
func (c *call) Err(text string) {
	c.failed = true
	c.srv.countError(text)
	c.errorLine(text)
}

// Fail replies what an engine or bridge error means to a Redis client (errors.go).
func (c *call) Fail(err error) { c.Err(errorText(err)) }

// rest is the part of a long reply that is made while its reader takes it: about a chunk at a time stays in memory.
// It runs after the turn's commit, outside any turn.
type rest interface {
	// next appends about restChunk bytes; false when the reply is whole. An error closes the connection: half a reply
	// cannot be taken back.
	next(w *reply) (more bool, err error)
	// close gives back what the rest holds (engine.Reader); called once, whatever happened.
	close()
}

// restChunk is how much a rest appends at a time, and how much evaluated output a connection may hold before its
// next command waits: 64 KiB as Redis's reply block.
const restChunk = 64 << 10

// continueWith leaves the remainder of this command's reply to r. What the handler appended so far goes first. The
// connection evaluates nothing else until r is at its end.
func (c *call) continueWith(r rest) { c.conn.rest = r }

// blocked is a command that waits for something.
type blocked struct {
	// places are what it waits for (engine.Park); none: for its deadline only.
	places []engine.Place
	// deadline ends the waiting; zero: never.
	deadline time.Time
	// again evaluates the command anew. True: it has replied. False: it appended nothing and goes on waiting, with its place
	// and its deadline. It may call waitFor when what it waits for has changed.
	again func(c *call) bool
	// expired replies at the deadline (and for CLIENT UNBLOCK id TIMEOUT); nil: a null array.
	expired func(c *call)
	// left is called once when the waiting is over, whatever ended it; may be nil.
	left func()

	args [][]byte // a copy, for again
	row  *command
}

// park blocks the connection on b. It registers first and evaluates b.again once more, so that nothing slips between
// the caller's own evaluation and the registration. The caller returns at once.
func (c *call) park(b *blocked) { c.conn.park(c, b) }

// waitFor changes the places of the command that is evaluated again, when they differ: a stream came to exist, or is
// another one under the same key.
func (c *call) waitFor(places []engine.Place) { c.conn.waitFor(places) }

// deadlineIn is the instant ms milliseconds from this command's clock; zero for 0, which means for ever.
func (c *call) deadlineIn(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return c.now.Add(time.Duration(ms) * time.Millisecond)
}
