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
			closeAll(sources)
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
	limited := count > 0
	if limited {
		from, ok := after.Next()
		if !ok {
			return EntryReader{}, nil
		}
		err := g.eachPending(engine.PendingArgs{From: from, To: engine.MaxID, Consumer: &consumer}, func(h *heldAt) (bool, error) {
			most[h.p]++
			count--
			return count > 0, nil
		})
		if err != nil {
			return EntryReader{}, err
		}
	}
	var sources []entrySource
	var total int64
	err := g.use(func(p int, eg engine.Group) error {
		if limited && most[p] == 0 {
			return nil
		}
		held, err := eg.History(consumer, after, most[p])
		if held.Count() > 0 {
			total += held.Count()
			sources = append(sources, entrySource{held: held})
		}
		return err
	})
	if err != nil {
		closeAll(sources)
	}
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
	found := claimed{g: g, justID: a.JustID}
	for i := range ids {
		a.IDs = ids[i : i+1]
		if _, err := found.claim(a); err != nil {
			return EntryReader{}, err
		}
	}
	return found.read()
}

// claimed is what was claimed of several partitions, in the order of the claims. The offsets are remembered and the
// entries read afterwards, of which there may be more than fit into memory. One that is deleted in between is left out,
// as if it had been deleted before.
type claimed struct {
	g       RouteGroup
	justID  bool
	ids     []engine.IDRun // justID
	picks   []pick
	offsets [][][2]int64 // for each partition
}

// claim claims the one ID of a in the partition that its seq names, or else in the first that has it; false when none has.
func (c *claimed) claim(a engine.ClaimArgs) (bool, error) {
	first, ok := c.g.r.holder(a.IDs[0])
	if ok {
		if done, err := c.claimOn(first, a); done || err != nil {
			return done, err
		}
	}
	for p := range c.g.r.Streams {
		if ok && p == first {
			continue
		}
		if done, err := c.claimOn(p, a); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

func (c *claimed) claimOn(p int, a engine.ClaimArgs) (bool, error) {
	got, err := c.g.on(p).ClaimOffsets(a)
	if err != nil || len(got) == 0 {
		return false, err
	}
	if c.justID {
		c.ids = append(c.ids, engine.IDRun{First: a.IDs[0], Stride: 1, Count: 1})
		return true, nil
	}
	if c.offsets == nil {
		c.offsets = make([][][2]int64, len(c.g.r.Streams))
	}
	offset := got[0][0]
	c.picks = append(c.picks, pick{int32(p), offset})
	of := &c.offsets[p]
	if n := len(*of); n > 0 && (*of)[n-1][1]+1 == offset {
		(*of)[n-1][1] = offset
	} else {
		*of = append(*of, got[0])
	}
	return true, nil
}

// read reads what was claimed.
func (c *claimed) read() (EntryReader, error) {
	if c.justID || len(c.picks) == 0 {
		return readIDs(c.ids), nil
	}
	sources := make([]entrySource, len(c.offsets))
	var total int64
	for p, of := range c.offsets {
		if len(of) == 0 {
			continue
		}
		held, err := c.g.t.Held(c.g.r.Streams[p], of)
		if err != nil {
			closeAll(sources)
			return EntryReader{}, err
		}
		sources[p].held = held
		total += held.Count()
	}
	e := readMerged(c.g.b, sources, total, -1, false)
	e.picks = c.picks
	return e, nil
}

// AutoClaimed answers XAUTOCLAIM.
type AutoClaimed struct {
	Next    engine.ID // cursor; zero at the end
	Entries EntryReader
	Deleted EntryReader // IDs only (NextIDs); were pending, gone from the stream, now dropped
}

// autoClaimScan is how many pending entries XAUTOCLAIM looks at for each that it may claim.
const autoClaimScan = 10

// AutoClaim is XAUTOCLAIM.
func (g RouteGroup) AutoClaim(a engine.AutoClaimArgs) (AutoClaimed, error) {
	if len(g.r.Streams) == 1 {
		got, err := g.on(0).AutoClaim(a)
		return AutoClaimed{Next: got.Next, Entries: readHeld(g.b, got.Held), Deleted: readIDs(got.Deleted)}, err
	}
	if err := g.Touch(a.Consumer); err != nil {
		return AutoClaimed{}, err
	}
	scan := a.Count * autoClaimScan
	if scan/autoClaimScan != a.Count || scan > 1<<32 {
		scan = 1 << 32
	}
	var got AutoClaimed
	var deleted []engine.IDRun
	var looked, taken int64
	found := claimed{g: g, justID: a.JustID}
	err := g.eachPending(engine.PendingArgs{From: a.Start, To: engine.MaxID}, func(row *heldAt) (bool, error) {
		if looked == scan || taken == a.Count {
			got.Next = row.ID
			return false, nil
		}
		looked++
		if row.Idle >= 0 && row.Idle < a.MinIdle {
			return true, nil
		}
		taken++
		done, err := found.claimOn(row.p, engine.ClaimArgs{
			Consumer: a.Consumer, Kind: a.Kind, MinIdle: a.MinIdle, IDs: []engine.ID{row.ID}, Time: -1, JustID: a.JustID,
		})
		if err == nil && !done {
			deleted = append(deleted, engine.IDRun{Offset: row.Offset, First: row.ID, Stride: 1, Count: 1})
		}
		return true, err
	})
	if err != nil {
		return AutoClaimed{}, err
	}
	got.Deleted = readIDs(deleted)
	got.Entries, err = found.read()
	return got, err
}
