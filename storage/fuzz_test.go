package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Whatever the bytes: no panic, no memory by a claimed length, and what parses
// builds the same bytes again where the form is the only one.

func FuzzParseKey(f *testing.F) {
	for key := range everyKey() {
		f.Add([]byte(key))
	}
	f.Add([]byte{0, 1, 'S', 0, 1, 0, 0, 0, 0, 0, 5, 'z', 128, 0, 0, 0, 0, 0, 0, 9, 2})
	f.Fuzz(func(t *testing.T, key []byte) {
		k, err := ParseKey(key)
		if err == nil && !bytes.Equal(key, rebuild(k)) {
			t.Fatalf("%x parsed to %+v, which builds %x", key, k, rebuild(k))
		}
	})
}

// rebuild is the key of a parsed key.
func rebuild(k Key) []byte {
	n := k.Stream
	switch k.Kind {
	case KindPosition:
		return PositionKey(k.Shard)
	case KindNextStream:
		return NextStreamKey(k.Shard)
	case KindRecord:
		return RecordKey(k.Shard, k.Space, k.Name)
	case KindStream:
		return StreamKey(n)
	case KindConsumer:
		return ConsumerKey(n, k.Group, k.Name)
	case KindGroup:
		return GroupKey(n, k.Name)
	case KindPending:
		return PendingKey(n, k.Group, k.Offset)
	case KindProducer:
		return ProducerKey(n, k.Producer)
	case KindTime:
		return TimeKey(n, k.Time)
	case KindGhost:
		return GhostKey(n, k.Offset)
	case KindID:
		return IDKey(n, k.ID)
	case KindBlock:
		return BlockKey(n, k.Offset)
	case KindMarks:
		return MarksKey(n, k.Offset)
	case KindFloor:
		return FloorKey()
	}
	return StoreKey()
}

// fuzzRow feeds one parser; what it takes must come back the same.
func fuzzRow[R any, P interface {
	*R
	Append([]byte) []byte
}](f *testing.F, parse func([]byte) (R, error), seeds ...R) {
	for _, s := range seeds {
		f.Add(P(&s).Append(nil))
	}
	f.Add([]byte{1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1})
	f.Fuzz(func(t *testing.T, value []byte) {
		row, err := parse(value)
		if err != nil {
			return
		}
		// A varint may be longer than it needs, so the bytes may differ; the row may not.
		once := P(&row).Append(nil)
		again, err := parse(once)
		if err != nil || !bytes.Equal(once, P(&again).Append(nil)) {
			t.Fatalf("%x does not settle: %v", value, err)
		}
	})
}

func FuzzParseStreamRow(f *testing.F) {
	fuzzRow(f, ParseStreamRow, StreamRow{}, StreamRow{Key: []byte("orders"), Next: 9, LastID: ID{5, 6}, MaxTime: -1, Modulus: 4096})
}

func FuzzParseGroupRow(f *testing.F) {
	fuzzRow(f, ParseGroupRow, GroupRow{}, GroupRow{Number: 1, LastOffset: -1, Committed: true, CommitMetadata: []byte("m")})
}

func FuzzParseConsumerRow(f *testing.F) {
	fuzzRow(f, ParseConsumerRow, ConsumerRow{}, ConsumerRow{Number: 3, Kind: ShareMember, Seen: 1 << 40, Active: -1})
}

func FuzzParsePendingRow(f *testing.F) {
	fuzzRow(f, ParsePendingRow, PendingRow{}, PendingRow{Last: 1 << 40, Owner: 2, Count: 1 << 63, Claimed: true})
}

func FuzzParseProducerRow(f *testing.F) {
	fuzzRow(f, ParseProducerRow, ProducerRow{}, ProducerRow{Epoch: -1, Batches: make([]ProducerBatch, 5)})
}

func FuzzParseGhostRow(f *testing.F) {
	fuzzRow(f, ParseGhostRow, GhostRow{}, GhostRow{Last: 9, Runs: []IDRun{{5, ID{1, 2}, 4096, 5}}})
}

func FuzzParseBlock(f *testing.F) {
	for _, n := range []int{1, 2, 40} {
		b := entriesBlock(n)
		f.Add(b.Base, append(b.AppendHeader(nil), b.Payload...))
	}
	batch := Block{Kind: Batched, Base: 7, Last: 9, FirstID: ID{1, 2}, LastID: ID{1, 2 + 2*4096}, Stride: 4096, MinTime: -1, Payload: []byte("batch")}
	f.Add(batch.Base, append(batch.AppendHeader(nil), batch.Payload...))
	f.Fuzz(func(t *testing.T, base int64, value []byte) {
		b, err := ParseBlock(base, value)
		if err != nil {
			return
		}
		if b.Base > b.Last || b.LastID.Less(b.FirstID) || b.MaxTime < b.MinTime || len(b.Payload) == 0 {
			t.Fatalf("taken: %+v", b)
		}
		again, err := ParseBlock(base, append(b.AppendHeader(nil), b.Payload...))
		if err != nil || !bytes.Equal(again.AppendHeader(nil), b.AppendHeader(nil)) {
			t.Fatalf("%+v does not settle: %v", b, err)
		}
		walkAny(t, &b)
	})
}

// walkAny walks a block of unknown health; as far as it is healthy, IDs must grow
// and be found.
func walkAny(t *testing.T, b *Block) {
	prev, at := ID{}, b.Base-1
	it := b.Entries()
	for it.Next() {
		if it.Offset() != at+1 || at >= b.Base && !prev.Less(it.ID()) || at < b.Base && it.ID() != b.FirstID {
			t.Fatalf("at offset %d: %v after %v", it.Offset(), it.ID(), prev)
		}
		prev, at = it.ID(), it.Offset()
		fields := 0
		for it.Field() != nil {
			fields++
		}
		if it.Err() == nil && fields != 2*it.Pairs() {
			t.Fatalf("%d fields of %d pairs", fields, it.Pairs())
		}
	}
	if at > b.Last || it.Err() == nil && at != b.Last {
		t.Fatalf("walked to %d of %d", at, b.Last)
	}
	b.IDAt(b.Base + (b.Last-b.Base)/2)
	if off, _ := b.Find(prev); off < b.Base || off > b.Last+1 {
		t.Fatalf("Find %v: %d", prev, off)
	}
}

func FuzzDecodeBatch(f *testing.F) {
	l := &opLog{shard: 2}
	f.Add(bytes.Clone(mustEncode(f, l)))
	l.Set(rec(2, "key"), []byte("value"))
	l.Delete(rec(2, "key"))
	l.DeleteRange(rec(2, "a"), rec(2, "b"))
	f.Add(mustEncode(f, l))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The checksum would keep the fuzzer out: give it the right one.
		if len(data) >= 4 {
			data = appendChecksum(bytes.Clone(data[:len(data)-4]), 0)
		}
		d, err := DecodeBatch(data)
		if err != nil {
			return
		}
		l := &opLog{shard: d.Shard}
		if err := d.AddTo(l); err != nil || l.check() != nil {
			t.Fatal(err, l.check())
		}
		if again := mustEncodeAt(t, l, d.Pos); !bytes.Equal(again[:batchHeaderLen], data[:batchHeaderLen]) {
			t.Fatalf("%x\n%x", again, data)
		}
	})
}

func mustEncode(t testing.TB, b Batch) []byte { return mustEncodeAt(t, b, Pos{1, 1}) }

func mustEncodeAt(t testing.TB, b Batch, p Pos) []byte {
	data, err := EncodeBatch(nil, p, b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func FuzzImport(f *testing.F) {
	s := NewMem(2)
	w := lead(f, s, 1)
	var out bytes.Buffer
	shardOf(f, s, 1).Export(ctx, &out)
	f.Add(bytes.Clone(out.Bytes()))
	put(f, w, 1, "a", "1", "b", "2")
	out.Reset()
	shardOf(f, s, 1).Export(ctx, &out)
	f.Add(bytes.Clone(out.Bytes()))
	f.Fuzz(func(t *testing.T, data []byte) {
		to := NewMem(2)
		sh := shardOf(t, to, 1)
		pos, err := sh.Import(ctx, bytes.NewReader(data))
		if err != nil {
			if got := records(t, to, 1); got != "" {
				t.Fatalf("a failed import left %s", got)
			}
			return
		}
		var again bytes.Buffer
		if p, err := sh.Export(ctx, &again); err != nil || p.Seq != 0 && p != pos {
			t.Fatal(p, pos, err)
		}
	})
}

func FuzzParseMark(f *testing.F) {
	m := &durableMark{file: discardFile{}}
	m.write(promise{segment: 7, offset: 4096, seqs: []uint64{1, 0, 1 << 40}})
	f.Add(bytes.Clone(m.buf))
	f.Add([]byte{1, 0xFF, 0xFF})
	f.Add([]byte{markVersion, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, data []byte) {
		for range 2 { // as it is, and with the checksum that it should have
			p := parseMark(data)
			if p.seqs == nil && (p.segment != 0 || p.offset != 0) {
				t.Fatalf("half a promise: %+v", p)
			}
			if p.seqs != nil {
				m := &durableMark{file: discardFile{}}
				if m.write(p); !bytes.HasPrefix(data, m.buf) {
					t.Fatalf("%x settles as %x", data, m.buf)
				}
			}
			if len(data) < markHead+4 {
				return
			}
			end := min(len(data)-4, markHead+8*int(binary.BigEndian.Uint16(data[1:])))
			data = appendChecksum(bytes.Clone(data[:end]), 0)
		}
	})
}

// discardFile is a mark's file that nobody reads.
type discardFile struct{ vfs.File }

func (discardFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

func FuzzParseReference(f *testing.F) {
	f.Add(reference{segment: 1, offset: 16, length: 1024, sum: 0xDEADBEEF}.append(nil))
	f.Add(make([]byte, referenceLen))
	f.Add([]byte{referenceKind})
	f.Fuzz(func(t *testing.T, data []byte) {
		ref, ok := parseReference(data)
		if ok && !bytes.Equal(ref.append(nil), data) {
			t.Fatalf("%x is %+v", data, ref)
		}
		// What could be taken for one never stands for itself under a block's key.
		if len(data) > 0 && ok && !goesToBulk(len(data), data[0]) {
			t.Fatalf("%x would stand in Pebble", data)
		}
	})
}

func FuzzSegmentName(f *testing.F) {
	for _, name := range []string{segmentName(1, false), segmentName(1<<32-2, true), "weir-1.seg", "weir-4294967295.seg",
		"weir-0000000000.seg", "weir-0000000001.home.seg", "weir-import-1-0.sst", markName} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		number, home, ok := parseSegmentName(name)
		if ok && (segmentName(number, home) != name || number == 0 || number+1 == 0) {
			t.Fatalf("%q is %d, %v", name, number, home)
		}
	})
}

// logOf is a segment with records of several kinds.
func logOf(t testing.TB) []byte {
	fs := vfs.NewMem()
	s := openMemPebble(t, fs).(*pebbleStore)
	defer s.Close(ctx)
	w := lead(t, s, 1)
	put(t, w, 1, "a", "1")
	b := w.Begin()
	b.Set(BlockKey(testStream, 1), append([]byte{referenceKind}, make([]byte, referenceLen-1)...))
	b.Set(BlockKey(testStream, 2), make([]byte, bulkBytes))
	b.DeleteRange(StreamRange(testStream + 1))
	o := lead(t, s, 2).Begin()
	o.Set(rec(2, "b"), []byte("2"))
	if _, err := s.CommitTogether(ctx, []Batch{b, o}); err != nil {
		t.Fatal(err)
	}
	return readFile(t, fs, "data/"+segmentName(1, false))
}

// Whatever a segment holds: reading it ends, takes no more memory than its bytes, and takes no record for whole whose
// checksum is not right.
func FuzzReadSegment(f *testing.F) {
	log := logOf(f)
	f.Add(log, true)
	f.Add(log[:len(log)-3], false)
	f.Add(log[:segmentHeaderLen], false)
	f.Add(append(bytes.Clone(log[:segmentHeaderLen]), 1, 2, 3, 4, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF), true)
	f.Add([]byte("weirseg"), true)
	// Rows that end behind the kind of the first one.
	short := append(segmentHeader(1), 0, 0, 0, 0, 0, 0, 0, pebbleBatchHeader+1, 0, 0, 0, 1, 0, 1)
	short = append(short, make([]byte, placeLen+8)...)
	f.Add(append(short, 1, 0, 0, 0, byte(pebble.InternalKeyKindSet), 'v'), true)
	f.Fuzz(func(t *testing.T, data []byte, mend bool) {
		if data = bytes.Clone(data); mend {
			mendSegment(data)
		}
		fs := vfs.NewMem()
		fs.MkdirAll("data", 0o755)
		writeFile(t, fs, "data/"+segmentName(1, false), data)
		g, err := openSegment(fs, "data", 1, false)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
			return
		}
		defer g.file.Close()
		for _, trusted := range []int64{0, math.MaxInt64} {
			r := newRecordReader(g, trusted)
			for {
				at := r.off
				rec, err := r.next()
				if cap(r.buf) > len(data) || len(rec.rows) > len(data) {
					t.Fatalf("a buffer of %d bytes for %d", cap(r.buf), len(data))
				}
				if err != nil {
					if r.off != at || err != io.EOF && !errors.Is(err, errTorn) && !errors.Is(err, ErrCorrupt) {
						t.Fatalf("at %d of %d, then %d: %v", at, len(data), r.off, err)
					}
					break
				}
				if r.off <= at || r.off > int64(len(data)) || len(rec.places) == 0 {
					t.Fatalf("a record from %d to %d of %d", at, r.off, len(data))
				}
			}
		}
	})
}

// mendSegment gives header and records the checksums that they should have, which would keep the fuzzer out.
func mendSegment(data []byte) {
	if len(data) < segmentHeaderLen {
		return
	}
	copy(data, segmentHeader(1))
	for off := segmentHeaderLen; len(data)-off >= recordHeaderLen; {
		h := data[off:]
		front := recordHeaderLen + int(binary.BigEndian.Uint16(h[12:]))*placeLen + int(binary.BigEndian.Uint32(h[4:]))
		if front > len(h) {
			return
		}
		binary.LittleEndian.PutUint32(h, crc32.Checksum(h[4:front], castagnoli))
		off += front + int(binary.BigEndian.Uint32(h[8:]))
	}
}
