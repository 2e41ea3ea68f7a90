package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"weir/compat-tests/respwire"
)

// A script is the only writer of its key: it sends pipelines of commands whose
// effect it knows. answered is the state after the last reply; unanswered are the
// commands sent after it.
type script struct {
	w          scripter
	answered   *stream
	unanswered []op
	acked      int64
	wrong      findings // replies other than the model's
}

func newScript(key string, seed uint64) *script {
	return &script{w: scripter{key: key, rng: rand.New(rand.NewPCG(seed, 7)), clock: 1}, answered: &stream{}}
}

func (a *script) name() string { return "script " + a.w.key }

func (a *script) answers() int64 { return a.acked }

func (a *script) load(ctx context.Context, sys *system) {
	c, err := respwire.Dial(ctx, sys.redis)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for ctx.Err() == nil {
		planned := a.answered.clone()
		var due []any
		for range 1 + a.w.pick(16) {
			o := a.w.next(planned)
			due = append(due, o.apply(planned))
			a.unanswered = append(a.unanswered, o)
			c.Queue(o.args...)
		}
		if c.Flush() != nil {
			return
		}
		for _, want := range due {
			got, err := c.Recv()
			if err != nil {
				return
			}
			o := a.unanswered[0]
			o.apply(a.answered)
			a.unanswered = a.unanswered[1:]
			a.acked++
			if !reflect.DeepEqual(got, want) {
				a.wrong.add("%q answered %v, not %v", o.args, got, want)
				return
			}
		}
	}
}

func (a *script) check(ctx context.Context, sys *system) findings {
	found := a.wrong
	a.wrong = nil
	got, err := snapshot(ctx, sys.redis, a.w.key)
	if err != nil {
		found.add("reading it back: %v", err)
		return found
	}
	// A real Redis loses a consumer that was made by the way (NOACK, a claim that found
	// nothing): it is not in its append-only file until something else is. Weir keeps
	// every consumer that was made.
	return append(found, a.settle(got, sys.oneStore)...)
}

// settle compares the server's state with the ledger and takes it over as what is
// now answered, so that the next round starts from the truth.
func (a *script) settle(got *stream, consumersCount bool) findings {
	var found findings
	state, best := a.answered.clone(), differences(a.answered, got, consumersCount)
	for n, o := range a.unanswered {
		if len(best) == 0 {
			break
		}
		o.apply(state)
		if d := differences(state, got, consumersCount); len(d) == 0 || len(d) < len(best) {
			best = append(d, fmt.Sprintf("(nearest state: after %d of %d unanswered commands)", n+1, len(a.unanswered)))
			if len(d) == 0 {
				best = nil
			}
		}
	}
	for _, d := range best {
		found.add("%s", d)
	}
	a.answered, a.unanswered = got.clone(), nil
	return found
}

// differences names what one state has and the other lacks. Without consumersCount
// it does not matter which consumers exist.
func differences(want, got *stream, consumersCount bool) []string {
	w, g := want.lines(), got.lines()
	if !consumersCount {
		isConsumer := func(line string) bool { return strings.Contains(line, ": consumer ") }
		w, g = slices.DeleteFunc(w, isConsumer), slices.DeleteFunc(g, isConsumer)
	}
	var out []string
	for _, l := range w {
		if _, ok := slices.BinarySearch(g, l); !ok {
			out = append(out, "lost: "+l)
		}
	}
	for _, l := range g {
		if _, ok := slices.BinarySearch(w, l); !ok {
			out = append(out, "never there: "+l)
		}
	}
	return out
}
