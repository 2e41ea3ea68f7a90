// Package kafkaproto is the Kafka wire: frames, versions, fetch sessions, record
// batches and error codes stop here. Meaning is bridge's.
//
//	socket ─► frame reader ─► list: key ─► row ─► kmsg decodes ─► handler(call)
//	            (cap)          │                                      │ bridge verbs
//	                           └ refuses: unknown key or version      ▼
//	socket ◄─ replies in the order of the requests ◄──────────────── reply (+ ticket)
//
// One goroutine per connection reads and evaluates, one request after another, as
// Kafka does. Produce alone is pipelined: its appends are evaluated at once, and the
// reply, with the ticket of the rounds that it waits for, goes to the connection's
// writer, so that all the batches a client has in flight share a commit and an fsync.
//
// A connection that sends small produces only is lent to a lane (lend.go, lane.go): one event
// loop evaluates what many of them have sent into one turn. It is a goroutine's again
// with the first request that is anything else.
//
// A handler that waits (Fetch, JoinGroup, SyncGroup) calls call.watch first: the
// context then also ends when the client leaves.
//
// list.go and list_groups.go are the one list of requests: ApiVersions, dispatch,
// metrics and tests read it.
package kafkaproto
