package engine

// Group is a group of one stream, named, whether or not it exists: the verbs of groups hang on it.
// A missing stream is ErrNoStream, a missing group ErrNoGroup, unless said otherwise.
type Group struct {
	t    *Turn
	no   StreamNo
	name string
}

// Group names a group of a stream within this turn.
func (t *Turn) Group(no StreamNo, name string) Group { return Group{t, no, name} }

// Create makes a group. ErrGroupExists.
func (g Group) Create(at GroupStart) error { panic("unbuilt") }

// SetID moves last_delivered (XGROUP SETID, dictionary 5.4): pending entries stay.
func (g Group) SetID(at GroupStart) error { panic("unbuilt") }

// Destroy drops a group with all that is pending; false when there is none.
func (g Group) Destroy() (bool, error) { panic("unbuilt") }

// ConsumerCreate makes a consumer; false when it is there.
func (g Group) ConsumerCreate(consumer string, kind ConsumerKind) (bool, error) {
	panic("unbuilt")
}

// ConsumerDelete drops a consumer and what is pending under its name; returns how many.
func (g Group) ConsumerDelete(consumer string) (int64, error) { panic("unbuilt") }

// ConsumerTouch creates the consumer if missing and sets its seen time (every XREADGROUP, XCLAIM, XAUTOCLAIM call since 7.2).
func (g Group) ConsumerTouch(consumer string, kind ConsumerKind) error {
	panic("unbuilt")
}

// Deliver hands out new entries (XREADGROUP `>`): nil Reader when there are none, or while a Kafka member
// owns the partition (dictionary 5.7).
func (g Group) Deliver(consumer string, a DeliverArgs) (*Reader, error) {
	panic("unbuilt")
}

// DeliverFetched records that a Kafka member that owns the partition fetched [from, to]: kept in memory,
// written with the group's next change. Rows that a rebalance claimed count one delivery more.
func (g Group) DeliverFetched(consumer string, kind ConsumerKind, from, to int64) error {
	panic("unbuilt")
}

// History is XREADGROUP with an ID: the consumer's own pending entries with IDs greater than after, living ones
// get a new time and count. count <= 0: no limit.
func (g Group) History(consumer string, after ID, count int64) ([]Held, error) {
	panic("unbuilt")
}

// Ack removes entries from the PEL and returns how many were there (XACK). A missing stream or group is 0, nil.
func (g Group) Ack(ids []ID) (int64, error) { panic("unbuilt") }

// Commit acks everything below an offset and follows dictionary 5.3 for the rest; it makes the group when missing.
func (g Group) Commit(a CommitArgs) error { panic("unbuilt") }

// Committed is the group's Kafka offset on the stream; false when the group is not there.
func (g Group) Committed() (Committed, bool, error) { panic("unbuilt") }

// Claim is XCLAIM: what was claimed, in the order of the IDs.
func (g Group) Claim(a ClaimArgs) ([]Held, error) { panic("unbuilt") }

// AutoClaim is XAUTOCLAIM.
func (g Group) AutoClaim(a AutoClaimArgs) (AutoClaimed, error) {
	panic("unbuilt")
}

// ClaimAll moves all that is pending, whoever holds it, to a Kafka member without raising counts (dictionary 5.6),
// creates the member's consumer, and drops consumers of Kafka kinds that hold nothing any more.
func (g Group) ClaimAll(consumer string, kind ConsumerKind) error {
	panic("unbuilt")
}

// SetReader says which Kafka member owns the partition ("" nobody): while one does, Deliver finds nothing. In memory;
// the bridge says it again after a restart.
func (g Group) SetReader(consumer string) error { panic("unbuilt") }

// PutBack is dictionary 5.7's end: the group's last Kafka member is gone. What Kafka members held is delivered anew or released.
func (g Group) PutBack() error { panic("unbuilt") }

// Release gives entries back without an owner (XNACK); returns how many. retry overrides the mode's count; force makes rows.
func (g Group) Release(ids []ID, mode ReleaseMode, retry *uint64, force bool) (int64, error) {
	panic("unbuilt")
}

// Reject archives entries: acked whatever their owner; returns how many were pending.
func (g Group) Reject(ids []ID) (int64, error) { panic("unbuilt") }

// PendingSummary is XPENDING's short form.
func (g Group) PendingSummary() (PendingSummary, error) { panic("unbuilt") }

// Pending is XPENDING's long form.
func (g Group) Pending(a PendingArgs) ([]HeldDetail, error) {
	panic("unbuilt")
}

// Groups lists the stream's groups in byte order of the name.
func (t *Turn) Groups(no StreamNo) ([]GroupStat, error) { panic("unbuilt") }

// Stat is the group at a glance.
func (g Group) Stat() (GroupStat, error) { panic("unbuilt") }

// Consumers lists a group's consumers in byte order of the name.
func (g Group) Consumers() ([]ConsumerStat, error) { panic("unbuilt") }
