// Package bridge gives streams their Kafka meaning and their names: topics,
// partitions, routing, offsets, records as fields and back, group members and
// rebalances.
//
//	kafkaproto ──► topics, configs ── Catalog ──► records in storage (engine.PutRecord)
//	      │        produce, fetch, list ────────► engine verbs by stream number
//	      └──────► Join, Sync, Heartbeat, Leave ─► coordinator: a pure machine
//	                    │                              │ replies, records, timers, claims
//	                    └── commits are acks ◄─────────┘ rebalances are claims
//	resp ────────► Resolve(key) ─► Route: one stream, or all of a hash-routed topic
//	      └──────► EachEntry(run): entries of either side as field-value pairs
//
// # Topics
//
//   - A topic is one record (space 1) that names its streams. With one partition, record and stream are in one shard and, unless
//     another client's commit comes between the two verbs, in one commit. With more, the shards commit on their own; the topic appears when all are committed, and Open mends what a crash left
//     between: streams of no topic go, a topic's missing streams are made anew, empty (catalog_open.go).
//   - Redis's commands change the catalog at once and never wait; who reads what is not committed yet is held back by the
//     shard's round. Kafka's admin requests change one at a time, are durable when they are answered, and hold a
//     name (ErrTopicBusy for Redis meanwhile) until then.
//   - A topic that Redis made has retention.ms=-1 of its own, visible and removable as any other: Redis users do not expect
//     keys to lose entries after Kafka's seven days.
//   - A topic has at most 4096 partitions, what generated IDs have room for.
//   - Retention trims whole blocks, by their running largest timestamp or by bytes, every RetentionCheck. There is no compaction yet:
//     cleanup.policy=compact is kept, and asks for keys.
//
// # Records
//
//   - A name or value that is not UTF-8 inside a JSON value is {"base64": "..."}; a field name, which JSON can only hold as text,
//     "base64:...". Fields that come twice come twice.
//   - Fetch encodes entries that Redis wrote from the asked offset on; Kafka's batches come whole. Deleted entries between an
//     offset and the high watermark with nothing behind them are bridged by a batch without records.
//   - The leader epoch is 0, always. Producer IDs come in blocks of 1000; what is left of a block is lost with the process.
//
// # Groups
//
// A group of a name is, for each stream, the engine's group (cursor, what is pending, consumers), and, for members of Kafka's
// classic protocol, one coordinator (coordinator.go: a pure machine; groups.go: everything impure).
//
//   - A group is on a stream from its first commit or XGROUP CREATE on. An assignment alone makes nothing; the first fetch by
//     the owner makes it provisionally, in memory: OffsetFetch answers -1, as Kafka does before the first commit, XINFO shows the
//     consumer, and the last member takes it along. So a member is seen in XINFO CONSUMERS from its assignment on if
//     the group is there by then, else from its first fetch on (dictionary 5.8).
//   - A rebalance claims (SetReader, ClaimAll) in the turn that writes the coordinator's record, and SyncGroup
//     is answered after that turn. A partition that nobody of the group owns any more is put back (dictionary 5.7),
//     also while the group has other members.
//   - A restart repeats no claim: what Redis consumers have claimed since stays theirs. On a store that commits
//     shards apart the claims would have to be repeated there.
//   - A fetch is tied to a member by client id and host (fetch_tie.go); it is recorded in memory before the reply.
//   - Commits are answered at the level written (commit.go).
//   - Between two records, members that came and went are known to this process alone, as in Kafka: after a crash they hear
//     UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION and join again.
//
// Not here: the new consumer protocol (KIP-848), share and streams groups, transactional commits, expiry of groups (they do not
// expire by default, as in Redis).
//
// # Redis commands on a topic of several partitions
//
// Route has the verbs (fan.go): one call for a key of one stream and of many. What is a decision, beside what fan.go, fan_trim.go
// and fan_group.go say of their own:
//
//   - XTRIM MAXLEN counts the topic. Exact trimming keeps the newest entries of all partitions by ID; `~` leaves each partition
//     its share by length and takes whole nodes of it.
//   - XREADGROUP takes from the partitions in turn; XREAD and XRANGE merge by ID, XREAD a few milliseconds late, so that a reader who
//     goes on after the last ID it saw misses nothing (fan_entries.go, settleMS).
//   - A group that exists on some partitions only (growth, a Kafka group that committed on some) exists; Redis's side makes the
//     missing ones at 0-0 when it first reads.
//   - XACK, XDEL, XCLAIM look where the seq says, then everywhere.
//
// Batches of records are read and written by a Codec, which kafkaproto provides:
// their bytes are wire format and stop there.
package bridge
