// Command killnine proves that what a server has acknowledged is there after
// kill -9, at any moment, through both protocols.
//
//	start ─► check every ledger ─► load from many clients ─► SIGKILL ─┐
//	  ▲                                                               │ a round
//	  └───────────────────────── same data directory ◄────────────────┘
//
// Each actor is a kind of client with its own keys or topics and its own ledger. A
// ledger knows three kinds of requests:
//
//	answered    it must be there, as answered
//	unanswered  sent, and the connection broke: it may be there or not, whole or not
//	            at all (of several in one pipeline: a prefix of them)
//	unsent      nothing of it may be there, and nothing may be there twice
//
//	script        scripted*.go   one writer a key, every write command of streams; the
//	                             server must equal the model after some prefix
//	queue         queue.go       many XADDs on one stream, a group reading and acking it
//	produce       produce.go     Kafka producers, acks=1 and acks=all
//	flood         flood.go       producers that send as much as the server takes
//	idem          idempotent.go  five in flight, resent with their sequences after a restart
//	kgo           kgo.go         a real client that retries over the restart by itself
//	admin         admin.go       topics made, grown, altered, cut, deleted, made again
//	auto          autocreate.go  topics made by being named
//	commit        commit.go      offsets of groups committed, deleted, groups deleted
//	member        member.go      members of a classic group that commit what they polled
//	shared group  shared_group.go one group used from both protocols (weir only)
//
// The system under test is weir, or (-target redis, -target kafka) a real peer, which
// is how the program itself was proved. Known faults of the peers are left out
// there, each where it is named in the code.
package main
