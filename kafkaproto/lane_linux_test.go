package kafkaproto

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"weir/bridge"
	"weir/storage"
)

// eager lends a connection after each small produce.
func eager(s *Server) { s.lending.after, s.lending.again = 1, 1 }

// laneStory is a weir with a topic "t" of some partitions.
type laneStory struct {
	t    *testing.T
	addr string
	s    *Server
}

func newLaneStory(t *testing.T, partitions int32, before ...func(*Server)) *laneStory {
	return laneStoryOn(t, storage.NewMem(4), partitions, before...)
}

func laneStoryOn(t *testing.T, st storage.Store, partitions int32, before ...func(*Server)) *laneStory {
	t.Helper()
	if lendEagerly {
		t.Skip("told already")
	}
	addr, s := newWeirOn(t, st, bridge.Options{}, append([]func(*Server){eager}, before...)...)
	if _, err := s.b.CreateTopic(context.Background(), bridge.NewTopic{Name: "t", Partitions: partitions, Replication: 1}, false); err != nil {
		t.Fatal(err)
	}
	return &laneStory{t, addr, s}
}

// until waits for what other goroutines do.
func (x *laneStory) until(what string, done func() bool) {
	x.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); runtime.Gosched() {
		if time.Now().After(end) {
			x.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// lent waits until so many connections are with a lane.
func (x *laneStory) lent(n int64) {
	x.t.Helper()
	x.until(fmt.Sprint(n, " connections are lent"), func() bool { return x.s.Counters().Lent == n })
}

// produce sends one record and expects its offset.
func (x *laneStory) produce(c *rawConn, partition int32, acks int16, want int64) {
	x.t.Helper()
	c.request(1, to(partition, produceTo("t", acks, oneRecord(x.t, "v"))))
	x.produced(c, 1, want)
}

// produced reads the reply to a produce: an offset, or, below 0, an error code's negative.
func (x *laneStory) produced(c *rawConn, correlation int32, want int64) {
	x.t.Helper()
	resp := kmsg.NewPtrProduceResponse()
	resp.SetVersion(9)
	c.reply(correlation, resp)
	p := resp.Topics[0].Partitions[0]
	if got := p.BaseOffset; p.ErrorCode != 0 && -int64(p.ErrorCode) != want || p.ErrorCode == 0 && got != want {
		x.t.Fatalf("reply %d: offset %d, error %d; not %d", correlation, got, p.ErrorCode, want)
	}
}

// to sends a produce to another partition.
func to(partition int32, req *kmsg.ProduceRequest) *kmsg.ProduceRequest {
	req.Topics[0].Partitions[0].Partition = partition
	return req
}

// framed is a request as it goes over the wire.
func framed(correlation int32, req kmsg.Request) []byte {
	return frame(req.Key(), req.GetVersion(), correlation, req.IsFlexible(), req.AppendTo(nil))
}

func TestASmallProducerIsLentAndGivenBack(t *testing.T) {
	x := newLaneStory(t, 1, func(s *Server) { s.lending.after, s.lending.again = lendAfter, lendAgain })
	c := dialRaw(t, x.addr)
	x.produce(c, 0, 1, 0)
	x.produce(c, 0, -1, 1)
	x.lent(1)
	x.produce(c, 0, 1, 2)
	x.produce(c, 0, -1, 3)
	c.request(2, metadata(9, "t"))
	md := kmsg.NewPtrMetadataResponse()
	md.SetVersion(9)
	c.reply(2, md)
	x.lent(0)
	x.produce(c, 0, 1, 4)
	if counters := x.s.Counters().Requests[0]; counters.Requests != 5 || counters.BytesIn == 0 || counters.BytesOut == 0 {
		t.Errorf("counted: %+v", counters)
	}
}

// Whoever alternates pays for being lent a few times only.
func TestAnAlternatingClientIsSeldomLent(t *testing.T) {
	x := newLaneStory(t, 1, func(s *Server) { s.lending.after, s.lending.again = lendAfter, lendAgain })
	c := dialRaw(t, x.addr)
	md := kmsg.NewPtrMetadataResponse()
	md.SetVersion(9)
	for i := range int64(300) {
		x.produce(c, 0, 1, 3*i)
		x.produce(c, 0, 1, 3*i+1)
		x.produce(c, 0, 1, 3*i+2)
		c.request(2, metadata(9, "t"))
		c.reply(2, md)
	}
	if n := x.s.Counters().Loans; n != 1 {
		t.Errorf("lent %d times", n)
	}
}

// mixed is what a client with many habits sends: framed requests and how their replies are read.
type mixed struct {
	sent    []byte
	replies []kmsg.Response
}

func (m *mixed) add(req kmsg.Request) {
	if p, ok := req.(*kmsg.ProduceRequest); !ok || p.Acks != 0 {
		m.replies = append(m.replies, req.ResponseKind())
	}
	m.sent = append(m.sent, framed(int32(len(m.replies)), req)...)
}

// check reads all replies, in order.
func (m *mixed) check(t *testing.T, c *rawConn) {
	t.Helper()
	offset := int64(0)
	for i, resp := range m.replies {
		c.reply(int32(i+1), resp)
		switch resp := resp.(type) {
		case *kmsg.ProduceResponse:
			if p := resp.Topics[0].Partitions[0]; p.ErrorCode == none && p.BaseOffset < offset {
				t.Fatalf("reply %d: offset %d after %d", i, p.BaseOffset, offset)
			} else if p.ErrorCode == none {
				offset = p.BaseOffset
			}
		case *kmsg.FetchResponse:
			if p := resp.Topics[0].Partitions[0]; p.HighWatermark <= offset && offset > 0 {
				t.Fatalf("reply %d: fetched up to %d, produced %d", i, p.HighWatermark, offset)
			}
		}
	}
}

// mixture is n requests, of which most are small produces.
func mixture(t *testing.T, rng *rand.Rand, n int) *mixed {
	m := &mixed{}
	for range n {
		switch rng.IntN(12) {
		case 0:
			m.add(metadata(9, "t"))
		case 1:
			m.add(fetchOf("t", 0))
		case 2:
			m.add(produceTo("t", 1, oneRecord(t, strings.Repeat("big", 7_000))))
		case 3:
			m.add(produceTo("elsewhere", 1, oneRecord(t, "v")))
		case 4:
			m.add(produceTo("t", 0, oneRecord(t, "v")))
		case 5:
			broken := oneRecord(t, "v")
			broken[len(broken)-1]++
			m.add(produceTo("t", 1, broken))
		case 6, 7:
			m.add(produceTo("t", -1, oneRecord(t, "v")))
		default:
			m.add(produceTo("t", 1, oneRecord(t, "v")))
		}
	}
	return m
}

func TestRepliesComeInTheOrderOfTheRequests(t *testing.T) {
	x := newLaneStory(t, 1)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := dialRaw(t, x.addr)
		first := mixed{}
		first.add(produceTo("t", 1, oneRecord(t, "v")))
		c.send(first.sent)
		first.check(t, c)
		m := mixture(t, rng, 150)
		go func() { // in pieces of any size
			for rest := m.sent; len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(1+rng.IntN(3000)))
				if _, err := c.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		m.check(t, c)
		c.Close()
	}
	if x.s.Counters().Loans < 20 {
		t.Errorf("lent %d times only", x.s.Counters().Loans)
	}
}

// With a lane or without, the same bytes are answered with the same bytes.
func TestALaneAnswersAsAConnectionDoes(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 2))
		m := mixture(t, rng, 60)
		m.add(fetchOf("t", 0))
		var answers [2][]byte
		for i, before := range []func(*Server){eager, func(s *Server) { s.lending.after = 0 }} {
			x := newLaneStory(t, 1, before)
			c := dialRaw(t, x.addr)
			// The reply to one request before the next half of the time, so that both ways of serving are met.
			rest := m.sent
			for n := range m.replies {
				size := 4 + int(binary.BigEndian.Uint32(rest))
				for acksZero(rest) {
					c.send(rest[:size])
					rest = rest[size:]
					size = 4 + int(binary.BigEndian.Uint32(rest))
				}
				c.send(rest[:size])
				rest = rest[size:]
				b, err := readFrame(c.Conn)
				if err != nil {
					t.Fatalf("seed %d, reply %d: %v", seed, n, err)
				}
				if _, ok := m.replies[n].(*kmsg.MetadataResponse); !ok { // of another broker
					answers[i] = append(answers[i], b...)
				}
			}
			if i == 0 && x.s.Counters().Loans == 0 {
				t.Error("never lent")
			}
		}
		if !bytes.Equal(answers[0], answers[1]) {
			t.Fatalf("seed %d: the answers differ", seed)
		}
	}
}

// acksZero says that the next request is a produce that is not answered: framed, client id "r", no transaction.
func acksZero(b []byte) bool {
	return len(b) > 18 && binary.BigEndian.Uint16(b[4:]) == produceKey && binary.BigEndian.Uint16(b[17:]) == 0
}

func TestAFrameMayComeByteByByte(t *testing.T) {
	x := newLaneStory(t, 1)
	c := dialRaw(t, x.addr)
	x.produce(c, 0, 1, 0)
	x.lent(1)
	for i := range int64(3) {
		for _, b := range framed(9, produceTo("t", 1, oneRecord(t, "v"))) {
			c.send([]byte{b})
		}
		x.produced(c, 9, i+1)
	}
	x.lent(1)
}

// A produce and a request that is none of the lane's business, cut in two at each byte.
func TestALoanMayEndAtEachByte(t *testing.T) {
	x := newLaneStory(t, 2)
	other := dialRaw(t, x.addr) // on the same lane: when it is answered, what others had sent before has been read
	x.produce(other, 1, 1, 0)
	x.lent(1)
	c := dialRaw(t, x.addr)
	md := kmsg.NewPtrMetadataResponse()
	md.SetVersion(9)
	last := int64(-1)
	both := append(framed(2, produceTo("t", -1, oneRecord(t, "v"))), framed(3, metadata(9, "t"))...)
	for cut := range len(both) {
		last++
		x.produce(c, 0, 1, last)
		x.lent(2)
		c.send(both[:cut])
		x.produce(other, 1, 1, int64(cut+1))
		c.send(both[cut:])
		last++
		x.produced(c, 2, last)
		c.reply(3, md)
	}
}

func TestAClientMayLeaveInTheMiddleOfAFrame(t *testing.T) {
	x := newLaneStory(t, 1)
	whole := framed(2, produceTo("t", -1, oneRecord(t, "v")))
	for i, half := range []bool{true, false} {
		c := dialRaw(t, x.addr)
		x.produce(c, 0, 1, int64(2*i))
		x.lent(1)
		c.send(append(slices.Clone(whole), whole[:20]...))
		if half {
			c.Conn.(*net.TCPConn).CloseWrite()
			x.produced(c, 2, 1) // what was whole is answered
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("after the end: %v", err)
			}
		} else {
			x.produced(c, 2, 3)
			c.Conn.(*net.TCPConn).SetLinger(0)
			c.Close()
		}
		x.lent(0)
		x.until("the connection is gone", func() bool { return x.s.Counters().Connections == 0 })
	}
}

// manyPartitions is a small request with a large reply: for partitions that are not there.
func manyPartitions(t *testing.T, acks int16) *kmsg.ProduceRequest {
	r := produceTo("t", acks, nil)
	p := r.Topics[0].Partitions[0]
	r.Topics[0].Partitions = nil
	for i := range int32(1000) {
		p.Partition = 1_000_000 + i
		r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
	}
	return r
}

func TestAClientThatDoesNotReadGetsAllItsRepliesLater(t *testing.T) {
	for _, acks := range []int16{1, -1} {
		x := newLaneStory(t, 1, func(s *Server) { s.o.IdleTimeout = time.Hour })
		c := dialRaw(t, x.addr)
		c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
		x.produce(c, 0, 1, 0)
		x.lent(1)
		var all []byte
		const n = 300 // of 28 kB
		for i := range int32(n) {
			all = append(all, framed(10+i, manyPartitions(t, acks))...)
		}
		sent := make(chan error, 1)
		go func() { _, err := c.Write(all); sent <- err }()
		x.lent(0) // the socket takes no more
		other := dialRaw(t, x.addr)
		x.produce(other, 0, acks, 1) // nobody else waits
		for i := range int32(n) {
			resp := kmsg.NewPtrProduceResponse()
			resp.SetVersion(9)
			c.reply(10+i, resp)
			if len(resp.Topics[0].Partitions) != 1000 || resp.Topics[0].Partitions[999].Partition != 1_000_999 {
				t.Fatalf("reply %d is damaged", i)
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
		x.produce(c, 0, acks, 2)
	}
}

func TestShutdownEndsLentConnections(t *testing.T) {
	x := newLaneStory(t, 1)
	var all []*rawConn
	for i := range int64(5) {
		c := dialRaw(t, x.addr)
		x.produce(c, 0, -1, i)
		all = append(all, c)
	}
	x.lent(5)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := x.s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	for _, c := range all {
		c.closed("the server has gone")
	}
}

// Shutdown cuts off who does not read, at its context's end.
func TestShutdownCutsAClientThatDoesNotRead(t *testing.T) {
	x := newLaneStory(t, 1)
	c := dialRaw(t, x.addr)
	c.Conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	x.produce(c, 0, 1, 0)
	x.lent(1)
	big := framed(1, manyPartitions(t, 1))
	go func() {
		for {
			if _, err := c.Write(big); err != nil {
				return
			}
		}
	}()
	x.lent(0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := x.s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestASilentLentClientIsLetGo(t *testing.T) {
	var later atomic.Int64
	x := newLaneStory(t, 2, func(s *Server) {
		s.lending.clock = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	silent, busy := dialRaw(t, x.addr), dialRaw(t, x.addr)
	x.produce(silent, 0, 1, 0)
	x.produce(busy, 1, 1, 0)
	x.lent(2)
	silent.send([]byte{0, 0}) // a beginning is no request
	for i := range int64(12) {
		later.Add(int64(time.Minute))
		x.produce(busy, 1, 1, 1+i)
	}
	silent.closed("12 minutes later")
	x.lent(1)
	x.produce(busy, 1, 1, 13)
}

// A store that fails is told as KAFKA_STORAGE_ERROR, whoever waits for it.
func TestALaneTellsThatTheStoreHasFailed(t *testing.T) {
	for _, acks := range []int16{1, -1} {
		st := storage.NewMem(4)
		x := laneStoryOn(t, st, 1)
		a, b := dialRaw(t, x.addr), dialRaw(t, x.addr)
		x.produce(a, 0, acks, 0)
		x.produce(b, 0, acks, 1)
		x.lent(2)
		st.Close(context.Background())
		for range 3 {
			x.produce(a, 0, acks, -int64(kafkaStorageError))
			x.produce(b, 0, acks, -int64(kafkaStorageError))
		}
		x.lent(2)
	}
}

func TestWrongProducesAreRefusedByTheLane(t *testing.T) {
	x := newLaneStory(t, 1)
	c := dialRaw(t, x.addr)
	x.produce(c, 0, 1, 0)
	x.lent(1)
	c.request(2, produceTo("elsewhere", 1, oneRecord(t, "v")))
	x.produced(c, 2, -int64(unknownTopicOrPartition))
	broken := oneRecord(t, "v")
	broken[len(broken)-1]++
	c.request(3, produceTo("t", -1, broken))
	x.produced(c, 3, -int64(corruptMessage))
	c.request(4, to(7, produceTo("t", 1, oneRecord(t, "v"))))
	x.produced(c, 4, -int64(unknownTopicOrPartition))
	x.produce(c, 0, 1, 1)
	x.lent(1)
	if n := x.s.Counters().Loans; n != 1 {
		t.Errorf("lent %d times", n)
	}
	c.request(5, produceTo("t", 2, oneRecord(t, "v"))) // given back, and refused there
	x.produced(c, 5, -int64(invalidRequiredAcks))
}

func TestBadFramesEndLentConnectionsOnly(t *testing.T) {
	x := newLaneStory(t, 1)
	good := dialRaw(t, x.addr)
	x.produce(good, 0, 1, 0)
	future := produceTo("t", 1, oneRecord(t, "v"))
	future.SetVersion(13)
	for i, bad := range [][]byte{
		binary.BigEndian.AppendUint32(nil, 101<<20), binary.BigEndian.AppendUint32(nil, 1<<32-5), make([]byte, 4),
		frame(0, 2, 1, false, make([]byte, 20)), frame(0, 14, 1, true, future.AppendTo(nil)), frame(999, 0, 1, false, nil),
		frame(0, 9, 1, true, []byte{1, 2, 3}), []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		c := dialRaw(t, x.addr)
		x.produce(c, 0, 1, int64(2*i+1))
		x.lent(2)
		c.send(bad)
		c.closed(fmt.Sprint(i))
		x.produce(good, 0, 1, int64(2*i+2))
	}
}

// A request that panics ends its own connection; what others sent in the same cycle is stored and answered.
func TestAPanicEndsItsConnectionOnly(t *testing.T) {
	_, s := newWeir(t, bridge.Options{AutoCreate: true})
	if _, err := s.b.CreateTopic(context.Background(), bridge.NewTopic{Name: "t", Partitions: 1, Replication: 1}, false); err != nil {
		t.Fatal(err)
	}
	l := newLane(s)
	var loans []*loan
	var clients []int
	for range 3 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[0])
		defer unix.Close(pair[1])
		loans = append(loans, &loan{c: newConn(s, &silent{}), fd: pair[0]})
		clients = append(clients, pair[1])
	}
	l.begin(1)
	sound := l.api
	for i, n := range loans {
		if l.api = sound; i == 1 {
			l.api = recordAPI{}
		}
		l.feed(n, framed(int32(i), produceTo("t", 1, oneRecord(t, "v"))))
	}
	l.answer()
	for i, n := range loans {
		b := make([]byte, 1000)
		m, err := unix.Read(clients[i], b)
		if i == 1 {
			if n.err == nil || !n.leaving || err != unix.EAGAIN {
				t.Errorf("the one that panicked: %v, leaving %v, read %d %v", n.err, n.leaving, m, err)
			}
		} else if n.err != nil || n.leaving || m < 20 || binary.BigEndian.Uint32(b[4:]) != uint32(i) {
			t.Errorf("connection %d: %v, %d bytes: %v", i, n.err, m, err)
		}
	}
	if stored := storedRecords(t, s, "t"); stored != 2 {
		t.Errorf("%d records are stored", stored)
	}
}

func TestTwoHundredProducersAtOnce(t *testing.T) {
	const clients, each = 200, 40
	x := newLaneStory(t, clients)
	var all sync.WaitGroup
	for i := range int32(clients) {
		all.Go(func() {
			c := dialRaw(t, x.addr)
			for n := range int64(each) {
				acks := int16(1)
				if (n+int64(i))%5 == 0 {
					acks = -1
				}
				c.request(1, to(i, produceTo("t", acks, oneRecord(t, "v"))))
				resp := kmsg.NewPtrProduceResponse()
				resp.SetVersion(9)
				c.reply(1, resp)
				if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != n || p.Partition != i {
					t.Errorf("client %d: %+v after %d records", i, p, n)
					return
				}
			}
			c.Close()
		})
	}
	all.Wait()
	if stored := storedRecords(t, x.s, "t"); stored != clients*each {
		t.Errorf("%d records are stored", stored)
	}
	x.lent(0)
}

// Pipelined by the hundred, both levels: each connection's replies keep their order through the lane and its settler.
func TestPipelinedProducesOfBothLevelsKeepTheirOrder(t *testing.T) {
	x := newLaneStory(t, 4)
	var all sync.WaitGroup
	for i := range int32(4) {
		all.Go(func() {
			c := dialRaw(t, x.addr)
			rng := rand.New(rand.NewPCG(uint64(i), 3))
			for base := int64(0); base < 2000; {
				var b []byte
				n := int32(1 + rng.IntN(20))
				for k := range n {
					b = append(b, framed(k, to(i, produceTo("t", int16(1-2*rng.IntN(2)), oneRecord(t, "v"))))...)
				}
				c.send(b)
				for k := range n {
					x.produced(c, k, base)
					base++
				}
			}
		})
	}
	all.Wait()
}

// FuzzLane feeds bytes to a lane, whole and in pieces: it evaluates the same requests, and hands back all the rest.
func FuzzLane(f *testing.F) {
	_, s := newWeir(f, bridge.Options{})
	if _, err := s.b.CreateTopic(context.Background(), bridge.NewTopic{Name: "t", Partitions: 1, Replication: 1}, false); err != nil {
		f.Fatal(err)
	}
	null, err := unix.Open("/dev/null", unix.O_WRONLY, 0)
	if err != nil {
		f.Fatal(err)
	}
	small := framed(1, produceTo("t", 1, oneRecord(f, "v")))
	f.Add(append(slices.Clone(small), small...), 7)
	f.Add(append(slices.Clone(small), framed(2, metadata(9, "t"))...), 100)
	f.Add(append(framed(1, produceTo("elsewhere", -1, nil)), 0, 0, 1), 1)
	f.Add(framed(1, produceTo("t", 1, make([]byte, 20_000))), 5_000)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		if len(data) > laneChunk/2 {
			return
		}
		piece = max(piece, 1)
		feed := func(piece int) *loan {
			l := newLane(s)
			go settle(l.settler, func(*settling) {})
			defer close(l.settler)
			n := &loan{c: newConn(s, &silent{}), fd: null}
			for rest := slices.Clone(data); len(rest) > 0 && !n.leaving; {
				m := min(piece, len(rest))
				l.begin(1)
				l.feed(n, append(slices.Clone(n.in), rest[:m]...))
				l.answer()
				if rest = rest[m:]; n.leaving {
					n.in = append(n.in, rest...)
				}
			}
			if n.err != nil {
				t.Fatal(n.err)
			}
			if !bytes.HasSuffix(data, n.in) {
				t.Fatalf("%q is left of %q", n.in, data)
			}
			return n
		}
		whole, parts := feed(len(data)), feed(piece)
		if whole.served != parts.served || !bytes.Equal(whole.in, parts.in) {
			t.Fatalf("%d requests and %q, in pieces %d and %q", whole.served, whole.in, parts.served, parts.in)
		}
	})
}
