package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A row is one line of the table.
type row struct {
	name string
	unit string // of speed, per second; empty for a latency row
	// floor is the least ratio weir/peer of speed that is asked for; 0 asks nothing.
	// A latency row has one for p50 and one for p99, as peer/weir: more is better in
	// every row.
	floor, floorP99 float64
	run             func(context.Context, *turn) (measure, error)
}

// A pairing is a weir and a peer that promise the same, and the rows that are
// run on both.
type pairing struct {
	name     string
	peer     string   // redis or kafka
	peerArgs []string // redis-server options, or lines of server.properties
	weirArgs []string
	rows     []row
}

// Redis rewrites its append-only file in a child when it has doubled, at moments
// that no two runs share; it is kept from it here, which favours Redis a little.
var redisLog = []string{"--appendonly", "yes", "--auto-aof-rewrite-percentage", "0", "--appendfsync"}

// Deleted topics leave the page cache and the disk soon, not after a minute.
const kafkaQuickDelete = "log.segment.delete.delay.ms=500"

// pairings is the whole bench. The floors are those of the issue that founded weir.
func pairings() []pairing {
	batch14 := shape{partitions: 1, conns: 1, records: 140, size: 100, window: 5}
	batch16 := shape{partitions: 1, conns: 1, records: 16, size: 1024, window: 5}
	batch256 := shape{partitions: 1, conns: 1, records: 256, size: 1024, window: 5}
	spread := shape{partitions: 12, conns: 4, records: 16, size: 1024, window: 5}
	single16 := shape{partitions: 1, conns: 16, records: 1, size: 100, window: 1}
	single50 := shape{partitions: 100, conns: 50, records: 1, size: 100, window: 1}
	produceRows := func(acks int16, name string, small, large, single float64) []row {
		return []row{
			{name: "produce " + name + " 1p 1c 140x100B", unit: "records", floor: small, run: produce(batch14, acks)},
			{name: "produce " + name + " 1p 1c 16x1KB", unit: "records", floor: small, run: produce(batch16, acks)},
			{name: "produce " + name + " 1p 1c 256x1KB", unit: "records", floor: large, run: produce(batch256, acks)},
			{name: "produce " + name + " 12p 4c 16x1KB", unit: "records", floor: small, run: produce(spread, acks)},
			{name: "produce " + name + " 1p 16c one 100B", unit: "records", floor: single, run: produce(single16, acks)},
			{name: "produce " + name + " 100p 50c one 100B", unit: "records", floor: single, run: produce(single50, acks)},
		}
	}
	return []pairing{
		{
			name: "redis-everysec", peer: "redis", peerArgs: append(redisLog[:len(redisLog):len(redisLog)], "everysec"),
			weirArgs: []string{"--appendfsync", "everysec"},
			rows: []row{
				{name: "xadd 100B 50c P=1", unit: "entries", floor: 0.7, run: xadd(1)},
				{name: "xadd 100B 50c P=16", unit: "entries", floor: 1.0, run: xadd(16)},
				{name: "xadd 100B 50c P=64", unit: "entries", floor: 1.0, run: xadd(64)},
				{name: "xreadgroup 10 + xack 50c P=1", unit: "pairs", run: readAndAck(1)},
				{name: "xreadgroup 10 + xack 50c P=16", unit: "pairs", run: readAndAck(16)},
				{name: "xreadgroup 10 + xack 50c P=64", unit: "pairs", run: readAndAck(64)},
				{name: "xrange 100 50c P=1", unit: "calls", run: xrange},
			},
		},
		{
			name: "redis-always", peer: "redis", peerArgs: append(redisLog[:len(redisLog):len(redisLog)], "always"),
			weirArgs: []string{"--appendfsync", "always"},
			rows: []row{
				{name: "xadd 100B 50c P=1", unit: "entries", floor: 0.8, run: xadd(1)},
				{name: "xadd 100B 50c P=16", unit: "entries", floor: 0.8, run: xadd(16)},
				{name: "xadd 100B 50c P=64", unit: "entries", floor: 0.8, run: xadd(64)},
				{name: "xreadgroup 10 + xack 50c P=1", unit: "pairs", run: readAndAck(1)},
				{name: "xreadgroup 10 + xack 50c P=16", unit: "pairs", run: readAndAck(16)},
				{name: "xreadgroup 10 + xack 50c P=64", unit: "pairs", run: readAndAck(64)},
			},
		},
		{
			name: "kafka", peer: "kafka", peerArgs: []string{kafkaQuickDelete},
			rows: append(produceRows(1, "acks=1", 1.0, 0.6, 2.0),
				row{name: "fetch 1p 1c 1MB of 16KB batches", unit: "MB", floor: 0.4, run: fetch(batch16)},
				row{name: "fetch 1p 1c 1MB of 256KB batches", unit: "MB", floor: 0.4, run: fetch(batch256)},
				row{name: "fetch 12p 4c 1MB of 16KB batches", unit: "MB", floor: 0.4, run: fetch(spread)},
				row{name: "latency acks=1", floor: 0.7, floorP99: 1.0, run: latency(1)},
				row{name: "kgo produce acks=1 12p 100B", unit: "records",
					run: kgoProduce(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())},
				row{name: "kgo produce acks=all idempotent 12p 100B", unit: "records", run: kgoProduce()},
				row{name: "kgo fetch 12p 16KB batches", unit: "MB", run: kgoFetch},
			),
		},
		{
			name: "kafka-fsync", peer: "kafka", peerArgs: []string{kafkaQuickDelete, "log.flush.interval.messages=1"},
			rows: append(produceRows(-1, "acks=all", 3, 1.0, 8),
				row{name: "latency acks=all", run: latency(-1)},
				row{name: "kgo produce acks=all idempotent 12p 100B", unit: "records", run: kgoProduce()},
			),
		},
	}
}

// Floors of the memory table: a fresh, empty weir.
const (
	idleCeiling  = 40 << 20 // bytes resident
	startCeiling = 150      // milliseconds to the first answer
)
