package bridge

// Verbs over a Route: one call for a key that names one stream and for a key that names all
// partitions of a topic, so that resp asks once and does not know which it was.
//
//	key ── Resolve ──► Route ─┬─ one stream: the engine's verb, nothing added
//	                          └─ N streams:  route (Append, Ack), sum (Length), merge by ID (Range),
//	                                         take turns (Deliver), or all of them (groups)
//
// fan.go        append, length, delete, set ID, statistics
// fan_trim.go   how much of a trimmed topic each partition loses
// fan_entries.go reading several partitions as one sequence by ID
// fan_group.go  a group over all partitions: its life, its consumers, what it holds
// fan_claim.go  delivery, history and claims over partitions
//
// What differs from one stream, on a key of N > 1 partitions:
//
//   - Order is the order of IDs, and IDs are given by each partition for itself. So that a reader that follows a whole
//     topic by remembering one ID (XREAD) passes no entry by, it is shown entries a few milliseconds late (settleMS).
//   - Explicit IDs and `ms-*` are refused (ErrExplicitID): uniqueness over the topic rests on generated seqs.
//   - The partitions lie in several shards: what acts on all is a series of single-shard changes. Within one turn
//     they are evaluated together; a crash between two commits leaves some of them (dictionary 9, seam rule 7).

import (
	"errors"
	"sort"

	"weir/engine"
)

// ErrExplicitID refuses an ID chosen by the client on a hash-routed key.
var ErrExplicitID = errors.New("bridge: explicit IDs are refused on a key of several partitions")

// partitionModulus is what generated seqs are congruent to their partition by (dictionary 3).
const partitionModulus = 4096

// holder is the partition whose generated IDs look like id; false when none does.
func (r *Route) holder(id engine.ID) (int, bool) {
	p := int(id.Seq % partitionModulus)
	return p, p < len(r.Streams)
}

// Append adds one entry, on a whole topic to the partition that the topic's key field chooses. Errors are the engine's
// and ErrExplicitID.
func (r *Route) Append(b *Bridge, t *engine.Turn, a engine.AppendArgs) (engine.Appended, error) {
	if !r.Whole() {
		return t.Append(r.Stream(), a)
	}
	if !a.Auto {
		return engine.Appended{}, ErrExplicitID
	}
	return t.Append(r.Streams[b.Partition(r.Topic, a.Fields)], a)
}

// Length is the number of living entries.
func (r *Route) Length(t *engine.Turn) (int64, error) {
	var n int64
	for _, no := range r.Streams {
		st, err := t.Stat(no)
		if err != nil {
			return 0, err
		}
		n += st.Length
	}
	return n, nil
}

// LastIDs is each stream's last-generated ID, in partition order: where a reader of new entries begins.
func (r *Route) LastIDs(t *engine.Turn) ([]engine.ID, error) {
	ids := make([]engine.ID, len(r.Streams))
	for p, no := range r.Streams {
		st, err := t.Stat(no)
		if err != nil {
			return nil, err
		}
		ids[p] = st.LastID
	}
	return ids, nil
}

// Delete marks entries deleted and returns how many were living.
func (r *Route) Delete(t *engine.Turn, ids []engine.ID) (int64, error) {
	if !r.Whole() {
		return t.Delete(r.Stream(), ids)
	}
	return r.askHolders(ids, func(p int, ids []engine.ID) (int64, error) { return t.Delete(r.Streams[p], ids) })
}

// askHolders hands each ID to the partition that its seq names and, while fewer were done than asked, to the others: an
// entry older than the topic's growth, or added under an explicit ID on `T#p`, lies where its seq does not tell. ask
// returns how many of the IDs it knew.
func (r *Route) askHolders(ids []engine.ID, ask func(p int, ids []engine.ID) (int64, error)) (int64, error) {
	byHolder := make([][]engine.ID, len(r.Streams))
	var homeless []engine.ID
	for _, id := range ids {
		if p, ok := r.holder(id); ok {
			byHolder[p] = append(byHolder[p], id)
		} else {
			homeless = append(homeless, id)
		}
	}
	var done int64
	for p, mine := range byHolder {
		n, err := r.askRest(mine, p, ask)
		if err != nil {
			return 0, err
		}
		done += n
	}
	n, err := r.askRest(homeless, -1, ask)
	return done + n, err
}

// askRest asks partition first (none: -1), then the others until all of ids were known to somebody.
func (r *Route) askRest(ids []engine.ID, first int, ask func(int, []engine.ID) (int64, error)) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	var done int64
	if first >= 0 {
		n, err := ask(first, ids)
		if err != nil {
			return 0, err
		}
		done = n
	}
	for p := 0; p < len(r.Streams) && done < int64(len(ids)); p++ {
		if p == first {
			continue
		}
		n, err := ask(p, ids)
		if err != nil {
			return 0, err
		}
		done += n
	}
	return done, nil
}

// SetID is XSETID. On a whole topic it is refused: one ID, one counter and one tombstone cannot be those of several
// streams; `T#p` takes it.
func (r *Route) SetID(t *engine.Turn, a engine.SetIDArgs) error {
	if r.Whole() {
		return ErrExplicitID
	}
	return t.SetID(r.Stream(), a)
}

// Stat is the route at a glance. Of several partitions: sums of length, entries added and bytes, the smallest first ID,
// the greatest last and deleted IDs, the number of different groups. Offsets are of one stream and zero otherwise.
func (r *Route) Stat(t *engine.Turn) (engine.StreamStat, error) {
	if !r.Whole() {
		return t.Stat(r.Stream())
	}
	all := engine.StreamStat{Key: []byte(r.Topic.Name), MaxTime: -1}
	for _, no := range r.Streams {
		st, err := t.Stat(no)
		if err != nil {
			return engine.StreamStat{}, err
		}
		if st.Length > 0 && (all.Length == 0 || st.FirstID.Less(all.FirstID)) {
			all.FirstID = st.FirstID
		}
		if all.LastID.Less(st.LastID) {
			all.LastID = st.LastID
		}
		if all.MaxDeletedID.Less(st.MaxDeletedID) {
			all.MaxDeletedID = st.MaxDeletedID
		}
		all.Length += st.Length
		all.EntriesAdded += st.EntriesAdded
		all.Bytes += st.Bytes
		all.MaxTime = max(all.MaxTime, st.MaxTime)
		all.LeaderEpoch = max(all.LeaderEpoch, st.LeaderEpoch)
	}
	groups, err := r.groupNames(t)
	all.Groups = len(groups)
	return all, err
}

// Nodes is the number of virtual nodes of per entries each that hold living entries (XINFO's radix-tree-keys): whole
// stretches of offsets between the first living entry and the end, as approximate trimming counts them.
func (r *Route) Nodes(t *engine.Turn, per int64) (int64, error) {
	per = max(per, 1)
	var n int64
	for _, no := range r.Streams {
		st, err := t.Stat(no)
		if err != nil {
			return 0, err
		}
		if st.Length > 0 {
			n += (st.Next-1)/per - st.FirstOffset/per + 1
		}
	}
	return n, nil
}

// groupNames lists the different groups of all partitions in byte order.
func (r *Route) groupNames(t *engine.Turn) ([]string, error) {
	seen := map[string]bool{}
	var names []string
	for _, no := range r.Streams {
		groups, err := t.Groups(no)
		if err != nil {
			return nil, err
		}
		for _, g := range groups {
			if !seen[g.Name] {
				seen[g.Name] = true
				names = append(names, g.Name)
			}
		}
	}
	sort.Strings(names)
	return names, nil
}
