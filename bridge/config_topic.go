package bridge

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"sync"
)

// Topic configurations, Kafka 4.4's and weir's own.
//
// Acted on: max.message.bytes, message.timestamp.type, message.timestamp.before.max.ms
// and after.max.ms, cleanup.policy (delete: retention; compact: records need keys, but
// nothing is compacted yet), retention.ms, retention.bytes, weir.key.field,
// weir.value.format. The others are validated, stored and shown, because tools set
// them; they speak of segment files, replicas, tiers or broker-side recompression, which there are none of.

// topicList is built once, when it is first needed.
var topicList = sync.OnceValue(func() *configList { return newConfigList("topic", topicDefs()) })

const day = 24 * 60 * 60 * 1000

func throttled(s string) error {
	if s == "" || s == "*" {
		return nil
	}
	for _, part := range splitList(s) {
		partition, broker, ok := strings.Cut(part, ":")
		_, err1 := strconv.ParseUint(partition, 10, 31)
		_, err2 := strconv.ParseUint(broker, 10, 31)
		if !ok || err1 != nil || err2 != nil {
			return errors.New("it must be * or a list of partition:broker")
		}
	}
	return nil
}

func topicDefs() []configDef {
	const unset = math.MaxInt64
	most := strconv.FormatInt(unset, 10)
	return []configDef{
		{name: "cleanup.policy", kind: ConfigList, value: "delete", synonym: "log.cleanup.policy", check: listOf("compact", "delete"),
			doc: "What happens to old records: delete (after retention.ms, or beyond retention.bytes), compact (records need keys; weir does not compact yet), or both."},
		{name: "compression.gzip.level", kind: ConfigInt, value: "-1", synonym: "compression.gzip.level", check: within(-1, 9), doc: "Stored only: batches stay as producers compressed them."},
		{name: "compression.lz4.level", kind: ConfigInt, value: "9", synonym: "compression.lz4.level", check: within(1, 17), doc: "Stored only: batches stay as producers compressed them."},
		{name: "compression.zstd.level", kind: ConfigInt, value: "3", synonym: "compression.zstd.level", check: within(-131072, 22), doc: "Stored only: batches stay as producers compressed them."},
		{name: "compression.type", kind: ConfigString, value: "producer", synonym: "compression.type", check: oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
			doc: "Stored only: batches stay as producers compressed them."},
		{name: "delete.retention.ms", kind: ConfigLong, value: "86400000", synonym: "log.cleaner.delete.retention.ms", check: atLeast(0), doc: "How long compaction keeps tombstones. Stored only."},
		{name: "errors.deadletterqueue.group.enable", kind: ConfigBool, value: "false", doc: "Whether share groups may use this topic for dead letters. Stored only."},
		{name: "file.delete.delay.ms", kind: ConfigLong, value: "60000", synonym: "log.segment.delete.delay.ms", check: atLeast(0), doc: "Stored only: there are no segment files."},
		{name: "flush.messages", kind: ConfigLong, value: most, synonym: "log.flush.interval.messages", check: atLeast(1), doc: "Stored only: acks=all waits for the disk."},
		{name: "flush.ms", kind: ConfigLong, value: most, synonym: "log.flush.interval.ms", check: atLeast(0), doc: "Stored only: acks=all waits for the disk."},
		{name: "follower.replication.throttled.replicas", kind: ConfigList, value: "", check: throttled, doc: "Stored only: there is one replica."},
		{name: "index.interval.bytes", kind: ConfigInt, value: "4096", synonym: "log.index.interval.bytes", check: atLeast(0), doc: "Stored only: there are no segment files."},
		{name: "leader.replication.throttled.replicas", kind: ConfigList, value: "", check: throttled, doc: "Stored only: there is one replica."},
		{name: "local.retention.bytes", kind: ConfigLong, value: "-2", synonym: "log.local.retention.bytes", check: atLeast(-2), doc: "Stored only: nothing is tiered."},
		{name: "local.retention.ms", kind: ConfigLong, value: "-2", synonym: "log.local.retention.ms", check: atLeast(-2), doc: "Stored only: nothing is tiered."},
		{name: "max.compaction.lag.ms", kind: ConfigLong, value: most, synonym: "log.cleaner.max.compaction.lag.ms", check: atLeast(1), doc: "The longest time that a record stays uncompacted. Stored only."},
		{name: "max.decompressed.message.bytes", kind: ConfigInt, value: "2147483639", synonym: "max.decompressed.message.bytes", check: atLeast(0), doc: "Stored only: a batch may decompress to 128 MiB."},
		{name: "max.message.bytes", kind: ConfigInt, value: "1048588", synonym: "message.max.bytes", check: atLeast(0), doc: "The largest record batch that is accepted, as it comes."},
		{name: "message.timestamp.after.max.ms", kind: ConfigLong, value: "3600000", synonym: "log.message.timestamp.after.max.ms", check: atLeast(0), doc: "How far a record's timestamp may lie ahead of the broker's clock."},
		{name: "message.timestamp.before.max.ms", kind: ConfigLong, value: most, synonym: "log.message.timestamp.before.max.ms", check: atLeast(0), doc: "How far a record's timestamp may lie behind the broker's clock."},
		{name: "message.timestamp.type", kind: ConfigString, value: "CreateTime", synonym: "log.message.timestamp.type", check: oneOf("CreateTime", "LogAppendTime"), doc: "Whether a record's timestamp is the producer's or the time of the append."},
		{name: "min.cleanable.dirty.ratio", kind: ConfigDouble, value: "0.5", synonym: "log.cleaner.min.cleanable.ratio", check: within(0, 1), doc: "How much of a log compaction waits for. Stored only."},
		{name: "min.compaction.lag.ms", kind: ConfigLong, value: "0", synonym: "log.cleaner.min.compaction.lag.ms", check: atLeast(0), doc: "The shortest time that a record stays uncompacted. Stored only."},
		{name: "min.insync.replicas", kind: ConfigInt, value: "1", synonym: "min.insync.replicas", check: atLeast(1), doc: "Stored only: there is one replica."},
		{name: "preallocate", kind: ConfigBool, value: "false", synonym: "log.preallocate", doc: "Stored only: there are no segment files."},
		{name: "remote.copy.lag.bytes", kind: ConfigLong, value: "-1", synonym: "log.remote.copy.lag.bytes", check: atLeast(-1), doc: "Stored only: nothing is tiered."},
		{name: "remote.copy.lag.ms", kind: ConfigLong, value: "0", synonym: "log.remote.copy.lag.ms", check: atLeast(-1), doc: "Stored only: nothing is tiered."},
		{name: "remote.log.copy.disable", kind: ConfigBool, value: "false", doc: "Stored only: nothing is tiered."},
		{name: "remote.log.delete.on.disable", kind: ConfigBool, value: "false", doc: "Stored only: nothing is tiered."},
		{name: "remote.storage.enable", kind: ConfigBool, value: "false", check: func(s string) error {
			if strings.EqualFold(s, "true") {
				return errors.New("tiered storage is disabled on this broker")
			}
			return nil
		}, doc: "Only false: nothing is tiered."},
		{name: "retention.bytes", kind: ConfigLong, value: "-1", synonym: "log.retention.bytes", check: atLeast(-1), doc: "How many bytes a partition keeps at least before old records go; -1 no limit."},
		{name: "retention.ms", kind: ConfigLong, value: strconv.Itoa(7 * day), synonym: "log.retention.ms", check: atLeast(-1), doc: "How long records are kept, by their timestamps; -1 for ever."},
		{name: "segment.bytes", kind: ConfigInt, value: "1073741824", synonym: "log.segment.bytes", check: atLeast(1048576), doc: "Stored only: there are no segment files."},
		{name: "segment.index.bytes", kind: ConfigInt, value: "10485760", synonym: "log.index.size.max.bytes", check: atLeast(4), doc: "Stored only: there are no segment files."},
		{name: "segment.jitter.ms", kind: ConfigLong, value: "0", synonym: "log.roll.jitter.ms", check: atLeast(0), doc: "Stored only: there are no segment files."},
		{name: "segment.ms", kind: ConfigLong, value: strconv.Itoa(7 * day), synonym: "log.roll.ms", check: atLeast(1), doc: "Stored only: there are no segment files."},
		{name: "unclean.leader.election.enable", kind: ConfigBool, value: "false", synonym: "unclean.leader.election.enable", doc: "Stored only: there is one replica."},
		{name: "weir.key.field", kind: ConfigString, value: "key", doc: "weir: the field of an entry written by Redis that Kafka clients see as the record key, and that routes it."},
		{name: "weir.value.format", kind: ConfigString, value: "json", check: oneOf("json", "headers"), doc: "weir: how Kafka clients see the other fields of an entry written by Redis: one JSON object, or a header each."},
	}
}
