package bridge

// A group over all streams of a route.
//
// Over several partitions a group is one group for each (dictionary 5), made, moved and destroyed together, and
// read as one:
//
//	count, pending, entries-read, lag   sums; unknown as soon as one is
//	consumers                           by name; the newest of their times
//	last-delivered-id                   the smallest of the partitions that have undelivered entries, or else the
//	                                    greatest: a group that is created at what is shown misses nothing
//
// A partition that came later (CreatePartitions), or one on which a Kafka group never committed, has no group row.
// While the group exists on any partition it exists: the missing row is made at 0-0 when the group is
// first used there, so that nothing of the new partition is missed.

import (
	"errors"
	"sort"

	"weir/engine"
)

// RouteGroup is a group on all streams of a route, named, whether or not it exists.
type RouteGroup struct {
	b    *Bridge
	t    *engine.Turn
	r    Route // a copy, so that the caller's need not be allocated
	name string
}

// Group names a group of a route within a turn.
func (r *Route) Group(b *Bridge, t *engine.Turn, name string) RouteGroup {
	return RouteGroup{b: b, t: t, r: *r, name: name}
}

// on is the group on partition p.
func (g RouteGroup) on(p int) engine.Group { return g.t.Group(g.r.Streams[p], g.name) }

// Exists says whether the group is there, on any partition.
func (g RouteGroup) Exists() (bool, error) {
	for p := range g.r.Streams {
		_, err := g.on(p).Stat()
		if err == nil || !errors.Is(err, engine.ErrNoGroup) {
			return err == nil, err
		}
	}
	return false, nil
}

// use runs verb on every partition; where the group's row is missing while the group exists elsewhere, the row is made
// first. engine.ErrNoGroup when it exists nowhere.
func (g RouteGroup) use(verb func(p int, eg engine.Group) error) error {
	if len(g.r.Streams) == 1 {
		return verb(0, g.on(0))
	}
	ok, err := g.Exists()
	if err != nil {
		return err
	}
	if !ok {
		return engine.ErrNoGroup
	}
	for p := range g.r.Streams {
		if err := g.useOn(p, verb); err != nil {
			return err
		}
	}
	return nil
}

// useOn is use for one partition of a group that exists.
func (g RouteGroup) useOn(p int, verb func(p int, eg engine.Group) error) error {
	err := verb(p, g.on(p))
	if !errors.Is(err, engine.ErrNoGroup) {
		return err
	}
	if err = g.on(p).Create(engine.GroupStart{}); err != nil {
		return err
	}
	return verb(p, g.on(p))
}

// Create makes the group on every stream. engine.ErrGroupExists when it exists on any.
func (g RouteGroup) Create(at engine.GroupStart) error {
	if len(g.r.Streams) == 1 {
		return g.on(0).Create(at)
	}
	ok, err := g.Exists()
	if err != nil {
		return err
	}
	if ok {
		return engine.ErrGroupExists
	}
	for p := range g.r.Streams {
		if err := g.on(p).Create(at); err != nil {
			return err
		}
	}
	return nil
}

// SetID moves the group on every stream; over several partitions ENTRIESREAD is not a number of any one of them and is unknown.
func (g RouteGroup) SetID(at engine.GroupStart) error {
	if g.r.Whole() {
		at.EntriesRead = -1
	}
	return g.use(func(_ int, eg engine.Group) error { return eg.SetID(at) })
}

// Destroy drops the group everywhere; false when there was none.
func (g RouteGroup) Destroy() (bool, error) {
	var any bool
	for p := range g.r.Streams {
		ok, err := g.on(p).Destroy()
		if err != nil {
			return any, err
		}
		any = any || ok
	}
	return any, nil
}

// ConsumerCreate makes a consumer; false when it was there on every stream.
func (g RouteGroup) ConsumerCreate(consumer string) (bool, error) {
	var any bool
	err := g.use(func(_ int, eg engine.Group) error {
		made, err := eg.ConsumerCreate(consumer, engine.RedisConsumer)
		any = any || made
		return err
	})
	return any, err
}

// ConsumerDelete drops a consumer and what is pending under its name; returns how many.
func (g RouteGroup) ConsumerDelete(consumer string) (int64, error) {
	var n int64
	err := g.use(func(_ int, eg engine.Group) error {
		held, err := eg.ConsumerDelete(consumer)
		n += held
		return err
	})
	return n, err
}

// Touch creates the consumer if missing and sets its seen time.
func (g RouteGroup) Touch(consumer string) error {
	if len(g.r.Streams) == 1 { // the hot path: no closure
		return g.on(0).ConsumerTouch(consumer, engine.RedisConsumer)
	}
	return g.use(func(_ int, eg engine.Group) error { return eg.ConsumerTouch(consumer, engine.RedisConsumer) })
}

// Ack removes entries from the PEL and returns how many were there. A missing group is 0, nil.
func (g RouteGroup) Ack(ids []engine.ID) (int64, error) {
	if len(g.r.Streams) == 1 {
		return g.on(0).Ack(ids)
	}
	return g.r.askHolders(ids, func(p int, ids []engine.ID) (int64, error) { return g.on(p).Ack(ids) })
}

// PendingSummary is XPENDING's short form.
func (g RouteGroup) PendingSummary() (engine.PendingSummary, error) {
	if len(g.r.Streams) == 1 {
		return g.on(0).PendingSummary()
	}
	var all engine.PendingSummary
	byName := map[string]int64{}
	err := g.use(func(_ int, eg engine.Group) error {
		s, err := eg.PendingSummary()
		if err != nil || s.Count == 0 {
			return err
		}
		if all.Count == 0 || s.Min.Less(all.Min) {
			all.Min = s.Min
		}
		if all.Max.Less(s.Max) {
			all.Max = s.Max
		}
		all.Count += s.Count
		for _, c := range s.Consumers {
			byName[c.Name] += c.Count
		}
		return nil
	})
	for name, n := range byName {
		all.Consumers = append(all.Consumers, engine.ConsumerPending{Name: name, Count: n})
	}
	sort.Slice(all.Consumers, func(i, j int) bool { return all.Consumers[i].Name < all.Consumers[j].Name })
	return all, err
}

// heldAt is a pending entry and its partition.
type heldAt struct {
	engine.HeldDetail
	p int
}

// pendingByID lists pending entries of all partitions by ID, at most a.Count of them.
func (g RouteGroup) pendingByID(a engine.PendingArgs) ([]heldAt, error) {
	var all []heldAt
	err := g.use(func(p int, eg engine.Group) error {
		held, err := eg.Pending(a)
		for _, h := range held {
			all = append(all, heldAt{h, p})
		}
		return err
	})
	sort.SliceStable(all, func(i, j int) bool { return all[i].ID.Less(all[j].ID) })
	if int64(len(all)) > a.Count {
		all = all[:a.Count]
	}
	return all, err
}

// pendingWindow is how many rows of each partition are in memory while eachPending walks.
const pendingWindow = 1024

// eachPending walks the pending entries of all partitions by ID until fn returns false, a window of them at a time. fn may claim
// and drop the row that it is given. a.Count is not looked at.
func (g RouteGroup) eachPending(a engine.PendingArgs, fn func(*heldAt) (bool, error)) error {
	a.Count = pendingWindow
	for {
		rows, err := g.pendingByID(a)
		if err != nil {
			return err
		}
		n := len(rows)
		ok := n == pendingWindow
		if ok { // partitions may hold the same ID, given explicitly: it is left to the next window whole
			last := rows[n-1].ID
			for n > 0 && rows[n-1].ID == last {
				n--
			}
			if a.From = last; n == 0 {
				n = len(rows)
				a.From, ok = last.Next()
			}
		}
		for i := range rows[:n] {
			if more, err := fn(&rows[i]); err != nil || !more {
				return err
			}
		}
		if !ok {
			return nil
		}
	}
}

// Pending is XPENDING's long form.
func (g RouteGroup) Pending(a engine.PendingArgs) ([]engine.HeldDetail, error) {
	if len(g.r.Streams) == 1 {
		return g.on(0).Pending(a)
	}
	all, err := g.pendingByID(a)
	if err != nil {
		return nil, err
	}
	out := make([]engine.HeldDetail, len(all))
	for i := range all {
		out[i] = all[i].HeldDetail
	}
	return out, nil
}

// Consumers lists the consumers in byte order of the name.
func (g RouteGroup) Consumers() ([]engine.ConsumerStat, error) {
	if len(g.r.Streams) == 1 {
		return g.on(0).Consumers()
	}
	byName := map[string]*engine.ConsumerStat{}
	var names []string
	err := g.use(func(_ int, eg engine.Group) error {
		list, err := eg.Consumers()
		for _, c := range list {
			known := byName[c.Name]
			if known == nil {
				byName[c.Name] = &c
				names = append(names, c.Name)
				continue
			}
			known.Pending += c.Pending
			known.Seen = max(known.Seen, c.Seen)
			known.Active = max(known.Active, c.Active)
		}
		return err
	})
	sort.Strings(names)
	out := make([]engine.ConsumerStat, len(names))
	for i, name := range names {
		out[i] = *byName[name]
	}
	return out, err
}

// Groups lists the route's groups in byte order of the name.
func (r *Route) Groups(b *Bridge, t *engine.Turn) ([]engine.GroupStat, error) {
	if !r.Whole() {
		return t.Groups(r.Stream())
	}
	names, err := r.groupNames(t)
	if err != nil {
		return nil, err
	}
	out := make([]engine.GroupStat, 0, len(names))
	for _, name := range names {
		st, err := r.Group(b, t, name).merged()
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

// merged is one group of a whole topic at a glance. Offsets are of one stream and -1.
func (g RouteGroup) merged() (engine.GroupStat, error) {
	all := engine.GroupStat{Name: g.name, LastOffset: -1, Watermark: -1, OldestTime: -1}
	var behind, front engine.ID
	var isBehind bool
	for p, no := range g.r.Streams {
		st, err := g.on(p).Stat()
		stream, serr := g.t.Stat(no)
		if serr != nil {
			return all, serr
		}
		if errors.Is(err, engine.ErrNoGroup) { // it will begin at 0-0
			st, err = engine.GroupStat{Lag: stream.Length, LastOffset: -1, OldestTime: -1}, nil
		}
		if err != nil {
			return all, err
		}
		all.Pending += st.Pending
		all.EntriesRead = addKnown(all.EntriesRead, st.EntriesRead)
		all.Lag = addLags(all.Lag, st.Lag)
		if st.OldestTime >= 0 && (all.OldestTime < 0 || st.OldestTime < all.OldestTime) {
			all.OldestTime = st.OldestTime
		}
		if st.LastOffset+1 < stream.Next && (!isBehind || st.LastID.Less(behind)) {
			behind, isBehind = st.LastID, true
		}
		if front.Less(st.LastID) {
			front = st.LastID
		}
		if st.Reader != "" {
			all.Reader = st.Reader
		}
	}
	if all.LastID = front; isBehind {
		all.LastID = behind
	}
	consumers, err := g.Consumers()
	all.Consumers = len(consumers)
	return all, err
}

// addLags adds two lags.
func addLags(a, b int64) int64 {
	if a == engine.UnknownLag || b == engine.UnknownLag {
		return engine.UnknownLag
	}
	return a + b
}

// addKnown adds two counters of which -1 is unknown.
func addKnown(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a + b
}
