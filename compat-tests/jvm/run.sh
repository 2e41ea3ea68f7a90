#!/bin/bash
# run.sh: two JVM programs as teams write them on Redis Streams, built with Maven and run against REDIS=host:port.
#
#   spring    Spring Boot 3.5, Spring Data Redis: StreamMessageListenerContainer with manual and with automatic ack, and a
#             scheduled job that finds a dead consumer's entries by XPENDING, claims them, and moves those delivered too
#             often to a dead-letter stream
#   lettuce   a Lettuce consumer loop with XAUTOCLAIM
#
# Each is started twice: once as a worker that dies in mid-batch, without a word, and once as the worker that finds what
# the dead one left. What came of it is read with redis-cli. The programs know nothing of weir.
. "$(dirname "$0")/../cli/tally.sh"
need REDIS
tally_name=jvm
here=$(cd "$(dirname "$0")" && pwd)
host=${REDIS%:*} port=${REDIS##*:}
r() { redis-cli -h "$host" -p "$port" "$@"; }

# build PROJECT ARTIFACT: a jar that is newer than its sources is kept.
build() {
	local p=$here/$1
	if [ ! -e "$p/target/$2" ] || [ -n "$(find "$p/pom.xml" "$p/src" -newer "$p/target/$2" | head -1)" ]; then
		mvn -q -B -f "$p/pom.xml" package >"$scratch/build" 2>&1 || { fail "$1 builds" "$(cat "$scratch/build")"; return 1; }
	fi
	pass "$1 builds"
}

# field STREAM NAME: the values of one field over all entries, in order.
field() { r XRANGE "$1" - + | awk -v f="$2" 'take { print; take = 0; next } $0 == f { take = 1 }'; }
length_is() { [ "$(r XLEN "$1")" = "$2" ]; }
nothing_pending() { [ "$(r XPENDING "$1" "$2" | head -1)" = 0 ]; }

spring() {
	local s=orders-$run app worker i
	build spring orders.jar || return
	app=(java -Xmx128m -XX:TieredStopAtLevel=1 -jar "$here/spring/target/orders.jar" "--spring.data.redis.host=$host"
		"--spring.data.redis.port=$port" "--orders.stream=$s" "--orders.dead-letters=$s.dead" "--orders.processed=$s.processed"
		"--orders.notices=$s.notices")
	for i in $(seq 1 20); do
		if [ $((i % 7)) = 0 ]; then r XADD "$s" '*' order "$i" poison yes; else r XADD "$s" '*' order "$i"; fi
	done >/dev/null

	"${app[@]}" --orders.consumer=dies --orders.crash-with=5 >"$scratch/dies" 2>&1
	is "spring: the first worker died in mid-batch" 137 $?
	is "spring: it had billed four" 4 "$(r XLEN "$s.processed")"
	is "spring: it left six of its ten in hand" 6 "$(r XPENDING "$s" billing | head -1)"

	child "${app[@]}" --orders.consumer=lives >"$scratch/lives" 2>&1
	worker=$!
	until_true 60 length_is "$s.dead" 2 && until_true 20 nothing_pending "$s" billing &&
		pass "spring: the second took over and put two aside" ||
		fail "spring: the second took over and put two aside" "$(r XPENDING "$s" billing; tail -20 "$scratch/lives")"
	is "spring: all that can be billed is billed, once" "$(seq 1 20 | grep -vx -e 7 -e 14)" \
		"$(field "$s.processed" order | sort -n)"
	is "spring: six of the dead worker's ten by the job, without the poisoned one" 5 "$(field "$s.processed" how | grep -c reclaim)"
	is "spring: the dead letters are the poisoned orders" $'7\n14' "$(field "$s.dead" order | sort -n)"
	is "spring: each was delivered three times before" $'3\n3' "$(field "$s.dead" deliveries)"
	has "spring: and carries its origin" '^[0-9]{13,}-[0-9]+$' "$(field "$s.dead" origin)"
	for i in 1 2 3; do r XADD "$s.notices" '*' order "n$i"; done >/dev/null
	until_true 20 eval "[ \$(field '$s.processed' how | grep -c notice) = 3 ]"
	is "spring: notices arrive with automatic ack" $'n1\nn2\nn3' "$(field "$s.processed" order | grep n)"
	is "spring: and are never pending" 0 "$(r XPENDING "$s.notices" billing | head -1)"
	has "spring: the worker is a consumer of the group" '^lives$' "$(r XINFO CONSUMERS "$s" billing)"

	# C82: the listener lives through the loss of its stream.
	r DEL "$s" >/dev/null
	until_true 20 grep -q NOGROUP "$scratch/lives" &&
		pass "spring: the listener is told NOGROUP" || fail "spring: the listener is told NOGROUP" "$(tail -20 "$scratch/lives")"
	r XGROUP CREATE "$s" billing 0 MKSTREAM >/dev/null
	r XADD "$s" '*' order 99 >/dev/null
	until_true 20 eval "field '$s.processed' order | grep -qx 99" &&
		pass "spring: and goes on when stream and group are back" ||
		fail "spring: and goes on when stream and group are back" "$(tail -20 "$scratch/lives")"
	kill -TERM "$worker"
	wait "$worker"
	is "spring: it stops in order" 143 $?
}

lettuce() {
	local s=loop-$run loop i worker
	build lettuce loop.jar || return
	loop=(java -Xmx96m -XX:TieredStopAtLevel=1 -cp "$here/lettuce/target/loop.jar:$here/lettuce/target/lib/*" loop.ConsumerLoop
		"redis://$host:$port" "$s" workers)
	for i in $(seq 1 30); do r XADD "$s" '*' n "$i"; done >/dev/null
	"${loop[@]}" dies 7 >"$scratch/dies" 2>&1
	is "lettuce: the first worker died" 137 $?
	is "lettuce: it had done seven" 7 "$(r XLEN "$s.done")"
	is "lettuce: it left three in hand" 3 "$(r XPENDING "$s" workers | head -1)"
	child "${loop[@]}" lives 0 >"$scratch/lives" 2>&1
	worker=$!
	until_true 30 length_is "$s.done" 30 && pass "lettuce: the second did the rest" ||
		fail "lettuce: the second did the rest" "$(field "$s.done" n; cat "$scratch/lives")"
	is "lettuce: every entry once" "$(seq 1 30)" "$(field "$s.done" n | sort -n)"
	is "lettuce: three of them claimed" 3 "$(field "$s.done" how | grep -c claimed)"
	r XADD "$s" '*' n 31 stop yes >/dev/null
	until_true 20 eval "! kill -0 $worker 2>/dev/null"
	wait "$worker"
	is "lettuce: it stops when told" 0 $?
	is "lettuce: nothing is pending" 0 "$(r XPENDING "$s" workers | head -1)"
}

spring
lettuce
finish
