//go:build !unix

package resp

// cpuSeconds is not known on this system.
func cpuSeconds() (user, sys float64) { return 0, 0 }
