package engine

// Groups lists the stream's groups in byte order of the name.
func (t *Turn) Groups(no StreamNo) ([]GroupStat, error) {
	st, err := t.read(no)
	if err != nil {
		return nil, err
	}
	defer st.shard.mu.Unlock()
	out := make([]GroupStat, 0, len(st.groups))
	for _, gr := range st.sortedGroups() {
		stat, err := gr.stat()
		if err != nil {
			return nil, err
		}
		out = append(out, stat)
	}
	return out, nil
}

// Stat is the group at a glance.
func (g Group) Stat() (GroupStat, error) {
	gr, err := g.lock(true)
	if err != nil {
		return GroupStat{}, err
	}
	defer gr.stream.shard.mu.Unlock()
	return gr.stat()
}

func (gr *group) stat() (GroupStat, error) {
	if err := gr.settle(); err != nil {
		return GroupStat{}, err
	}
	c, err := gr.stream.counters()
	row := &gr.row
	return GroupStat{
		Name: gr.name, LastID: row.LastID, LastOffset: row.LastOffset,
		EntriesRead: row.EntriesRead, Lag: c.lag(row.LastID, row.EntriesRead),
		Pending: gr.pel.count, Watermark: gr.watermark(), OldestTime: gr.pel.oldest(),
		Consumers: len(gr.consumers), Reader: gr.reader,
	}, err
}

// Consumers lists a group's consumers in byte order of the name.
func (g Group) Consumers() ([]ConsumerStat, error) {
	gr, err := g.lock(true)
	if err != nil {
		return nil, err
	}
	defer gr.stream.shard.mu.Unlock()
	out := make([]ConsumerStat, 0, len(gr.consumers))
	for _, c := range gr.sortedConsumers() {
		out = append(out, ConsumerStat{Name: c.name, Kind: c.kind, Pending: c.pending, Seen: c.seen, Active: c.active})
	}
	return out, nil
}
