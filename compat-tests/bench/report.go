package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A result is a row's rounds: ours[i] and theirs[i] were taken one after the other.
type result struct {
	pairing string
	row     row
	ours    []measure
	theirs  []measure
	err     error
}

// median of a list that is not empty.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func (m measure) speed() float64 { return m.count / m.elapsed.Seconds() }

// perCPU is units per second of processor time.
func (m measure) perCPU() float64 { return m.count / max(m.cpu.Seconds(), 0.01) }

// clientShare is how much of one core the load generator took: near 1 it is the
// client that is measured.
func (m measure) clientShare() float64 { return m.client.Seconds() / m.elapsed.Seconds() }

func (m measure) at(p float64) float64 { return percentile(m.latencies, p).Seconds() }

// compare returns the medians of both sides and of the rounds' ratios. A round's
// ratio is taken within the round, so that a drift of the machine hits both sides.
func (r result) compare(of func(measure) float64) (ours, theirs, ratio float64) {
	var a, b, q []float64
	for i := range r.ours {
		x, y := of(r.ours[i]), of(r.theirs[i])
		a, b, q = append(a, x), append(b, y), append(q, x/y)
	}
	return median(a), median(b), median(q)
}

// verdict says whether a ratio reaches its floor; "" when none is asked.
func verdict(ratio, floor float64) string {
	switch {
	case floor == 0:
		return ""
	case ratio >= floor:
		return "ok"
	default:
		return "BELOW floor"
	}
}

// short prints a number with three significant digits and a unit prefix.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 1e3:
		return fmt.Sprintf("%.1fk", v/1e3)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

func floorText(f float64) string {
	if f == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", f)
}

const tableHead = `| row | per second | weir | peer | ratio | floor | | weir per CPU-s | peer per CPU-s | ratio | client's CPU |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
`

// print writes the row's lines and tells whether every floor was reached.
func (r result) print(w io.Writer) bool {
	name := r.pairing + ": " + r.row.name
	if r.err != nil {
		fmt.Fprintf(w, "| %s | | | | | %s | FAILED: %s | | | | |\n", name, floorText(r.row.floor),
			strings.ReplaceAll(r.err.Error(), "\n", " "))
		return false
	}
	if r.row.unit == "" {
		return r.printLatency(w, name)
	}
	ours, theirs, ratio := r.compare(measure.speed)
	oursCPU, theirsCPU, ratioCPU := r.compare(measure.perCPU)
	oursClient, theirsClient, _ := r.compare(measure.clientShare)
	says := verdict(ratio, r.row.floor)
	fmt.Fprintf(w, "| %s | %s | %s | %s | %.2f | %s | %s | %s | %s | %.2f | %.0f%% / %.0f%% |\n", name, r.row.unit,
		short(ours), short(theirs), ratio, floorText(r.row.floor), says, short(oursCPU), short(theirsCPU), ratioCPU, 100*oursClient, 100*theirsClient)
	return !strings.HasPrefix(says, "BELOW")
}

// printLatency turns the ratio over: peer's time by weir's, so that more is better.
func (r result) printLatency(w io.Writer, name string) bool {
	good := true
	for _, p := range []struct {
		name  string
		at    float64
		floor float64
	}{{"p50", 0.5, r.row.floor}, {"p99", 0.99, r.row.floorP99}, {"p99.9", 0.999, 0}} {
		ours, theirs, ratio := r.compare(func(m measure) float64 { return 1 / m.at(p.at) })
		says := verdict(ratio, p.floor)
		good = good && !strings.HasPrefix(says, "BELOW")
		fmt.Fprintf(w, "| %s %s | ms each | %.2f ms | %.2f ms | %.2f | %s | %s | | | | |\n", name, p.name,
			1e3/ours, 1e3/theirs, ratio, floorText(p.floor), says)
	}
	return good
}

// A footprint is what a pairing's servers took besides time.
type footprint struct {
	pairing        string
	start          [2]time.Duration // weir, peer
	idle, loaded   [2]int64         // bytes resident
	weirInOwnPlace bool             // false when the peer stood in for weir
}

const footprintHead = `
| memory and start | weir | peer | |
| --- | --- | --- | --- |
`

// print writes the footprint's lines and tells whether weir kept its ceilings.
func (f footprint) print(w io.Writer) bool {
	good := true
	below := func(ok bool) string {
		if !f.weirInOwnPlace {
			return ""
		}
		good = good && ok
		if ok {
			return "ok"
		}
		return "BELOW floor"
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	mb := func(b int64) float64 { return float64(b) / 1e6 }
	fmt.Fprintf(w, "| %s: start of an empty store to first answer | %.0f ms | %.0f ms | %s |\n", f.pairing,
		ms(f.start[0]), ms(f.start[1]), below(ms(f.start[0]) <= startCeiling))
	fmt.Fprintf(w, "| %s: RSS idle | %.0f MB | %.0f MB | %s |\n", f.pairing, mb(f.idle[0]), mb(f.idle[1]),
		below(f.idle[0] <= idleCeiling))
	fmt.Fprintf(w, "| %s: RSS after the load | %.0f MB | %.0f MB | |\n", f.pairing, mb(f.loaded[0]), mb(f.loaded[1]))
	return good
}
