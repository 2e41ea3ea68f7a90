package bridge

// Header is one record header; a nil Value is null.
type Header struct {
	Name  string
	Value []byte
}

// Record is one Kafka record. nil Key or Value is null, which is not the same as empty.
type Record struct {
	Offset    int64
	Timestamp int64 // ms
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Codec reads and writes Kafka record batches v2. kafkaproto/batch implements it. Safe for concurrent use.
type Codec interface {
	// Decode calls fn for each record of a batch in order, i counting from 0, but for the first `from` of them, which it steps over
	// cheaply; fn returns false to stop. The record's slices alias a
	// buffer that lives on (the batch, or what it decompressed to) and may be kept; the Record itself is reused.
	Decode(batch []byte, from int, fn func(i int, r *Record) bool) error
	// Encode writes one uncompressed batch that keeps the records' offsets (gaps allowed). last is the batch's last offset,
	// at or beyond the last record's. time: CreateTime.
	Encode(dst []byte, base, last int64, leaderEpoch int32, records []Record) ([]byte, error)
	// Rewrite returns the batch without the records that keep refuses: offsets, last offset delta, producer fields,
	// codec and timestamps kept; CRC redone. A batch of which nothing is kept becomes one with no records.
	Rewrite(batch []byte, keep func(offset int64) bool) ([]byte, error)
}
