package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"weir/compat-tests/server"
)

// A system is what is killed: a weir, or one of the peers.
type system struct {
	redis, kafka string // addresses; empty for what it does not speak
	oneStore     bool   // both protocols show the same data
	dir          string
	specs        []server.Spec
	running      []*server.Server
}

// newWeir is the system under test.
func newWeir(bin, dir, appendfsync string) (*system, error) {
	spec, err := server.Weir(bin, filepath.Join(dir, "data"), "--appendfsync", appendfsync,
		"--initial-rebalance-delay", "0s") // a round is shorter than the default
	if err != nil {
		return nil, err
	}
	return &system{redis: spec.Redis, kafka: spec.Kafka, oneStore: true, dir: dir, specs: []server.Spec{spec}}, nil
}

// newRedis is a real Redis. With persist false it keeps nothing, so that the program
// must find losses.
func newRedis(anchors, dir, appendfsync string, persist bool) (*system, error) {
	args := []string{"--appendonly", "yes", "--appendfsync", appendfsync}
	if !persist {
		args = []string{"--appendonly", "no"}
	}
	spec, err := server.Redis(anchors, filepath.Join(dir, "redis"), args...)
	if err != nil {
		return nil, err
	}
	return &system{redis: spec.Redis, dir: dir, specs: []server.Spec{spec}}, nil
}

// newKafka is a real Kafka.
func newKafka(anchors, dir string) (*system, error) {
	spec, err := server.Kafka(anchors, filepath.Join(dir, "kafka"))
	if err != nil {
		return nil, err
	}
	return &system{kafka: spec.Kafka, dir: dir, specs: []server.Spec{spec}}, nil
}

// start runs the servers on their directories and returns how long the slowest
// took to answer.
func (s *system) start(ctx context.Context) (time.Duration, error) {
	var slowest time.Duration
	for _, spec := range s.specs {
		srv, err := spec.Start(ctx)
		if err != nil {
			return slowest, err
		}
		s.running = append(s.running, srv)
		slowest = max(slowest, srv.Ready)
	}
	return slowest, nil
}

// stumble starts the servers and kills them after d, ready or not: a recovery that
// is killed must lose nothing either.
func (s *system) stumble(d time.Duration) error {
	var all []*server.Server
	for _, spec := range s.specs {
		srv, err := spec.Launch()
		if err != nil {
			return err
		}
		all = append(all, srv)
	}
	time.Sleep(d)
	for _, srv := range all {
		if srv.Exited() {
			return errors.New(srv.Name + " ended by itself while it recovered:\n" + srv.LogTail())
		}
		srv.Kill()
	}
	return nil
}

// invariants runs `weir check` on the data that a kill has left. The peers have no
// such thing.
func (s *system) invariants(ctx context.Context) error {
	if !s.oneStore {
		return nil
	}
	spec := s.specs[0]
	text, err := exec.CommandContext(ctx, spec.Argv[0], "check", "--data", spec.Dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("weir check: %w\n%s", err, text)
	}
	return nil
}

// cpu is the processor time of all that runs.
func (s *system) cpu() (sum time.Duration) {
	for _, srv := range s.running {
		sum += srv.CPU()
	}
	return sum
}

// kill sends SIGKILL to all that runs. It reports a server that was dead already.
func (s *system) kill() error {
	var errs []error
	for _, srv := range s.running {
		if srv.Exited() {
			errs = append(errs, errors.New(srv.Name+" had ended by itself:\n"+srv.LogTail()))
		}
		srv.Kill()
	}
	s.running = nil
	return errors.Join(errs...)
}
