// Package resp is the Redis wire: RESP2, RESP3 and Redis's error texts stop here.
//
//	bytes ──► reader ──args──► conn ──► list ──row──► handler ──verbs──► engine.Turn
//	              bounded      a value    one for        appends            │
//	              one pass     no socket  all uses       to reply           │
//	 socket ◄── loop ◄───────────────────── reply ◄── released after Turn.Wait
//
// A connection is a value that is fed with bytes: it owns no goroutine and no socket.
// What feeds it is a loop. loop_epoll_linux.go reads all that is ready, evaluates it in one
// turn, waits once and writes all replies, so that everything that arrives together shares one
// commit; loop_goroutine.go is the portable one, a goroutine and a turn for each connection.
//
// list.go is the one list of commands: dispatch, arity, COMMAND, key positions, metrics and tests
// read the same row. Handlers are in files named after what they answer: x_add.go, keys.go, client.go.
//
// # Who owns what
//
// A conn belongs to its loop; nobody else touches it. What others may ask of it (CLIENT LIST, KILL, UNBLOCK)
// is in its session, which has a lock of its own, and in two atomics that the loop looks at when it is notified.
//
// Arguments alias memory that is read over when the command is done: what outlives the call is copied
// (engine verbs copy).
//
// # Why not redcon's reader
//
// One 31-byte message ends a process that uses it, another spins for ever; a command that arrives byte by
// byte is parsed in quadratic time. reader.go looks at each byte once and allocates by bytes received. The
// append functions of redcon write the replies, and its parser is the oracle of the reader's fuzz test.
//
// # Not done yet
//
// MULTI and friends, pub/sub, expiry, RENAME, COPY, OBJECT, ACL, CLUSTER, CLIENT TRACKING, TLS: refused with Redis's
// own unknown-command and unknown-subcommand errors.
package resp
