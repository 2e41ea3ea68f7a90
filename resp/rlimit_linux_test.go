package resp

import "golang.org/x/sys/unix"

func limitFiles(n uint64) error {
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: n})
}
