package engine

import (
	"context"

	"weir/storage"
)

// Options of an engine.
type Options struct {
	TailCache int64        // bytes of newest blocks kept in memory; 256 MiB when 0
	NowMS     func() int64 // the clock, ms since 1970; time.Now when nil
}

// Engine is an open store. Safe for concurrent use.
type Engine struct{}

// Open reads what is needed from a store. The engine does not close it.
func Open(ctx context.Context, st storage.Store, o Options) (*Engine, error) { panic("unbuilt") }

// Close waits for open rounds and makes everything durable.
func (e *Engine) Close(ctx context.Context) error { panic("unbuilt") }

// Failed is the latched failure, nil while writes are accepted.
func (e *Engine) Failed() error { panic("unbuilt") }

// Sync makes all that was committed so far durable (appendfsync everysec; WAITAOF).
func (e *Engine) Sync(ctx context.Context) error { panic("unbuilt") }

// Begin starts a turn whose writes are answered at a level. A turn belongs to one goroutine at a time
// and may serve many clients: an event loop uses one for all that is ready. Reusable after Wait.
func (e *Engine) Begin(level Level) *Turn { panic("unbuilt") }

// Turn evaluates verbs and remembers what must be committed before their answers may be told.
type Turn struct{}

// SetLevel changes the level of the writes that follow.
func (t *Turn) SetLevel(l Level) { panic("unbuilt") }

// Now is the turn's clock in ms; SetNow moves it (one clock per command).
func (t *Turn) Now() int64 { panic("unbuilt") }

// Wait commits what is open and returns when every round that the turn wrote to, or read unfinished work of,
// has its level. On error (ErrFailed) nothing that was evaluated in this turn may be told. The turn is then empty and may be used again.
func (t *Turn) Wait(ctx context.Context) error { panic("unbuilt") }

// Ticket takes the turn's rounds out of it, to be waited for by another goroutine (pipelined produce);
// the turn is then empty.
func (t *Turn) Ticket() Ticket { panic("unbuilt") }

// Ticket is what remains to be waited for. The zero Ticket is done.
type Ticket struct{}

// Wait is Turn.Wait. Somebody must call it: it is the waiting that commits.
func (k *Ticket) Wait(ctx context.Context) error { panic("unbuilt") }

// Touched returns the streams that got entries, or lost a group, a reader or themselves, since the last call: those whose
// parked readers may be evaluated again within this same turn, before anything else is.
func (t *Turn) Touched() []StreamNo { panic("unbuilt") }

// Create makes an empty stream under a Redis key, in the shard of the key's slot.
func (t *Turn) Create(key []byte) (StreamNo, error) { panic("unbuilt") }

// Drop deletes a stream with its groups. False when there is none.
func (t *Turn) Drop(no StreamNo) (bool, error) { panic("unbuilt") }

// SetModulus makes generated seqs congruent to residue modulo 4096 (topics of N > 1 partitions).
func (t *Turn) SetModulus(no StreamNo, residue uint32) error { panic("unbuilt") }

// Append adds one entry in the native form. ErrIDTooSmall, ErrIDZero, ErrIDExhausted.
func (t *Turn) Append(no StreamNo, a AppendArgs) (Appended, error) { panic("unbuilt") }

// AppendBatch adds a Kafka record batch. ErrSequenceGap, ErrSequenceOld, ErrProducerFenced, ErrProducerUnknown.
func (t *Turn) AppendBatch(no StreamNo, a BatchArgs) (Appended, error) { panic("unbuilt") }

// Trim removes a prefix and returns how many living entries went.
func (t *Turn) Trim(no StreamNo, a TrimArgs) (int64, error) { panic("unbuilt") }

// Delete marks entries deleted (XDEL) and returns how many were living.
func (t *Turn) Delete(no StreamNo, ids []ID) (int64, error) { panic("unbuilt") }

// SetID is XSETID. ErrSetIDTop, ErrSetIDDeleted, ErrSetIDAdded.
func (t *Turn) SetID(no StreamNo, a SetIDArgs) error { panic("unbuilt") }

// Stat is the stream at a glance, as evaluated.
func (t *Turn) Stat(no StreamNo) (StreamStat, error) { panic("unbuilt") }

// Range reads living entries by ID, as evaluated.
func (t *Turn) Range(no StreamNo, a RangeArgs) (*Reader, error) { panic("unbuilt") }

// Reader yields runs of living entries in order (or in reverse order, runs newest first). It holds a snapshot
// of what is cold: Close it. Not safe for concurrent use; it may outlive its turn.
type Reader struct{}

// Count is the exact number of living entries that Next will yield in all.
func (r *Reader) Count() int64 { panic("unbuilt") }

// Next returns the next run; false at the end.
func (r *Reader) Next() (Run, bool, error) { panic("unbuilt") }

// Close gives the snapshot back. Closing twice is harmless.
func (r *Reader) Close() { panic("unbuilt") }

// PutRecord writes a named record (topics, coordinators, settings: bytes that belong to the bridge) in the shard of
// slotKey's slot. With the same key as a stream's, record and stream are written by one commit.
func (t *Turn) PutRecord(slotKey []byte, space RecordSpace, name, value []byte) error {
	panic("unbuilt")
}

// DeleteRecord removes a record.
func (t *Turn) DeleteRecord(slotKey []byte, space RecordSpace, name []byte) error { panic("unbuilt") }

// EachRecord calls fn for every committed record of a space, shard by shard, in byte order. Used at start.
func (e *Engine) EachRecord(space RecordSpace, fn func(name, value []byte) error) error {
	panic("unbuilt")
}

// EachStream calls fn for every stream that exists. Used at start (orphans) and by checks.
func (e *Engine) EachStream(fn func(no StreamNo, key []byte) error) error { panic("unbuilt") }

// GroupStreams lists the streams on which a group of this name exists; Groups lists all group names.
func (e *Engine) GroupStreams(name string) []StreamNo { panic("unbuilt") }

// GroupNames lists all group names in byte order.
func (e *Engine) GroupNames() []string { panic("unbuilt") }

// Fetched answers Fetch.
type Fetched struct {
	Blocks    []Run // whole blocks from the one that holds the offset on; From/To cut what is trimmed; Marks say what is deleted
	Start     int64 // log start offset
	HighWater int64
	Next      int64 // log end offset, evaluated
}

// Fetch reads blocks by offset, below the high watermark, without a turn (Kafka's side). At least one block is
// returned when there is one, whatever maxBytes says (KIP-74). A block that is deleted whole is skipped: the blocks begin at the next existing
// entry at or after offset. ErrOffsetRange (with Start and HighWater set) when offset < Start or > Next.
func (e *Engine) Fetch(no StreamNo, offset int64, maxBytes int) (Fetched, error) { panic("unbuilt") }

// Offsets answers the log's ends without a turn.
func (e *Engine) Offsets(no StreamNo) (start, highWater, next int64, err error) { panic("unbuilt") }

// BlockAtTime finds the first block, at or after the log start and below the high watermark, whose largest record timestamp so far is >= ms.
// The caller looks inside it. False when there is none.
func (e *Engine) BlockAtTime(no StreamNo, ms int64) (Run, bool, error) { panic("unbuilt") }

// MaxTimeBlock is the first block that holds the largest record timestamp (ListOffsets -3).
func (e *Engine) MaxTimeBlock(no StreamNo) (Run, bool, error) { panic("unbuilt") }

// OffsetOf returns the smallest offset whose ID is >= id, as evaluated (next offset when there is none), and whether an entry
// with exactly this ID lives.
func (t *Turn) OffsetOf(no StreamNo, id ID) (int64, bool, error) { panic("unbuilt") }

// Place is what a reader waits for: a stream, or a topic's name that may come to exist.
type Place struct {
	Stream StreamNo // 0: Name is meant
	Name   string
}

// Waiter is one parked reader. Wake is called at most once per Park, without locks held, from any goroutine, when an entry became visible or
// the group, the reader or the stream changed; it must not block. Owner lets an event loop find its own waiters.
type Waiter struct {
	Owner any
	Wake  func()
}

// Park registers a waiter at places, behind those who wait there already. Register first, then evaluate
// once more: nothing slips between. A woken waiter keeps its place until Unpark; call Rearm to be woken again.
func (e *Engine) Park(w *Waiter, places []Place) { panic("unbuilt") }

// Rearm lets a woken waiter be woken again.
func (e *Engine) Rearm(w *Waiter) { panic("unbuilt") }

// Unpark removes a waiter from all its places.
func (e *Engine) Unpark(w *Waiter) { panic("unbuilt") }

// Parked lists a place's waiters in the order they came.
func (e *Engine) Parked(p Place) []*Waiter { panic("unbuilt") }

// WakeName wakes those who wait for a topic's name (the bridge calls it when the topic exists, or is gone).
func (e *Engine) WakeName(name string) { panic("unbuilt") }
