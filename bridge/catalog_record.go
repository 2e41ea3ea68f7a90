package bridge

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"weir/engine"
)

// A topic's record. Version 1:
//
//	1 id:16 partitions stream* configs (len name len value)*      (varints but for id)
//
// with configs in order of the name. The topic's own name is the record's.

const topicRecordVersion = 1

var errRecord = errors.New("bridge: a record is damaged")

func appendTopicRecord(dst []byte, t *Topic) []byte {
	dst = append(dst, topicRecordVersion)
	dst = append(dst, t.ID[:]...)
	dst = binary.AppendUvarint(dst, uint64(len(t.Streams)))
	for _, no := range t.Streams {
		dst = binary.AppendUvarint(dst, uint64(no))
	}
	return appendConfigs(dst, t.Configs)
}

// appendConfigs writes name-value pairs in order of the name.
func appendConfigs(dst []byte, configs map[string]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(configs)))
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		dst = appendText(appendText(dst, name), configs[name])
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// readConfigs reads what appendConfigs wrote.
func readConfigs(r *recordReader) map[string]string {
	n := r.count()
	m := make(map[string]string, min(n, len(r.b)/2)) // two length bytes each at least
	for ; n > 0 && !r.bad; n-- {
		name := r.string()
		m[name] = r.string()
	}
	return m
}

// topicRecord is a topic's record, parsed.
type topicRecord struct {
	id      [16]byte
	streams []engine.StreamNo
	configs map[string]string
}

func parseTopicRecord(value []byte) (topicRecord, error) {
	var rec topicRecord
	if len(value) < 17 || value[0] != topicRecordVersion {
		return rec, errRecord
	}
	copy(rec.id[:], value[1:17])
	r := recordReader{b: value[17:]}
	n := r.count()
	if n < 1 || n > mostPartitions {
		return rec, errRecord
	}
	rec.streams = make([]engine.StreamNo, 0, n)
	for ; n > 0; n-- {
		rec.streams = append(rec.streams, engine.StreamNo(r.number(1<<64-1)))
	}
	rec.configs = readConfigs(&r)
	if r.bad || len(r.b) != 0 {
		return rec, errRecord
	}
	return rec, nil
}
