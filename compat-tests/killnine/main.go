package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"weir/compat-tests/server"
)

// options are the command line.
type options struct {
	rounds      int
	seed        uint64
	target      string
	weir        string
	anchors     string
	dir         string
	appendfsync string
	actors      string
	minLoad     time.Duration
	maxLoad     time.Duration
	startLimit  time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, failed, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "killnine:", err)
		failed++
	}
	fmt.Printf("killnine: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func parseFlags(root string) options {
	var o options
	flag.IntVar(&o.rounds, "rounds", 20, "kills")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the scripts and of the moments of the kills")
	flag.StringVar(&o.target, "target", "weir", "weir; redis or kafka: the real one, with the actors that speak to it; forgetful: a Redis that keeps nothing, which must fail")
	flag.StringVar(&o.weir, "weir", "", "weir's binary; default: build ../cmd/weir")
	flag.StringVar(&o.anchors, "anchors", filepath.Join(root, "..", "shared", "anchors"), "folder of the peers' start scripts")
	flag.StringVar(&o.dir, "dir", "", "folder for data and logs, kept; default: a temporary one, kept when a round fails")
	flag.StringVar(&o.appendfsync, "appendfsync", "everysec", "of the Redis side; kill -9 must lose nothing at any level")
	flag.StringVar(&o.actors, "actors", "", "only actors whose name begins so")
	flag.DurationVar(&o.minLoad, "min-load", 100*time.Millisecond, "earliest kill")
	flag.DurationVar(&o.maxLoad, "max-load", 1500*time.Millisecond, "latest kill")
	flag.DurationVar(&o.startLimit, "start-limit", time.Second, "a weir that takes longer to answer after a kill has failed the round; 0: no limit")
	flag.Parse()
	return o
}

func run(ctx context.Context) (passed, failed int, err error) {
	root, err := server.RepoRoot()
	if err != nil {
		return 0, 0, err
	}
	o := parseFlags(root)
	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "weir-killnine"); err != nil {
			return 0, 0, err
		}
	} else if err = os.MkdirAll(o.dir, 0o755); err != nil {
		return 0, 0, err
	}
	sys, err := o.system(ctx, root)
	if err != nil {
		return 0, 0, err
	}
	fmt.Printf("killnine: seed %d, %d rounds on %s\n", o.seed, o.rounds, o.target)
	passed, failed, err = o.play(ctx, sys)
	if temporary && failed == 0 && err == nil {
		os.RemoveAll(o.dir)
	} else {
		fmt.Printf("killnine: data and logs are kept in %s\n", o.dir)
	}
	return passed, failed, err
}

func (o options) system(ctx context.Context, root string) (*system, error) {
	switch o.target {
	case "weir":
		if o.weir == "" {
			o.weir = filepath.Join(o.dir, "weir")
			if err := server.BuildWeir(ctx, root, o.weir); err != nil {
				return nil, err
			}
		}
		return newWeir(o.weir, o.dir, o.appendfsync)
	case "redis", "forgetful":
		return newRedis(o.anchors, o.dir, o.appendfsync, o.target == "redis")
	case "kafka":
		return newKafka(o.anchors, o.dir)
	default:
		return nil, fmt.Errorf("no target %q", o.target)
	}
}

// checkEvery is how often `weir check` looks at the data between the kill and the
// start. Not each time: it repairs the log's tail, which the start must do by itself.
const checkEvery = 3

// Every second recovery is killed as well, within its first moments.
const (
	stumbleEvery = 2
	stumbleMax   = 120 * time.Millisecond
)

// play runs the rounds: check what the last kill left, load, kill. The last check
// belongs to the last round.
func (o options) play(ctx context.Context, sys *system) (passed, failed int, err error) {
	rng := rand.New(rand.NewPCG(o.seed, 1))
	var actors []actor
	for _, a := range newActors(sys, o.seed) {
		if strings.HasPrefix(a.name(), o.actors) {
			actors = append(actors, a)
		}
		if c, ok := a.(closer); ok {
			defer c.close()
		}
	}
	if len(actors) == 0 {
		return 0, 0, errors.New("no actor has that name")
	}
	if _, err := sys.start(ctx); err != nil {
		return 0, 0, err
	}
	defer sys.kill()
	var slowest time.Duration
	for round := 1; round <= o.rounds; round++ {
		if err := prepareAll(ctx, sys, actors); err != nil {
			return passed, failed, fmt.Errorf("round %d: %w", round, err)
		}
		loadFor := o.minLoad + time.Duration(rng.Int64N(int64(o.maxLoad-o.minLoad)+1))
		if err := o.loadAndKill(ctx, sys, actors, loadFor); err != nil {
			return passed, failed, fmt.Errorf("round %d: %w", round, err)
		}
		var found findings
		if round%checkEvery == 0 {
			if err := sys.invariants(ctx); err != nil {
				found.add("%v", err)
			}
		}
		if round%stumbleEvery == 0 {
			if err := sys.stumble(time.Duration(rng.Int64N(int64(stumbleMax)))); err != nil {
				found.add("%v", err)
			}
		}
		took, err := sys.start(ctx)
		if err != nil {
			return passed, failed, fmt.Errorf("round %d: after the kill: %w", round, err)
		}
		slowest = max(slowest, took)
		cpu, began := sys.cpu(), time.Now()
		found = append(found, checkAll(ctx, sys, actors)...)
		if ctx.Err() != nil {
			return passed, failed, ctx.Err()
		}
		if sys.oneStore && o.startLimit > 0 && took > o.startLimit {
			found.add("start after the kill took %s, %s of it on a processor", took.Round(time.Millisecond), cpu)
		}
		fmt.Printf("round %d: killed after %s, up again in %s, %d answers in the ledgers, checked in %s, %d findings\n", round,
			loadFor.Round(time.Millisecond), took.Round(time.Millisecond), answers(actors),
			time.Since(began).Round(time.Millisecond), len(found))
		for _, f := range found {
			fmt.Println("  ", f)
		}
		if len(found) > 0 {
			failed++
		} else {
			passed++
		}
	}
	fmt.Printf("killnine: slowest start after a kill: %s\n", slowest.Round(time.Millisecond))
	for _, a := range actors {
		fmt.Printf("killnine: %8d answers of %s\n", a.answers(), a.name())
	}
	return passed, failed, nil
}

// loadAndKill lets the actors work for d, kills the system in the middle of it, and
// waits until every actor has noticed.
func (o options) loadAndKill(ctx context.Context, sys *system, actors []actor, d time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		loadAll(ctx, sys, actors)
		close(ended)
	}()
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	err := sys.kill()
	// Plain connections have broken by themselves; clients that retry are told.
	time.AfterFunc(200*time.Millisecond, cancel)
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		err = errors.Join(err, errors.New("an actor has not noticed the kill in 20 s"))
	}
	return err
}

func answers(actors []actor) int64 {
	sum := int64(0)
	for _, a := range actors {
		sum += a.answers()
	}
	return sum
}
