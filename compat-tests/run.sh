#!/bin/bash
# run.sh [SUITE...]: other people's clients against a running weir; each suite prints `name: N passed, N failed`.
#
# Builds weir, starts it on free loopback ports over a scratch data directory, runs the suites (all, or those named), ends
# weir by its process id and asks `weir check` whether the store it leaves behind keeps every invariant.
#
#   PEER=1          run the suites against Apache Kafka and redis-server from ANCHORS instead: what proves the suites
#   WEIR=FILE       a binary to test instead of building one
#   KAFKA, REDIS    both set: test what runs there; nothing is built, started or ended
#   ANCHORS=DIR     the peers' start scripts, by default shared/anchors beside the clone
#   VERBOSE=1       every check, not only the failed ones
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/gocount.sh"
export ANCHORS=${ANCHORS:-$here/../../shared/anchors}
all=(redis-cli kcat kafka-topics kafka-groups kafka-configs kafka-console clients jvm tour)
[ $# -gt 0 ] || set -- "${all[@]}"
scratch=$(mktemp -d)
pids=()
red=0

end() {
	local p
	for p in "${pids[@]}"; do kill -TERM "$p" 2>/dev/null; done
	for p in "${pids[@]}"; do wait "$p" 2>/dev/null; done
	pids=()
}
trap 'end; rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

# free_port: a port with its neighbour above free too (Kafka wants a pair).
free_port() {
	local p
	while :; do
		p=$((20000 + RANDOM % 12000))
		(exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || (exec 3<>"/dev/tcp/127.0.0.1/$((p + 1))") 2>/dev/null || break
	done
	echo $p
}

# until_ready WHAT LOG COMMAND...: 60 s, or give up with the end of the log.
until_ready() {
	local what=$1 log=$2 n=0
	shift 2
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 600 ] || { echo "run: $what does not answer"; tail -20 "$log"; exit 1; }
		sleep 0.1
	done
}

start_peers() {
	local k r
	k=$(free_port)
	KAFKA_EXTRA=$'log.retention.check.interval.ms=1000\nlog.initial.task.delay.ms=1000' KAFKA_HEAP=512m "$ANCHORS/kafka/kafka" serve "$scratch/kafka" "$k" >"$scratch/kafka.log" 2>&1 &
	pids+=($!)
	"$ANCHORS/kafka/kafka" wait "$k" || exit 1
	r=$(free_port)
	"$ANCHORS/redis/redis" serve 8 "$r" >"$scratch/redis.log" 2>&1 &
	pids+=($!)
	until_ready redis "$scratch/redis.log" redis-cli -p "$r" ping
	export KAFKA=127.0.0.1:$k REDIS=127.0.0.1:$r PEER=1
	until_ready kafka "$scratch/kafka.log" eval 'kcat -L -b "$KAFKA" | grep "broker 1 at"'
}

start_weir() {
	local k r a
	if [ -z "${WEIR:-}" ]; then
		WEIR=$scratch/weir
		(cd "$here/.." && go build -o "$WEIR" ./cmd/weir) || exit 1
	fi
	export WEIR
	k=$(free_port) r=$(free_port) a=$(free_port)
	export KAFKA=127.0.0.1:$k REDIS=127.0.0.1:$r
	# A first rebalance waits 3 s for more members, and what has expired is looked for every 5 minutes, as Kafka does by
	# default; here, as on the peer, it is 0 and a second.
	"$WEIR" serve --data "$scratch/data" --kafka "$KAFKA" --redis "$REDIS" --admin "127.0.0.1:$a" \
		--initial-rebalance-delay 0s --retention-check 1s >"$scratch/weir.log" 2>&1 &
	pids+=($!)
	until_ready weir "$scratch/weir.log" curl -fsS "http://127.0.0.1:$a/readyz"
	weir=$!
}

# suite NAME: one suite; ten minutes are several times what the slowest takes.
suite() {
	local limit=(timeout -k 20 600)
	case $1 in
	clients)
		(cd "$here" && go test -count=1 -v -timeout 10m ./clients/) >"$scratch/clients" 2>&1
		gocount clients "$scratch/clients"
		;;
	jvm) "${limit[@]}" "$here/jvm/run.sh" ;;
	tour) [ -n "${PEER:-}" ] || "${limit[@]}" "$here/cli/tour.sh" ;;
	*) "${limit[@]}" "$here/cli/$1.sh" ;;
	esac
}

if [ -n "${KAFKA:-}" ] && [ -n "${REDIS:-}" ]; then
	export KAFKA REDIS
elif [ -n "${PEER:-}" ]; then
	start_peers
else
	start_weir
fi
for s; do
	began=$SECONDS
	suite "$s"
	status=$?
	[ $status = 0 ] || red=1
	[ $status != 124 ] || printf 'run: %s was not done in ten minutes\n%s: 0 passed, 1 failed\n' "$s" "$s"
	[ -z "${VERBOSE:-}" ] || echo "($s took $((SECONDS - began)) s)"
	if [ -n "${weir:-}" ] && ! kill -0 "$weir" 2>/dev/null; then
		echo "run: weir ended by itself during $s"
		tail -40 "$scratch/weir.log"
		exit 1
	fi
done
if [ -n "${weir:-}" ]; then
	end
	if "$WEIR" check --data "$scratch/data" >"$scratch/check" 2>&1; then
		echo "store-check: 1 passed, 0 failed"
	else
		cat "$scratch/check"
		echo "store-check: 0 passed, 1 failed"
		red=1
	fi
	if grep -E 'panic|level=ERROR|DATA RACE' "$scratch/weir.log" | head -20 | grep .; then
		echo "run: weir logged errors"
		red=1
	fi
fi
exit $red
