// Package engine holds streams, their groups and what is pending, and changes them
// by a small set of verbs that both protocols call. No wire type, no client object
// and no byte on disk is known here.
//
//	resp / bridge                                       storage
//	     │ Begin(level)                                     ▲
//	     ▼                                                  │ one batch
//	   Turn ──verbs──► shard ─┬─ stream: start..next, IDs,  │
//	     │              (lock)│    blocks in the tail ──────┤
//	     │                    └─ groups: last_delivered,    │
//	     │                         PEL ranges, consumers ───┤
//	     │                                                  │
//	     └─Wait──► round: all that was evaluated meanwhile ─┘
//	                  │ written ──► replies of that level, high watermark, wake-ups
//	                  └ durable ──► the same for those who asked for it
//
// A verb is evaluated at once, under its shard's lock, against the *evaluated*
// state: a pipeline's XLEN sees its XADD. Nothing evaluated is told to anybody
// before it is committed: a Turn remembers every round that it wrote to, and every
// round that it read the unfinished work of, and Wait returns only when each of
// them has its level. If a round fails, Wait returns the error and no reply of the
// turn may be sent.
//
// Readers that are not gated by a turn (Fetch, wake-ups) see entries below the high
// watermark only: the prefix of the stream whose appends have the level that their
// writers asked for.
//
// # Rounds
//
// Each shard has one open round: a storage batch and the streams it made dirty.
// Whoever waits first for a round takes the shard's token, closes the round, commits
// it and wakes the others; meanwhile verbs go on into the next round. So fifty
// clients share one commit, and one fsync, without a thread of their own and
// without waiting for a timer. Small open rounds of other shards go along in the same
// commit; who needs an fsync while one is under way lets it end first, since it could
// not cover him. A turn that writes twice to a shard may therefore see its first half
// committed by others: its answer waits for both, but a crash may fall between.
//
// # Groups
//
// A group's state on a stream is a cursor and PEL ranges (group.go, pel.go). Where the
// dictionary left room, these were chosen:
//
//   - The watermark is the lowest offset that is pending or not delivered yet: XCLAIM
//     FORCE and XGROUP SETID leave pending entries above the cursor, and they must not
//     let Kafka pass what is below them. Pending entries below the log start do
//     not hold it back: nobody can read them again.
//   - When the end of the stream is reached, the cursor passes deleted entries behind the
//     last living one, so that a drained group has lag 0 on Kafka's side too.
//   - A fetch that jumps over living entries is not recorded; the member's next commit
//     says where it is. Otherwise the cursor would pass what nobody has read.
//   - A group that only fetches have made is provisional: in memory, without a committed
//     offset as in Kafka before the first commit, gone with its last member.
//   - XREADGROUP NOACK, XCLAIM LASTID and XGROUP DELCONSUMER end the freshness of a commit
//     as an ack does: they move the watermark.
//   - Released entries have delivery time 0 and satisfy every min-idle.
//   - An entry above a cursor that was set back is new: its next delivery restarts its
//     count, also where a rebalance has claimed it.
//
// # Locks, in order
//
//	bridge's group and catalog locks -> shard tokens (ascending; those of mates are only tried) -> shard.mu -> hub.mu
//
// None but the token is held across I/O; a verb that must read cold rows reads them under
// shard.mu only where it decides a write (XDEL of an old entry, loading a stream).
package engine
