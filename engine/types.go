package engine

import "weir/storage"

// The engine's nouns are storage's; callers above need not import storage.
type (
	// ID is a Redis entry ID, ms-seq.
	ID = storage.ID
	// StreamNo numbers a stream for ever.
	StreamNo = storage.StreamNo
	// Block is several entries under one key.
	Block = storage.Block
	// Marks are the deleted entries of a block.
	Marks = storage.Marks
	// ConsumerKind says which side a consumer lives on.
	ConsumerKind = storage.ConsumerKind
	// RecordSpace separates the owners of records.
	RecordSpace = storage.RecordSpace
)

// Block kinds and consumer kinds, as storage has them.
const (
	Entries = storage.Entries
	Batched = storage.Batched

	RedisConsumer  = storage.RedisConsumer
	ClassicMember  = storage.ClassicMember
	ConsumerMember = storage.ConsumerMember
	ShareMember    = storage.ShareMember
)

// MaxID is the greatest ID.
var MaxID = ID{MS: 1<<64 - 1, Seq: 1<<64 - 1}

// Level is when a write is answered.
type Level uint8

const (
	// Unanswered: acks=0, the caller does not wait.
	Unanswered Level = iota
	// Written: the operating system has it; survives the death of the process.
	Written
	// Durable: fsynced; survives the loss of power.
	Durable
)

// Run is a stretch of one block: the living entries with offsets in [From, To].
// Block and Marks are immutable and may be kept.
type Run struct {
	Block    Block
	Marks    Marks // nil: none deleted
	From, To int64
}

// Living says whether the entry at an offset inside the run is not deleted.
func (r *Run) Living(offset int64) bool {
	return r.Marks == nil || !r.Marks.Get(int(offset-r.Block.Base))
}

// Count is the number of living entries of the run.
func (r *Run) Count() int64 {
	n := r.To - r.From + 1
	if r.Marks != nil {
		for o := r.From; o <= r.To; o++ {
			if r.Marks.Get(int(o - r.Block.Base)) {
				n--
			}
		}
	}
	return n
}

// AppendArgs is one entry in the native form.
type AppendArgs struct {
	// Exactly one way to choose the ID:
	Auto    bool // `*`
	AutoSeq bool // `ms-*`: ID.MS is given
	ID      ID
	// Fields are name, value, name, value, ... (even, at least 2). Copied.
	Fields [][]byte
}

// BatchArgs is one Kafka record batch v2, already validated.
type BatchArgs struct {
	// Data is the whole batch. The engine keeps it and writes base offset (bytes 0-7) and
	// partition leader epoch (bytes 12-15) into it; the caller must not touch it again.
	Data    []byte
	Count   int32 // records; offsets are base .. base+Count-1
	MinTime int64 // smallest record timestamp, ms
	MaxTime int64 // largest record timestamp, ms
	// Producer is set for idempotent batches.
	Producer *ProducerBatch
	// WithTime, if set, is called with the append time (LogAppendTime) before storing.
}

// ProducerBatch is the idempotence part of a batch header (KIP-98).
type ProducerBatch struct {
	ID       int64
	Epoch    int16
	FirstSeq int32
	LastSeq  int32
}

// Appended answers an append.
type Appended struct {
	Base      int64 // offset of the first entry
	FirstID   ID
	Duplicate bool  // an idempotent batch that is already there; Base is the original
	Start     int64 // log start offset
}

// TrimArgs asks for a prefix to go. One of MaxLen, MinID, Before is meant, by Kind.
type TrimArgs struct {
	Kind   TrimKind
	MaxLen int64
	MinID  ID
	Before int64 // offset: everything below goes (DeleteRecords, retention); may not exceed the high watermark
	// Approx removes whole virtual nodes only (NodeEntries entries each).
	Approx      bool
	Limit       int64 // Approx only: most entries to remove; 0 no limit
	NodeEntries int64 // stream-node-max-entries, >= 1
}

// TrimKind names the strategy.
type TrimKind uint8

const (
	TrimMaxLen TrimKind = 1 + iota
	TrimMinID
	TrimBefore
)

// StreamStat is a stream at a glance, as evaluated.
type StreamStat struct {
	No           StreamNo
	Key          []byte
	Length       int64 // living entries
	Start        int64 // log start offset
	Next         int64 // log end offset, evaluated
	HighWater    int64 // what ungated readers see
	LastID       ID
	FirstID      ID // first living entry; zero when empty
	FirstOffset  int64
	MaxDeletedID ID
	EntriesAdded int64
	Groups       int
	MaxTime      int64 // largest record timestamp; -1 none
	LeaderEpoch  int32
	Bytes        int64 // approximate, on disk
}

// SetIDArgs is XSETID.
type SetIDArgs struct {
	ID           ID
	EntriesAdded int64 // -1: leave
	MaxDeleted   *ID   // nil: leave
}

// RangeArgs asks for living entries between two IDs, both inclusive.
type RangeArgs struct {
	From, To ID
	Count    int64 // most entries; < 0 no limit
	Reverse  bool  // newest first
}

// IDRun is n entries with consecutive offsets and evenly spaced IDs.
type IDRun = storage.IDRun
