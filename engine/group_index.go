package engine

import (
	"slices"
	"sync"
)

// groupIndex knows which streams have a group of a name, without loading them, and
// which Kafka member owns a partition. Its mutex is a leaf: nothing is locked under it.
type groupIndex struct {
	mu      sync.RWMutex
	streams map[string]map[StreamNo]struct{}
	readers map[groupPlace]string // said by the bridge, also of groups that are not there yet
}

// groupPlace is a group on a stream.
type groupPlace struct {
	name string
	no   StreamNo
}

// indexGroup notes that a group of this name is on a stream, or is not any more.
func (e *Engine) indexGroup(name string, no StreamNo, present bool) {
	x := &e.groups
	x.mu.Lock()
	defer x.mu.Unlock()
	on := x.streams[name]
	if !present {
		delete(on, no)
		if len(on) == 0 {
			delete(x.streams, name)
		}
		return
	}
	if on == nil {
		if x.streams == nil {
			x.streams = make(map[string]map[StreamNo]struct{})
		}
		on = make(map[StreamNo]struct{})
		x.streams[name] = on
	}
	on[no] = struct{}{}
}

// GroupStreams lists the streams on which a group of this name exists, as evaluated, in order of their numbers.
func (e *Engine) GroupStreams(name string) []StreamNo {
	x := &e.groups
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]StreamNo, 0, len(x.streams[name]))
	for no := range x.streams[name] {
		out = append(out, no)
	}
	slices.Sort(out)
	return out
}

// GroupNames lists the names of all groups in byte order, as evaluated.
func (e *Engine) GroupNames() []string {
	x := &e.groups
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := make([]string, 0, len(x.streams))
	for name := range x.streams {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// reader is the Kafka member that owns the partition, "" when none does.
func (x *groupIndex) reader(name string, no StreamNo) string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.readers[groupPlace{name, no}]
}

// setReader says who owns the partition; "" nobody.
func (x *groupIndex) setReader(name string, no StreamNo, member string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if member == "" {
		delete(x.readers, groupPlace{name, no})
		return
	}
	if x.readers == nil {
		x.readers = make(map[groupPlace]string)
	}
	x.readers[groupPlace{name, no}] = member
}
