package storage

import "strconv"

// Compare orders IDs: -1, 0, 1.
func (a ID) Compare(b ID) int {
	switch {
	case a.MS < b.MS:
		return -1
	case a.MS > b.MS:
		return 1
	case a.Seq < b.Seq:
		return -1
	case a.Seq > b.Seq:
		return 1
	}
	return 0
}

// Less reports whether a sorts before b.
func (a ID) Less(b ID) bool { return a.MS < b.MS || a.MS == b.MS && a.Seq < b.Seq }

// Next is the smallest ID above a; false when there is none.
func (a ID) Next() (ID, bool) {
	switch {
	case a.Seq != ^uint64(0):
		return ID{a.MS, a.Seq + 1}, true
	case a.MS != ^uint64(0):
		return ID{a.MS + 1, 0}, true
	}
	return a, false
}

// Prev is the largest ID below a; false when there is none.
func (a ID) Prev() (ID, bool) {
	switch {
	case a.Seq != 0:
		return ID{a.MS, a.Seq - 1}, true
	case a.MS != 0:
		return ID{a.MS - 1, ^uint64(0)}, true
	}
	return a, false
}

// AppendTo appends "ms-seq".
func (a ID) AppendTo(dst []byte) []byte {
	dst = strconv.AppendUint(dst, a.MS, 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, a.Seq, 10)
}

// String is "ms-seq".
func (a ID) String() string { return string(a.AppendTo(make([]byte, 0, 41))) }

// At is the ID of the i-th entry of the run, 0 first.
func (r IDRun) At(i uint32) ID {
	return ID{MS: r.First.MS, Seq: r.First.Seq + uint64(i)*uint64(r.Stride)}
}
