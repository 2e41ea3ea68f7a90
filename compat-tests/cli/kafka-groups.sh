#!/bin/bash
# kafka-groups.sh: Apache Kafka's ConsumerGroupCommand against KAFKA=host:port.
#
# List, describe (offsets, members, state), every way to reset offsets (dry and for real), delete offsets, delete the
# group; the same on a group with a live member, where changing is refused. Members are kcat's.
. "$(dirname "$0")/tally.sh"
need KAFKA
groups() { timeout 60 "$ANCHORS/kafka/kafka" groups --bootstrap-server "$KAFKA" "$@" 2>&1; }

t=jvm-groups-$run g=jvm-g-$run

# reset WANT ARG...: a reset with ARGs plans, and then does, the move to offset WANT.
reset() {
	local want=$1
	shift
	has "reset $*" "^$g +$t +0 +$want *\$" "$(groups --reset-offsets --group "$g" --topic "$t" "$@" --execute)"
}

# at OFFSET LAG: where the group stands by its description.
at() { has "stands at $1, lag $2" "^$g +$t +0 +$1 +10 +$2 +- +- +-" "$(groups --describe --group "$g")"; }

empty_group() {
	local out
	seq 10 | kcat -b "$KAFKA" -P -t "$t"
	timeout 30 kcat -b "$KAFKA" -G "$g" -c 4 -q -X auto.offset.reset=earliest "$t" >/dev/null
	has "--list names it" "^$g\$" "$(groups --list)"
	has "--list --state: Empty" "^$g +Empty" "$(groups --list --state)"
	has "--list --state empty filters" "^$g +Empty" "$(groups --list --state empty)"
	hasnt "--list --state stable leaves it out" "^$g " "$(groups --list --state stable)"
	out=$(groups --describe --group "$g")
	has "no active members" "Consumer group '$g' has no active members" "$out"
	has "describe: offset 4, end 10, lag 6" "^$g +$t +0 +4 +10 +6 +-" "$out"
	out=$(groups --describe --group "$g" --state)
	has "describe --state: the coordinator is node 1, Empty, no members" "^$g +$KAFKA +\(1\) .* Empty +0" "$out"
	hasnt "describe --members lists nobody" "^$g .*rdkafka" "$(groups --describe --group "$g" --members)"
	has "an unknown group is not found" "Group $g-no not found" "$(groups --describe --group "$g-no")"
	has "--all-groups includes it" "^$g +$t +0 +4 " "$(groups --describe --all-groups)"
}

resets() {
	has "a dry run plans" "^$g +$t +0 +7" "$(groups --reset-offsets --group "$g" --topic "$t" --to-offset 7 --dry-run)"
	at 4 6
	reset 7 --to-offset 7
	at 7 3
	reset 5 --shift-by -2
	reset 0 --to-earliest
	at 0 10
	reset 10 --to-latest
	at 10 0
	reset 0 --to-datetime 2020-01-01T00:00:00.000
	reset 10 --to-datetime 2120-01-01T00:00:00.000
	reset 0 --by-duration PT1H
	reset 10 --to-offset 99
	has "beyond the end is cut to the end" "^$g +$t +0 +10 +10 +0 " "$(groups --describe --group "$g")"
	reset 3 --to-offset 3
	is "a consumer goes on from the reset" "$(seq 4 10)" \
		"$(timeout 30 kcat -b "$KAFKA" -G "$g" -e -q -X auto.offset.reset=earliest "$t")"
	at 10 0
	has "a reset makes a group that was not there" "^$g-new +$t +0 +6" \
		"$(groups --reset-offsets --group "$g-new" --topic "$t" --to-offset 6 --execute)"
	has "and it is listed" "^$g-new\$" "$(groups --list)"
	has "export writes CSV" "\"?$t\"?,0,10" "$(groups --reset-offsets --group "$g" --topic "$t" --to-current --export --dry-run)"
}

live_group() {
	local out p
	child kcat -b "$KAFKA" -G "$g" -u -X client.id=till "$t" >"$scratch/live" 2>"$scratch/live.err"
	p=$!
	until_true 20 grep -q 'assigned: ' "$scratch/live.err" || fail "a live member joins" "$(cat "$scratch/live.err")"
	out=$(groups --describe --group "$g" --members --verbose)
	has "describe --members --verbose: id, host, client, partitions, assignment" \
		"^$g +till-[0-9a-zA-Z-]+ +/127.0.0.1 +till +1 .*$t:0" "$out"
	has "describe --state: Stable, range, one member" "^$g .* range +Stable +1" "$(groups --describe --group "$g" --state)"
	has "describe: the member beside its partition" "^$g +$t +0 +10 +10 +0 +till-.*/127.0.0.1 +till" "$(groups --describe --group "$g")"
	has "--list --state: Stable" "^$g +Stable" "$(groups --list --state)"
	has "a reset of a live group is refused" "Assignments can only be reset if the group '$g' is inactive, but the current state is Stable" \
		"$(groups --reset-offsets --group "$g" --topic "$t" --to-earliest --execute)"
	has "a delete too" "GroupNotEmptyException" "$(groups --delete --group "$g")"
	has "and so are its offsets" "GROUP_SUBSCRIBED_TO_TOPIC|GroupSubscribedToTopicException|actively subscribed" \
		"$(groups --delete-offsets --group "$g" --topic "$t")"
	kill -TERM "$p"
	wait "$p" 2>/dev/null
	has "when the member has left: Empty again" "^$g .* Empty +0" "$(groups --describe --group "$g" --state)"
}

deletes() {
	local out
	out=$(groups --delete-offsets --group "$g" --topic "$t")
	has "delete-offsets" "^$t +0 +Successful" "$out"
	has "delete" "Deletion of requested consumer groups \('$g-new'\) was successful" "$(groups --delete --group "$g-new")"
	has "delete again: not there" "GroupIdNotFoundException" "$(groups --delete --group "$g-new")"
	hasnt "and no longer listed" "^$g-new\$" "$(groups --list)"
}

empty_group
resets
live_group
deletes
finish
