package storage

import (
	"strings"
	"testing"
)

const checkedStream = StreamNo(1)<<48 | 5

// soundRows writes a stream in which all that Check looks at occurs: offsets 0 to 9
// swept, a native block 10-12 with 11 deleted, a hole where 13-14 were deleted whole
// and are pending still, a Kafka batch 15-19, a group with two consumers.
func soundRows() (StreamRow, map[string][]byte) {
	n := checkedStream
	native := Block{Kind: Entries, Base: 10, Last: 12, FirstID: ID{100, 1}, LastID: ID{100, 3}, MinTime: 100, MaxTime: 100}
	prev := ID{}
	for i := range uint64(3) {
		id := ID{100, 1 + i}
		native.Payload = AppendEntry(native.Payload, prev, i == 0, id, [][]byte{[]byte("f"), []byte("v")})
		prev = id
	}
	batch := Block{Kind: Batched, Base: 15, Last: 19, FirstID: ID{200, 0}, LastID: ID{200, 4}, Stride: 1,
		MinTime: 150, MaxTime: 190, Payload: []byte("a record batch")}
	row := StreamRow{
		Key: []byte("s"), Start: 10, Swept: 10, Head: 10, Next: 20, LastID: ID{200, 4}, Length: 7,
		MaxTime: 190, Modulus: 1, NextGroup: 2, MarkedBlocks: 1, Ghosts: 1,
	}
	rows := map[string][]byte{}
	set := func(key, value []byte) { rows[string(key)] = value }
	set(PositionKey(1), AppendPos(nil, Pos{1, 9}))
	set(NextStreamKey(1), AppendNextStream(nil, 6))
	set(RecordKey(1, 3, []byte("topic")), []byte("opaque"))
	set(ConsumerKey(n, 1, []byte("alice")), (&ConsumerRow{Number: 1}).Append(nil))
	set(ConsumerKey(n, 1, []byte("bob")), (&ConsumerRow{Number: 2, Kind: ShareMember}).Append(nil))
	set(GroupKey(n, []byte("g")), (&GroupRow{Number: 1, LastOffset: 17, LastID: ID{200, 2}, NextConsumer: 3}).Append(nil))
	set(PendingKey(n, 1, 12), (&PendingRow{Last: 14, Owner: 2, Count: 1}).Append(nil))
	set(PendingKey(n, 1, 15), (&PendingRow{Last: 17}).Append(nil))
	set(ProducerKey(n, 77), (&ProducerRow{Batches: []ProducerBatch{{0, 4, 15, -1}}}).Append(nil))
	set(TimeKey(n, 100), AppendOffset(nil, 15))
	set(GhostKey(n, 13), (&GhostRow{Last: 14, Runs: []IDRun{{13, ID{101, 0}, 1, 2}}}).Append(nil))
	set(IDKey(n, ID{101, 0}), AppendOffset(nil, 13)) // its block is gone
	set(IDKey(n, ID{200, 0}), AppendOffset(nil, 15))
	set(BlockKey(n, 10), append(native.AppendHeader(nil), native.Payload...))
	set(MarksKey(n, 10), Marks(nil).Set(1))
	set(BlockKey(n, 15), append(batch.AppendHeader(nil), batch.Payload...))
	return row, rows
}

// checkRows runs Check over rows written to a store.
func checkRows(t *testing.T, rows map[string][]byte) Report {
	t.Helper()
	s := NewMem(2)
	w := lead(t, s, 1)
	b := w.Begin()
	for key, value := range rows {
		b.Set([]byte(key), value)
	}
	if _, err := w.Commit(ctx, b); err != nil {
		t.Fatal(err)
	}
	r, err := Check(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCheckCountsASoundStore(t *testing.T) {
	row, rows := soundRows()
	rows[string(StreamKey(checkedStream))] = row.Append(nil)
	r := checkRows(t, rows)
	if !r.Sound() {
		t.Fatal(r.Problems)
	}
	r.Bytes = 0
	want := Report{Rows: 17, Records: 1, Streams: 1, Blocks: 2, Entries: 7, Deleted: 1, Groups: 1, Consumers: 2,
		PendingRuns: 2, PendingEntries: 6, Producers: 1, IndexRows: 3, Ghosts: 1}
	if r.Problems = nil; !sameReport(r, want) {
		t.Errorf("%+v\nwant %+v", r, want)
	}
}

func sameReport(a, b Report) bool {
	a.Problems, b.Problems = nil, nil
	return a.Rows == b.Rows && a.Records == b.Records && a.Streams == b.Streams && a.Blocks == b.Blocks &&
		a.Entries == b.Entries && a.Deleted == b.Deleted && a.Groups == b.Groups && a.Consumers == b.Consumers &&
		a.PendingRuns == b.PendingRuns && a.PendingEntries == b.PendingEntries && a.Producers == b.Producers &&
		a.IndexRows == b.IndexRows && a.Ghosts == b.Ghosts
}

// Each spoiled row must be found, and named.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	n := checkedStream
	type rowMap = map[string][]byte
	for _, c := range []struct {
		spoil func(row *StreamRow, rows rowMap)
		want  string
	}{
		{func(r *StreamRow, m rowMap) { r.Length = 8 }, "stream 5: length 8, 7 entries live"},
		{func(r *StreamRow, m rowMap) { r.Swept = 11 }, "not in order: swept 11, start 10"},
		{func(r *StreamRow, m rowMap) { r.Head = 11 }, "offset 10: a living entry below the head, 11"},
		{func(r *StreamRow, m rowMap) { r.MarkedBlocks = 0 }, "0 marked blocks by its row, 1 there are"},
		{func(r *StreamRow, m rowMap) { r.Ghosts = 2 }, "2 ghosts by its row, 1 there are"},
		{func(r *StreamRow, m rowMap) { r.Next = 19 }, "offset 15: the block ends at 19, the stream before 19"},
		{func(r *StreamRow, m rowMap) { r.LastID = ID{200, 3} }, "offset 15: its ID 200-4 is above the stream's last, 200-3"},
		{func(r *StreamRow, m rowMap) { r.MaxTime = 189 }, "its timestamp 190 is above"},
		{func(r *StreamRow, m rowMap) { r.NextGroup = 1 }, `group "g" has the number 1, the next group would get 1`},
		{func(r *StreamRow, m rowMap) { r.Modulus = 0 }, "residue 0 of modulus 0"},
		{func(r *StreamRow, m rowMap) { m["\x00\x01?"] = nil }, "follows no grammar"},
		{func(r *StreamRow, m rowMap) { m[string(NextStreamKey(1))] = AppendNextStream(nil, 5) }, "its number is not below"},
		{func(r *StreamRow, m rowMap) { delete(m, string(BlockKey(n, 10))) }, "offset 10: deletion marks without a block"},
		{func(r *StreamRow, m rowMap) { m[string(MarksKey(n, 10))] = Marks{7} }, "offset 10: a block of which nothing lives"},
		{func(r *StreamRow, m rowMap) { m[string(MarksKey(n, 10))] = Marks{10} }, "deletion marks beyond the block's end"},
		{func(r *StreamRow, m rowMap) { m[string(BlockKey(n, 10))][0] = 9 }, "offset 10: storage: a row or checksum is damaged"},
		{func(r *StreamRow, m rowMap) { v := m[string(BlockKey(n, 10))]; v[len(v)-2] = 9 }, "entry at offset 12"},
		{func(r *StreamRow, m rowMap) { m[string(BlockKey(n, 12))] = m[string(BlockKey(n, 15))] }, "offset 12: the block overlaps the one at 10"},
		{func(r *StreamRow, m rowMap) { delete(m, string(GroupKey(n, []byte("g")))) }, "of group 1, which is not there"},
		{func(r *StreamRow, m rowMap) { delete(m, string(ConsumerKey(n, 1, []byte("bob")))) }, "offset 12: group 1: pending with consumer 2, which is not there"},
		{func(r *StreamRow, m rowMap) {
			m[string(ConsumerKey(n, 1, []byte("eve")))] = (&ConsumerRow{Number: 2}).Append(nil)
		}, `consumer "eve" of group 1: number 2 is used`},
		{func(r *StreamRow, m rowMap) {
			m[string(ConsumerKey(n, 1, []byte("eve")))] = (&ConsumerRow{Number: 3}).Append(nil)
		}, `group "g" has a consumer 3, the next would get 3`},
		{func(r *StreamRow, m rowMap) {
			m[string(GroupKey(n, []byte("h")))] = (&GroupRow{Number: 1, NextConsumer: 3}).Append(nil)
		}, `groups "g" and "h" have the number 1`},
		{func(r *StreamRow, m rowMap) {
			m[string(PendingKey(n, 1, 16))] = (&PendingRow{Last: 16}).Append(nil)
		}, "offset 16: group 1: pending runs overlap"},
		{func(r *StreamRow, m rowMap) {
			m[string(PendingKey(n, 1, 15))] = (&PendingRow{Last: 20}).Append(nil)
		}, "pending up to 20, the stream ends before 20"},
		{func(r *StreamRow, m rowMap) { delete(m, string(GhostKey(n, 13))); r.Ghosts = 0 }, "offset 13: pending up to 14, and neither a block nor a ghost"},
		{func(r *StreamRow, m rowMap) { m[string(IDKey(n, ID{200, 0}))] = AppendOffset(nil, 10) }, "ID index rows are not in order"},
		{func(r *StreamRow, m rowMap) {
			delete(m, string(IDKey(n, ID{200, 0})))
			m[string(IDKey(n, ID{200, 1}))] = AppendOffset(nil, 15)
		}, "the ID index says that the block begins with 200-1"},
		{func(r *StreamRow, m rowMap) {
			delete(m, string(IDKey(n, ID{101, 0})))
			m[string(IDKey(n, ID{100, 2}))] = AppendOffset(nil, 13)
		}, "offset 13: the ID index leads 100-2 past its block"},
		{func(r *StreamRow, m rowMap) {
			delete(m, string(TimeKey(n, 100)))
			m[string(TimeKey(n, 99))] = AppendOffset(nil, 15)
		}, "offset 10: its timestamp 100 lies before the block that the time index gives for 99"},
		{func(r *StreamRow, m rowMap) { m[string(PositionKey(1))] = nil }, ""}, // the commit writes it anew
	} {
		row, rows := soundRows()
		c.spoil(&row, rows)
		rows[string(StreamKey(n))] = row.Append(nil)
		r := checkRows(t, rows)
		var all []string
		for _, p := range r.Problems {
			all = append(all, p.String())
		}
		if found := strings.Join(all, "\n"); !strings.Contains(found, c.want) || c.want == "" && found != "" {
			t.Errorf("want %q, found:\n%s", c.want, found)
		}
	}
}

func TestCheckListsABoundedNumberOfProblems(t *testing.T) {
	_, rows := soundRows()
	for i := range 300 {
		rows[string(PendingKey(checkedStream, 9, int64(i)))] = []byte("damaged")
	}
	r := checkRows(t, rows)
	if len(r.Problems) != maxProblems || r.More < 200 {
		t.Errorf("%d listed, %d more", len(r.Problems), r.More)
	}
}
