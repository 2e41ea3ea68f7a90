package engine

import "context"

// Which streams are in memory. A loaded stream costs a kilobyte, and what its groups have pending; a keyspace may have
// millions. So a shard that loads one more than its part of Options.LoadedStreams lets go of one that has not been used for
// a while: what is evaluated of it stands in the store, and it is read again when somebody asks.
//
// Which one? A few are looked at, as the map happens to give them, and the first that was not used since it was last
// looked at goes: that is about the oldest, without a list to keep. What groups keep in memory until something must be
// written (when a consumer was seen) is written first, and the stream goes the next time.

const (
	defaultLoadedStreams = 1 << 16
	evictLooks           = 16
)

// makeLoaded makes room for one more stream, where that is possible. Call with mu held, and no other stream of the shard in
// hand: the caller's changes must not go to one that is let go.
func (s *shard) makeLoaded() {
	looks := evictLooks
	var late *round
	defer func() {
		if late != nil {
			go late.lead(context.Background()) // nobody waits for it
		}
	}()
	for range 2 { // of few, all may have been used
		for no, st := range s.streams {
			if len(s.streams) < s.e.loadedStreams || looks == 0 {
				return
			}
			looks--
			switch {
			case st.used:
				st.used = false
			case !st.settled():
			case st.stored():
				s.let(no, st)
			case s.e.refuse() == nil:
				late = s.round()
				st.writeLate(late)
			}
		}
	}
}

// let forgets an idle stream.
func (s *shard) let(no StreamNo, st *stream) {
	for _, b := range st.tail {
		s.tail.remove(b, &s.e.tail)
	}
	st.tail = nil
	delete(s.streams, no)
}

// settled says that no round is under way that changes or publishes the stream, and that nothing of it lives in memory only.
func (s *stream) settled() bool {
	if s.dropped || s.dirtyIn != nil || s.filling != nil || len(s.inflight) > 0 || len(s.over) > 0 || s.hw != s.row.Next {
		return false
	}
	for _, gr := range s.groups {
		if gr.provisional || gr.due {
			return false
		}
	}
	return true
}

// stored says that the store has all that is known of a settled stream.
func (s *stream) stored() bool {
	if s.rowDue { // and no round lists it: a provisional group has come and gone
		return false
	}
	for _, gr := range s.groups {
		if !gr.stored() {
			return false
		}
	}
	return true
}

func (gr *group) stored() bool {
	return !gr.rowDirty && !gr.lazy && !gr.outgrown() && len(gr.differing) == 0 && len(gr.pel.dirty) == 0
}

// outgrown says that the stream has grown past a commit that was beyond its end. The cursor's ID is still that of the old
// end then, and who loads the group cannot know that it should follow (settle).
func (gr *group) outgrown() bool { return gr.beyond && gr.row.LastOffset < gr.stream.row.Next }

// writeLate puts into a round what is kept of a stream in memory only. Provisional groups are not written: they are nobody's
// promise. Nor is a group that cannot be read: it stays as it is.
func (s *stream) writeLate(r *round) {
	for _, gr := range s.groups {
		if gr.provisional || gr.stored() || gr.outgrown() && gr.settle() != nil {
			continue
		}
		gr.mustWrite()
	}
	s.list(r)
}
