package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
)

// pelModel is the PEL as Redis has it: a row per entry.
type pelModel map[int64]pelRow

// TestPELIsWhatAMapOfRowsIs runs random changes on the ranges and on a map of single
// entries, comparing every answer, and what flushes leave in storage.
func TestPELIsWhatAMapOfRowsIs(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		if msg := pelStory(rnd, 400); msg != "" {
			t.Fatalf("seed %d: %s", seed, msg)
		}
	}
}

func pelStory(rnd *rand.Rand, steps int) string {
	const span = 120
	owners := []*consumer{nil, {name: "a"}, {name: "b"}, {name: "c"}}
	var p pel
	m := pelModel{}
	disk := map[int64]pelSpan{}
	for step := range steps {
		first := rnd.Int64N(span)
		last := min(first+rnd.Int64N(12), span-1)
		row := pelRow{owner: owners[rnd.IntN(4)], time: rnd.Int64N(3), count: 1 + rnd.Uint64N(2), claimed: rnd.IntN(5) == 0}
		var what string
		switch rnd.IntN(8) {
		case 0, 1, 2:
			what = fmt.Sprintf("set %d-%d %v", first, last, row)
			p.set(first, last, row)
			for o := first; o <= last; o++ {
				m[o] = row
			}
		case 3, 4:
			what = fmt.Sprintf("remove %d-%d", first, last)
			if n, want := p.remove(first, last), m.remove(first, last); n != want {
				return fmt.Sprintf("step %d %s: removed %d, want %d", step, what, n, want)
			}
		case 5:
			what = fmt.Sprintf("claim %d-%d", first, last)
			p.change(first, last, func(s pelSpan) (pelRow, bool) { return row, s.owner != row.owner })
			for o, r := range m {
				if o >= first && o <= last && r.owner != row.owner {
					m[o] = row
				}
			}
		case 6:
			what = "flush"
			flushInto(&p, disk)
			if msg := diskIs(disk, m); msg != "" {
				return fmt.Sprintf("step %d: storage after flush: %s", step, msg)
			}
		case 7:
			what = "load"
			flushInto(&p, disk)
			p = pel{}
			for _, o := range owners[1:] {
				o.pending = 0
			}
			for o := range int64(span) {
				if s, ok := disk[o]; ok && !p.load(s.first, s.last, s.pelRow) {
					return fmt.Sprintf("step %d: load %d-%d refused", step, s.first, s.last)
				}
			}
		}
		if msg := pelIs(&p, m, owners, span); msg != "" {
			return fmt.Sprintf("step %d %s: %s", step, what, msg)
		}
	}
	return ""
}

func (m pelModel) remove(first, last int64) (n int64) {
	for o := first; o <= last; o++ {
		if _, ok := m[o]; ok {
			delete(m, o)
			n++
		}
	}
	return n
}

func flushInto(p *pel, disk map[int64]pelSpan) {
	_ = p.flush(func(r *pelRange) error {
		disk[r.first] = pelSpan{r.first, r.last, r.pelRow}
		return nil
	}, func(first int64) error {
		delete(disk, first)
		return nil
	})
}

// diskIs says how stored rows differ from the model; "" when they do not.
func diskIs(disk map[int64]pelSpan, m pelModel) string {
	n := 0
	for first, s := range disk {
		for o := first; o <= s.last; o++ {
			n++
			if r, ok := m[o]; !ok || r != s.pelRow {
				return fmt.Sprintf("%d is %v, want %v %v", o, s.pelRow, r, ok)
			}
		}
	}
	if n != len(m) {
		return fmt.Sprintf("%d rows, want %d", n, len(m))
	}
	return ""
}

// pelIs compares everything that the PEL answers with the model.
func pelIs(p *pel, m pelModel, owners []*consumer, span int64) string {
	counts, lowest, highest, oldest := map[*consumer]int64{}, int64(-1), int64(-1), int64(-1)
	for o := range span {
		want, ok := m[o]
		got, has := p.at(o)
		if ok != has || got != want {
			return fmt.Sprintf("at %d: %v %v, want %v %v", o, got, has, want, ok)
		}
		if next, has := p.next(o); has != (m.next(o, span) >= 0) || has && next != m.next(o, span) {
			return fmt.Sprintf("next %d: %d %v", o, next, has)
		}
		if !ok {
			continue
		}
		counts[want.owner]++
		if lowest < 0 {
			lowest = o
		}
		highest = o
		if want.owner != nil && (oldest < 0 || want.time < oldest) {
			oldest = want.time
		}
	}
	for _, o := range owners[1:] {
		if o.pending != counts[o] {
			return fmt.Sprintf("%s has %d pending, want %d", o.name, o.pending, counts[o])
		}
	}
	lo, some := p.min()
	hi, _ := p.max()
	switch {
	case p.count != int64(len(m)) || p.released != counts[nil]:
		return fmt.Sprintf("count %d released %d, want %d %d", p.count, p.released, len(m), counts[nil])
	case some != (len(m) > 0) || some && (lo != lowest || hi != highest):
		return fmt.Sprintf("min %d max %d, want %d %d", lo, hi, lowest, highest)
	case p.oldest() != oldest:
		return fmt.Sprintf("oldest %d, want %d", p.oldest(), oldest)
	}
	return ""
}

func (m pelModel) next(o, span int64) int64 {
	for ; o < span; o++ {
		if _, ok := m[o]; ok {
			return o
		}
	}
	return -1
}

// TestPELNeighboursMerge: equal neighbours are one range, unequal ones are not.
func TestPELNeighboursMerge(t *testing.T) {
	a, b := &consumer{name: "a"}, &consumer{name: "b"}
	var p pel
	p.set(0, 9, pelRow{owner: a, time: 1, count: 1})
	p.set(10, 19, pelRow{owner: a, time: 1, count: 1})
	p.set(20, 29, pelRow{owner: b, time: 1, count: 1})
	if p.ranges.Len() != 2 {
		t.Fatalf("%d ranges, want 2", p.ranges.Len())
	}
	p.remove(5, 5)
	if p.ranges.Len() != 3 {
		t.Fatalf("%d ranges after an ack in the middle, want 3", p.ranges.Len())
	}
	p.set(5, 5, pelRow{owner: a, time: 1, count: 1})
	p.set(20, 29, pelRow{owner: a, time: 1, count: 1})
	if p.ranges.Len() != 1 || p.count != 30 || a.pending != 30 || b.pending != 0 {
		t.Fatalf("%d ranges, %d rows, a %d, b %d", p.ranges.Len(), p.count, a.pending, b.pending)
	}
}

// TestPELOfAMillionCostsKilobytes: a million entries delivered in order and not
// acked, in the sizes that clients read, each read at its own time.
func TestPELOfAMillionCostsKilobytes(t *testing.T) {
	const million = 1_000_000
	for _, read := range []int64{1000, 10_000} {
		size := pelCost(million, read, 1)
		t.Logf("reads of %d: %d bytes", read, size)
		if size > 256<<10 {
			t.Errorf("reads of %d: %d bytes", read, size)
		}
	}
	// COUNT 10, some 100,000 entries a second: what arrives within a millisecond merges.
	size := pelCost(million, 10, 10)
	t.Logf("reads of 10, ten a millisecond: %d bytes", size)
	if size > 2<<20 {
		t.Errorf("reads of 10: %d bytes", size)
	}
}

// pelCost is the heap that n pending entries take, read by read at a time, perMS reads in each millisecond.
func pelCost(n, read, perMS int64) uint64 {
	var before, after runtime.MemStats
	owner := &consumer{name: "a"}
	runtime.GC()
	runtime.ReadMemStats(&before)
	p := new(pel)
	for i := int64(0); i*read < n; i++ {
		p.set(i*read, (i+1)*read-1, pelRow{owner: owner, time: i / perMS, count: 1})
	}
	_ = p.flush(func(*pelRange) error { return nil }, func(int64) error { return nil })
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(p)
	if p.count != n {
		panic("the test delivered something else")
	}
	return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}

func BenchmarkPELDeliverAck(b *testing.B) {
	owner := &consumer{name: "a"}
	var p pel
	for i := range int64(b.N) {
		p.set(i, i, pelRow{owner: owner, time: i / 100, count: 1})
		if i >= 50 {
			p.remove(i-50, i-50)
		}
	}
}
