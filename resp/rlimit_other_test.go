//go:build !linux

package resp

import "errors"

func limitFiles(uint64) error { return errors.New("not on this system") }
