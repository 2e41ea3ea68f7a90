//go:build race

package resp

// raceEnabled: the race detector multiplies memory, which is then not measured.
const raceEnabled = true
