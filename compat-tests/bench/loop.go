package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"
)

// A talker is one connection's side of the load. The loop calls it from one
// goroutine. It owns the bytes it hands out until the next call of output.
type talker interface {
	// output returns bytes to send now, or nil when a reply must come first.
	output() []byte
	// input looks at received bytes and returns how many it is done with; the rest
	// is shown again with more behind it. Its error ends the run.
	input(p []byte) (int, error)
	// idle tells that no reply is outstanding.
	idle() bool
}

// A line is a talker's socket in the loop.
type line struct {
	talker
	fd      int
	out     []byte // not yet written part of the last output
	in      []byte // buffer; in[:held] was received and not yet consumed
	held    int
	blocked bool // registered for EPOLLOUT
}

// A loop drives all lines from one thread.
//
// Why not a goroutine per connection: at 100,000 replies a second the runtime's
// wake-ups cost the client more than the work, and on two cores what the client
// burns is missing from the server under test. This is the shape of
// redis-benchmark, which cannot do what the rows need (XACK of what was read, Kafka).
type loop struct {
	epoll int
	lines []*line
}

const inBuffer = 256 << 10

// newLoop connects one line per talker to addr.
func newLoop(addr string, talkers []talker) (*loop, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, err
	}
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	l := &loop{epoll: epoll}
	for _, t := range talkers {
		if err := l.connect(tcp, t); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *loop) connect(addr *net.TCPAddr, t talker) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l.lines = append(l.lines, &line{talker: t, fd: fd, in: make([]byte, inBuffer)})
	sa := &syscall.SockaddrInet4{Port: addr.Port}
	copy(sa.Addr[:], addr.IP.To4())
	if err := syscall.Connect(fd, sa); err != nil {
		return fmt.Errorf("connecting to %s: %w", addr, err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		return err
	}
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		return err
	}
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(len(l.lines) - 1)}
	return syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, fd, &ev)
}

func (l *loop) close() {
	for _, c := range l.lines {
		syscall.Close(c.fd)
	}
	syscall.Close(l.epoll)
}

// run lets the talkers talk for d, then stops asking for output and waits until
// every reply is in. It returns how long the talking part really took; replies that
// come after it are not the caller's to count (the talkers' counters are read by
// atEnd, called at that moment).
func (l *loop) run(d time.Duration, atEnd func()) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	began := time.Now()
	for _, c := range l.lines {
		if err := l.write(c, true); err != nil {
			return 0, err
		}
	}
	const drainLimit = 30 * time.Second
	talking, took := true, time.Duration(0)
	events := make([]syscall.EpollEvent, 128)
	for {
		if now := time.Since(began); talking && now >= d {
			talking, took = false, now
			atEnd()
		} else if now > d+drainLimit {
			return 0, errors.New("replies are missing 30 s after the last request")
		}
		if !talking && l.allIdle() {
			return took, nil
		}
		n, err := rawWait(l.epoll, events)
		if err != nil {
			return 0, err
		}
		for _, ev := range events[:n] {
			c := l.lines[ev.Fd]
			if ev.Events&^syscall.EPOLLOUT != 0 {
				if err := c.read(); err != nil {
					return 0, err
				}
			}
			if err := l.write(c, talking); err != nil {
				return 0, err
			}
		}
	}
}

func (l *loop) allIdle() bool {
	for _, c := range l.lines {
		if !c.idle() || len(c.out) > 0 {
			return false
		}
	}
	return true
}

// read takes what one read gives; level-triggered epoll brings the rest.
func (c *line) read() error {
	n, errno := rawIO(syscall.SYS_READ, c.fd, c.in[c.held:])
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return nil
	case errno != 0:
		return errno
	case n == 0:
		return fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	c.held += n
	done, err := c.input(c.in[:c.held])
	if err != nil {
		return err
	}
	c.held = copy(c.in, c.in[done:c.held])
	if c.held == len(c.in) {
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	return nil
}

// write sends what the talker has, until it has no more or the socket is full.
// With talking false only what was begun is finished.
func (l *loop) write(c *line, talking bool) error {
	for {
		if len(c.out) == 0 && talking {
			c.out = c.output()
		}
		if len(c.out) == 0 {
			return l.wantOut(c, false)
		}
		n, errno := rawIO(syscall.SYS_WRITE, c.fd, c.out)
		switch {
		case errno == syscall.EAGAIN:
			return l.wantOut(c, true)
		case errno != 0 && errno != syscall.EINTR:
			return errno
		}
		c.out = c.out[n:]
	}
}

// The raw calls below keep the runtime out: told of a blocking call, it would wake
// another thread that looks for work which does not exist, on the processor that the
// server needs. The price is that this thread holds its place in the runtime while it
// waits, so nothing may need to stop the world: run turns the collector off.

// rawWait is epoll_pwait with a limit of 50 ms; an interruption is no event.
func rawWait(epoll int, events []syscall.EpollEvent) (int, error) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 50, 0, 0)
	if errno == syscall.EINTR {
		return 0, nil
	}
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// rawIO is read or write on a socket in non-blocking mode.
func rawIO(call uintptr, fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

func (l *loop) wantOut(c *line, want bool) error {
	if c.blocked == want {
		return nil
	}
	c.blocked = want
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: l.index(c)}
	if want {
		ev.Events |= syscall.EPOLLOUT
	}
	return syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_MOD, c.fd, &ev)
}

func (l *loop) index(c *line) int32 {
	for i, x := range l.lines {
		if x == c {
			return int32(i)
		}
	}
	return -1
}
