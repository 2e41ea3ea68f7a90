package bridge

// How much each partition of a trimmed topic loses.
//
// MINID means the same in every partition. MAXLEN n speaks of the whole topic, so that each partition needs a share:
//
//	exact (=)    the newest n entries of the topic stay, by ID, wherever they lie; a partition that got nothing
//	             for long may end up empty.
//	approx (~)   each partition keeps n * its length / the topic's length, and loses whole nodes only. Finding the
//	             newest n would be paid by every XADD MAXLEN ~ for a result that is rounded to nodes anyway.
//
// Why not n / N each, simply? A topic whose keys are skewed would then lose recent entries of the busy partition while
// the idle ones keep old entries and the topic holds fewer than n.

import (
	"sort"

	"weir/engine"
)

// Trim removes the oldest entries and returns how many went. LIMIT is spent over the partitions in order.
func (r *Route) Trim(t *engine.Turn, a engine.TrimArgs) (int64, error) {
	if !r.Whole() {
		return t.Trim(r.Stream(), a)
	}
	var keep []int64
	if a.Kind == engine.TrimMaxLen {
		var err error
		if keep, err = r.shares(t, a); keep == nil || err != nil {
			return 0, err
		}
	}
	limit := a.Limit
	var removed int64
	for p, no := range r.Streams {
		if keep != nil {
			a.MaxLen = keep[p]
		}
		if limit > 0 {
			if a.Limit = limit - removed; a.Limit <= 0 {
				break
			}
		}
		n, err := t.Trim(no, a)
		if err != nil {
			return removed, err
		}
		removed += n
	}
	return removed, nil
}

// shares is how many entries each partition keeps of a.MaxLen; nil when the topic is not longer than that.
func (r *Route) shares(t *engine.Turn, a engine.TrimArgs) ([]int64, error) {
	keep := make([]int64, len(r.Streams))
	stats := make([]engine.StreamStat, len(r.Streams))
	var total int64
	for p, no := range r.Streams {
		st, err := t.Stat(no)
		if err != nil {
			return nil, err
		}
		stats[p], keep[p] = st, st.Length
		total += st.Length
	}
	excess := total - a.MaxLen
	switch {
	case excess <= 0:
		return nil, nil
	case a.MaxLen == 0:
		return make([]int64, len(r.Streams)), nil
	case a.Approx:
		for p := range keep {
			keep[p] = share(a.MaxLen, keep[p], total)
		}
		return keep, nil
	case excess <= countedShares:
		return keep, r.countShares(t, keep, excess)
	}
	return keep, r.searchShares(t, stats, keep, excess)
}

// share is ceil(n * part / total) without overflow; n < total, part <= total.
func share(n, part, total int64) int64 {
	if part == 0 {
		return 0
	}
	return min(part, int64(float64(n)/float64(total)*float64(part))+1)
}

// countedShares is up to how many entries to remove their IDs are simply looked at; beyond, the cut is searched for.
const countedShares = 64

// countShares lowers keep by what the excess oldest IDs of the topic take from each partition.
func (r *Route) countShares(t *engine.Turn, keep []int64, excess int64) error {
	type place struct {
		id engine.ID
		p  int
	}
	var oldest []place
	for p, no := range r.Streams {
		rd, err := t.Range(no, engine.RangeArgs{To: engine.MaxID, Count: excess})
		if err != nil {
			return err
		}
		for {
			run, ok, err := rd.Next()
			if err != nil {
				rd.Close()
				return err
			}
			if !ok {
				break
			}
			eachID(&run, func(id engine.ID) { oldest = append(oldest, place{id, p}) })
		}
		rd.Close()
	}
	sort.Slice(oldest, func(i, j int) bool { return oldest[i].id.Less(oldest[j].id) })
	for _, o := range oldest[:min(excess, int64(len(oldest)))] {
		keep[o.p]--
	}
	return nil
}

// searchShares finds the smallest ID at or below which at least excess entries lie, by halving first the milliseconds,
// then the seqs, and keeps what lies above it.
func (r *Route) searchShares(t *engine.Turn, stats []engine.StreamStat, keep []int64, excess int64) error {
	lo, hi := engine.MaxID, engine.ID{}
	for _, st := range stats {
		if st.Length > 0 && st.FirstID.Less(lo) {
			lo = st.FirstID
		}
		if hi.Less(st.LastID) {
			hi = st.LastID
		}
	}
	ms, err := halve(lo.MS, hi.MS, func(ms uint64) (bool, error) {
		n, err := r.countThrough(t, engine.ID{MS: ms, Seq: ^uint64(0)}, nil)
		return n >= excess, err
	})
	if err != nil {
		return err
	}
	seq, err := halve(0, ^uint64(0), func(seq uint64) (bool, error) {
		n, err := r.countThrough(t, engine.ID{MS: ms, Seq: seq}, nil)
		return n >= excess, err
	})
	if err != nil {
		return err
	}
	below := make([]int64, len(keep))
	if _, err = r.countThrough(t, engine.ID{MS: ms, Seq: seq}, below); err != nil {
		return err
	}
	for p := range keep {
		keep[p] -= below[p]
	}
	return nil
}

// countThrough counts the living entries with IDs up to id, in each partition too when each is not nil.
func (r *Route) countThrough(t *engine.Turn, id engine.ID, each []int64) (int64, error) {
	var n int64
	for p, no := range r.Streams {
		rd, err := t.Range(no, engine.RangeArgs{To: id, Count: -1})
		if err != nil {
			return 0, err
		}
		c := rd.Count()
		rd.Close()
		if each != nil {
			each[p] = c
		}
		n += c
	}
	return n, nil
}

// halve finds the smallest x in [lo, hi] for which enough(x), given that enough(hi).
func halve(lo, hi uint64, enough func(uint64) (bool, error)) (uint64, error) {
	for lo < hi {
		mid := lo + (hi-lo)/2
		ok, err := enough(mid)
		if err != nil {
			return 0, err
		}
		if ok {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo, nil
}
