package kafkawire

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestABatchIsReadBackByAnotherDecoder(t *testing.T) {
	set := Batch([][]byte{[]byte("one"), []byte("two")}, time.UnixMilli(1700000000000), Producer{7, 2, 40})
	var b kmsg.RecordBatch
	if err := b.ReadFrom(set); err != nil {
		t.Fatal(err)
	}
	if b.NumRecords != 2 || b.ProducerID != 7 || b.ProducerEpoch != 2 || b.FirstSequence != 40 ||
		b.LastOffsetDelta != 1 || b.MaxTimestamp != 1700000000000 || int(b.Length) != len(set)-12 {
		t.Errorf("kmsg reads %+v", b)
	}
	var r kmsg.Record
	if err := r.ReadFrom(b.Records); err != nil || string(r.Value) != "one" || r.Key != nil {
		t.Errorf("kmsg reads the first record as %+v, %v", r, err)
	}
}

func TestRecordsReadsWhatBatchWrote(t *testing.T) {
	set := append(Batch([][]byte{[]byte("a"), nil}, time.Now(), NoProducer), Batch([][]byte{[]byte("c")}, time.Now(), Producer{1, 0, 5})...)
	recs, err := Records(append(set, set[:70]...)) // cut short at the end, as Fetch does
	if err != nil || len(recs) != 3 {
		t.Fatal(recs, err)
	}
	if recs[0].Sequence != -1 || recs[1].Offset != 1 || recs[2].Sequence != 5 || string(recs[2].Value) != "c" {
		t.Errorf("%+v", recs)
	}
	set[len(set)-1] ^= 1
	if _, err := Records(set); err == nil {
		t.Error("a broken checksum goes unnoticed")
	}
}
