package kafkaproto

import "encoding/binary"

// Builders of the few replies that are written by hand.

func be16(b []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(b, v) }
func be32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }
func be64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }
func put32(b []byte, v uint32)       { binary.BigEndian.PutUint32(b, v) }
