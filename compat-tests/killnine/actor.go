package main

import (
	"context"
	"fmt"
	"sync"
)

// An actor is one kind of client with its ledger. load and check are never called
// at the same time.
type actor interface {
	name() string
	// load works until its connections break or ctx ends.
	load(ctx context.Context, sys *system)
	// check compares the ledger with a server that nobody writes to, and takes over
	// what it finds as answered.
	check(ctx context.Context, sys *system) findings
	// answers is how many acknowledged requests the ledger has counted so far.
	answers() int64
}

// A starter is an actor that must prepare something on a living server before its
// load of a round.
type starter interface {
	prepare(ctx context.Context, sys *system) error
}

// loadAll runs every actor's load until all have ended.
func loadAll(ctx context.Context, sys *system, actors []actor) {
	var wg sync.WaitGroup
	for _, a := range actors {
		wg.Go(func() { a.load(ctx, sys) })
	}
	wg.Wait()
}

// shownPerActor keeps a server that lost everything from hiding one ledger behind
// another.
const shownPerActor = 8

// checkAll checks every ledger and names the actor in each finding.
func checkAll(ctx context.Context, sys *system, actors []actor) findings {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	all := make([]findings, len(actors))
	var wg sync.WaitGroup
	for i, a := range actors {
		wg.Go(func() { all[i] = a.check(ctx, sys) })
	}
	wg.Wait()
	var found findings
	for i, a := range actors {
		for n, f := range all[i] {
			if n == shownPerActor {
				found.add("%s: ... and %d more", a.name(), len(all[i])-n)
				break
			}
			found.add("%s: %s", a.name(), f)
		}
	}
	return found
}

// prepareAll makes what actors need, one after the other.
func prepareAll(ctx context.Context, sys *system, actors []actor) error {
	for _, a := range actors {
		if s, ok := a.(starter); ok {
			if err := s.prepare(ctx, sys); err != nil {
				return fmt.Errorf("%s: %w", a.name(), err)
			}
		}
	}
	return nil
}
