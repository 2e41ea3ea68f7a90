package main

import (
	"syscall"
	"time"

	"weir/compat-tests/server"
)

// A turn is one server's go at one row in one round.
type turn struct {
	srv           *server.Server
	warm, measure time.Duration
	profile       string // where a CPU profile of the measured time goes; empty: none
}

// A measure is what a turn gave. Exactly one of count and latencies is set.
type measure struct {
	count     float64 // units of the row done while measuring
	elapsed   time.Duration
	cpu       time.Duration   // of the server process, debts included
	client    time.Duration   // processor time of this program while measuring
	latencies []time.Duration // sorted
}

// drive warms the loop up, measures it, and lets the server settle. counter returns
// the units done so far.
func (t *turn) drive(l *loop, counter func() float64) (measure, error) {
	if _, err := l.run(t.warm, func() {}); err != nil {
		return measure{}, err
	}
	var m measure
	before, cpu, client := counter(), t.srv.CPU(), ownCPU()
	profiled := func() error { return nil }
	if t.profile != "" {
		profiled = profile(t.srv, t.profile, t.measure)
	}
	elapsed, err := l.run(t.measure, func() {
		m.count, m.client = counter()-before, ownCPU()-client
	})
	if err != nil {
		return measure{}, err
	}
	m.elapsed = elapsed
	t.settle()
	m.cpu = t.srv.CPU() - cpu
	return m, profiled()
}

// ownCPU is the processor time that this program has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

const (
	settleLook  = 200 * time.Millisecond
	settleLimit = 4 * time.Second
)

// settle waits until the server does next to nothing, so that flushes and
// compactions are paid for by the turn that caused them and do not disturb the
// other server's turn.
func (t *turn) settle() {
	last := t.srv.CPU()
	for began := time.Now(); time.Since(began) < settleLimit; {
		time.Sleep(settleLook)
		now := t.srv.CPU()
		if now-last <= settleLook/10 {
			return
		}
		last = now
	}
}
