package storage

// Rows are what the values hold. Each has one builder (Append*) and one parser
// (Parse*); FORMAT.md draws their bytes. Rows never hold clocks of their own: every
// time in them was decided by the writer.

// StreamNo numbers a stream: its shard in the top 16 bits, a number that is never
// used again in the rest.
type StreamNo uint64

// ShardOf returns the shard that holds a stream.
func (n StreamNo) ShardOf() ShardID { return ShardID(n >> 48) }

// ID is a Redis stream entry ID, ms-seq.
type ID struct{ MS, Seq uint64 }

// StreamRow is the state of a stream. It is a checkpoint: blocks at and above its Next are added to it
// (AbsorbAll) before it is true.
type StreamRow struct {
	Key    []byte // the Redis key it was created under
	Start  int64  // log start offset: everything below is trimmed
	Swept  int64  // blocks that end below this offset are physically gone; Swept <= Start
	Next   int64  // offset of the next entry (log end offset)
	LastID ID     // last-generated ID
	Length int64  // living entries
	// AddedBias + Next = Redis's entries-added (XSETID ENTRIESADDED sets it).
	AddedBias    int64
	MaxDeleted   ID     // max-deleted-entry-id, of XDEL and XSETID only
	MaxTime      int64  // largest record timestamp so far, ms; -1 when none
	MaxTimeBase  int64  // base offset of the block that holds it
	IDRowBase    int64  // base offset of the last block that got an ID index row
	TimeRowBase  int64  // base offset of the last block that got a time index row
	Head         int64  // no entry below is living; Head >= Start. Length == Next - Head means no gaps
	Bytes        int64  // of block payloads in [Swept, Next), approximate
	Residue      uint32 // generated seq mod Modulus = Residue (topics of N > 1 partitions)
	Modulus      uint32 // 1, or 4096
	NextGroup    uint32 // number of the next group
	LeaderEpoch  int32  // partition leader epoch, 0 on a single node
	MarkedBlocks int64  // blocks that have deletion marks
	Ghosts       int64  // ghost rows: IDs of pending entries whose block is gone
}

// BlockKind says how a block's payload is written.
type BlockKind uint8

const (
	// Entries: XADD entries, the native form; see AppendEntry.
	Entries BlockKind = 1
	// Batch: one Kafka record batch v2 as it came, base offset and leader epoch filled in.
	Batched BlockKind = 2
)

// Block is several entries under one key. Offsets are dense from Base to Last; for
// Batched, IDs are FirstID, FirstID+Stride, ... (same ms). Immutable once sealed;
// readers may keep Payload.
type Block struct {
	Kind    BlockKind
	Base    int64 // offset of the first entry
	Last    int64 // offset of the last entry
	FirstID ID
	LastID  ID
	Stride  uint32 // of seq, Batched only
	MinTime int64  // smallest record timestamp, ms
	MaxTime int64  // largest record timestamp, ms
	Payload []byte
}

// Marks are the deleted entries of a block: bit i is offset Base+i.
type Marks []byte

// IDRun is n entries with consecutive offsets and IDs First, First+Stride, ... (same ms).
type IDRun struct {
	Offset int64
	First  ID
	Stride uint32
	Count  uint32
}

// GhostRow keeps the IDs of entries that some group holds pending although their
// block is gone (XDEL of a whole block, trimming).
type GhostRow struct {
	Last int64 // last offset covered
	Runs []IDRun
}

// GroupRow is one group on one stream.
type GroupRow struct {
	Number         uint32
	LastOffset     int64 // last_delivered as an offset; -1 before the first
	LastID         ID    // last_delivered as an ID
	EntriesRead    int64 // Redis's counter; -1 unknown
	Committed      bool  // an OffsetCommit was made
	CommitFresh    bool  // nothing acked and no cursor set since
	CommitOffset   int64
	CommitEpoch    int32
	CommitMetadata []byte
	CommitTime     int64 // ms
	NextConsumer   uint32
}

// ConsumerKind says which side a consumer lives on.
type ConsumerKind uint8

const (
	RedisConsumer  ConsumerKind = 0
	ClassicMember  ConsumerKind = 1
	ConsumerMember ConsumerKind = 2 // KIP-848
	ShareMember    ConsumerKind = 3
)

// ConsumerRow is one consumer of a group on a stream.
type ConsumerRow struct {
	Number uint32 // 1 and up; 0 in a PEL row means unowned
	Kind   ConsumerKind
	Seen   int64 // ms, last attempt
	Active int64 // ms, last delivery; -1 never
}

// PendingRow is a run of pending entries with one owner, time and count. Its key
// holds the first offset.
type PendingRow struct {
	Last    int64  // last offset of the run
	Owner   uint32 // consumer number; 0 unowned (released)
	Time    int64  // delivery time, ms
	Count   uint64 // deliveries
	Claimed bool   // moved by a rebalance, not fetched by its new owner yet
}

// ProducerBatch is one remembered batch of an idempotent producer.
type ProducerBatch struct {
	FirstSeq, LastSeq int32
	Base              int64 // offset of the first record
	Time              int64 // ms, append time answered (log append time), -1
}

// ProducerRow is an idempotent producer on a stream: its newest batches, oldest first, at most 5.
type ProducerRow struct {
	Epoch   int16
	Touched int64 // ms of the last append
	Batches []ProducerBatch
}
