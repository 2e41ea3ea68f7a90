#!/bin/bash
# kafka-console.sh: the console producer and consumer, the verifiable pair and the performance pair of Apache Kafka,
# against KAFKA=host:port: the Java client as it comes, idempotent and with acks=all by default.
. "$(dirname "$0")/tally.sh"
need KAFKA
tool() { local n=$1; shift; timeout 90 "$ANCHORS/kafka/kafka" "$n" --bootstrap-server "$KAFKA" "$@" 2>"$scratch/stderr"; }

console() {
	local t=jvm-console-$run g=jvm-console-g-$run out
	printf 'a:1\nb:2\nc:NULL\n' | tool console-producer --topic "$t" --reader-property parse.key=true \
		--reader-property key.separator=: --reader-property null.marker=NULL >/dev/null
	out=$(tool console-consumer --topic "$t" --from-beginning --max-messages 3 --timeout-ms 30000 \
		--formatter-property print.key=true --formatter-property print.offset=true --formatter-property print.partition=true)
	is "keys, values, a null, in order" $'Partition:0\tOffset:0\ta\t1\nPartition:0\tOffset:1\tb\t2\nPartition:0\tOffset:2\tc\tnull' \
		"$(grep ^Partition <<<"$out")"
	printf 'h1:v1,h2:v2\tk\tv\n' | tool console-producer --topic "$t" --reader-property parse.key=true \
		--reader-property parse.headers=true >/dev/null
	has "headers" $'^h1:v1,h2:v2\tk\tv$' "$(tool console-consumer --topic "$t" --partition 0 --offset 3 --max-messages 1 \
		--timeout-ms 30000 --formatter-property print.key=true --formatter-property print.headers=true)"
	is "from an offset" 2 "$(tool console-consumer --topic "$t" --partition 0 --offset 1 --max-messages 1 --timeout-ms 30000)"
	is "a group reads two" $'1\n2' "$(tool console-consumer --topic "$t" --group "$g" --from-beginning --max-messages 2 \
		--timeout-ms 30000 | grep -v KIP-848)"
	is "and goes on" $'null\nv' "$(tool console-consumer --topic "$t" --group "$g" --max-messages 2 --timeout-ms 30000 |
		grep -v KIP-848)"
	has "its description says drained" "^$g +$t +0 +4 +4 +0 " \
		"$(kafka groups --bootstrap-server "$KAFKA" --describe --group "$g" 2>&1)"
}

verifiable() {
	local t=jvm-verifiable-$run acks out
	for acks in 1 -1 0; do
		out=$(tool verifiable-producer --topic "$t" --max-messages 500 --acks $acks)
		is "verifiable producer, acks=$acks: all sends succeed" 500 "$(grep -c producer_send_success <<<"$out")"
		has "and its summary agrees" '"sent":500,"acked":500' "$out"
	done
	out=$(tool verifiable-consumer --topic "$t" --group-id "$t" --max-messages 1500 --reset-policy earliest)
	is "verifiable consumer: 1500 records" 1500 \
		"$(grep records_consumed <<<"$out" | sed 's/.*"name":"records_consumed","count":\([0-9]*\).*/\1/' |
			awk '{ n += $1 } END { print n }')"
	has "committed to the end" '"name":"offsets_committed","offsets":\[\{"topic":"'"$t"'","partition":0,"offset":1500\}\],"success":true' "$out"
	hasnt "no commit failed" '"success":false' "$out"
	has "left in order" '"name":"shutdown_complete"' "$out"
}

# received: partition and offset of what the two consumers of churn saw, each once.
received() { grep -h record_data "$scratch/v1" "$scratch/v2" | grep -o '"partition":[0-9]*,"offset":[0-9]*' | sort -u; }

# Two static members; one is gone while a producer runs, and its partitions pass to the other when its session ends:
# every record reaches a member.
churn() {
	local t=jvm-churn-$run i pids=()
	kafka topics --bootstrap-server "$KAFKA" --create --topic "$t" --partitions 4 --replication-factor 1 >/dev/null 2>&1
	for i in 1 2; do
		child "$ANCHORS/kafka/kafka" verifiable-consumer --bootstrap-server "$KAFKA" --topic "$t" --group-id "$t" \
			--session-timeout 6000 --reset-policy earliest --group-instance-id "static-$i" --verbose >"$scratch/v$i" 2>&1
		pids[i]=$!
	done
	until_true 40 eval "grep -q partitions_assigned '$scratch/v1' && grep -q partitions_assigned '$scratch/v2'" &&
		pass "two static members" || fail "two static members" "$(cat "$scratch/v1" "$scratch/v2")"
	tool verifiable-producer --topic "$t" --max-messages 2000 --throughput 1000 --repeating-keys 100 >"$scratch/sent"
	kill -TERM "${pids[2]}"
	wait "${pids[2]}" 2>/dev/null
	tool verifiable-producer --topic "$t" --max-messages 1000 --repeating-keys 100 >>"$scratch/sent"
	is "all sent" 3000 "$(grep -c producer_send_success "$scratch/sent")"
	# A static member that leaves keeps its place until its session ends: the other takes over after 6 s.
	until_true 40 eval "[ \$(received | wc -l) -ge 3000 ]"
	is "every record reached a member" 3000 "$(received | wc -l)"
	has "the description names the static member" "^$t +static-1-[^ ]+ +static-1 +/127.0.0.1" \
		"$(kafka groups --bootstrap-server "$KAFKA" --describe --group "$t" --members 2>&1)"
	kill -TERM "${pids[1]}"
	wait "${pids[1]}" 2>/dev/null
}

perf() {
	local t=jvm-perf-$run z out
	for z in none lz4 zstd snappy gzip; do
		out=$(timeout 90 "$ANCHORS/kafka/kafka" producer-perf --topic "$t" --num-records 20000 --record-size 100 --throughput -1 \
			--command-property bootstrap.servers="$KAFKA" acks=1 linger.ms=5 compression.type=$z 2>&1)
		has "producer-perf, $z: 20,000 records" '^20000 records sent, .* 99.9th' "$out"
		hasnt "producer-perf, $z: nothing went wrong" 'Exception|ERROR' "$out"
	done
	out=$(tool consumer-perf --topic "$t" --num-records 100000 --timeout 30000)
	has "consumer-perf: 100,000 records" ', 100000, ' "$out"
}

console
verifiable
churn
perf
finish
