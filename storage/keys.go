package storage

// The key grammar, the only place that knows it. All integers big-endian, offsets
// and times with the sign bit flipped so that bytes sort as numbers.
//
//	shard:2 0x00                                    position row: epoch:8 seq:8
//	shard:2 'N'                                     number of the next stream
//	shard:2 'R' space:1 name                        record, opaque (topics, coordinators, settings)
//	shard:2 'S' stream:8 0x01                       StreamRow
//	shard:2 'S' stream:8 'c' group:4 name           ConsumerRow
//	shard:2 'S' stream:8 'g' name                   GroupRow
//	shard:2 'S' stream:8 'p' group:4 first:8        PendingRow
//	shard:2 'S' stream:8 'q' producer:8             ProducerRow
//	shard:2 'S' stream:8 't' time:8                 base offset:8 of the first block whose running max timestamp is time
//	shard:2 'S' stream:8 'x' first:8                GhostRow
//	shard:2 'S' stream:8 'y' ms:8 seq:8             base offset:8 of a block that begins with this ID (sparse)
//	shard:2 'S' stream:8 'z' base:8 0               block: header, payload
//	shard:2 'S' stream:8 'z' base:8 1               Marks of that block
//	0xFFFF 'M'                                      store row: format version, shards, cluster id
//
// All small rows of a stream sort before its blocks: loading a stream is one scan
// to 'p', dropping it is one DeleteRange.
