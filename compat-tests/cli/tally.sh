# tally.sh: sourced by every script of this folder. It keeps the count that each script prints as its
# last line (`name: N passed, N failed`), finds the peers' tools, and offers the three ways a tour checks.
#
#   KAFKA, REDIS   host:port of the server under test (each script names the one it needs)
#   ANCHORS        folder of the peers' start scripts; by default `shared/anchors` beside the clone
#
# Whoever sources this file owns `$scratch`, a folder that goes when the script ends, and `$run`, a word that is
# different on every run, so that a script can be run again on a server that already holds data.

tally_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ANCHORS=${ANCHORS:-$tally_dir/../../../shared/anchors}
tally_name=$(basename "${0%.sh}")
passed=0 failed=0
run=$(date +%s | tail -c 6)$$
scratch=$(mktemp -d)
trap 'tally_end_children; rm -rf "$scratch"' EXIT
children=()

# need VARIABLE...: end with a sentence when the address of a server is not given.
need() {
	local v
	for v; do
		[ -n "${!v:-}" ] || { echo "$tally_name: set $v=host:port" >&2; exit 2; }
	done
}

# pass CLAIM / fail CLAIM [EVIDENCE]: count one check.
pass() { passed=$((passed + 1)); [ -z "${VERBOSE:-}" ] || echo "ok    $1"; }
fail() {
	failed=$((failed + 1))
	echo "FAIL  $1"
	[ $# -lt 2 ] || printf '%s\n' "$2" | head -${EVIDENCE_LINES:-40} | sed 's/^/      | /'
}

# is CLAIM WANT GOT: the two are equal.
is() {
	if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "$(printf 'want: %s\ngot:  %s' "$2" "$3")"; fi
}

# has CLAIM REGEX GOT: some line of GOT matches the extended regular expression.
has() {
	if grep -qE -- "$2" <<<"$3"; then pass "$1"; else fail "$1" "$(printf 'no line like: %s\ngot:\n%s' "$2" "$3")"; fi
}

# hasnt CLAIM REGEX GOT: no line of GOT matches it.
hasnt() {
	if grep -qE -- "$2" <<<"$3"; then fail "$1" "$(printf 'unwanted: %s\ngot:\n%s' "$2" "$3")"; else pass "$1"; fi
}

# child COMMAND...: start something in the background that must not outlive the script; its id is in $!.
child() {
	"$@" &
	children+=($!)
}

# Only what `child` started is ended, each by its own id.
tally_end_children() {
	local p
	for p in "${children[@]}"; do kill "$p" 2>/dev/null; done
	for p in "${children[@]}"; do wait "$p" 2>/dev/null; done
	children=()
}

# until_true SECONDS COMMAND...: try the command until it succeeds; fails after SECONDS.
until_true() {
	local end=$((SECONDS + $1))
	shift
	while ! "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.05
	done
}

# kafka TOOL ARG...: one of Apache Kafka's own command-line tools, on the server under test where the tool
# takes --bootstrap-server. Java's own chatter stays out of the checks.
kafka() { "$ANCHORS/kafka/kafka" "$@"; }

# finish: the last line, and the exit status.
finish() {
	echo "$tally_name: $passed passed, $failed failed"
	[ "$failed" = 0 ]
	exit
}
