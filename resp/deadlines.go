package resp

import (
	"container/heap"
	"time"
)

// deadlines is a heap of waiting connections, the next to expire first. A connection knows its place (conn.expires), so that
// one which is served leaves the heap at once and a million short waits leave nothing behind.
type deadlines []*conn

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].block.deadline.Before(d[j].block.deadline) }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].expires, d[j].expires = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	c := x.(*conn)
	c.expires = len(*d)
	*d = append(*d, c)
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	old := *d
	c := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	c.expires = -1
	return c
}

// add puts a connection in; its block has a deadline.
func (d *deadlines) add(c *conn) { heap.Push(d, c) }

// remove takes a connection out, wherever it is. It must happen while c.block still holds the deadline.
func (d *deadlines) remove(c *conn) {
	if c.expires >= 0 {
		heap.Remove(d, c.expires)
	}
}

// next is the earliest deadline; zero when there is none.
func (d deadlines) next() time.Time {
	if len(d) == 0 {
		return time.Time{}
	}
	return d[0].block.deadline
}
