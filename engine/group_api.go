package engine

// GroupStart is where a group's cursor is put (XGROUP CREATE / SETID).
type GroupStart struct {
	Last        bool  // `$`: the stream's last ID
	ID          ID    // otherwise
	EntriesRead int64 // Redis's counter, -1 unknown; capped to entries-added
}

// DeliverArgs is XREADGROUP `>`.
type DeliverArgs struct {
	Count int64 // most entries; <= 0 no limit
	NoAck bool  // move the cursor, leave nothing pending
	Kind  ConsumerKind
}

// Held is a stretch of a group's pending entries in offset order: either living
// entries of one block, or the IDs of entries that are gone from the stream.
type Held struct {
	Run  Run     // valid when Gone is nil
	Gone []IDRun // IDs of entries deleted or trimmed
}

// HeldDetail is one pending entry (XPENDING, extended).
type HeldDetail struct {
	ID       ID
	Offset   int64
	Consumer string // "" when released
	Idle     int64  // ms; -1 when released
	Count    uint64
}

// PendingSummary is XPENDING's short form.
type PendingSummary struct {
	Count     int64
	Min, Max  ID
	Consumers []ConsumerPending // in byte order of the name, those with pending entries only
}

// ConsumerPending is a consumer and its number of pending entries.
type ConsumerPending struct {
	Name  string
	Count int64
}

// PendingArgs filters XPENDING's long form.
type PendingArgs struct {
	MinIdle  int64 // ms, 0 all
	From, To ID    // inclusive
	Count    int64
	Consumer *string
}

// ClaimArgs is XCLAIM. Times are in ms.
type ClaimArgs struct {
	Consumer   string
	Kind       ConsumerKind
	MinIdle    int64
	IDs        []ID
	Time       int64   // delivery time to set; < 0: now
	RetryCount *uint64 // count to set
	Force      bool    // make a pending row when there is none but the entry lives
	JustID     bool    // do not raise the count
	LastID     *ID     // move last_delivered forward to it
}

// AutoClaimArgs is XAUTOCLAIM.
type AutoClaimArgs struct {
	Consumer string
	Kind     ConsumerKind
	MinIdle  int64
	Start    ID    // inclusive
	Count    int64 // > 0; at most 10 x Count rows are looked at
	JustID   bool
}

// AutoClaimed answers XAUTOCLAIM.
type AutoClaimed struct {
	Next    ID // cursor; zero at the end
	Held    *HeldReader
	Deleted []IDRun // were pending, gone from the stream, now dropped
}

// ReleaseMode is XNACK's mode.
type ReleaseMode uint8

const (
	ReleaseSilent ReleaseMode = 1 + iota // count - 1
	ReleaseFail                          // count unchanged
	ReleaseFatal                         // count = max
)

// CommitArgs is one partition of an OffsetCommit.
type CommitArgs struct {
	Offset   int64
	Epoch    int32 // leader epoch, -1 unknown
	Metadata []byte
}

// Committed is what OffsetFetch answers.
type Committed struct {
	Offset   int64 // the last explicit commit while it is fresh, else the watermark
	Epoch    int32
	Metadata []byte
}

// GroupStat is a group on one stream at a glance.
type GroupStat struct {
	Name        string
	LastID      ID
	LastOffset  int64
	EntriesRead int64 // -1 unknown
	Lag         int64 // Redis's lag, or UnknownLag
	Pending     int64
	Watermark   int64 // lowest pending offset, or last_delivered + 1
	OldestTime  int64 // delivery time of the longest pending row, ms; -1 none
	Consumers   int
	Reader      string // the Kafka member that owns the partition, "" none
}

// ConsumerStat is a consumer of a group on one stream.
type ConsumerStat struct {
	Name    string
	Kind    ConsumerKind
	Pending int64
	Seen    int64 // ms
	Active  int64 // ms, -1 never
}
