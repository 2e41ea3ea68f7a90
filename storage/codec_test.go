package storage

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

const n1 = StreamNo(3)<<48 | 42

// everyKey is one key of each kind, with what it parses to.
func everyKey() map[string]Key {
	k := func(kind KeyKind, f Key) Key {
		f.Shard, f.Kind = 3, kind
		if kind >= KindStream {
			f.Stream = n1
		}
		return f
	}
	return map[string]Key{
		string(PositionKey(3)):                   k(KindPosition, Key{}),
		string(NextStreamKey(3)):                 k(KindNextStream, Key{}),
		string(RecordKey(3, 7, []byte("topic"))): k(KindRecord, Key{Space: 7, Name: []byte("topic")}),
		string(StreamKey(n1)):                    k(KindStream, Key{}),
		string(ConsumerKey(n1, 9, []byte("al"))): k(KindConsumer, Key{Group: 9, Name: []byte("al")}),
		string(GroupKey(n1, []byte("g"))):        k(KindGroup, Key{Name: []byte("g")}),
		string(PendingKey(n1, 9, 1<<40)):         k(KindPending, Key{Group: 9, Offset: 1 << 40}),
		string(ProducerKey(n1, 12)):              k(KindProducer, Key{Producer: 12}),
		string(TimeKey(n1, -5)):                  k(KindTime, Key{Time: -5}),
		string(GhostKey(n1, 3)):                  k(KindGhost, Key{Offset: 3}),
		string(IDKey(n1, ID{1, math.MaxUint64})): k(KindID, Key{ID: ID{1, math.MaxUint64}}),
		string(BlockKey(n1, math.MaxInt64)):      k(KindBlock, Key{Offset: math.MaxInt64}),
		string(MarksKey(n1, 0)):                  k(KindMarks, Key{}),
		string(StoreKey()):                       {Shard: 0xFFFF, Kind: KindStore},
		string(FloorKey()):                       {Shard: 0xFFFF, Kind: KindFloor},
	}
}

func TestEveryKeyParsesToWhatBuiltIt(t *testing.T) {
	for key, want := range everyKey() {
		got, err := ParseKey([]byte(key))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%x: %+v %v, want %+v", key, got, err, want)
		}
		if want.Kind != KindGroup && want.Kind != KindConsumer && want.Kind != KindRecord {
			if _, err := ParseKey([]byte(key + "x")); err == nil {
				t.Errorf("%v: one byte more was taken", want.Kind)
			}
		}
	}
	foreign := BlockKey(n1, 1)
	foreign[1]++ // in front another shard than in the stream number
	if _, err := ParseKey(foreign); err == nil {
		t.Error("a stream of another shard")
	}
}

func TestKeysSortAsWhatTheyHold(t *testing.T) {
	order := [][]byte{
		PositionKey(3), NextStreamKey(3), RecordKey(3, 0, []byte("z")), RecordKey(3, 1, nil),
		StreamKey(n1), ConsumerKey(n1, 1, []byte("b")), ConsumerKey(n1, 2, []byte("a")),
		GroupKey(n1, []byte("a")), PendingKey(n1, 1, 5), PendingKey(n1, 1, 300), PendingKey(n1, 2, 0),
		ProducerKey(n1, 4), TimeKey(n1, -1), TimeKey(n1, 0), TimeKey(n1, 1<<40), GhostKey(n1, 7),
		IDKey(n1, ID{1, math.MaxUint64}), IDKey(n1, ID{2, 0}),
		BlockKey(n1, 0), MarksKey(n1, 0), BlockKey(n1, 1), BlockKey(n1, 256), MarksKey(n1, 256),
		StreamKey(n1 + 1), PositionKey(4),
	}
	for i := 1; i < len(order); i++ {
		if bytes.Compare(order[i-1], order[i]) >= 0 {
			t.Errorf("%d: %x is not below %x", i, order[i-1], order[i])
		}
	}
}

func TestRangesHoldTheirRowsAndNoOthers(t *testing.T) {
	type bounds func() ([]byte, []byte)
	for name, c := range map[string]struct {
		span bounds
		in   func(Key) bool
	}{
		"shard":     {func() ([]byte, []byte) { return ShardRange(3) }, func(k Key) bool { return k.Shard == 3 }},
		"records":   {func() ([]byte, []byte) { return RecordsRange(3, 7) }, func(k Key) bool { return k.Kind == KindRecord }},
		"streams":   {func() ([]byte, []byte) { return StreamsRange(3) }, func(k Key) bool { return k.Stream != 0 }},
		"stream":    {func() ([]byte, []byte) { return StreamRange(n1) }, func(k Key) bool { return k.Stream == n1 }},
		"small":     {func() ([]byte, []byte) { return SmallRange(n1) }, func(k Key) bool { return k.Kind >= KindStream && k.Kind <= KindProducer }},
		"groups":    {func() ([]byte, []byte) { return GroupsRange(n1) }, func(k Key) bool { return k.Kind == KindGroup }},
		"consumers": {func() ([]byte, []byte) { return ConsumersRange(n1, 9) }, func(k Key) bool { return k.Kind == KindConsumer }},
		"pending":   {func() ([]byte, []byte) { return PendingRange(n1, 9) }, func(k Key) bool { return k.Kind == KindPending }},
		"none":      {func() ([]byte, []byte) { return PendingRange(n1, 8) }, func(k Key) bool { return false }},
		"producers": {func() ([]byte, []byte) { return ProducersRange(n1) }, func(k Key) bool { return k.Kind == KindProducer }},
		"times":     {func() ([]byte, []byte) { return TimeRange(n1) }, func(k Key) bool { return k.Kind == KindTime }},
		"ghosts":    {func() ([]byte, []byte) { return GhostRange(n1, 3, 4) }, func(k Key) bool { return k.Kind == KindGhost }},
		"no ghosts": {func() ([]byte, []byte) { return GhostRange(n1, 4, 9) }, func(k Key) bool { return false }},
		"ids":       {func() ([]byte, []byte) { return IDRange(n1) }, func(k Key) bool { return k.Kind == KindID }},
		"blocks":    {func() ([]byte, []byte) { return BlocksRange(n1, 0, 1) }, func(k Key) bool { return k.Kind == KindMarks }},
	} {
		lower, upper := c.span()
		for key, k := range everyKey() {
			in := key >= string(lower) && key < string(upper)
			if in != c.in(k) {
				t.Errorf("%s: %v inside: %v", name, k.Kind, in)
			}
		}
	}
	// The last of their kind have a range too.
	lower, upper := RecordsRange(3, 0xFF)
	if key := RecordKey(3, 0xFF, []byte{0xFF}); bytes.Compare(key, lower) < 0 || bytes.Compare(key, upper) >= 0 {
		t.Error("the last space")
	}
	lower, upper = PendingRange(n1, math.MaxUint32)
	if key := PendingKey(n1, math.MaxUint32, 5); bytes.Compare(key, lower) < 0 || bytes.Compare(key, upper) >= 0 {
		t.Error("the last group")
	}
}

// fill sets every number, flag and byte string of a row to something of its own.
func fill(v reflect.Value, rng *rand.Rand) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), rng)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+rng.IntN(4), 4))
		v.Set(v.Slice3(0, v.Len(), v.Len()))
		for i := range v.Len() {
			fill(v.Index(i), rng)
		}
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(rng.Uint64()) >> rng.IntN(64))
	default:
		v.SetUint(rng.Uint64() >> rng.IntN(64))
	}
}

func roundTrip[R any, P interface {
	*R
	Append([]byte) []byte
}](t *testing.T, parse func([]byte) (R, error)) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var row R
		fill(reflect.ValueOf(&row).Elem(), rng)
		if c, ok := any(&row).(*ConsumerRow); ok {
			c.Kind %= 4
		}
		value := P(&row).Append([]byte("before"))[6:]
		got, err := parse(value)
		if err != nil || !reflect.DeepEqual(got, row) {
			t.Fatalf("%+v\ncame back as %+v, %v", row, got, err)
		}
		for cut := range value {
			if _, err := parse(value[:cut]); err == nil {
				t.Fatalf("%T cut to %d of %d bytes was taken", row, cut, len(value))
			}
		}
		if _, err := parse(append(value, 0)); err == nil {
			t.Fatalf("%T with a byte more was taken", row)
		}
		value[0]++
		if _, err := parse(value); err == nil {
			t.Fatalf("%T of another version was taken", row)
		}
	}
}

func TestRowsComeBackAsTheyWere(t *testing.T) {
	roundTrip(t, ParseStreamRow)
	roundTrip(t, ParseGroupRow)
	roundTrip(t, ParseConsumerRow)
	roundTrip(t, ParsePendingRow)
	roundTrip(t, ParseProducerRow)
	roundTrip(t, ParseGhostRow)
	for _, v := range []int64{0, -1, math.MinInt64, math.MaxInt64} {
		if got, err := ParseOffset(AppendOffset(nil, v)); err != nil || got != v {
			t.Error(got, err)
		}
	}
	if p, err := ParsePos(AppendPos(nil, Pos{7, 8})); err != nil || p != (Pos{7, 8}) {
		t.Error(p, err)
	}
	if n, err := ParseNextStream(AppendNextStream(nil, 5)); err != nil || n != 5 {
		t.Error(n, err)
	}
}

func TestIDsStepAndCompare(t *testing.T) {
	max := ID{math.MaxUint64, math.MaxUint64}
	for _, c := range []struct {
		id, next ID
		ok       bool
	}{
		{ID{}, ID{0, 1}, true}, {ID{5, math.MaxUint64}, ID{6, 0}, true}, {max, max, false},
	} {
		next, ok := c.id.Next()
		if next != c.next || ok != c.ok {
			t.Errorf("%v next %v %v", c.id, next, ok)
		}
		if ok {
			if prev, ok := next.Prev(); prev != c.id || !ok || c.id.Compare(next) != -1 || next.Less(c.id) || next.Compare(c.id) != 1 {
				t.Errorf("%v and %v", c.id, next)
			}
		}
	}
	if _, ok := (ID{}).Prev(); ok {
		t.Error("below the smallest")
	}
	if s := max.String(); s != "18446744073709551615-18446744073709551615" {
		t.Error(s)
	}
}

func TestMarksGrowAndCount(t *testing.T) {
	var m Marks
	for _, i := range []int{0, 9, 9, 100} {
		m = m.Set(i)
	}
	if m.Count() != 3 || !m.Get(9) || m.Get(8) || m.Get(101) || m.Get(5000) || m.Get(-1) {
		t.Error(m)
	}
}

// randomBlock makes a native block and remembers what is in it.
func randomBlock(rng *rand.Rand) (b Block, ids []ID, fields [][][]byte) {
	b = Block{Kind: Entries, Base: rng.Int64N(1 << 50), MinTime: rng.Int64() >> rng.IntN(60)}
	b.MaxTime = b.MinTime + rng.Int64N(1000)
	id := ID{rng.Uint64() >> (1 + rng.IntN(60)), rng.Uint64() >> (1 + rng.IntN(60))}
	b.FirstID = id
	for i := range 1 + rng.IntN(30) {
		prev := id
		if i > 0 {
			if rng.IntN(2) == 0 {
				id.Seq += 1 + rng.Uint64N(3)*rng.Uint64N(1000)
			} else {
				id = ID{id.MS + 1 + rng.Uint64N(1<<rng.IntN(30)), rng.Uint64() >> rng.IntN(64)}
			}
		}
		var f [][]byte
		for range 2 * rng.IntN(5) {
			f = append(f, make([]byte, rng.IntN(1<<rng.IntN(10))))
		}
		b.Payload = AppendEntry(b.Payload, prev, i == 0, id, f)
		ids, fields = append(ids, id), append(fields, f)
	}
	b.LastID, b.Last = id, b.Base+int64(len(ids))-1
	return b, ids, fields
}

func TestANativeBlockHoldsItsEntries(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		b, ids, fields := randomBlock(rng)
		got, err := ParseBlock(b.Base, append(b.AppendHeader(nil), b.Payload...))
		if err != nil || !reflect.DeepEqual(got, b) {
			t.Fatalf("%+v\ncame back as %+v, %v", b, got, err)
		}
		var copied []byte // by AppendRawEntry
		it := got.Entries()
		for i := range ids {
			if !it.Next() || it.ID() != ids[i] || it.Offset() != b.Base+int64(i) || it.Pairs() != len(fields[i])/2 {
				t.Fatalf("entry %d: %v at %d, %v", i, it.ID(), it.Offset(), it.Err())
			}
			copied = AppendRawEntry(copied, ids[max(i-1, 0)], i == 0, ids[i], it.Pairs(), it.Raw())
			for j, f := range fields[i] {
				if g := it.Field(); !bytes.Equal(g, f) || g == nil {
					t.Fatalf("entry %d field %d", i, j)
				}
			}
			if it.Field() != nil {
				t.Fatal("a field too many")
			}
			if id, ok := got.IDAt(b.Base + int64(i)); !ok || id != ids[i] {
				t.Fatalf("IDAt %d: %v", i, id)
			}
		}
		if it.Next() || it.Err() != nil {
			t.Fatal("an entry too many", it.Err())
		}
		if !bytes.Equal(copied, b.Payload) {
			t.Fatal("a copy by raw entries differs")
		}
		checkFind(t, &got, ids)
	}
}

// checkFind looks for every ID, and those beside it.
func checkFind(t *testing.T, b *Block, ids []ID) {
	t.Helper()
	for _, id := range ids {
		prev, _ := id.Prev()
		next, _ := id.Next()
		for _, want := range []ID{id, prev, next} {
			i, exact := slices.BinarySearchFunc(ids, want, ID.Compare)
			if at, ok := b.Find(want); at != b.Base+int64(i) || ok != exact {
				t.Fatalf("Find %v: %d %v, want %d %v", want, at, ok, b.Base+int64(i), exact)
			}
		}
	}
	for _, off := range []int64{b.Base - 1, b.Last + 1} {
		if _, ok := b.IDAt(off); ok {
			t.Fatalf("IDAt %d outside", off)
		}
	}
}

func TestABatchedBlockComputesItsIDs(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		b := Block{Kind: Batched, Base: rng.Int64N(1 << 40), FirstID: ID{rng.Uint64() >> 8, rng.Uint64() >> 8},
			Stride: []uint32{1, 4096}[rng.IntN(2)], MinTime: -1, MaxTime: rng.Int64N(1 << 40), Payload: []byte{1}}
		count := 1 + rng.IntN(50)
		b.Last = b.Base + int64(count) - 1
		var ids []ID
		for i := range count {
			ids = append(ids, ID{b.FirstID.MS, b.FirstID.Seq + uint64(i)*uint64(b.Stride)})
		}
		b.LastID = ids[count-1]
		got, err := ParseBlock(b.Base, append(b.AppendHeader(nil), b.Payload...))
		if err != nil || !reflect.DeepEqual(got, b) {
			t.Fatalf("%+v\ncame back as %+v, %v", b, got, err)
		}
		checkFind(t, &got, ids)
		for i, id := range ids {
			if at, ok := got.IDAt(b.Base + int64(i)); !ok || at != id {
				t.Fatalf("IDAt %d: %v", i, at)
			}
		}
		if it := got.Entries(); it.Next() || it.Err() == nil {
			t.Fatal("a record batch walked as entries")
		}
	}
}

func TestTheHeaderOfABlockOfOneIsSmall(t *testing.T) {
	b := Block{Kind: Entries, Base: 1 << 40, Last: 1 << 40, FirstID: ID{1718600000000, 0}, MinTime: 1718600000000, MaxTime: 1718600000000}
	b.LastID = b.FirstID
	b.Payload = AppendEntry(nil, ID{}, true, b.FirstID, [][]byte{[]byte("f"), []byte("v")})
	if head := len(b.AppendHeader(nil)); head > 14 || len(b.Payload) > 8 {
		t.Errorf("%d bytes of header, %d of payload", head, len(b.Payload))
	}
}

func TestABlockThatLiesIsRefused(t *testing.T) {
	b := entriesBlock(3)
	value := append(b.AppendHeader(nil), b.Payload...)
	head := len(value) - len(b.Payload)
	for cut := range head {
		if _, err := ParseBlock(b.Base, value[:cut]); err == nil {
			t.Errorf("a header cut to %d bytes", cut)
		}
	}
	for name, spoil := range map[string]func() (int64, []byte){
		"a kind unknown":  func() (int64, []byte) { v := bytes.Clone(value); v[0] = 3; return b.Base, v },
		"no payload":      func() (int64, []byte) { return b.Base, value[:head] },
		"a negative base": func() (int64, []byte) { return -1, value },
		"beyond the last": func() (int64, []byte) { return math.MaxInt64 - 1, value },
		"a span of 2^40":  func() (int64, []byte) { return 0, putID(putU64([]byte{1}, 1<<40), ID{1, 1}) },
		"IDs that overflow": func() (int64, []byte) {
			return 0, append(putU64(putID([]byte{2, 200, 1}, ID{1, math.MaxUint64 - 5}), 4096), 0, 0, 1)
		},
		"a stride of nothing": func() (int64, []byte) { return 0, append(putU64(putID([]byte{2, 9}, ID{1, 0}), 0), 0, 0, 1) },
	} {
		base, v := spoil()
		if _, err := ParseBlock(base, v); err == nil {
			t.Error(name)
		}
	}
	for cut := head + 1; cut < len(value); cut++ {
		short, err := ParseBlock(b.Base, value[:cut])
		if err != nil {
			t.Fatal(err)
		}
		it := short.Entries()
		for it.Next() {
		}
		if it.Err() == nil {
			t.Errorf("a payload cut to %d bytes ended plainly", cut-head)
		}
	}
}

// A batch means the same in every store's own form.
func TestABatchEncodesAlikeFromEveryStore(t *testing.T) {
	var first []byte
	eachStore(t, func(t *testing.T, s Store) {
		w := lead(t, s, 1)
		b := w.Begin()
		b.Set(rec(1, "a"), []byte("1"))
		b.SetTwo(rec(1, "b"), []byte("2"), []byte("3"))
		b.Delete(rec(1, "c"))
		b.DeleteRange(rec(1, "d"), rec(1, "e"))
		data, err := EncodeBatch(nil, Pos{1, 1}, b)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if !bytes.Equal(first, data) {
			t.Errorf("%x\n%x", first, data)
		}
		b.Discard()
		if pos, err := ApplyBatch(ctx, w, data); err != nil || pos.Seq != 1 {
			t.Fatal(pos, err)
		}
		if _, err := ApplyBatch(ctx, w, data); err == nil {
			t.Error("applied twice")
		}
		if got := records(t, s, 1); got != "a=1 b=23" {
			t.Error(got)
		}
		for i := range data {
			bent := bytes.Clone(data)
			bent[i] ^= 1
			if _, err := DecodeBatch(bent); err == nil {
				t.Errorf("a bit flipped in byte %d was taken", i)
			}
		}
	})
}

func ExampleID_String() {
	fmt.Println(ID{1718600000123, 4})
	// Output: 1718600000123-4
}
