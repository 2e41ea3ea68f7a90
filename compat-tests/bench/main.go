package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/compat-tests/server"
)

// options are the command line.
type options struct {
	rows     *regexp.Regexp
	duration time.Duration
	warm     time.Duration
	jvmWarm  time.Duration
	rounds   int
	peers    []string
	weir     string
	anchors  string
	keep     string
	profiles string
	strict   bool
	out      io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	reached, strict, err := benchmark(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case strict && !reached:
		os.Exit(1)
	}
}

func parseFlags(root string) (options, error) {
	var o options
	rows := flag.String("rows", ".", "run the rows whose \"PAIRING: ROW\" matches this regexp")
	flag.DurationVar(&o.duration, "duration", 2*time.Second, "measured time of one turn")
	flag.DurationVar(&o.warm, "warm", 500*time.Millisecond, "unmeasured start of one turn")
	flag.DurationVar(&o.jvmWarm, "jvm-warm", 12*time.Second, "load on both servers before a Kafka pairing's first row")
	flag.IntVar(&o.rounds, "rounds", 3, "turns of each server at each row; the table has medians")
	peers := flag.String("peers", "redis,kafka", "peers to measure against")
	flag.StringVar(&o.weir, "weir", "", "weir's binary; default: build ../cmd/weir; \"peer\" starts the peer twice instead, to see how far from 1 chance goes")
	flag.StringVar(&o.anchors, "anchors", "", "folder of the peers' start scripts (default: ../shared/anchors from the repository's root)")
	flag.StringVar(&o.keep, "dir", "", "folder for data and logs, kept; default: a temporary one, removed")
	flag.StringVar(&o.profiles, "profile", "", "folder for a CPU profile of weir in each row's first round (weir then runs with --pprof, a little slower)")
	flag.BoolVar(&o.strict, "strict", false, "exit with 1 when a floor is missed or a row failed")
	flag.Parse()
	var err error
	if o.rows, err = regexp.Compile(*rows); err != nil {
		return o, err
	}
	if o.anchors == "" {
		o.anchors = filepath.Join(root, "..", "shared", "anchors")
	}
	o.peers = strings.Split(*peers, ",")
	o.out = os.Stdout
	return o, nil
}

// benchmark runs everything and tells whether all floors were reached.
func benchmark(ctx context.Context) (reached, strict bool, err error) {
	root, err := server.RepoRoot()
	if err != nil {
		return false, false, err
	}
	o, err := parseFlags(root)
	if err != nil {
		return false, false, err
	}
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "weir-bench"); err != nil {
			return false, false, err
		}
		defer os.RemoveAll(dir)
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return false, false, err
	}
	if o.profiles != "" {
		if err := os.MkdirAll(o.profiles, 0o755); err != nil {
			return false, false, err
		}
	}
	if o.weir == "" {
		o.weir = filepath.Join(dir, "weir")
		if err := server.BuildWeir(ctx, root, o.weir); err != nil {
			return false, false, err
		}
	}
	reached = true
	var prints []footprint
	fmt.Fprint(o.out, tableHead)
	for _, p := range pairings() {
		p.rows = slices.DeleteFunc(p.rows, func(r row) bool { return !o.rows.MatchString(p.name + ": " + r.name) })
		if !slices.Contains(o.peers, p.peer) || len(p.rows) == 0 {
			continue
		}
		fp, good, err := o.pair(ctx, p, filepath.Join(dir, p.name))
		if err != nil {
			return false, o.strict, fmt.Errorf("%s: %w", p.name, err)
		}
		reached = reached && good
		prints = append(prints, fp)
	}
	fmt.Fprint(o.out, footprintHead)
	for _, fp := range prints {
		reached = fp.print(o.out) && reached
	}
	return reached, o.strict, nil
}

// specs makes the two sides of a pairing, weir's first.
func (o options) specs(p pairing, dir string) ([2]server.Spec, error) {
	peer := func(dir string) (server.Spec, error) {
		if p.peer == "redis" {
			return server.Redis(o.anchors, dir, p.peerArgs...)
		}
		return server.Kafka(o.anchors, dir, p.peerArgs...)
	}
	theirs, err := peer(filepath.Join(dir, "peer"))
	if err != nil {
		return [2]server.Spec{}, err
	}
	var ours server.Spec
	if o.weir == "peer" {
		ours, err = peer(filepath.Join(dir, "stand-in"))
	} else {
		args := p.weirArgs
		if o.profiles != "" {
			args = append(args[:len(args):len(args)], "--pprof")
		}
		ours, err = server.Weir(o.weir, filepath.Join(dir, "weir"), args...)
	}
	return [2]server.Spec{ours, theirs}, err
}

// pair runs one pairing on fresh servers.
func (o options) pair(ctx context.Context, p pairing, dir string) (footprint, bool, error) {
	fp := footprint{pairing: p.name, weirInOwnPlace: o.weir != "peer"}
	specs, err := o.specs(p, dir)
	if err != nil {
		return fp, false, err
	}
	if o.keep == "" {
		defer os.RemoveAll(dir)
	}
	var sides [2]*server.Server
	for i, spec := range specs {
		if sides[i], err = spec.Start(ctx); err != nil {
			return fp, false, err
		}
		defer sides[i].Kill()
		fp.start[i] = sides[i].Ready
	}
	time.Sleep(time.Second) // idle means: what a start leaves behind is done
	for i, srv := range sides {
		fp.idle[i] = srv.RSS()
	}
	if p.peer == "kafka" {
		for _, srv := range sides {
			if err := warmUp(ctx, srv, o.jvmWarm); err != nil {
				return fp, false, fmt.Errorf("warming %s up: %w", srv.Name, err)
			}
		}
	}
	good := true
	for _, r := range p.rows {
		res := o.row(ctx, p.name, r, sides)
		good = res.print(o.out) && good
		for _, srv := range sides {
			if srv.Exited() {
				return fp, false, errors.New(srv.Name + " has died:\n" + srv.LogTail())
			}
		}
		if ctx.Err() != nil {
			return fp, false, ctx.Err()
		}
	}
	for i, srv := range sides {
		fp.loaded[i] = srv.RSS()
	}
	return fp, good, nil
}

// row lets the two sides take turns.
func (o options) row(ctx context.Context, pairing string, r row, sides [2]*server.Server) result {
	res := result{pairing: pairing, row: r}
	for round := range o.rounds {
		var got [2]measure
		for i, srv := range sides {
			t := turn{srv: srv, warm: o.warm, measure: o.duration}
			if o.profiles != "" && round == 0 && srv.Admin != "" {
				t.profile = profileName(o.profiles, pairing, r.name)
			}
			var err error
			if got[i], err = r.run(ctx, &t); err != nil {
				res.err = fmt.Errorf("round %d on %s: %w", round+1, srv.Name, err)
				fmt.Fprintf(os.Stderr, "bench: %v; %s printed:\n%s\n", res.err, srv.Name, srv.LogTail())
				return res
			}
		}
		res.ours, res.theirs = append(res.ours, got[0]), append(res.theirs, got[1])
	}
	return res
}

// warmUp gives a JVM the time to compile what the rows will use.
func warmUp(ctx context.Context, srv *server.Server, d time.Duration) error {
	t := turn{srv: srv, warm: 0, measure: d / 4}
	for _, acks := range []int16{1, -1} {
		if _, err := produce(shape{partitions: 12, conns: 4, records: 16, size: 1024, window: 5}, acks)(ctx, &t); err != nil {
			return err
		}
	}
	if _, err := produce(shape{partitions: 4, conns: 16, records: 1, size: 100, window: 1}, 1)(ctx, &t); err != nil {
		return err
	}
	_, err := fetch(shape{partitions: 1, conns: 1, records: 16, size: 1024, window: 5})(ctx, &t)
	return err
}
