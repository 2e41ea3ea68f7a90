#!/bin/bash
# kafka-topics.sh: Apache Kafka's TopicCommand and GetOffsetShell against KAFKA=host:port.
#
# Create with partitions and configs, list, describe, grow, delete; every refusal in Kafka's words; offsets by
# position and by time, on one partition and on several.
. "$(dirname "$0")/tally.sh"
need KAFKA
topics() { kafka topics --bootstrap-server "$KAFKA" "$@" 2>&1; }
offsets() { kafka get-offsets --bootstrap-server "$KAFKA" "$@" 2>&1; }

t=jvm-topics-$run

create() {
	local out
	has "create" "^Created topic $t\.\$" \
		"$(topics --create --topic "$t" --partitions 3 --replication-factor 1 --config retention.ms=60000)"
	has "list names it" "^$t\$" "$(topics --list)"
	out=$(topics --describe --topic "$t")
	has "describe: three partitions, one replica, its config" \
		"^Topic: $t	TopicId: [A-Za-z0-9_-]{22}	PartitionCount: 3	ReplicationFactor: 1	Configs: .*retention.ms=60000" "$out"
	is "describe: each partition led by 1, in sync" 3 \
		"$(grep -cE "Topic: $t	Partition: [012]	Leader: 1	Replicas: 1	Isr: 1" <<<"$out")"
	has "create again is refused" "Topic '$t' already exists" "$(topics --create --topic "$t")"
	is "--if-not-exists says nothing" "" "$(topics --create --if-not-exists --topic "$t" | grep -v WARN)"
}

refusals() {
	local out
	has "more replicas than brokers" 'InvalidReplicationFactorException' \
		"$(topics --create --topic "$t-r" --replication-factor 3)"
	has "an unknown config" 'InvalidConfigurationException: Unknown topic config name: foo.bar' \
		"$(topics --create --topic "$t-c" --config foo.bar=1)"
	has "a name Kafka does not let one create" 'InvalidTopicException' "$(topics --create --topic 'a b')"
	has "no partitions at all" 'number of partitions must be|The partitions must be|greater than' \
		"$(topics --create --topic "$t-0" --partitions 0)"
	has "describe of nothing" "Topic '$t-no' does not exist" "$(topics --describe --topic "$t-no")"
	has "delete of nothing" "Topic '$t-no' does not exist" "$(topics --delete --topic "$t-no")"
	out=$(topics --list)
	hasnt "and nothing was created on the way" "^$t-" "$out"
}

grow() {
	local out
	is "growing to five says nothing" "" "$(topics --alter --topic "$t" --partitions 5 | grep -v WARN)"
	has "describe: five" "PartitionCount: 5" "$(topics --describe --topic "$t")"
	has "shrinking is refused" "InvalidPartitionsException: The topic $t currently has 5 partition\(s\); 2 would not be an increase" \
		"$(topics --alter --topic "$t" --partitions 2)"
	is "nothing under-replicated" "" "$(topics --describe --under-replicated-partitions)"
	is "nothing without a leader" "" "$(topics --describe --unavailable-partitions)"
}

positions() {
	seq 7 | kcat -b "$KAFKA" -P -t "$t" -p 1
	seq 2 | kcat -b "$KAFKA" -P -t "$t" -p 4
	is "latest of all partitions" "$t:0:0 $t:1:7 $t:2:0 $t:3:0 $t:4:2" "$(offsets --topic "$t" | tr '\n' ' ' | sed 's/ $//')"
	is "earliest" "$t:1:0" "$(offsets --topic-partitions "$t:1" --time earliest)"
	has "max-timestamp is a record of the partition" "^$t:1:[0-6]\$" "$(offsets --topic-partitions "$t:1" --time max-timestamp)"
	is "time 0 is the first record" "$t:4:0" "$(offsets --topic-partitions "$t:4" --time 0)"
	is "earliest-local is the earliest" "$t:1:0" "$(offsets --topic-partitions "$t:1" --time earliest-local)"
}

delete() {
	is "delete says nothing" "" "$(topics --delete --topic "$t" | grep -v WARN)"
	hasnt "list no longer names it" "^$t\$" "$(topics --list)"
	has "the name can be used again" "^Created topic $t\.\$" "$(topics --create --topic "$t" --partitions 2)"
	is "and starts empty" "$t:0:0 $t:1:0" "$(offsets --topic "$t" | tr '\n' ' ' | sed 's/ $//')"
	topics --delete --topic "$t" >/dev/null
}

create
refusals
grow
positions
delete
finish
