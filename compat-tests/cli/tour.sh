#!/bin/bash
# tour.sh [FILE]: the tour of the README, line by line as it is written there, on the ports it names.
#
# The tour is the first fenced block below the comment `<!-- tour: ... -->` of FILE (default: the project's README.md).
# Each line is run by a shell as a reader would paste it; only `<first id>` is replaced, by the first ID that the
# XREADGROUP above it printed. What each must print is written here, not guessed from comments.
#
# The default ports may be taken on the machine that runs this, so it runs in a network namespace of its own where it can.
# Data go to a scratch folder by WEIR_DATA, since the tour itself leaves ./weir-data behind.
if [ -z "${TOUR_INSIDE:-}" ] && unshare -rn true 2>/dev/null && command -v ip >/dev/null; then
	TOUR_INSIDE=1 exec unshare -rn "$BASH" "$0" "$@"
fi
. "$(dirname "$0")/tally.sh"
[ -z "${TOUR_INSIDE:-}" ] || ip link set lo up
root=$(cd "$tally_dir/../.." && pwd)
file=$(realpath "${1:-$root/README.md}")
cd "$root" || exit 2
export WEIR_DATA=$scratch/data

# tour: the block, comments cut off.
tour() {
	awk '/^<!-- tour/ { marked = 1; next } !marked { next } /^```/ { if (inside) exit; inside = 1; next } inside' "$file" |
		sed -E 's/[[:space:]]+# .*$//; /^[[:space:]]*$/d'
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
ready() { curl -fsS -o /dev/null "http://127.0.0.1:8080/readyz" 2>/dev/null; }

# serve LINE: start weir as the tour does; it is ended with everything `go run` started, by its process group.
serve() {
	local p
	for p in 9092 6379 8080; do
		! answers $p || { fail "port $p is free" "something else answers there, and no namespace can be made"; finish; }
	done
	setsid bash -c "exec $1" >"$scratch/weir.log" 2>&1 &
	server=$!
	trap 'kill -TERM -- -$server 2>/dev/null; wait $server 2>/dev/null; rm -rf "$scratch"' EXIT
	until_true 180 eval "ready || ! kill -0 $server 2>/dev/null"
	ready && pass "$1: ready" || { fail "$1: ready" "$(cat "$scratch/weir.log")"; finish; }
}

# resumes LINE: a group consumer runs until it is ended, so it is ended once it has printed its two records.
resumes() {
	bash -c "exec $1" >"$scratch/group" 2>"$scratch/group.err" &
	local p=$!
	until_true 20 eval "[ \$(wc -l <'$scratch/group') -ge 2 ]"
	kill -TERM $p
	wait $p 2>/dev/null
	is "$1" $'world\nagain' "$(cat "$scratch/group")"
}

steps=0
while IFS= read -r line <&3; do
	steps=$((steps + 1))
	case $line in
	*'weir serve'*) serve "$line" ;;
	*'kcat '*' -G '*) resumes "$line" ;;
	*)
		out=$(timeout 30 bash -c "${line//<first id>/$first}" 2>&1)
		status=$?
		case $line in
		*'kcat '*' -P '*) is "$line" "0 " "$status $out" ;;
		*'kcat '*' -C '*) is "$line" $'0 k1 hello\n1 k2 world\n2 k3 again' "$(grep -v '^%' <<<"$out")" ;;
		*XGROUP*) is "$line" OK "$out" ;;
		*XREADGROUP*)
			first=$(grep -oE '[0-9]{13,}-[0-9]+' <<<"$out" | head -1)
			is "$line" "orders ID key k1 value hello ID key k2 value world" \
				"$(sed -E 's/^[0-9]{13,}-[0-9]+$/ID/' <<<"$out" | paste -sd' ')"
			;;
		*XADD*) has "$line" '^[0-9]{13,}-[0-9]+$' "$out" ;;
		*XACK*) is "$line" 1 "$out" ;;
		*) fail "a line of the tour that tour.sh knows" "$line" ;;
		esac
		;;
	esac
done 3< <(tour)
[ $steps -ge 7 ] && pass "the tour has its seven steps" || fail "the tour has its seven steps" "found $steps in $file"
finish
