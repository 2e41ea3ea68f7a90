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
// Batches of records are read and written by a Codec, which kafkaproto provides:
// their bytes are wire format and stop there.
package bridge
