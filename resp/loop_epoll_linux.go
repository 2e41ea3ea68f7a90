package resp

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/engine"
)

// The event loop: a few goroutines, each with an epoll and a turn, serve all connections.
//
//	cycle:  epoll_wait ─► who hung up ─► read each ready socket once, evaluate ─► woken, expired, unfinished ─►
//	        Turn.Wait (one commit for all of it) ─► write all replies ─► close
//
// Sockets are level-triggered, so what is not read now is told again. Replies are written at once; a socket is watched for
// writing only while its client is behind. Descriptors are closed at the end of a cycle, or an event of this cycle could
// meet another connection under the same number.
//
// # Parked readers
//
// After each command the readers parked on the streams that it touched are evaluated again within the same turn, in the order in
// which they came, up to the first that belongs to another loop (which is woken after the commit, as are Kafka's waiters).

const (
	cycleEvents = 512
	// readChunk is read from a socket at a time; the others' turn is next.
	readChunk = 64 << 10
	// restPerCycle is how many chunks of a long reply a connection gets before the others' turn.
	restPerCycle = 4
)

// sock is the event loop's side of a connection.
type sock struct {
	fd       int
	events   uint32 // what epoll watches
	active   bool   // in the loop's list of this cycle
	again    bool   // in the list for the next cycle
	notified atomic.Bool
	progress time.Time // when the client last took a byte; valid while it is behind
	behind   bool
}

// newRunner serves TCP and Unix listeners with event loops, others with a goroutine for each connection.
func (s *Server) newRunner(ln net.Listener) (runner, error) {
	sc, ok := ln.(syscall.Conn)
	if s.o.Portable || !ok {
		return &threads{srv: s, ln: ln, all: map[*thread]struct{}{}}, nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if cerr := raw.Control(func(p uintptr) {
		fd, err = unix.FcntlInt(p, unix.F_DUPFD_CLOEXEC, 0)
	}); cerr != nil {
		return nil, cerr
	}
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	r := &epollRunner{srv: s, ln: ln, accept: fd}
	for range s.o.Loops {
		l, err := newEpollLoop(r)
		if err != nil {
			r.release()
			return nil, err
		}
		r.loops = append(r.loops, l)
	}
	r.loops[0].accepts = true
	if err := r.loops[0].watchAccept(); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// The stages of a runner's life.
const (
	serving int32 = iota
	draining
	killing
)

// epollRunner is the loops of one listener.
type epollRunner struct {
	srv    *Server
	ln     net.Listener
	accept int // the listening descriptor, a duplicate of ln's
	loops  []*epollLoop
	next   int // the loop that gets the next connection; owned by loop 0

	stage atomic.Int32 // serving, draining, killing
}

func (r *epollRunner) serve() error {
	var wg sync.WaitGroup
	for _, l := range r.loops {
		wg.Go(l.run)
	}
	wg.Wait()
	r.ln.Close()
	r.release()
	return net.ErrClosed
}

func (r *epollRunner) release() {
	for _, l := range r.loops {
		for _, fd := range l.adopt {
			unix.Close(fd) // handed to a loop that had ended
		}
		unix.Close(l.ep)
		unix.Close(l.bell)
	}
	r.deafen()
}

// deafen closes the listening socket. Only loop 0 calls it while the loops run: the descriptor's number may be another's
// at once.
func (r *epollRunner) deafen() {
	if r.accept >= 0 {
		unix.Close(r.accept)
		r.accept = -1
	}
}

func (r *epollRunner) drain() {
	r.ln.Close()
	r.stage.CompareAndSwap(serving, draining)
	r.poke()
}

func (r *epollRunner) kill() {
	r.stage.Store(killing)
	r.poke()
}

func (r *epollRunner) poke() {
	for _, l := range r.loops {
		l.poke()
	}
}

// epollLoop is one event loop. All but the fields under mu belong to its goroutine.
type epollLoop struct {
	group   *epollRunner
	srv     *Server
	ep      int
	stage   int32 // of the group, as this loop has last seen it
	bell    int   // an eventfd that wakes the loop
	accepts bool
	resume  time.Time // when accepting goes on after a pause; zero: not paused

	turn    *engine.Turn
	now     time.Time
	byFD    []*conn // by descriptor
	clients int
	waiting int // connections of this loop that are parked
	expiry  deadlines
	events  []unix.EpollEvent
	scratch []byte
	active  []*conn // evaluated or to be written in this cycle
	again   []*conn // have more to do without an event
	spare   []*conn // again's other array
	behind  int     // connections whose client is behind with reading
	checked time.Time
	ended   []int   // descriptors to be closed
	looked  []*conn // woken's other array

	asleep atomic.Bool
	mu     sync.Mutex
	woken  []*conn
	adopt  []int // accepted descriptors handed to this loop
}

func newEpollLoop(r *epollRunner) (*epollLoop, error) {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	bell, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(ep)
		return nil, os.NewSyscallError("eventfd", err)
	}
	l := &epollLoop{group: r, srv: r.srv, ep: ep, bell: bell, turn: r.srv.begin(), events: make([]unix.EpollEvent, cycleEvents),
		scratch: make([]byte, readChunk)}
	if err := l.control(unix.EPOLL_CTL_ADD, bell, unix.EPOLLIN); err != nil {
		unix.Close(ep)
		unix.Close(bell)
		return nil, err
	}
	return l, nil
}

func (l *epollLoop) control(op, fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(l.ep, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}))
}

func (l *epollLoop) watchAccept() error {
	return l.control(unix.EPOLL_CTL_ADD, l.group.accept, unix.EPOLLIN)
}

// poke wakes the loop if it sleeps. Any goroutine.
func (l *epollLoop) poke() {
	if l.asleep.Swap(false) {
		unix.Write(l.bell, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// notify implements loop.
func (l *epollLoop) notify(c *conn) {
	if !c.sock.notified.CompareAndSwap(false, true) {
		return
	}
	l.mu.Lock()
	l.woken = append(l.woken, c)
	l.mu.Unlock()
	l.poke()
}

// parked implements loop.
func (l *epollLoop) parked(c *conn, on bool) {
	timed := !c.block.deadline.IsZero()
	switch {
	case on:
		l.waiting++
		if timed {
			l.expiry.add(c)
		}
	default:
		l.waiting--
		l.expiry.remove(c)
	}
}

// evaluated implements loop: serves parked readers of what the last command touched, before anything else is evaluated.
func (l *epollLoop) evaluated(t *engine.Turn) {
	if l.waiting == 0 || t == nil {
		return
	}
	for touched := t.Touched(); len(touched) > 0; touched = t.Touched() {
		for _, no := range touched {
			l.serveParked(no)
		}
	}
}

func (l *epollLoop) serveParked(no engine.StreamNo) {
	for _, w := range l.srv.eng.Parked(engine.Place{Stream: no}) {
		c, ok := w.Owner.(*conn)
		if !ok {
			continue // a Kafka reader: woken after the commit
		}
		if c.loop != loop(l) {
			return // it came first; ours wait for the commit with it
		}
		l.wakeConn(c)
	}
}

// wakeConn evaluates a waiting connection again within the turn.
func (l *epollLoop) wakeConn(c *conn) {
	if c.block == nil || c.dead {
		return
	}
	l.activate(c)
	c.begin(l.turn)
	c.wake(l.now)
	if c.block == nil && c.ready() {
		l.goOn(c)
	}
}

// activate puts a connection on this cycle's list: it is settled and written at the end.
func (l *epollLoop) activate(c *conn) {
	if !c.sock.active {
		c.sock.active = true
		l.active = append(l.active, c)
	}
}

// goOn has a connection served in the next cycle without an event.
func (l *epollLoop) goOn(c *conn) {
	if !c.sock.again {
		c.sock.again = true
		l.again = append(l.again, c)
	}
}

func (l *epollLoop) run() {
	for !l.finished() {
		n := l.wait()
		l.now = l.srv.now()
		if l.turn != nil {
			l.turn.SetLevel(l.srv.level())
		}
		again := l.again
		l.again, l.spare = l.spare[:0], again
		// Those who left first, so that nothing is delivered to them; then those who have waited longest.
		l.takeHangUps(l.events[:n])
		l.takeWoken()
		l.expire()
		l.takeEvents(l.events[:n])
		if !l.resume.IsZero() && !l.now.Before(l.resume) && l.accepts {
			l.resume = time.Time{}
			l.watchAccept()
		}
		for _, c := range again {
			c.sock.again = false
			l.proceed(c)
		}
		clear(again)
		if l.stage = l.group.stage.Load(); l.stage != serving {
			l.drain()
		}
		l.answer()
		l.checkSlow()
	}
}

// finished says that the loop has nothing to live for.
func (l *epollLoop) finished() bool {
	if l.stage == serving || l.clients > 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.adopt) == 0
}

// wait sleeps until there is something to do.
func (l *epollLoop) wait() int {
	ms := l.timeout()
	if ms != 0 {
		l.asleep.Store(true)
		l.mu.Lock()
		// What was said between the last look and asleep rang no bell.
		if len(l.woken) > 0 || len(l.adopt) > 0 || l.group.stage.Load() != l.stage {
			ms = 0
		}
		l.mu.Unlock()
	}
	n, err := unix.EpollWait(l.ep, l.events, ms)
	l.asleep.Store(false)
	if err != nil {
		if !errors.Is(err, unix.EINTR) {
			l.srv.log.Error("epoll_wait failed", "error", err)
		}
		return 0
	}
	return n
}

// timeout is how long wait may sleep, in ms; -1 for ever.
func (l *epollLoop) timeout() int {
	if len(l.again) > 0 {
		return 0
	}
	until := l.expiry.next()
	sooner := func(t time.Time) {
		if until.IsZero() || t.Before(until) {
			until = t
		}
	}
	if !l.resume.IsZero() {
		sooner(l.resume)
	}
	if l.behind > 0 {
		sooner(l.checked.Add(slowCheck))
	}
	if until.IsZero() {
		return -1
	}
	d := until.Sub(l.srv.now())
	if d <= 0 {
		return 0
	}
	return int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
}

func (l *epollLoop) takeHangUps(events []unix.EpollEvent) {
	for i := range events {
		if c := l.conn(int(events[i].Fd)); c != nil && c.block != nil && events[i].Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			l.read(c)
			events[i].Events = 0
		}
	}
}

func (l *epollLoop) takeEvents(events []unix.EpollEvent) {
	for _, e := range events {
		switch fd := int(e.Fd); {
		case e.Events == 0:
		case fd == l.bell:
			var count [8]byte
			unix.Read(l.bell, count[:])
		case l.accepts && fd == l.group.accept:
			l.acceptAll()
		default:
			c := l.conn(fd)
			if c == nil {
				continue
			}
			if e.Events&unix.EPOLLOUT != 0 {
				l.activate(c)
			}
			if e.Events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
				l.read(c)
			}
		}
	}
}

func (l *epollLoop) conn(fd int) *conn {
	if fd < len(l.byFD) {
		return l.byFD[fd]
	}
	return nil
}

// read takes one chunk from a socket and evaluates it.
func (l *epollLoop) read(c *conn) {
	if c.dead {
		return
	}
	l.activate(c)
	if !c.wantsRead() {
		// Only a waiting client that has sent too much ahead, or one whose socket is broken, is told of here.
		c.hangUp()
		c.closing = true
		return
	}
	n, err := unix.Read(c.sock.fd, l.scratch)
	switch {
	case n > 0:
		c.begin(l.turn)
		c.feed(l.scratch[:n], l.now)
		if c.ready() {
			l.goOn(c)
		}
	case err == nil:
		c.hangUp()
	case err == unix.EAGAIN || err == unix.EINTR:
	default:
		c.hangUp()
		l.abandon(c)
	}
}

// proceed goes on with what a connection has received, or with its long reply.
func (l *epollLoop) proceed(c *conn) {
	if c.dead {
		return
	}
	l.activate(c)
	if c.ready() {
		c.begin(l.turn)
		c.proceed(l.now)
		if c.ready() {
			l.goOn(c)
		}
	}
}

// takeWoken looks at those who were woken, killed or unblocked, and at new connections from loop 0.
func (l *epollLoop) takeWoken() {
	l.mu.Lock()
	woken, adopt := l.woken, l.adopt
	l.woken, l.adopt = l.looked[:0], nil
	l.mu.Unlock()
	l.looked = woken
	for _, fd := range adopt {
		l.welcome(fd)
	}
	for _, c := range woken {
		// Cleared before it is looked at: what comes later notifies anew.
		c.sock.notified.Store(false)
		switch {
		case c.dead:
		case c.sess.killed.Load():
			l.abandon(c)
		default:
			l.wakeConn(c)
		}
	}
	clear(woken)
}

func (l *epollLoop) expire() {
	for len(l.expiry) > 0 && !l.expiry.next().After(l.now) {
		c := l.expiry[0]
		l.wakeConn(c)
		if c.block != nil && c.expires == 0 && !l.expiry.next().After(l.now) {
			return // wake always ends a wait at its deadline; never spin here
		}
	}
}

// answer commits the cycle's turn, releases and writes the replies, and closes who is done.
func (l *epollLoop) answer() {
	if len(l.active) > 0 {
		err := l.srv.commit(l.turn)
		for _, c := range l.active {
			c.settle(err)
		}
		for _, c := range l.active {
			c.sock.active = false
			l.write(c)
		}
		clear(l.active)
		l.active = l.active[:0]
	}
	for _, fd := range l.ended {
		l.byFD[fd] = nil
		unix.Close(fd)
	}
	l.ended = l.ended[:0]
}

// write writes what it can, makes more of a long reply, and watches the socket for what is needed next.
func (l *epollLoop) write(c *conn) {
	if c.dead {
		return
	}
	for chunks := 0; ; chunks++ {
		if !l.flush(c) {
			return
		}
		if chunks == restPerCycle {
			l.goOn(c)
			break
		}
		if !c.produce() {
			break
		}
	}
	if c.drained() {
		l.close(c)
		return
	}
	if c.ready() {
		l.goOn(c)
	}
	l.watch(c)
}

// flush writes until the socket takes no more; false when the connection is gone.
func (l *epollLoop) flush(c *conn) bool {
	for out := c.output(); len(out) > 0; out = c.output() {
		n, err := unix.Write(c.sock.fd, out)
		if n > 0 {
			c.wrote(n)
			c.sock.progress = l.now
			continue
		}
		if err == unix.EINTR {
			continue
		}
		if err == unix.EAGAIN {
			break
		}
		l.close(c)
		return false
	}
	left := len(c.output())
	if behind := left > 0; behind != c.sock.behind {
		c.sock.behind = behind
		if behind {
			l.behind++
			c.sock.progress = l.now
		} else {
			l.behind--
		}
		c.sess.pendingOut.Store(int64(left))
	}
	c.sess.pendingIn.Store(int64(c.in.pending()))
	return true
}

// watch tells epoll what to wait for.
func (l *epollLoop) watch(c *conn) {
	var want uint32
	if c.wantsRead() {
		want = unix.EPOLLIN | unix.EPOLLRDHUP
	} else if c.block != nil {
		want = unix.EPOLLRDHUP
	}
	if c.sock.behind {
		want |= unix.EPOLLOUT
	}
	if want == c.sock.events {
		return
	}
	if err := l.control(unix.EPOLL_CTL_MOD, c.sock.fd, want); err != nil {
		l.srv.log.Error("cannot watch a connection", "error", err)
		l.close(c)
		return
	}
	c.sock.events = want
}

// abandon closes a connection whatever it is due.
func (l *epollLoop) abandon(c *conn) {
	c.closing = true
	l.close(c)
}

// close ends a connection; its descriptor lives until the end of the cycle.
func (l *epollLoop) close(c *conn) {
	if c.dead {
		return
	}
	if c.sock.behind {
		l.behind--
	}
	c.end()
	l.clients--
	l.ended = append(l.ended, c.sock.fd)
}

// slowCheck is how often clients that are behind are looked at.
const slowCheck = time.Second

// checkSlow closes clients that have not taken a byte for WriteTimeout.
func (l *epollLoop) checkSlow() {
	if l.behind == 0 || l.srv.o.WriteTimeout < 0 || l.now.Sub(l.checked) < slowCheck {
		return
	}
	l.checked = l.now
	for _, c := range l.byFD {
		if c != nil && !c.dead && c.sock.behind && l.now.Sub(c.sock.progress) > l.srv.o.WriteTimeout {
			l.srv.stats.outputLimit.Add(1)
			l.srv.log.Warn("closing a client that does not read", "client", c.sess.addr)
			l.abandon(c)
		}
	}
}

// drain ends connections that owe nothing; those in the middle of a reply end when it is taken.
func (l *epollLoop) drain() {
	if l.accepts {
		l.accepts = false
		l.group.deafen() // which also takes it out of epoll: ln's own descriptor is closed
	}
	for _, c := range l.byFD {
		switch {
		case c == nil || c.dead:
		case l.stage == killing:
			l.abandon(c)
		default:
			c.hangUp()
			l.activate(c)
		}
	}
}

// acceptAll takes new connections and deals them out to the loops in turn.
func (l *epollLoop) acceptAll() {
	for range 64 {
		fd, _, err := unix.Accept4(l.group.accept, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil:
		case err == unix.EINTR || err == unix.ECONNABORTED:
			continue
		case err == unix.EAGAIN:
			return
		default:
			// Out of descriptors or memory. The listener stays readable, so watching it would spin.
			l.srv.log.Error("accept failed; pausing", "error", err)
			l.control(unix.EPOLL_CTL_DEL, l.group.accept, 0)
			l.resume = l.now.Add(acceptPause)
			return
		}
		to := l.group.loops[l.group.next%len(l.group.loops)]
		l.group.next++
		if to == l {
			l.welcome(fd)
			continue
		}
		to.mu.Lock()
		to.adopt = append(to.adopt, fd)
		to.mu.Unlock()
		to.poke()
	}
}

// welcome makes a connection of an accepted descriptor.
func (l *epollLoop) welcome(fd int) {
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	peer, _ := unix.Getpeername(fd)
	own, _ := unix.Getsockname(fd)
	c := newConn(l.srv, l, l.srv.nextID.Add(1), address(peer), address(own), l.now)
	c.sock = &sock{fd: fd, events: unix.EPOLLIN | unix.EPOLLRDHUP}
	if !l.srv.admit(c) {
		unix.Write(fd, []byte("-"+errMaxClients+"\r\n"))
		unix.Close(fd)
		return
	}
	if err := l.control(unix.EPOLL_CTL_ADD, fd, c.sock.events); err != nil {
		l.srv.log.Error("cannot watch a connection", "error", err)
		l.srv.forget(c)
		unix.Close(fd)
		return
	}
	for fd >= len(l.byFD) {
		l.byFD = append(l.byFD, nil)
	}
	l.byFD[fd] = c
	l.clients++
}

// address is a socket's address as CLIENT LIST shows it.
func address(sa unix.Sockaddr) string {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return net.JoinHostPort(net.IP(a.Addr[:]).String(), strconv.Itoa(a.Port))
	case *unix.SockaddrInet6:
		return net.JoinHostPort(net.IP(a.Addr[:]).String(), strconv.Itoa(a.Port))
	case *unix.SockaddrUnix:
		return a.Name + ":0"
	}
	return "?:0"
}
