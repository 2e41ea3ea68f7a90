package resp

import (
	"errors"
	"syscall"
)

// isOutOfFiles says that accepting failed for want of file descriptors or memory: it will do again later.
func isOutOfFiles(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
