package kafkaproto

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// call is one request that is being evaluated. It lives until its handler returns.
type call struct {
	// ctx ends with the connection or the server. It notices a client that leaves
	// only after watch was called.
	ctx context.Context
	s   *Server
	b   *bridge.Bridge
	c   *conn
	row *row

	version     int16
	correlation int32
	clientID    string // "" when null
	req         kmsg.Request
}

// host is the client's address without its port, as Kafka prints it in
// DescribeGroups ("/127.0.0.1").
func (c *call) host() string { return c.c.host }

// watch must be called before a handler waits for anything but the disk: from here
// on ctx also ends when the client goes away.
func (c *call) watch() { c.c.watch() }

// reply is what a handler leaves behind.
type reply struct {
	// body is encoded by the connection. raw, when body is nil, is a body that is
	// encoded already (its slices are not copied and must stay as they are).
	body kmsg.Response
	raw  [][]byte
	// none: no reply at all (Produce with acks=0).
	none bool
	// closes the connection, after the reply if there is one.
	closes bool
	// ticket is what must be committed before the reply may be told; failed, if set,
	// rewrites the reply when that fails (it runs on the writer's goroutine).
	ticket *bridge.Ticket
	failed func(error) reply
	// size is what a large reply counts against the server's room until it is written.
	size int64
	// inline: the commit is quick (level written), so the reader may wait for it itself.
	inline bool
}
