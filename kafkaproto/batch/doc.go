// Package batch reads, checks and writes Kafka record batches, format 2 (KIP-98). It is
// bridge's Codec.
//
//	base offset:8 length:4 leader epoch:4 magic:1 crc:4 │ attributes:2 last delta:4
//	base time:8 max time:8 producer:8 epoch:2 base sequence:4 count:4 record*
//	                                                     └ the CRC-32C covers from here
//	record = length attributes:1 time delta, offset delta, key, value, headers
//
// The records may be compressed as one (attributes, bits 0-2): 1 gzip, 2 snappy (a raw
// block, or xerial's chunks), 3 lz4 frames, 4 zstd. Formats 0 and 1 are refused, as
// Kafka 4 does.
//
// Nothing is allocated by a number that a batch claims: a decompressed batch has at
// most 128 MiB, and few large ones are decompressed at the same time.
package batch
