package engine

import (
	"errors"

	"weir/storage"
)

// Rows of groups: how a stream's groups come from storage and go there.
//
// Nothing is written when a verb is evaluated, except that what goes is deleted. The
// rows of a group are written when its round is sealed, so that fifty acks in one round
// cost their net change, and an entry delivered and acked within a round costs none.

// loadSmallRow takes one row of a group. Rows come in key order: all consumers, then
// all groups, then what is pending; so consumers wait in groups without a name.
func (s *stream) loadSmallRow(k storage.Key, value []byte) error {
	switch k.Kind {
	case storage.KindConsumer:
		row, err := storage.ParseConsumerRow(value)
		if err != nil {
			return err
		}
		gr := s.numbered(k.Group)
		c := &consumer{
			name: string(k.Name), number: row.Number, kind: row.Kind,
			seen: row.Seen, active: row.Active, stored: true,
		}
		gr.consumers[c.name] = c
		if gr.byNumber == nil {
			gr.byNumber = make(map[uint32]*consumer)
		}
		gr.byNumber[c.number] = c
	case storage.KindGroup:
		row, err := storage.ParseGroupRow(value)
		if err != nil {
			return err
		}
		gr := s.numbered(row.Number)
		if gr.name != "" || s.groups[string(k.Name)] != nil {
			return corrupt("group number %d is used twice", row.Number)
		}
		gr.name, gr.row, gr.unsettled = string(k.Name), row, true
		gr.beyond = row.LastOffset >= s.row.Next
		gr.reader = s.shard.e.groups.reader(gr.name, s.no)
		s.groups[gr.name] = gr
	case storage.KindPending:
		return s.loadPending(k, value)
	default:
		return corrupt("a %v row among a stream's small rows", k.Kind)
	}
	return nil
}

func (s *stream) loadPending(k storage.Key, value []byte) error {
	row, err := storage.ParsePendingRow(value)
	if err != nil {
		return err
	}
	gr := s.numbered(k.Group)
	var owner *consumer
	if row.Owner != 0 {
		if owner = gr.byNumber[row.Owner]; owner == nil {
			return corrupt("pending row of consumer %d, which is not there", row.Owner)
		}
	}
	if k.Offset < 0 || !gr.pel.load(k.Offset, row.Last, pelRow{owner, row.Time, row.Count, row.Claimed}) {
		return corrupt("pending row at offset %d overlaps another, or ends before it begins", k.Offset)
	}
	return nil
}

// numbered is the group with a number, made without a name when it is not there yet.
func (s *stream) numbered(n uint32) *group {
	gr := s.groupNo[n]
	if gr == nil {
		gr = &group{stream: s, consumers: make(map[string]*consumer)}
		if s.groupNo == nil {
			s.groupNo = make(map[uint32]*group)
		}
		s.groupNo[n] = gr
	}
	return gr
}

// loadedGroups ends the loading: every consumer and every pending row must have found its group.
func (s *stream) loadedGroups() error {
	if len(s.groupNo) != len(s.groups) {
		return corrupt("stream %d has consumers or pending entries of a group that is not there", s.no)
	}
	for _, gr := range s.groupNo {
		gr.byNumber = nil
		s.shard.e.indexGroup(gr.name, s.no, true) // a round that failed may have taken it out
	}
	s.groupNo = nil
	return nil
}

// sealGroups writes what must be written of the stream's groups into the round. Called for every dirty stream, under shard.mu.
func (s *stream) sealGroups(r *round) {
	for _, gr := range s.dueGroups {
		if !gr.due { // dropped meanwhile
			continue
		}
		if err := gr.flush(r); err != nil {
			// Memory is ahead of the batch, and the batch unusable: its commit fails, and both are dropped. A batch
			// that is too large knows it itself.
			if !errors.Is(err, storage.ErrTooLarge) {
				_ = s.shard.e.fail(err)
			}
			break
		}
	}
	clear(s.dueGroups)
	s.dueGroups = s.dueGroups[:0]
}

// flush writes the group's rows that differ from storage.
func (gr *group) flush(r *round) error {
	no, number := gr.stream.no, gr.row.Number
	if err := gr.catchUp(); err != nil {
		return err
	}
	if gr.rowDirty {
		if err := r.batch.Set(storage.GroupKey(no, []byte(gr.name)), gr.row.Append(nil)); err != nil {
			return err
		}
	}
	var buf [64]byte
	for _, c := range gr.differing {
		if !c.dirty {
			continue
		}
		row := storage.ConsumerRow{Number: c.number, Kind: c.kind, Seen: c.seen, Active: c.active}
		if err := r.batch.Set(storage.ConsumerKey(no, number, []byte(c.name)), row.Append(buf[:0])); err != nil {
			return err
		}
		c.dirty, c.stored = false, true
	}
	clear(gr.differing)
	gr.differing = gr.differing[:0]
	err := gr.pel.flush(func(p *pelRange) error {
		row := storage.PendingRow{Last: p.last, Time: p.time, Count: p.count, Claimed: p.claimed}
		if p.owner != nil {
			row.Owner = p.owner.number
		}
		return r.batch.Set(storage.PendingKey(no, number, p.first), row.Append(buf[:0]))
	}, func(first int64) error {
		return r.batch.Delete(storage.PendingKey(no, number, first))
	})
	gr.rowDirty, gr.due, gr.lazy = false, false, false
	return err
}
