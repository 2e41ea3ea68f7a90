# gocount.sh: sourced; turns the output of `go test -v` into the line that CI counts.

# gofailures FILE: what the failed tests said, and what did not build or panicked.
gofailures() {
	awk '
		/^=== (RUN|NAME|CONT|PAUSE)/ { test = $3; next }
		/^ *--- (PASS|SKIP)/ { next }
		/^ *--- FAIL/ { sub(/^ */, ""); print; printf "%s", said[$3]; delete said[$3]; next }
		/^panic:|^fatal error:/ { loud = 1 }
		/^(ok|\?|PASS|=== )/ { test = ""; next }
		/^FAIL/ { test = ""; loud = 0; print; next }
		loud || test == "" { print; next }
		length(said[test]) < 20000 { said[test] = said[test] $0 "\n" }' "$1" | head -"${FAILURE_LINES:-200}"
}

# gocount NAME FILE: prints what failed and then `NAME: N passed, N failed`; subtests count, skipped tests do not.
# Fails when anything failed, when a package did not build or panicked, and when nothing ran at all.
gocount() {
	local passed failed
	passed=$(grep -cE '^ *--- PASS' "$2")
	failed=$(grep -cE '^ *--- FAIL' "$2")
	if grep -qE '^(FAIL|panic:)' "$2"; then
		[ "$failed" -gt 0 ] || failed=1
		gofailures "$2"
	fi
	echo "$1: $passed passed, $failed failed"
	[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
}
