#!/bin/bash
# kafka-configs.sh: Apache Kafka's ConfigCommand against KAFKA=host:port.
#
# The full listing of a topic and of the broker with defaults and sources; set, append, read back, delete; a list value;
# refusals. Left out: users, groups, client-metrics, broker-loggers.
. "$(dirname "$0")/tally.sh"
need KAFKA
configs() { kafka configs --bootstrap-server "$KAFKA" "$@" 2>&1; }

t=jvm-configs-$run
kafka topics --bootstrap-server "$KAFKA" --create --topic "$t" --config max.message.bytes=51200 >/dev/null 2>&1

topic_listing() {
	local out name
	out=$(configs --describe --topic "$t" --all)
	has "the listing opens as Kafka's" "^All configs for topic $t are:" "$out"
	for name in cleanup.policy=delete compression.type=producer delete.retention.ms=86400000 file.delete.delay.ms=60000 \
		flush.messages=9223372036854775807 flush.ms=9223372036854775807 index.interval.bytes=4096 \
		max.compaction.lag.ms=9223372036854775807 message.timestamp.type=CreateTime min.cleanable.dirty.ratio=0.5 \
		min.compaction.lag.ms=0 min.insync.replicas=1 preallocate=false retention.bytes=-1 retention.ms=604800000 \
		segment.bytes=1073741824 segment.ms=604800000 segment.jitter.ms=0 segment.index.bytes=10485760 \
		unclean.leader.election.enable=false; do
		has "default $name" "^  ${name//./\\.} sensitive=false synonyms=\{" "$out"
	done
	has "what creation set is the topic's own" \
		"^  max.message.bytes=51200 .*DYNAMIC_TOPIC_CONFIG:max.message.bytes=51200, DEFAULT_CONFIG:message.max.bytes=1048588" "$out"
	has "a default is named as such" "^  cleanup.policy=delete .*synonyms=\{DEFAULT_CONFIG:log.cleanup.policy=delete\}" "$out"
}

topic_changes() {
	local out
	has "set two, one a list" "^Completed updating config for topic $t\.\$" \
		"$(configs --alter --topic "$t" --add-config 'retention.ms=1234,cleanup.policy=[compact,delete]')"
	out=$(configs --describe --topic "$t")
	has "read back: the list" "^  cleanup.policy=compact,delete .*DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete" "$out"
	has "read back: the number" "^  retention.ms=1234 " "$out"
	has "what was there stays" "^  max.message.bytes=51200 " "$out"
	hasnt "without --all no defaults" "segment.bytes" "$out"
	has "delete one" "^Completed updating" "$(configs --alter --topic "$t" --delete-config retention.ms)"
	out=$(configs --describe --topic "$t")
	hasnt "it is gone" "retention.ms=1234" "$out"
	has "the other stays" "cleanup.policy=compact,delete" "$out"
}

refusals() {
	has "an unknown name" "InvalidConfigurationException: Unknown topic config name: nope" \
		"$(configs --alter --topic "$t" --add-config nope=1)"
	has "not a number" "InvalidConfigurationException: Invalid value abc for configuration retention.ms: Not a number of type LONG" \
		"$(configs --alter --topic "$t" --add-config retention.ms=abc)"
	has "not a policy" "InvalidConfigurationException: Invalid value wrong for configuration cleanup.policy" \
		"$(configs --alter --topic "$t" --add-config cleanup.policy=wrong)"
	has "no such topic" "The topic '$t-no' doesn't exist" "$(configs --describe --topic "$t-no")"
	has "the next request still works (C38)" "^Dynamic configs for topic $t are:" "$(configs --describe --topic "$t")"
}

enforcement() {
	local out
	head -c 200000 /dev/zero | tr '\0' x >"$scratch/big"
	out=$(kcat -b "$KAFKA" -P -t "$t" -X message.max.bytes=1000000 -X message.timeout.ms=5000 "$scratch/big" 2>&1)
	has "max.message.bytes is enforced (C25)" 'Message size too large' "$out"
	is "and nothing was appended" "$t:0:0" "$(kafka get-offsets --bootstrap-server "$KAFKA" --topic "$t" 2>&1)"
}

broker() {
	local out name
	out=$(configs --describe --entity-type brokers --entity-name 1 --all)
	has "the broker's listing" "^All configs for broker 1 are:" "$out"
	for name in advertised.listeners auto.create.topics.enable default.replication.factor log.retention.ms message.max.bytes \
		min.insync.replicas num.partitions node.id log.cleanup.policy group.max.session.timeout.ms; do
		has "broker has $name" "^  ${name//./\\.}=" "$out"
	done
}

topic_listing
topic_changes
refusals
enforcement
broker
finish
