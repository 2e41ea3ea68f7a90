package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/bridge"
)

// sample is one record of every kind that is easily confused.
func sample() []bridge.Record {
	return []bridge.Record{
		{Offset: 0, Timestamp: 1000, Key: []byte("k"), Value: []byte("v")},
		{Offset: 1, Timestamp: 1001, Key: nil, Value: nil},
		{Offset: 2, Timestamp: 999, Key: []byte{}, Value: []byte{}},
		{Offset: 3, Timestamp: 5000, Key: []byte("k"), Headers: []bridge.Header{{Name: "h", Value: nil}, {Name: "h", Value: []byte{}}, {Name: "", Value: []byte("x")}}},
		{Offset: 4, Timestamp: 1000, Value: []byte(strings.Repeat("long ", 3000))},
	}
}

func encoded(t testing.TB, records []bridge.Record) []byte {
	t.Helper()
	data, err := Codec{}.Encode(nil, 0, records[len(records)-1].Offset, 0, records)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// compressed compresses a plain batch with franz-go's compressor: somebody else's bytes.
func compressed(t testing.TB, data []byte, codec uint8) []byte {
	t.Helper()
	if codec == None {
		return bytes.Clone(data)
	}
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	c, err := kgo.DefaultCompressor(codecs[codec])
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	body, used := c.Compress(&buf, data[headerLen:])
	if uint8(used) != codec {
		t.Fatalf("compressor chose %d", used)
	}
	out := append(bytes.Clone(data[:headerLen]), body...)
	out[atAttrs+1] |= codec
	sealCRC(out)
	return out
}

// tell writes records down.
func tell(t testing.TB, data []byte) string {
	t.Helper()
	var b strings.Builder
	text := func(p []byte) string {
		if p == nil {
			return "null"
		}
		return fmt.Sprintf("%.20q", p)
	}
	err := Codec{}.Decode(data, 0, func(i int, r *bridge.Record) bool {
		fmt.Fprintf(&b, "%d at %d: %s %s", r.Offset, r.Timestamp, text(r.Key), text(r.Value))
		for _, h := range r.Headers {
			fmt.Fprintf(&b, " %q=%s", h.Name, text(h.Value))
		}
		b.WriteString("\n")
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const sampleTold = `0 at 1000: "k" "v"
1 at 1001: null null
2 at 999: "" ""
3 at 5000: "k" null "h"=null "h"="" ""="x"
4 at 1000: null "long long long long "
`

// Case C43: what goes in comes out, in all codecs, null apart from empty.
func TestEveryCodecKeepsEveryRecord(t *testing.T) {
	plain := encoded(t, sample())
	for codec := uint8(None); codec <= Zstd; codec++ {
		data := compressed(t, plain, codec)
		before := bytes.Clone(data)
		got, err := Check(data, Rules{})
		if err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		if !bytes.Equal(before, data) {
			t.Errorf("codec %d: checking changed a sound batch", codec)
		}
		if got.Count != 5 || got.MinTime != 999 || got.MaxTime != 5000 || got.Codec != codec {
			t.Errorf("codec %d: %+v", codec, got)
		}
		if told := tell(t, data); told != sampleTold {
			t.Errorf("codec %d:\n%s", codec, told)
		}
	}
}

func TestSnappyIsReadInBothForms(t *testing.T) {
	plain := encoded(t, sample())
	body, err := deflate(Snappy, nil, plain[headerLen:]) // xerial's chunks; franz-go writes raw blocks or chunks
	if err != nil || !bytes.HasPrefix(body, xerialMagic) {
		t.Fatal(err)
	}
	data := append(bytes.Clone(plain[:headerLen]), body...)
	data[atAttrs+1] |= Snappy
	sealCRC(data)
	if _, err := Check(data, Rules{}); err != nil {
		t.Fatal(err)
	}
	if told := tell(t, data); told != sampleTold {
		t.Error(told)
	}
}

func TestARewrittenBatchKeepsOffsetsAndProducer(t *testing.T) {
	for codec := uint8(None); codec <= Zstd; codec++ {
		data := compressed(t, encoded(t, sample()), codec)
		binary.BigEndian.PutUint64(data, 100) // as stored at offset 100
		binary.BigEndian.PutUint64(data[atProducer:], 77)
		sealCRC(data)
		out, err := Codec{}.Rewrite(data, func(o int64) bool { return o == 101 || o == 103 })
		if err != nil {
			t.Fatal(err)
		}
		h, err := Parse(out)
		if err != nil || h.ProducerID != 77 || h.LastDelta != 4 || h.Count != 2 || h.Codec != codec {
			t.Fatalf("codec %d: %+v %v", codec, h, err)
		}
		if told := tell(t, out); told != "101 at 1001: null null\n103 at 5000: \"k\" null \"h\"=null \"h\"=\"\" \"\"=\"x\"\n" {
			t.Errorf("codec %d:\n%s", codec, told)
		}
		none, err := Codec{}.Rewrite(data, func(int64) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		if h, err := Parse(none); err != nil || h.Count != 0 || h.LastDelta != 4 || len(none) != headerLen {
			t.Errorf("codec %d: a batch of nothing is %+v, %v", codec, h, err)
		}
	}
}

func TestDamageIsNamed(t *testing.T) {
	change := func(fn func(b []byte)) []byte {
		b := encoded(t, sample())
		fn(b)
		sealCRC(b)
		return b
	}
	put32 := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	crc := encoded(t, sample())
	crc[len(crc)-1]++
	long := encoded(t, sample())
	binary.BigEndian.PutUint32(long[atLength:], uint32(len(long)))
	old := encoded(t, sample())
	old[atMagic] = 1
	for _, c := range []struct {
		name string
		data []byte
		want error
	}{
		{"a byte flipped", crc, ErrCorrupt},
		{"a length that lies", long, ErrCorrupt},
		{"nothing", nil, ErrCorrupt},
		{"only a header's beginning", crc[:40], ErrCorrupt},
		{"format 1", old, ErrInvalid},
		{"more records claimed", change(put32(atCount, 6)), ErrInvalid},
		{"many more records claimed", change(func(b []byte) { put32(atCount, 1<<31-1)(b); put32(atLastDelta, 1<<31-2)(b) }), ErrInvalid},
		{"fewer records claimed", change(func(b []byte) { put32(atCount, 4)(b); put32(atLastDelta, 3)(b) }), ErrInvalid},
		{"no records", change(func(b []byte) { put32(atCount, 0)(b); put32(atLastDelta, 1<<32-1)(b) }), ErrInvalid},
		{"a base offset", change(func(b []byte) { b[7] = 9 }), ErrInvalid},
		{"a control batch", change(func(b []byte) { b[atAttrs+1] |= bitControl }), ErrInvalid},
		{"codec 5", change(func(b []byte) { b[atAttrs+1] |= 5 }), ErrCodec},
		{"gzip that is none", change(func(b []byte) { b[atAttrs+1] |= Gzip }), ErrCorrupt},
		{"lz4 that is none", change(func(b []byte) { b[atAttrs+1] |= LZ4 }), ErrCorrupt},
		{"zstd that is none", change(func(b []byte) { b[atAttrs+1] |= Zstd }), ErrCorrupt},
		{"a producer without a sequence", change(func(b []byte) { binary.BigEndian.PutUint64(b[atProducer:], 5) }), ErrInvalid},
		{"records out of order", change(func(b []byte) { b[headerLen+3] = 2 }), ErrInvalid},
		{"a record's length that lies", change(func(b []byte) { b[headerLen] = 0x7e }), ErrInvalid},
	} {
		if _, err := Check(bytes.Clone(c.data), Rules{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestACompressionBombIsRefused(t *testing.T) {
	zeros := make([]byte, 140<<20)
	for codec := uint8(Gzip); codec <= Zstd; codec++ {
		if codec == Snappy { // bounded by its form: 21 times its bytes
			continue
		}
		body, err := deflate(codec, nil, zeros)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := inflateTo(codec, nil, body); !errors.Is(err, ErrCorrupt) {
			t.Errorf("codec %d: %d bytes became 140 MB: %v", codec, len(body), err)
		}
	}
	claim := []byte{0xff, 0xff, 0xff, 0x7f, 0} // a snappy block that claims 256 MiB
	if _, err := inflateTo(Snappy, nil, claim); !errors.Is(err, ErrCorrupt) {
		t.Error("snappy:", err)
	}
}

func TestRulesNameTheRecords(t *testing.T) {
	var bad *BadRecords
	_, err := Check(encoded(t, sample()), Rules{KeysRequired: true})
	if !errors.As(err, &bad) || fmt.Sprint(bad.Indexes) != "[1 4]" || !errors.Is(err, ErrInvalid) {
		t.Errorf("keys: %v", err)
	}
	_, err = Check(encoded(t, sample()), Rules{MinTime: 1000, MaxTime: 2000})
	if !errors.As(err, &bad) || fmt.Sprint(bad.Indexes) != "[2 3]" || !errors.Is(err, ErrTimestamp) {
		t.Errorf("times: %v", err)
	}
}

func TestAWrongMaxTimestampIsSetRight(t *testing.T) {
	data := encoded(t, sample())
	binary.BigEndian.PutUint64(data[atMaxTime:], 1)
	sealCRC(data)
	if _, err := Check(data, Rules{}); err != nil {
		t.Fatal(err)
	}
	if h, err := Parse(data); err != nil || h.MaxTime != 5000 {
		t.Errorf("%+v %v", h, err)
	}
	if _, err := Check(data, Rules{}); err != nil {
		t.Error("after it was set right:", err)
	}
}

func TestAppendTimeIsEveryRecordsTime(t *testing.T) {
	data := encoded(t, sample()[:2])
	StampAppendTime(data, 123456)
	if _, err := Check(bytes.Clone(data), Rules{}); err == nil {
		// Check reads the producers' times; the stamped max is not theirs and is set right there, never here.
		if told := tell(t, data); told != "0 at 123456: \"k\" \"v\"\n1 at 123456: null null\n" {
			t.Error(told)
		}
	} else {
		t.Error(err)
	}
}

func FuzzCheck(f *testing.F) {
	plain := encoded(f, sample())
	for codec := uint8(None); codec <= Zstd; codec++ {
		f.Add(compressed(f, plain, codec))
	}
	f.Add(plain[:headerLen])
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > atCRC+4 {
			// Otherwise nothing but the CRC check would be fuzzed.
			data = bytes.Clone(data)
			sealCRC(data)
		}
		got, err := Check(data, Rules{KeysRequired: len(data)%2 == 0})
		if err != nil {
			return
		}
		n := int32(0)
		if err := (Codec{}).Decode(data, 0, func(i int, r *bridge.Record) bool { n++; return true }); err != nil || n != got.Count {
			t.Fatalf("accepted, but decoded to %d of %d: %v", n, got.Count, err)
		}
		out, err := Codec{}.Rewrite(data, func(o int64) bool { return o%2 == 0 })
		if err != nil {
			t.Fatal(err)
		}
		if err := (Codec{}).Decode(out, 0, func(int, *bridge.Record) bool { return true }); err != nil {
			t.Fatal("rewritten:", err)
		}
	})
}
