package bridge

import "encoding/binary"

// The embedded protocol "consumer" (KIP-54's ConsumerProtocolSubscription and ConsumerProtocolAssignment, all versions):
//
//	subscription = version:int16 topics:[string] userdata:bytes ...
//	assignment   = version:int16 topics:[topic:string partitions:[int32]] userdata:bytes ...
//
// Later versions append fields, so the heads are read whatever the version. The
// bytes come from clients: what does not parse means nothing, and no length is believed.
const consumerProtocol = "consumer"

// assignedPartitions are the partitions of an assignment, as far as it can be read.
func assignedPartitions(b []byte) []TopicPartition {
	r := protocolReader{b: b}
	if r.int16(); r.short {
		return nil
	}
	var out []TopicPartition
	for range r.count(6) { // a topic takes at least a string's and an array's length
		topic := r.string()
		for range r.count(4) {
			p := r.int32()
			if r.short || p < 0 {
				return out
			}
			out = append(out, TopicPartition{topic, p})
		}
	}
	return out
}

// subscribedTopics are the topics of a subscription, as far as it can be read.
func subscribedTopics(b []byte) []string {
	r := protocolReader{b: b}
	r.int16()
	var out []string
	for range r.count(2) {
		topic := r.string()
		if r.short {
			return out
		}
		out = append(out, topic)
	}
	return out
}

// protocolReader reads big-endian fields; once it came up short it yields zeros.
type protocolReader struct {
	b     []byte
	short bool
}

func (r *protocolReader) next(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.short = nil, true
		return nil
	}
	head := r.b[:n]
	r.b = r.b[n:]
	return head
}

func (r *protocolReader) int16() int16 {
	if b := r.next(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *protocolReader) int32() int32 {
	if b := r.next(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *protocolReader) string() string { return string(r.next(int(r.int16()))) }

// count is an array's length, if that many elements of least bytes can be there.
func (r *protocolReader) count(least int) int {
	n := int(r.int32())
	if n < 0 || n > len(r.b)/least {
		r.short = r.short || n > 0
		return 0
	}
	return n
}
