package main

import "fmt"

// A closer has something to end after the last round.
type closer interface{ close() }

// newActors is the cast of a run.
func newActors(sys *system, seed uint64) []actor {
	var out []actor
	if sys.redis != "" {
		out = append(out, redisActors(seed)...)
	}
	return out
}

// redisActors speak to the Redis port alone.
func redisActors(seed uint64) []actor {
	var out []actor
	for i := range 6 {
		out = append(out, newScript(fmt.Sprintf("kn:script:%d", i), seed+uint64(i)))
	}
	return out
}
