package kafkaproto

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The lanes' event loops: an epoll and an eventfd each. Sockets are level-triggered, so what is not read now is told
// again. They start with the first loan, and end when no connection is left.

const (
	laneEvents = 512
	// laneChunk is read from a socket at a time; the others' turn is next.
	laneChunk = 64 << 10
)

// lanes are a server's.
type lanes struct {
	s *Server

	mu   sync.Mutex
	all  []*epollLane
	none bool // the system has refused one
	next int
}

// lend takes the socket off the connection and gives it to a lane; nil when that cannot be.
func (p *lanes) lend(c *conn) *loan {
	tcp, ok := c.nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	l := p.pick()
	if l == nil {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	fd := -1
	if raw.Control(func(p uintptr) { fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0) }) != nil || err != nil {
		return nil
	}
	tcp.Close()
	n := &loan{c: c, fd: fd, back: make(chan struct{}, 1)}
	l.mu.Lock()
	l.adopted = append(l.adopted, n)
	l.mu.Unlock()
	l.poke()
	return n
}

// attach makes a net.Conn of a socket that was lent.
func attach(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "lent")
	defer f.Close()
	return net.FileConn(f) // a duplicate
}

// writeSocket writes what the socket takes.
func writeSocket(fd int, b []byte) (int, error) {
	for {
		n, err := unix.Write(fd, b)
		switch {
		case err == nil:
			return n, nil
		case err == unix.EAGAIN:
			return 0, nil
		case err != unix.EINTR:
			return 0, err
		}
	}
}

func (p *lanes) pick() *epollLane {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil && !p.none {
		for range p.s.o.Lanes {
			l, err := newEpollLane(p.s)
			if err != nil {
				p.s.o.Logger.Warn("kafka: no event loop for small producers", "error", err)
				p.none = true
				break
			}
			p.all = append(p.all, l)
			go settle(l.settler, l.tell)
			go l.run()
		}
	}
	if len(p.all) == 0 {
		return nil
	}
	p.next++
	return p.all[p.next%len(p.all)]
}

// poke wakes all lanes: the server is closing.
func (p *lanes) poke() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.all {
		l.poke()
	}
}

// stop ends the lanes. No connection is left, and none comes.
func (p *lanes) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.all {
		l.quit.Store(true)
		l.poke()
		<-l.done
		close(l.settler) // nothing is owed
		unix.Close(l.ep)
		unix.Close(l.bell)
	}
	p.all, p.none = nil, true
}

// epollLane is a lane and its sockets. All but quit, asleep and what is under mu belongs to its goroutine.
type epollLane struct {
	*lane
	ep, bell int
	done     chan struct{}
	byFD     []*loan
	lent     int
	events   []unix.EpollEvent
	scratch  []byte
	swept    int64 // tick
	coarse   bool  // no epoll_pwait2 here

	quit    atomic.Bool
	asleep  atomic.Bool
	mu      sync.Mutex
	adopted []*loan
	told    *settling // has been waited for
}

func newEpollLane(s *Server) (*epollLane, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, os.NewSyscallError("eventfd", err)
	}
	l := &epollLane{ep: ep, bell: bell, done: make(chan struct{}), events: make([]unix.EpollEvent, laneEvents), scratch: make([]byte, laneChunk)}
	l.lane = newLane(s)
	if err := l.control(unix.EPOLL_CTL_ADD, bell, unix.EPOLLIN); err != nil {
		unix.Close(ep)
		unix.Close(bell)
		return nil, err
	}
	return l, nil
}

func (l *epollLane) control(op, fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.ep, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

// poke wakes the lane if it sleeps. Any goroutine.
func (l *epollLane) poke() {
	if l.asleep.Swap(false) {
		unix.Write(l.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// tell brings what has been waited for back to the lane.
func (l *epollLane) tell(s *settling) {
	l.mu.Lock()
	l.told = s
	l.mu.Unlock()
	l.poke()
}

func (l *epollLane) run() {
	defer close(l.done)
	for !l.quit.Load() {
		n := l.wait()
		l.begin(l.s.lending.clock().UnixNano())
		l.takeOrders()
		for _, e := range l.events[:n] {
			if fd := int(e.Fd); fd == l.bell {
				var count [8]byte
				unix.Read(l.bell, count[:])
			} else if fd < len(l.byFD) && l.byFD[fd] != nil {
				l.read(l.byFD[fd])
			}
		}
		l.sweep()
		l.answer()
		l.commitGathered()
		l.giveBack()
	}
}

// wait sleeps until there is something to do.
func (l *epollLane) wait() int {
	ms := -1
	if l.lent > 0 {
		ms = int(l.sweepEvery()/time.Millisecond) + 1
	}
	l.asleep.Store(true)
	l.mu.Lock()
	// What was said between the last look and asleep rang no bell.
	if len(l.adopted) > 0 || l.told != nil || l.gathering() || l.quit.Load() || l.lent > 0 && l.s.closing.Load() {
		ms = 0
	}
	l.mu.Unlock()
	n, err := l.epollWait(ms)
	l.asleep.Store(false)
	if err != nil {
		if err != unix.EINTR {
			l.s.o.Logger.Error("kafka: epoll_wait failed", "error", err)
		}
		return 0
	}
	return n
}

// epollWait is epoll_wait; where the lane gathers it waits for less than a millisecond.
func (l *epollLane) epollWait(ms int) (int, error) {
	if d := l.linger(); l.gathering() && d > 0 && !l.coarse {
		until := unix.NsecToTimespec(int64(d))
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.ep), uintptr(unsafe.Pointer(&l.events[0])), uintptr(len(l.events)),
			uintptr(unsafe.Pointer(&until)), 0, 0)
		if errno == 0 {
			return int(n), nil
		}
		l.coarse = errno != unix.EINTR // older than Linux 5.11
		ms = 0
	}
	return unix.EpollWait(l.ep, l.events, ms)
}

// takeOrders looks at who comes and who must go.
func (l *epollLane) takeOrders() {
	l.mu.Lock()
	adopted, told := l.adopted, l.told
	l.adopted, l.told = nil, nil
	l.mu.Unlock()
	if told != nil {
		l.settled(told)
	}
	for _, n := range adopted {
		n.seen = l.tick
		for n.fd >= len(l.byFD) {
			l.byFD = append(l.byFD, nil)
		}
		l.byFD[n.fd] = n
		l.lent++
		l.s.lending.lent.Add(1)
		l.s.lending.loans.Add(1)
		if err := l.control(unix.EPOLL_CTL_ADD, n.fd, unix.EPOLLIN|unix.EPOLLRDHUP); err != nil {
			l.s.o.Logger.Error("kafka: cannot watch a connection", "error", err)
			n.err = err
			l.leave(n)
		}
	}
	if l.s.closing.Load() {
		for _, n := range l.byFD {
			if n != nil {
				l.leave(n)
			}
		}
	}
}

// read takes one chunk from a socket and evaluates it.
func (l *epollLane) read(n *loan) {
	if n.leaving {
		return
	}
	held := copy(l.scratch, n.in)
	m, err := unix.Read(n.fd, l.scratch[held:])
	switch {
	case m > 0:
		l.feed(n, l.scratch[:held+m])
	case err == unix.EAGAIN || err == unix.EINTR:
	default:
		l.leave(n) // the end or an error, which the reader's goroutine meets itself
	}
}

// sweepEvery is how often the lane looks for idle connections.
func (l *epollLane) sweepEvery() time.Duration { return min(l.s.o.IdleTimeout/16, 10*time.Second) }

// sweep gives back connections that have been silent for too long, to be closed.
func (l *epollLane) sweep() {
	if l.tick-l.swept < int64(l.sweepEvery()) {
		return
	}
	l.swept = l.tick
	for _, n := range l.byFD {
		if n != nil && l.tick-n.seen >= int64(l.s.o.IdleTimeout) {
			if n.err == nil {
				n.err = os.ErrDeadlineExceeded
			}
			l.leave(n)
		}
	}
}

// giveBack ends the cycle: who leaves is his own goroutine's again.
func (l *epollLane) giveBack() {
	for _, n := range l.active {
		if !n.leaving {
			continue
		}
		l.control(unix.EPOLL_CTL_DEL, n.fd, 0)
		l.byFD[n.fd] = nil
		l.lent--
		l.s.lending.lent.Add(-1)
		n.gone = true
		n.back <- struct{}{}
	}
	clear(l.active)
	l.active = l.active[:0]
}
