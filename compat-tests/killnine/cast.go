package main

import "fmt"

// A closer has something to end after the last round.
type closer interface{ close() }

// newActors is the cast of a run.
func newActors(sys *system, seed uint64) []actor {
	var out []actor
	if sys.redis != "" {
		for i := range 6 {
			out = append(out, newScript(fmt.Sprintf("kn:script:%d", i), seed+uint64(i)))
		}
		out = append(out, newQueue("kn:queue", seed))
	}
	if sys.kafka != "" {
		out = append(out, kafkaActors(sys, seed)...)
	}
	if sys.oneStore {
		out = append(out, newSharedGroup("kn-shared", seed))
	}
	return out
}

// kafkaActors speak to the Kafka port, and on one store compare the Redis view too.
func kafkaActors(sys *system, seed uint64) []actor {
	window := 5
	if !sys.oneStore {
		window = 1 // see newIdempotent
	}
	return []actor{
		newProducers("kn-written", 4, 1, seed),
		newProducers("kn-durable", 2, -1, seed),
		newIdempotent("kn-idempotent-a", seed, window),
		newIdempotent("kn-idempotent-b", seed+1, window),
		newKgoProducer("kn-kgo", 3, window),
		newAdmin("kn-admin-a", seed, sys.oneStore),
		newAdmin("kn-admin-b", seed+1, sys.oneStore),
		&autoCreator{},
		&flood{},
		newCommitters("kn-commits", 4, 5, seed),
		newMembers("kn-written", 4),
	}
}
