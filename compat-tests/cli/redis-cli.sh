#!/bin/bash
# redis-cli.sh: a tour of the stream commands with redis-cli, in RESP2 and again in RESP3, against REDIS=host:port.
#
# The story is redis-cli.txt, its expected side written by a real redis-server:
#
#   # a claim                    the name of the checks that follow
#   > COMMAND ...                one command for one redis-cli; below it what is printed with --no-raw
#   ~> COMMAND ...               the same with integers, times and generated IDs in the reply masked as N
#   >> COMMAND ...               in the background; the story goes on when the server reports one client more that waits
#   << N                         the reply of the oldest background command, which must have come
#   3:                           from here to the blank line: what RESP3 prints, where it differs
#
# REWRITE=1 writes the expected side anew: only ever against a real redis-server 8.2.3.
# The server is emptied first (FLUSHALL).
. "$(dirname "$0")/tally.sh"
need REDIS
story=$tally_dir/redis-cli.txt
host=${REDIS%:*} port=${REDIS##*:}

# cli PROTOCOL LINE: one command line, parsed by redis-cli's own rules for quotes.
cli() {
	local flags=(--no-raw)
	[ "$1" = 2 ] || flags+=(-3)
	# redis-cli adds the time of a reply that took half a second, which says nothing here.
	printf '%s\n' "$2" | timeout 20 redis-cli -h "$host" -p "$port" "${flags[@]}" 2>&1 | sed -E '/^\([0-9.]+s\)$/d'
}

mask() { sed -E 's/\(integer\) -?[0-9]+/(integer) N/; s/"[0-9]+"$/"N"/; s/"[0-9]{6,}-[0-9]+"/"N"/'; }

blocked() { redis-cli -h "$host" -p "$port" INFO clients | tr -d '\r' | sed -n 's/^blocked_clients://p'; }
blocked_at_least() { [ "$(blocked)" -ge "$1" ]; }

# perform PROTOCOL LINE: runs one line of the story and prints the reply (nothing for one sent to the background).
perform() {
	local proto=$1 line=$2 before
	case $line in
	'>> '*)
		before=$(blocked)
		waits=$((waits + 1))
		child cli "$proto" "${line#>> }" >"$scratch/wait.$waits"
		waiters[waits]=$!
		until_true 5 blocked_at_least $((before + 1)) || echo "(nobody waits)" >&2
		;;
	'<< '*)
		woken=${line#<< }
		wait "${waiters[woken]}"
		cat "$scratch/wait.$woken"
		;;
	'~> '*) cli "$proto" "${line#*> }" | mask ;;
	*) cli "$proto" "${line#*> }" ;;
	esac
}

# play PROTOCOL: the whole story once, replies into $scratch/reply.PROTOCOL.NUMBER
play() {
	local proto=$1 n=0 line
	waits=0 waiters=()
	redis-cli -h "$host" -p "$port" FLUSHALL >/dev/null
	while IFS= read -r line <&3; do
		case $line in
		'> '* | '~> '* | '>> '* | '<< '*)
			n=$((n + 1))
			perform "$proto" "$line" >"$scratch/reply.$proto.$n"
			;;
		esac
	done 3<"$story"
}

# rewrite: the story with the replies of this server.
rewrite() {
	local n=0 line
	while IFS= read -r line; do
		case $line in
		'> '* | '~> '* | '>> '* | '<< '*)
			n=$((n + 1))
			printf '%s\n' "$line"
			cat "$scratch/reply.2.$n"
			cmp -s "$scratch/reply.2.$n" "$scratch/reply.3.$n" || { echo "3:"; cat "$scratch/reply.3.$n"; }
			echo
			;;
		'#'* | '##'*) printf '%s\n' "$line" ;;
		esac
	done <"$story" >"$scratch/story"
	cp "$scratch/story" "$story"
}

# compare PROTOCOL: expected against played.
compare() {
	local proto=$1 n=0 line claim="" command="" want2="" want3="" three=
	settle() {
		[ -n "$command" ] || return 0
		local want=$want2
		[ "$proto" = 2 ] || [ -z "$three" ] || want=$want3
		is "RESP$proto, $claim: $command" "${want%$'\n'}" "$(cat "$scratch/reply.$proto.$n")"
		command="" want2="" want3="" three=
	}
	while IFS= read -r line; do
		case $line in
		'# '*) settle; claim=${line#\# } ;;
		'> '* | '~> '* | '>> '* | '<< '*) settle; n=$((n + 1)) command=$line ;;
		'3:') three=1 ;;
		*)
			if [ -n "$three" ]; then want3+=$line$'\n'; else want2+=$line$'\n'; fi
			;;
		esac
	done < <(awk 'BEGIN { RS = ""; ORS = "\n" } { print }' "$story")
	settle
}

for proto in 2 3; do play $proto; done
if [ -n "${REWRITE:-}" ]; then
	rewrite
else
	for proto in 2 3; do compare $proto; done
	# C54: the help is an array; its wording is each server's own.
	for command in XGROUP XINFO; do
		has "$command HELP is an array of lines" "^ ?1\\) $command <subcommand>" "$(cli 2 "$command HELP")"
	done
fi
finish
