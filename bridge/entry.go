package bridge

import "weir/engine"

// Entry is one stream entry as Redis sees it. Fields alternates names and values; it and ID are valid during the call that handed it
// out, but the bytes that Fields point to are immutable and may be kept.
type Entry struct {
	ID     engine.ID
	Offset int64
	Fields [][]byte
}

// EachEntry calls fn for the living entries of a run, oldest first or newest first, until fn returns false. Native entries cost no allocation per
// entry; Kafka batches are decoded (dictionary 4).
func (b *Bridge) EachEntry(run *engine.Run, reverse bool, fn func(*Entry) bool) error {
	panic("unbuilt")
}
