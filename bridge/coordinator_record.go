package bridge

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The record of a classic group, in space groupRecords under the group's name (drawn in storage/FORMAT.md):
//
//	record = 1 generation protocolType protocol leader count member*
//	member = id instance clientID host session rebalance count (name metadata)* assignment
//
// Numbers are uvarints (generation and timeouts are not negative), strings and bytes have a uvarint
// length before them, members stand in the order in which they joined. A record with members
// is a Stable group, one without is Empty.
const groupRecordVersion = 1

// ErrGroupRecord is a record that does not parse.
var ErrGroupRecord = errors.New("bridge: malformed group record")

// appendRecord writes the group as it is to be found after a restart.
func (c *coordinator) appendRecord(b []byte) []byte {
	b = append(b, groupRecordVersion)
	b = binary.AppendUvarint(b, uint64(c.generation))
	b = appendBytes(b, c.protocolType)
	b = appendBytes(b, c.protocol)
	b = appendBytes(b, c.leader)
	b = binary.AppendUvarint(b, uint64(len(c.order)))
	for _, m := range c.order {
		b = appendBytes(b, m.id)
		b = appendBytes(b, m.instance)
		b = appendBytes(b, m.clientID)
		b = appendBytes(b, m.host)
		b = binary.AppendUvarint(b, uint64(m.session))
		b = binary.AppendUvarint(b, uint64(m.rebalance))
		b = binary.AppendUvarint(b, uint64(len(m.protocols)))
		for _, p := range m.protocols {
			b = appendBytes(b, p.Name)
			b = appendBytes(b, p.Metadata)
		}
		b = appendBytes(b, m.assignment)
	}
	return b
}

func appendBytes[T string | []byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// replay puts a new coordinator into the state of a record. The sessions of its members start anew at now.
func (c *coordinator) replay(now int64, record []byte) error {
	r := recordReader{b: record}
	if v := r.byte(); v != groupRecordVersion {
		return fmt.Errorf("%w: version %d", ErrGroupRecord, v)
	}
	c.generation = int32(r.number(1<<31 - 1))
	protocolType := r.string()
	c.protocol = r.string()
	leader := r.string()
	for range r.count() {
		m := &member{id: r.string(), instance: r.string(), clientID: r.string(), host: r.string(), synced: true}
		m.session = int64(r.number(1<<31 - 1))
		m.rebalance = int64(r.number(1<<31 - 1))
		for range r.count() {
			m.protocols = append(m.protocols, Protocol{Name: r.string(), Metadata: r.bytes()})
		}
		m.assignment = r.bytes()
		m.deadline = now + m.session
		if c.members[m.id] != nil || m.instance != "" && c.static[m.instance] != "" {
			r.bad = true
		}
		if r.bad {
			break
		}
		c.add(m, protocolType)
	}
	if r.bad || len(r.b) > 0 || len(c.members) > 0 && c.members[leader] == nil {
		return ErrGroupRecord
	}
	c.leader, c.protocolType = leader, protocolType
	if len(c.members) > 0 {
		c.state = groupStable
	}
	c.owned = c.order.ownership(c.protocolType)
	c.out.owners = true
	return nil
}

// recordReader reads a record of the bridge; once it came up short it yields zeros.
type recordReader struct {
	b   []byte
	bad bool
}

func (r *recordReader) fail() { r.b, r.bad = nil, true }

func (r *recordReader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// number is a uvarint of at most limit, in its shortest form.
func (r *recordReader) number(limit uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > limit || n > 1 && r.b[n-1] == 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is the number of elements that follow; each takes at least a byte.
func (r *recordReader) count() int {
	n := r.number(uint64(len(r.b)))
	if n > uint64(len(r.b)) { // the number itself took some
		r.fail()
		return 0
	}
	return int(n)
}

// bytes is a copy of the next byte string; nil when it is empty.
func (r *recordReader) bytes() []byte {
	n := r.count()
	head := append([]byte(nil), r.b[:n]...)
	r.b = r.b[n:]
	return head
}

func (r *recordReader) string() string { return string(r.bytes()) }
