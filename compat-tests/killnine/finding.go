package main

import "fmt"

// findings are what was lost, doubled or wrong, one sentence each.
type findings []string

// add appends one finding; after a hundred the point is made.
func (f *findings) add(format string, args ...any) {
	if len(*f) < 100 {
		*f = append(*f, fmt.Sprintf(format, args...))
	}
}
