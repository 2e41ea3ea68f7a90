package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"syscall"
	"time"

	"weir/compat-tests/kafkawire"
)

// A blocking is a socket in blocking mode: the kernel wakes the reading thread
// itself, with no runtime in between.
type blocking int

func dialBlocking(addr string) (blocking, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return -1, err
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	sa := &syscall.SockaddrInet4{Port: tcp.Port}
	copy(sa.Addr[:], tcp.IP.To4())
	limit := syscall.Timeval{Sec: 10}
	err = errors.Join(syscall.Connect(fd, sa), syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit))
	if err != nil {
		syscall.Close(fd)
	}
	return blocking(fd), err
}

func (b blocking) Read(p []byte) (int, error) {
	for {
		n, err := syscall.Read(int(b), p)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (b blocking) Write(p []byte) (int, error) { return syscall.Write(int(b), p) }

// frame reads one reply into buf and returns it without its length.
func (b blocking) frame(buf []byte) ([]byte, error) {
	if _, err := io.ReadFull(b, buf[:4]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(buf))
	if n > len(buf) {
		return nil, fmt.Errorf("a reply frame of %d bytes", n)
	}
	_, err := io.ReadFull(b, buf[:n])
	return buf[:n], err
}

// parkGap is how long the fetch has to get parked before the record is produced.
const parkGap = 200 * time.Microsecond

// latency measures, one record of 100 bytes at a time, from the moment before the
// produce request is written to the moment the long-polled fetch has brought the
// record.
func latency(acks int16) func(context.Context, *turn) (measure, error) {
	return func(ctx context.Context, t *turn) (measure, error) {
		topic, err := newTopic(ctx, t.srv, 1)
		if err != nil {
			return measure{}, err
		}
		producer, err := dialBlocking(t.srv.Kafka)
		if err != nil {
			return measure{}, err
		}
		defer syscall.Close(int(producer))
		consumer, err := dialBlocking(t.srv.Kafka)
		if err != nil {
			return measure{}, err
		}
		defer syscall.Close(int(consumer))
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		set := kafkawire.Batch(values(1, 100), time.Now(), kafkawire.NoProducer)
		p := pair{producer: producer, consumer: consumer, topic: topic, next: 1, buf: make([]byte, 64<<10),
			record: kafkawire.Frame(produceRequest(topic, 0, acks, set), 1, "bench")}
		for end := time.Now().Add(t.warm + time.Second); time.Now().Before(end); {
			if _, err := p.once(); err != nil {
				return measure{}, err
			}
		}
		var m measure
		cpu, began := t.srv.CPU(), time.Now()
		for m.elapsed < 2*t.measure {
			took, err := p.once()
			if err != nil {
				return measure{}, err
			}
			m.latencies = append(m.latencies, took)
			m.elapsed = time.Since(began)
		}
		m.cpu = t.srv.CPU() - cpu
		slices.Sort(m.latencies)
		return m, dropTopic(ctx, t.srv, topic)
	}
}

// A pair is a producer and the consumer that waits for what it sends.
type pair struct {
	producer, consumer blocking
	topic              string
	next               int64 // offset that the next record will get
	record             []byte
	buf                []byte
}

func (p *pair) once() (time.Duration, error) {
	ask := kafkawire.Frame(fetchRequest(p.topic, 0, p.next, fetchSize), 1, "bench")
	if _, err := p.consumer.Write(ask); err != nil {
		return 0, err
	}
	for parked := time.Now(); time.Since(parked) < parkGap; {
		runtime.Gosched()
	}
	sent := time.Now()
	if _, err := p.producer.Write(p.record); err != nil {
		return 0, err
	}
	reply, err := p.consumer.frame(p.buf)
	took := time.Since(sent)
	if err != nil {
		return 0, fmt.Errorf("the waiting fetch: %w", err)
	}
	codeAt := 4 + 4 + 2 + 4 + 4 + 2 + len(p.topic) + 4 + 4
	lenAt := codeAt + 2 + 8 + 8 + 8 + 4 + 4
	if len(reply) < lenAt+4+8 {
		return 0, fmt.Errorf("the waiting fetch at offset %d came back empty", p.next)
	}
	if got := int64(binary.BigEndian.Uint64(reply[lenAt+4:])); got != p.next {
		return 0, fmt.Errorf("the waiting fetch brought offset %d, not %d", got, p.next)
	}
	p.next++
	reply, err = p.producer.frame(p.buf)
	if err != nil {
		return 0, err
	}
	return took, codeError(int16(binary.BigEndian.Uint16(reply[4+4+2+len(p.topic)+4+4:])))
}

// percentile of a sorted list.
func percentile(sorted []time.Duration, p float64) time.Duration {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
