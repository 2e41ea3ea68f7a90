#!/bin/bash
# kcat.sh: kcat (librdkafka) as its users type it, against KAFKA=host:port.
#
# Produce with keys, headers, nulls and every codec; consume by offset, from the tail, by time; time queries (-Q);
# metadata (-L, text and JSON); groups (-G) alone, resumed and with two members; acks 0, 1 and all; idempotence;
# first writes to new and to illegal names; retention; versions pinned as old clients pin them.
# Left out: transactions (-X transactional.id), which weir refuses for now.
. "$(dirname "$0")/tally.sh"
need KAFKA

k() { timeout 40 kcat -b "$KAFKA" -X topic.metadata.refresh.interval.ms=1000 "$@"; }
produce() { k -P "$@"; }
# all TOPIC [ARG...]: every record of a topic, one a line, as `offset key value`.
all() { local t=$1; shift; k -C -t "$t" -o beginning -e -q -f '%o %k %s\n' "$@" 2>&1; }

records() {
	local t=kc-records-$run
	printf 'k1:hello\nk2:world\n' | produce -t "$t" -K:
	is "a new topic takes keyed records from offset 0" $'0 k1 hello\n1 k2 world' "$(all "$t")"
	printf 'a:1\n' | produce -t "$t" -K: -H h1=v1 -H h2= -H h1=again
	is "headers come back in order, duplicates and empty ones kept" '2 h1=v1,h2=,h1=again' \
		"$(k -C -t "$t" -o 2 -e -q -f '%o %h\n')"
	printf ':\nonlykey:\n:onlyvalue\n' | produce -t "$t" -K: -Z
	is "null is not empty: lengths of key and value" $'3 -1 -1\n4 7 -1\n5 -1 9' \
		"$(k -C -t "$t" -o 3 -e -q -f '%o %K %S\n')"
	printf ':\n' | produce -t "$t" -K:
	is "empty key and value stay empty" '6 0 0' "$(k -C -t "$t" -o 6 -e -q -f '%o %K %S\n')"
	head -c 900000 /dev/urandom | base64 -w0 | head -c 900000 >"$scratch/big"
	produce -t "$t" "$scratch/big"
	is "a record of 900,000 bytes" "$(md5sum <"$scratch/big")" \
		"$(k -C -t "$t" -o 7 -c 1 -q -f '%s' | md5sum)"
}

codecs() {
	local t z out
	seq -f 'line %06g of a text that compresses well, well, well' 5000 >"$scratch/lines"
	for z in none gzip snappy lz4 zstd; do
		t=kc-$z-$run
		out=$(produce -t "$t" -z $z -l "$scratch/lines" -X linger.ms=50 2>&1)
		is "$z: no complaint while producing" "" "$out"
		is "$z: the same lines come back" "$(md5sum <"$scratch/lines")" \
			"$(k -C -t "$t" -o beginning -e -q | md5sum)"
		is "$z: from the middle of a batch" 'line 002501 of a text that compresses well, well, well' \
			"$(k -C -t "$t" -o 2500 -c 1 -q)"
		is "$z: with checksums verified" "$(md5sum <"$scratch/lines")" \
			"$(k -C -t "$t" -o beginning -e -q -X check.crcs=true | md5sum)"
	done
}

offsets() {
	local t=kc-offsets-$run i
	for i in 0 1 2 3 4; do echo "v$i" | produce -t "$t"; done
	is "-o 3 -c 1" v3 "$(k -C -t "$t" -o 3 -c 1 -q)"
	is "-o -2: the last two" $'v3\nv4' "$(k -C -t "$t" -o -2 -e -q)"
	is "-o end -e: nothing" "" "$(k -C -t "$t" -o end -e -q)"
	is "-o beginning -c 2" $'v0\nv1' "$(k -C -t "$t" -o beginning -c 2 -q)"
	is "beyond the end goes where auto.offset.reset says" $'v0\nv1\nv2\nv3\nv4' \
		"$(k -C -t "$t" -o 99 -e -q -X auto.offset.reset=earliest)"
	has "-e names the end of the partition" "Reached end of topic $t \[0\] at offset 5: exiting" \
		"$(k -C -t "$t" -o 4 -e 2>&1)"
	is "small fetches still make progress (C30)" 5 \
		"$(k -C -t "$t" -o beginning -e -q -X fetch.message.max.bytes=1 -X fetch.max.bytes=1000 \
			-X message.max.bytes=1000 | grep -c v)"
}

times() {
	local t=kc-times-$run i ts out
	# Three records, each at a later broker millisecond than the one before, because kcat cannot set a timestamp.
	for i in 0 1 2; do
		echo "v$i" | produce -t "$t"
		until_true 5 eval "[ \$(date +%s%3N) -gt $(($(date +%s%3N) + 5)) ]"
	done
	mapfile -t ts < <(k -C -t "$t" -o beginning -e -q -f '%T\n')
	is "three timestamps" 3 "${#ts[@]}"
	has "time of the second record" "$t \[0\] offset 1\$" "$(k -Q -t "$t:0:${ts[1]}")"
	has "a millisecond later: the third" "$t \[0\] offset 2\$" "$(k -Q -t "$t:0:$((ts[1] + 1))")"
	has "time 0: the first" "$t \[0\] offset 0\$" "$(k -Q -t "$t:0:0")"
	has "-1: the end" "$t \[0\] offset 3\$" "$(k -Q -t "$t:0:-1")"
	has "-2: the beginning" "$t \[0\] offset 0\$" "$(k -Q -t "$t:0:-2")"
	out=$(k -Q -t "$t:0:$((ts[2] + 100000))")
	has "the future: no record, -1 on the wire, the end to kcat" "$t \[0\] offset (-1|3)\$" "$out"
	is "-o s@T starts there" $'v1\nv2' "$(k -C -t "$t" -o "s@${ts[1]}" -e -q)"
	is "-o s@T -o e@T is a window" v1 "$(k -C -t "$t" -o "s@${ts[1]}" -o "e@${ts[2]}" -e -q)"
}

metadata() {
	local t=kc-meta-$run out
	echo x | produce -t "$t"
	out=$(k -L)
	has "one broker, number 1, at the address we called" "broker 1 at $KAFKA( \(controller\))?" "$out"
	has "the topic is listed" "topic \"$t\" with 1 partitions:" "$out"
	has "its partition is led by 1" "partition 0, leader 1, replicas: 1, isrs: 1" "$(k -L -t "$t")"
	has "JSON names the controller" '"controllerid":1' "$(k -L -J)"
	has "JSON names the topic" "\"topic\":\"$t\",\"partitions\":\[\{\"partition\":0,\"leader\":1" "$(k -L -J -t "$t")"
}

names() {
	local long out t
	long=$(printf 'x%.0s' $(seq 250))
	for t in 'a b' '..' "$long"; do
		out=$(echo x | produce -t "$t" -X message.timeout.ms=4000 2>&1)
		has "first write to the illegal name '${t:0:10}' fails" 'Invalid topic|Unknown topic|Message timed out|invalid' "$out"
	done
	out=$(k -L)
	hasnt "and none of them was created" 'topic "(a b|\.\.|xxxxxxx+)"' "$out"
	out=$(timeout 5 kcat -b "$KAFKA" -C -t "kc-absent-$run" -o beginning -e 2>&1)
	hasnt "a consumer creates nothing" "topic \"kc-absent-$run\"" "$(k -L)"
	t=user.events-${run}_1
	echo x | produce -t "$t"
	is "dots, dashes and underscores are legal" x "$(k -C -t "$t" -o beginning -e -q)"
}

levels() {
	local t a
	for a in 0 1 -1; do
		t=kc-acks$a-$run
		seq 100 | produce -t "$t" -X acks=$a
		is "acks=$a: everything is there" "$(seq 100 | md5sum)" "$(k -C -t "$t" -o beginning -c 100 -q | md5sum)"
	done
	t=kc-idem-$run
	seq 1000 | produce -t "$t" -X enable.idempotence=true -X linger.ms=1 -X batch.num.messages=10
	is "idempotent, ten records a batch: each once and in order" "$(seq 1000 | md5sum)" \
		"$(k -C -t "$t" -o beginning -e -q | md5sum)"
	seq 100 | produce -t "kc-pinned-$run" -X api.version.request=false -X broker.version.fallback=1.0.0
	is "a client that asks for no versions (broker.version.fallback=1.0.0)" "$(seq 100 | md5sum)" \
		"$(k -C -t "kc-pinned-$run" -o beginning -e -q -X api.version.request=false -X broker.version.fallback=1.0.0 | md5sum)"
	has "version negotiation needs one round" 'Received ApiVersionResponse' \
		"$(k -L -d protocol 2>&1)"
}

partitions() {
	local t=kc-parts-$run p n=0
	kafka topics --bootstrap-server "$KAFKA" --create --topic "$t" --partitions 3 --replication-factor 1 >"$scratch/create" 2>&1
	has "a topic of three partitions" "topic \"$t\" with 3 partitions" "$(k -L -t "$t")"
	for p in 0 1 2; do seq -f "p$p-%g" 10 | produce -t "$t" -p $p; done
	for p in 0 1 2; do
		is "-p $p holds its own ten" "$(seq -f "p$p-%g" 10 | md5sum)" "$(k -C -t "$t" -p $p -o beginning -e -q | md5sum)"
	done
	is "all partitions together" 30 "$(k -C -t "$t" -o beginning -e -q | wc -l)"
	printf 'k:one\nk:two\nk:three\n' | produce -t "$t" -K: -X topic.partitioner=murmur2_random
	is "murmur2 puts one key in one partition" 1 \
		"$(k -C -t "$t" -o -3 -e -q -f '%k %p\n' | grep '^k ' | sort -u | wc -l)"
	out=$(echo x | timeout 10 kcat -b "$KAFKA" -P -t "$t" -p 7 -X message.timeout.ms=3000 2>&1)
	has "partition 7 of 3 does not exist" 'Unknown partition|Unknown topic or partition' "$out"
}

groups() {
	local t=kc-group-$run g=kc-g-$run i
	seq 10 | produce -t "$t"
	# kcat takes -e in group mode only with enable.partition.eof, which it sets itself.
	is "a new group reads from the beginning if told so" "$(seq 4)" \
		"$(k -G "$g" -c 4 -q -X auto.offset.reset=earliest "$t")"
	is "and goes on where it stopped" "$(seq 5 10)" "$(k -G "$g" -e -q -X auto.offset.reset=earliest "$t")"
	seq 11 12 | produce -t "$t"
	is "and again" "$(seq 11 12)" "$(k -G "$g" -e -q -X auto.offset.reset=earliest "$t")"
	is "drained means nothing left" "" "$(k -G "$g" -e -q "$t")"
	is "auto.offset.reset=latest is the default of a new group" "" "$(k -G "$g-late" -e -q -X auto.offset.reset=latest "$t")"
	is "another group reads all by itself" 12 "$(k -G "$g-2" -e -q -X auto.offset.reset=earliest "$t" | wc -l)"
}

# C11's second half. The server must have been started so that it looks for what has expired every second.
retention() {
	local t=kc-retention-$run end=$((SECONDS + 8)) n=0 reader start late
	kafka topics --bootstrap-server "$KAFKA" --create --topic "$t" --config retention.ms=1000 --config segment.ms=1000 >/dev/null 2>&1
	child kcat -b "$KAFKA" -C -u -t "$t" -o beginning -q -X auto.offset.reset=earliest >"$scratch/kept-up"
	reader=$!
	# A producer for each record, because kcat holds back what it reads from a pipe until there is much of it.
	while [ $SECONDS -lt $end ]; do
		n=$((n + 1))
		echo "$n" | produce -t "$t"
	done
	until_true 10 grep -qx "$n" "$scratch/kept-up"
	is "retention of a second: a consumer that keeps up sees every record" "$(seq "$n" | md5sum)" "$(md5sum <"$scratch/kept-up")"
	kill -TERM "$reader"
	wait "$reader" 2>/dev/null
	start=$(k -Q -t "$t:0:-2" | sed 's/.*offset //')
	[ "$start" -gt 0 ] && pass "the log's start moved" || fail "the log's start moved" "it is $start"
	echo last | produce -t "$t"
	late=$(k -C -t "$t" -o 0 -e -q -X auto.offset.reset=earliest -f '%o\n' | head -1)
	[ "${late:-0}" -ge "$start" ] && pass "a consumer from offset 0 goes on at the start" ||
		fail "a consumer from offset 0 goes on at the start" "started at ${late:-nothing}, the log starts at $start"
}

# member GROUP TOPIC FILE: one long-running group member in the background; its records go to FILE, its rebalances to
# FILE.err.
member() {
	child kcat -b "$KAFKA" -G "$1" -u -f '%p %s\n' -X auto.offset.reset=earliest -X session.timeout.ms=6000 \
		-X heartbeat.interval.ms=500 -X auto.commit.interval.ms=200 "$2" >"$3" 2>"$3.err"
}

two_members() {
	local t=kc-two-$run g=kc-gtwo-$run a b
	kafka topics --bootstrap-server "$KAFKA" --create --topic "$t" --partitions 2 --replication-factor 1 >/dev/null 2>&1
	member "$g" "$t" "$scratch/a"
	a=$!
	until_true 20 grep -q "assigned: $t \[0\], $t \[1\]" "$scratch/a.err" &&
		pass "one member owns both partitions" || fail "one member owns both partitions" "$(cat "$scratch/a.err")"
	member "$g" "$t" "$scratch/b"
	b=$!
	until_true 20 grep -qE "assigned: $t \[[01]\]\$" "$scratch/b.err" &&
		pass "a second member gets one of them (C16)" || fail "a second member gets one of them (C16)" "$(cat "$scratch/b.err")"
	until_true 20 eval "tail -1 '$scratch/a.err' | grep -qE 'assigned: $t \[[01]\]\$'" &&
		pass "the first keeps the other" || fail "the first keeps the other" "$(cat "$scratch/a.err")"
	hasnt "nobody was unknown" 'Unknown member' "$(cat "$scratch/a.err" "$scratch/b.err")"
	for p in 0 1; do seq -f "$p-%g" 50 | produce -t "$t" -p $p; done
	until_true 20 eval "[ \$(cat '$scratch/a' '$scratch/b' | wc -l) -ge 100 ]"
	is "100 records, each to one member" 100 "$(cat "$scratch/a" "$scratch/b" | sort -u | wc -l)"
	is "and none twice" 100 "$(cat "$scratch/a" "$scratch/b" | wc -l)"
	is "each member saw one partition only" "1 1" \
		"$(cut -d' ' -f1 "$scratch/a" | sort -u | wc -l) $(cut -d' ' -f1 "$scratch/b" | sort -u | wc -l)"
	kill -TERM "$b"
	wait "$b"
	until_true 20 eval "tail -1 '$scratch/a.err' | grep -q 'assigned: $t \[0\], $t \[1\]'" &&
		pass "when one leaves, the other takes all" || fail "when one leaves, the other takes all" "$(cat "$scratch/a.err")"
	kill -TERM "$a"
	wait "$a"
	is "the group stands at the end: nothing is left" "" "$(k -G "$g" -e -q "$t")"
}

records
codecs
offsets
times
metadata
names
levels
partitions
retention
groups
two_members
finish
