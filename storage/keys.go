package storage

// The key grammar, the only place that knows it, but for packs, which nobody above Pebble's store sees (pack.go). All integers big-endian, offsets
// and times with the sign bit flipped so that bytes sort as numbers.
//
//	shard:2 0x00                                    position row: epoch:8 seq:8
//	shard:2 'N'                                     number of the next stream
//	shard:2 'R' space:1 name                        record, opaque (topics, coordinators, settings)
//	shard:2 'S' stream:8 0x01                       StreamRow
//	shard:2 'S' stream:8 'c' group:4 name           ConsumerRow
//	shard:2 'S' stream:8 'g' name                   GroupRow
//	shard:2 'S' stream:8 'p' group:4 first:8        PendingRow
//	shard:2 'S' stream:8 'q' producer:8             ProducerRow
//	shard:2 'S' stream:8 't' time:8                 base offset:8 of a block before which no timestamp is greater than time (sparse)
//	shard:2 'S' stream:8 'x' first:8                GhostRow
//	shard:2 'S' stream:8 'y' ms:8 seq:8             base offset:8 of a block that begins with this ID (sparse)
//	shard:2 'S' stream:8 'z' base:8 0               block: header, payload
//	shard:2 'S' stream:8 'z' base:8 1               Marks of that block
//	0xFFFF 'M'                                      store row: format version, shards, cluster id
//
// All small rows of a stream sort before its blocks: loading a stream is one scan
// to 't', dropping it is one DeleteRange. The shard number is written twice in a
// stream's key (in front, and in the top of the stream number): the first makes
// every shard one range, the second makes a stream number mean one thing without
// its shard beside it. ParseKey refuses a key where the two differ.

import (
	"encoding/binary"
	"fmt"
)

// RecordSpace separates the kinds of opaque records of a shard; the numbers belong
// to whoever writes the records.
type RecordSpace uint8

// KeyKind says what a key's row is.
type KeyKind uint8

// The kinds of rows, in no order that storage keeps.
const (
	KindPosition KeyKind = iota + 1
	KindNextStream
	KindRecord
	KindStream
	KindConsumer
	KindGroup
	KindPending
	KindProducer
	KindTime
	KindGhost
	KindID
	KindBlock
	KindMarks
	KindStore
	KindFloor
)

// String names the kind, for reports.
func (k KeyKind) String() string {
	names := [...]string{
		KindPosition: "position", KindNextStream: "next-stream", KindRecord: "record",
		KindStream: "stream", KindConsumer: "consumer", KindGroup: "group",
		KindPending: "pending", KindProducer: "producer", KindTime: "time-index",
		KindGhost: "ghost", KindID: "id-index", KindBlock: "block", KindMarks: "marks",
		KindStore: "store", KindFloor: "floor",
	}
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Key is a parsed key. Only the fields of its Kind are set.
type Key struct {
	Shard    ShardID
	Kind     KeyKind
	Stream   StreamNo
	Group    uint32 // KindConsumer, KindPending
	Offset   int64  // KindPending, KindGhost: first; KindBlock, KindMarks: base
	Time     int64  // KindTime, ms
	ID       ID     // KindID
	Producer int64  // KindProducer
	Space    RecordSpace
	Name     []byte // KindRecord, KindConsumer, KindGroup; aliases the key
}

// The bytes that tell rows apart. tag* follow the shard, sub* the stream number.
const (
	tagPosition   = 0x00
	tagFloor      = 'L'
	tagStore      = 'M'
	tagNextStream = 'N'
	tagRecord     = 'R'
	tagStream     = 'S'

	subStream   = 0x01
	subConsumer = 'c'
	subGroup    = 'g'
	subPending  = 'p'
	subProducer = 'q'
	subTime     = 't'
	subGhost    = 'x'
	subID       = 'y'
	subBlock    = 'z'
	subEnd      = 0xFF // above every row of a stream

	blockBody  = 0
	blockMarks = 1

	storeShard ShardID = 0xFFFF

	signBit       = uint64(1) << 63
	streamKeyLen  = 2 + 1 + 8 // shard 'S' stream
	maxPlainShard = 1024      // Layout.Shards at most
)

// ordered maps an int64 to a uint64 that sorts alike.
func ordered(v int64) uint64   { return uint64(v) ^ signBit }
func unordered(v uint64) int64 { return int64(v ^ signBit) }

func appendShard(dst []byte, s ShardID) []byte {
	return binary.BigEndian.AppendUint16(dst, uint16(s))
}

// appendSub begins a stream's key: shard 'S' stream sub. Room for the rest is
// reserved so that a builder allocates once.
func appendSub(n StreamNo, sub byte, rest int) []byte {
	return append(appendStream(make([]byte, 0, streamKeyLen+1+rest), n), sub)
}

// appendStream appends what all keys of a stream begin with: shard 'S' stream.
func appendStream(dst []byte, n StreamNo) []byte {
	return binary.BigEndian.AppendUint64(append(appendShard(dst, n.ShardOf()), tagStream), uint64(n))
}

func appendOrdered(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, ordered(v))
}

// PositionKey is the key of a shard's position row.
func PositionKey(s ShardID) []byte { return append(appendShard(nil, s), tagPosition) }

// NextStreamKey is the key of the row that numbers a shard's next stream.
func NextStreamKey(s ShardID) []byte { return append(appendShard(nil, s), tagNextStream) }

// StoreKey is the key of the store row, outside every shard.
func StoreKey() []byte { return append(appendShard(nil, storeShard), tagStore) }

// FloorKey is the key of the row that says where a replay of the log begins, outside every
// shard. Pebble's store has it.
func FloorKey() []byte { return append(appendShard(nil, storeShard), tagFloor) }

// ShardRange spans every row of a shard.
func ShardRange(s ShardID) (lower, upper []byte) {
	return appendShard(nil, s), appendShard(nil, s+1)
}

// RecordKey is the key of an opaque record.
func RecordKey(s ShardID, space RecordSpace, name []byte) []byte {
	dst := make([]byte, 0, 4+len(name))
	dst = append(appendShard(dst, s), tagRecord, byte(space))
	return append(dst, name...)
}

// RecordsRange spans a space's records, by name.
func RecordsRange(s ShardID, space RecordSpace) (lower, upper []byte) {
	lower = append(appendShard(nil, s), tagRecord, byte(space))
	if space == 0xFF {
		return lower, append(appendShard(nil, s), tagRecord+1)
	}
	return lower, append(appendShard(nil, s), tagRecord, byte(space)+1)
}

// ParseRecordKey takes a record's key apart; name aliases key.
func ParseRecordKey(key []byte) (space RecordSpace, name []byte, ok bool) {
	if len(key) < 4 || key[2] != tagRecord {
		return 0, nil, false
	}
	return RecordSpace(key[3]), key[4:], true
}

// StreamKey is the key of a stream's StreamRow.
func StreamKey(n StreamNo) []byte { return appendSub(n, subStream, 0) }

// GroupKey is the key of a group's GroupRow.
func GroupKey(n StreamNo, name []byte) []byte {
	return append(appendSub(n, subGroup, len(name)), name...)
}

// ConsumerKey is the key of a ConsumerRow; group is the group's number.
func ConsumerKey(n StreamNo, group uint32, name []byte) []byte {
	dst := appendSub(n, subConsumer, 4+len(name))
	dst = binary.BigEndian.AppendUint32(dst, group)
	return append(dst, name...)
}

// PendingKey is the key of the PendingRow that begins at offset first.
func PendingKey(n StreamNo, group uint32, first int64) []byte {
	dst := appendSub(n, subPending, 12)
	dst = binary.BigEndian.AppendUint32(dst, group)
	return appendOrdered(dst, first)
}

// ProducerKey is the key of a ProducerRow.
func ProducerKey(n StreamNo, producer int64) []byte {
	return appendOrdered(appendSub(n, subProducer, 8), producer)
}

// TimeKey is the key of a time index row: the first block whose running maximum of
// record timestamps is ms.
func TimeKey(n StreamNo, ms int64) []byte {
	return appendOrdered(appendSub(n, subTime, 8), ms)
}

// GhostKey is the key of the GhostRow that begins at offset first.
func GhostKey(n StreamNo, first int64) []byte {
	return appendOrdered(appendSub(n, subGhost, 8), first)
}

// IDKey is the key of an ID index row: a block begins with this ID.
func IDKey(n StreamNo, id ID) []byte {
	dst := appendSub(n, subID, 16)
	dst = binary.BigEndian.AppendUint64(dst, id.MS)
	return binary.BigEndian.AppendUint64(dst, id.Seq)
}

// BlockKey is the key of the block whose first entry has offset base.
func BlockKey(n StreamNo, base int64) []byte {
	return AppendBlockKey(make([]byte, 0, streamKeyLen+1+9), n, base)
}

// AppendBlockKey is BlockKey without an allocation of its own.
func AppendBlockKey(dst []byte, n StreamNo, base int64) []byte {
	return append(appendOrdered(append(appendStream(dst, n), subBlock), base), blockBody)
}

// isPositionKey reports whether a key is a shard's position row's.
func isPositionKey(key []byte) bool { return len(key) == 3 && key[2] == tagPosition }

// isBlockKey reports whether a key is a block's.
func isBlockKey(key []byte) bool {
	return len(key) == streamKeyLen+1+9 && key[2] == tagStream && key[streamKeyLen] == subBlock && key[len(key)-1] == blockBody
}

// MarksKey is the key of the deletion marks of the block at base.
func MarksKey(n StreamNo, base int64) []byte {
	return append(appendOrdered(appendSub(n, subBlock, 9), base), blockMarks)
}

// StreamsRange spans all rows of all streams of a shard.
func StreamsRange(s ShardID) (lower, upper []byte) {
	return append(appendShard(nil, s), tagStream), append(appendShard(nil, s), tagStream+1)
}

// StreamRange spans everything of one stream.
func StreamRange(n StreamNo) (lower, upper []byte) {
	return appendSub(n, 0, 0), appendSub(n, subEnd, 0)
}

// SmallRange spans a stream's row, consumers, groups, pending entries and producers:
// the scan that loads a stream.
func SmallRange(n StreamNo) (lower, upper []byte) {
	return appendSub(n, 0, 0), appendSub(n, subTime, 0)
}

// BlocksRange spans the blocks, and their marks, with base in [from, to).
func BlocksRange(n StreamNo, from, to int64) (lower, upper []byte) {
	return appendOrdered(appendSub(n, subBlock, 8), from), appendOrdered(appendSub(n, subBlock, 8), to)
}

// GroupsRange spans a stream's GroupRows, by name.
func GroupsRange(n StreamNo) (lower, upper []byte) {
	return appendSub(n, subGroup, 0), appendSub(n, subGroup+1, 0)
}

// groupRange spans the rows of one group below a sub tag, also for the last number.
func groupRange(n StreamNo, sub byte, group uint32) (lower, upper []byte) {
	lower = binary.BigEndian.AppendUint32(appendSub(n, sub, 4), group)
	if group == ^uint32(0) {
		return lower, appendSub(n, sub+1, 0)
	}
	return lower, binary.BigEndian.AppendUint32(appendSub(n, sub, 4), group+1)
}

// ConsumersRange spans a group's consumers, by name.
func ConsumersRange(n StreamNo, group uint32) (lower, upper []byte) {
	return groupRange(n, subConsumer, group)
}

// PendingRange spans a group's pending runs, by offset.
func PendingRange(n StreamNo, group uint32) (lower, upper []byte) {
	return groupRange(n, subPending, group)
}

// ProducersRange spans a stream's producers.
func ProducersRange(n StreamNo) (lower, upper []byte) {
	return appendSub(n, subProducer, 0), appendSub(n, subProducer+1, 0)
}

// TimeRange spans a stream's time index.
func TimeRange(n StreamNo) (lower, upper []byte) {
	return appendSub(n, subTime, 0), appendSub(n, subTime+1, 0)
}

// IDRange spans a stream's ID index.
func IDRange(n StreamNo) (lower, upper []byte) {
	return appendSub(n, subID, 0), appendSub(n, subID+1, 0)
}

// GhostRange spans the ghost rows that begin in [from, to).
func GhostRange(n StreamNo, from, to int64) (lower, upper []byte) {
	return appendOrdered(appendSub(n, subGhost, 8), from), appendOrdered(appendSub(n, subGhost, 8), to)
}

// ParseKey takes any key apart. The error wraps ErrCorrupt.
func ParseKey(key []byte) (Key, error) {
	if len(key) < 3 {
		return Key{}, badKey(key)
	}
	k := Key{Shard: ShardID(binary.BigEndian.Uint16(key))}
	rest := key[3:]
	switch {
	case k.Shard == storeShard && key[2] == tagStore && len(rest) == 0:
		k.Kind = KindStore
		return k, nil
	case k.Shard == storeShard && key[2] == tagFloor && len(rest) == 0:
		k.Kind = KindFloor
		return k, nil
	case k.Shard >= maxPlainShard:
		return Key{}, badKey(key)
	case key[2] == tagPosition && len(rest) == 0:
		k.Kind = KindPosition
		return k, nil
	case key[2] == tagNextStream && len(rest) == 0:
		k.Kind = KindNextStream
		return k, nil
	case key[2] == tagRecord && len(rest) >= 1:
		k.Kind, k.Space, k.Name = KindRecord, RecordSpace(rest[0]), rest[1:]
		return k, nil
	case key[2] == tagStream && len(rest) >= 9:
		k.Stream = StreamNo(binary.BigEndian.Uint64(rest))
		if k.Stream.ShardOf() != k.Shard || !k.parseSub(rest[8], rest[9:]) {
			return Key{}, badKey(key)
		}
		return k, nil
	}
	return Key{}, badKey(key)
}

// parseSub reads what follows the stream number.
func (k *Key) parseSub(sub byte, rest []byte) bool {
	u64 := binary.BigEndian.Uint64
	switch {
	case sub == subStream && len(rest) == 0:
		k.Kind = KindStream
	case sub == subConsumer && len(rest) >= 4:
		k.Kind, k.Group, k.Name = KindConsumer, binary.BigEndian.Uint32(rest), rest[4:]
	case sub == subGroup:
		k.Kind, k.Name = KindGroup, rest
	case sub == subPending && len(rest) == 12:
		k.Kind, k.Group, k.Offset = KindPending, binary.BigEndian.Uint32(rest), unordered(u64(rest[4:]))
	case sub == subProducer && len(rest) == 8:
		k.Kind, k.Producer = KindProducer, unordered(u64(rest))
	case sub == subTime && len(rest) == 8:
		k.Kind, k.Time = KindTime, unordered(u64(rest))
	case sub == subGhost && len(rest) == 8:
		k.Kind, k.Offset = KindGhost, unordered(u64(rest))
	case sub == subID && len(rest) == 16:
		k.Kind, k.ID = KindID, ID{MS: u64(rest), Seq: u64(rest[8:])}
	case sub == subBlock && len(rest) == 9 && rest[8] == blockBody:
		k.Kind, k.Offset = KindBlock, unordered(u64(rest))
	case sub == subBlock && len(rest) == 9 && rest[8] == blockMarks:
		k.Kind, k.Offset = KindMarks, unordered(u64(rest))
	default:
		return false
	}
	return true
}

func badKey(key []byte) error {
	if len(key) > 64 {
		key = key[:64]
	}
	return fmt.Errorf("%w: key %x follows no grammar", ErrCorrupt, key)
}
