# gocount.sh: sourced; turns the output of `go test -v` into the line that CI counts.

# gocount NAME FILE: prints what failed and then `NAME: N passed, N failed`; subtests count, skipped tests do not.
# Fails when anything failed, when a package did not build or panicked, and when nothing ran at all.
gocount() {
	local passed failed
	passed=$(grep -cE '^ *--- PASS' "$2")
	failed=$(grep -cE '^ *--- FAIL' "$2")
	if grep -qE '^(FAIL|panic:)' "$2"; then
		[ "$failed" -gt 0 ] || failed=1
		grep -vE '^(=== |PASS$|ok |\? | *--- (PASS|SKIP))' "$2" | head -"${FAILURE_LINES:-200}"
	fi
	echo "$1: $passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
