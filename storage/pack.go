package storage

// Packs: Pebble holds the blocks of 64 offsets of a stream as one row, so that single records cost it a row per 64 and not
// one each, in its memtable, in every flush and in every compaction.
//
//	pack row:  (shard | 8000h):2 stream:8 first:8 (ordered, a multiple of 64)
//	pack     = 1 entry*                   the blocks that there are
//	         | 2 mask:8 entry*            as a change: those of mask go first (bit i: first + i)
//	entry    = i:1 (0 to 63, ascending)  u length  bytes: the block, or its reference
//
// A pack is written as changes, which Pebble's merge operator lays over each other: an entry takes the place of an older
// one, a mask takes older ones away. A change reads nothing, and made twice it is as if made once; so a replay of the log
// (pebble_log.go) ends where it must, whatever of it the tables have.
//
// Nobody above the store sees packs: keys and rows are those of keys.go there, in views (pebble_read.go) as in the log.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

const (
	packSpan   = 64 // offsets
	packShard  = 0x8000
	packKeyLen = 2 + 8 + 8

	packPlain  = 1
	packChange = 2
)

// spot is a place among a shard's blocks; base is ordered. Block keys sort as their spots do.
type spot struct{ stream, base uint64 }

// endSpot is behind all.
var endSpot = spot{^uint64(0), ^uint64(0)}

func (a spot) less(b spot) bool {
	return a.stream < b.stream || a.stream == b.stream && a.base < b.base
}

// group is the spot where the pack of a spot begins, and low which of its offsets that is.
func (a spot) group() spot { return spot{a.stream, a.base &^ (packSpan - 1)} }
func (a spot) low() int    { return int(a.base & (packSpan - 1)) }

// at is a spot of the group that begins here.
func (a spot) at(low int) spot { return spot{a.stream, a.base | uint64(low)} }

// after is the next group.
func (a spot) after() spot {
	if a.base |= packSpan - 1; a.base != ^uint64(0) {
		return spot{a.stream, a.base + 1}
	}
	return nextStreamSpot(a.stream)
}

func nextStreamSpot(stream uint64) spot {
	if stream == ^uint64(0) {
		return endSpot
	}
	return spot{stream + 1, 0}
}

// packKey is the key of the pack that begins at a spot.
func (a spot) packKey(dst []byte, s ShardID) []byte {
	if a == endSpot {
		return appendShard(dst, s|packShard+1)
	}
	dst = appendShard(dst, s|packShard)
	dst = binary.BigEndian.AppendUint64(dst, a.stream)
	return binary.BigEndian.AppendUint64(dst, a.base)
}

// blockKey is the key of the block at a spot.
func (a spot) blockKey(dst []byte, s ShardID) []byte {
	dst = binary.BigEndian.AppendUint64(append(appendShard(dst, s), tagStream), a.stream)
	return append(binary.BigEndian.AppendUint64(append(dst, subBlock), a.base), blockBody)
}

// parsePackKey reads a key of the packs' range.
func parsePackKey(key []byte) (spot, error) {
	if len(key) != packKeyLen {
		return spot{}, badKey(key)
	}
	a := spot{binary.BigEndian.Uint64(key[2:]), binary.BigEndian.Uint64(key[10:])}
	if a.low() != 0 {
		return spot{}, badKey(key)
	}
	return a, nil
}

// blockSpot is the spot of a block's key.
func blockSpot(key []byte) spot {
	return spot{binary.BigEndian.Uint64(key[3:]), binary.BigEndian.Uint64(key[streamKeyLen+1:])}
}

// spotAt is the spot of the shard's first block key that is not before key, be there such a block or not.
func spotAt(s ShardID, key []byte) spot {
	own := appendShard(nil, s)
	switch c := bytes.Compare(key[:min(len(key), 2)], own); {
	case c > 0:
		return endSpot
	case c < 0 || len(key) < 3 || key[2] < tagStream:
		return spot{}
	case key[2] > tagStream:
		return endSpot
	}
	rest := key[3:]
	stream := padded(rest)
	switch {
	case len(rest) <= 8 || rest[8] < subBlock:
		return spot{stream, 0}
	case rest[8] > subBlock:
		return nextStreamSpot(stream)
	}
	rest = rest[9:]
	base := padded(rest)
	switch {
	case len(rest) <= 8 || len(rest) == 9 && rest[8] == blockBody:
		return spot{stream, base}
	case base == ^uint64(0):
		return nextStreamSpot(stream)
	}
	return spot{stream, base + 1}
}

// padded reads up to 8 bytes as the beginning of a number.
func padded(b []byte) uint64 {
	var n [8]byte
	copy(n[:], b)
	return binary.BigEndian.Uint64(n[:])
}

func appendMember(dst []byte, low int, value []byte) []byte {
	dst = binary.AppendUvarint(append(dst, byte(low)), uint64(len(value)))
	return append(dst, value...)
}

// appendPackHead begins a pack, or a change that takes those of mask away.
func appendPackHead(dst []byte, mask uint64) []byte {
	if mask == 0 {
		return append(dst, packPlain)
	}
	return binary.BigEndian.AppendUint64(append(dst, packChange), mask)
}

// packMember is an entry; value aliases the pack.
type packMember struct {
	low   int
	value []byte
}

// parsePack appends the entries of a pack, or of a change. The error wraps ErrCorrupt.
func parsePack(dst []packMember, pack []byte) (members []packMember, mask uint64, err error) {
	rest := pack
	switch {
	case len(rest) >= 1 && rest[0] == packPlain:
		rest = rest[1:]
	case len(rest) >= 9 && rest[0] == packChange:
		mask, rest = binary.BigEndian.Uint64(rest[1:]), rest[9:]
	default:
		return dst, 0, badPack(pack)
	}
	for last := -1; len(rest) > 0; {
		m := packMember{low: int(rest[0])}
		var ok bool
		if m.value, rest, ok = cutBytes(rest[1:]); !ok || m.low <= last || m.low >= packSpan {
			return dst, 0, badPack(pack)
		}
		last = m.low
		dst = append(dst, m)
	}
	return dst, mask, nil
}

func badPack(pack []byte) error {
	return fmt.Errorf("%w: pack of %d bytes, %x...", ErrCorrupt, len(pack), pack[:min(len(pack), 16)])
}

// findMember looks for a block in a pack.
func findMember(pack []byte, low int) ([]byte, bool, error) {
	var room [packSpan]packMember
	members, _, err := parsePack(room[:0], pack)
	for _, m := range members {
		if m.low == low {
			return m.value, true, err
		}
	}
	return nil, false, err
}

// packMerger is Pebble's merge operator. Its name stands in the directory: a store where it is another is not ours.
var packMerger = &pebble.Merger{
	Name: "weir.pack",
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		m := packMerges.Get().(*packMerge)
		m.buf, m.ends, m.newer = m.buf[:0], m.ends[:0], false
		m.take(value)
		return m, nil
	},
}

// packMerges are those that nobody uses: each pack of each flush and compaction needs one.
var packMerges = sync.Pool{New: func() any { return new(packMerge) }}

// packMerge lays changes over each other.
type packMerge struct {
	buf   []byte // the changes, one behind the other
	ends  []int
	newer bool // they go from the oldest to the newest
	out   []byte
}

func (m *packMerge) take(value []byte) {
	m.buf = append(m.buf, value...)
	m.ends = append(m.ends, len(m.buf))
}

// change is the nth newest one.
func (m *packMerge) change(n int) []byte {
	if m.newer {
		n = len(m.ends) - 1 - n
	}
	from := 0
	if n > 0 {
		from = m.ends[n-1]
	}
	return m.buf[from:m.ends[n]]
}

func (m *packMerge) MergeNewer(value []byte) error {
	m.newer = true
	m.take(value)
	return nil
}

func (m *packMerge) MergeOlder(value []byte) error {
	m.take(value)
	return nil
}

// Close is called when the result is not needed any more.
func (m *packMerge) Close() error {
	packMerges.Put(m)
	return nil
}

// Finish may leave a pack without blocks, which the janitor deletes (pebble_space.go). Why not here, as Pebble's
// DeletableValueMerger may? Pebble 2.1.7 panics when what is deleted was merged with a base.
func (m *packMerge) Finish(base bool) ([]byte, io.Closer, error) {
	if only := m.change(0); len(m.ends) == 1 && len(only) > 0 && only[0] == packPlain {
		return only, m, nil
	}
	var at [packSpan][]byte
	var room [packSpan]packMember
	var have, took uint64
	for n := range m.ends {
		members, mask, err := parsePack(room[:0], m.change(n))
		if err != nil {
			return nil, nil, err
		}
		for _, e := range members {
			if bit := uint64(1) << e.low; (have|took)&bit == 0 {
				have |= bit
				at[e.low] = e.value
			}
		}
		took |= mask // of what is older; an entry of the same change stands
	}
	if base {
		took = 0
	}
	m.out = appendPackHead(m.out[:0], took)
	for left := have; left != 0; left &= left - 1 {
		low := bits.TrailingZeros64(left)
		m.out = appendMember(m.out, low, at[low])
	}
	return m.out, m, nil
}
