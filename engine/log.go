package engine

import (
	"sort"

	"weir/storage"
)

// log is the entries of one stream: its row as evaluated, and which blocks are in
// memory. shard.mu guards it.
//
//	Swept      Start        Head                        hw        Next
//	  │ trimmed, │ all deleted│ living and deleted       │unpublished│
//	  │ on disk  │            │        ...┌──────────────┴───────────┤
//	  └──────────┴────────────┴───────────┤ tail: in memory          │
//	                                      └──────────────────────────┘
type log struct {
	shard *shard
	no    StreamNo
	row   storage.StreamRow // as evaluated
	hw    int64             // readers without a turn see offsets below

	tail     []*tailBlock   // newest blocks, ascending; everything not in the store is here
	filling  *filling       // the native block that is being filled, last in tail
	fillHint int            // bytes that the next one may need
	over     map[int64]over // blocks of the store that were marked or removed and are not written yet, by base
	first    firstLiving
	ghosts   ghosts // of blocks that are gone
	ahead    *ahead // blocks at hand of the verb that holds the lock
}

// filling is an open native block: its payload grows, prefixes of it may be read.
type filling struct {
	*tailBlock
	round *round
	count int
}

// over overlays a block row of the store until the round is written.
type over struct {
	marks Marks
	gone  bool
	round *round
}

// firstLiving caches the first living entry.
type firstLiving struct {
	valid  bool
	offset int64
	id     ID
}

func (l *log) entriesAdded() int64 { return l.row.Next + l.row.AddedBias }

// dense says that every offset in [Head, Next) is living.
func (l *log) dense() bool { return l.row.Length == l.row.Next-l.row.Head }

// tailBase is the first offset that the tail answers for.
func (l *log) tailBase() int64 {
	if len(l.tail) == 0 {
		return l.row.Next
	}
	return l.tail[0].Base
}

// tailIndex is the index of the first tail block whose Last >= offset.
func (l *log) tailIndex(offset int64) int {
	// Most readers want the newest.
	if n := len(l.tail); n > 0 && offset > l.tail[n-1].Last {
		return n
	} else if n > 0 && offset >= l.tail[n-1].Base {
		return n - 1
	}
	return sort.Search(len(l.tail), func(i int) bool { return l.tail[i].Last >= offset })
}

// popTail drops a cached block and all older ones of the stream: the tail may not
// have holes that the store would have to fill.
func (l *log) popTail(b *tailBlock) {
	for len(l.tail) > 0 {
		x := l.tail[0]
		l.tail[0] = nil
		l.tail = l.tail[1:]
		l.shard.tail.remove(x, &l.shard.e.tail)
		if x == b {
			return
		}
	}
}
