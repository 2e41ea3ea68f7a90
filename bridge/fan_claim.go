package bridge

// Delivery, history and claims over the partitions of a route.
//
// Deliver takes from the partitions in turn: each call begins one partition further than the call before, so that a
// COUNT smaller than what waits starves none. What one call delivers is shown by ID.
//
// History, AutoClaim: pending entries of all partitions count as one list by ID. As each look of the engine's verbs
// changes what it returns, the list is first looked at (Pending) to see how far each partition is asked.

import (
	"weir/engine"
)

// Deliver hands out new entries (XREADGROUP `>`); false when there are none.
func (g RouteGroup) Deliver(consumer string, a engine.DeliverArgs) (EntryReader, bool, error) {
	if len(g.r.Streams) == 1 {
		rd, err := g.on(0).Deliver(consumer, a)
		if rd == nil || err != nil {
			return EntryReader{}, false, err
		}
		return readOne(g.b, rd, false), true, nil
	}
	n := len(g.r.Streams)
	start := int(g.b.deliveries.Add(1) % uint32(n))
	left := a.Count
	var sources []entrySource
	var total int64
	for i := 0; i < n && (a.Count <= 0 || left > 0); i++ {
		var rd *engine.Reader
		a.Count = left
		err := g.useOn((start+i)%n, func(_ int, eg engine.Group) (err error) {
			rd, err = eg.Deliver(consumer, a)
			return err
		})
		if err != nil {
			for i := range sources {
				sources[i].close()
			}
			return EntryReader{}, false, err
		}
		if rd == nil {
			continue
		}
		total += rd.Count()
		left -= rd.Count()
		sources = append(sources, entrySource{reader: rd})
	}
	if len(sources) == 0 {
		return EntryReader{}, false, nil
	}
	return readMerged(g.b, sources, total, -1, false), true, nil
}

// History is the consumer's own pending entries with IDs greater than after; count <= 0: no limit.
func (g RouteGroup) History(consumer string, after engine.ID, count int64) (EntryReader, error) {
	if len(g.r.Streams) == 1 {
		held, err := g.on(0).History(consumer, after, count)
		if err != nil {
			return EntryReader{}, err
		}
		return readHeld(g.b, held), nil
	}
	most := make([]int64, len(g.r.Streams))
	if count > 0 {
		from, ok := after.Next()
		if !ok {
			return EntryReader{}, nil
		}
		first, err := g.pendingByID(engine.PendingArgs{From: from, To: engine.MaxID, Count: count, Consumer: &consumer})
		if err != nil {
			return EntryReader{}, err
		}
		for _, h := range first {
			most[h.p]++
		}
	}
	var sources []entrySource
	var total int64
	err := g.use(func(p int, eg engine.Group) error {
		if count > 0 && most[p] == 0 {
			return nil
		}
		held, err := eg.History(consumer, after, most[p])
		if err == nil && len(held) > 0 {
			total += heldCount(held)
			sources = append(sources, entrySource{held: held})
		}
		return err
	})
	if err != nil || len(sources) == 0 {
		return EntryReader{}, err
	}
	return readMerged(g.b, sources, total, -1, false), nil
}

// Claim is XCLAIM: what was claimed, in the order of the IDs.
func (g RouteGroup) Claim(a engine.ClaimArgs) (EntryReader, error) {
	if len(g.r.Streams) == 1 {
		held, err := g.on(0).Claim(a)
		return readHeld(g.b, held), err
	}
	// The consumer exists everywhere afterwards and LASTID speaks of every cursor, claimed from or not.
	ids := a.IDs
	a.IDs = nil
	err := g.use(func(_ int, eg engine.Group) error {
		_, err := eg.Claim(a)
		return err
	})
	if err != nil {
		return EntryReader{}, err
	}
	a.LastID = nil
	var all []engine.Held
	for i := range ids {
		a.IDs = ids[i : i+1]
		held, err := g.claimOne(a)
		if err != nil {
			return EntryReader{}, err
		}
		all = append(all, held...)
	}
	return readHeld(g.b, all), nil
}

// claimOne claims the one ID of a in the partition that its seq names, or else in the first that has it.
func (g RouteGroup) claimOne(a engine.ClaimArgs) ([]engine.Held, error) {
	first, ok := g.r.holder(a.IDs[0])
	if ok {
		held, err := g.on(first).Claim(a)
		if err != nil || len(held) > 0 {
			return held, err
		}
	}
	for p := range g.r.Streams {
		if ok && p == first {
			continue
		}
		held, err := g.on(p).Claim(a)
		if err != nil || len(held) > 0 {
			return held, err
		}
	}
	return nil, nil
}

// AutoClaimed answers XAUTOCLAIM.
type AutoClaimed struct {
	Next    engine.ID // cursor; zero at the end
	Entries EntryReader
	Deleted []engine.ID // were pending, gone from the stream, now dropped
}

// autoClaimScan is how many pending entries XAUTOCLAIM looks at for each that it may claim.
const autoClaimScan = 10

// AutoClaim is XAUTOCLAIM.
func (g RouteGroup) AutoClaim(a engine.AutoClaimArgs) (AutoClaimed, error) {
	if len(g.r.Streams) == 1 {
		got, err := g.on(0).AutoClaim(a)
		return AutoClaimed{Next: got.Next, Entries: readHeld(g.b, got.Held), Deleted: got.Deleted}, err
	}
	if err := g.Touch(a.Consumer); err != nil {
		return AutoClaimed{}, err
	}
	scan := a.Count * autoClaimScan
	if scan/autoClaimScan != a.Count || scan > 1<<32 {
		scan = 1 << 32
	}
	rows, err := g.pendingByID(engine.PendingArgs{From: a.Start, To: engine.MaxID, Count: scan + 1})
	if err != nil {
		return AutoClaimed{}, err
	}
	var got AutoClaimed
	var all []engine.Held
	var taken int64
	for i, row := range rows {
		if int64(i) == scan || taken == a.Count {
			got.Next = row.ID
			break
		}
		if row.Idle >= 0 && row.Idle < a.MinIdle {
			continue
		}
		taken++
		held, err := g.on(row.p).Claim(engine.ClaimArgs{
			Consumer: a.Consumer, Kind: a.Kind, MinIdle: a.MinIdle, IDs: []engine.ID{row.ID}, Time: -1, JustID: a.JustID,
		})
		if err != nil {
			return AutoClaimed{}, err
		}
		if len(held) == 0 {
			got.Deleted = append(got.Deleted, row.ID)
		}
		all = append(all, held...)
	}
	got.Entries = readHeld(g.b, all)
	return got, nil
}
