package resp

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/bridge"
	"weir/engine"
	"weir/storage"
)

// pipeListener is a listener in memory, for fake time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (l *pipeListener) dial(t *testing.T) *client {
	near, far := net.Pipe()
	l.conns <- far
	return newClient(t, near)
}

// TestBlockEndsToTheMillisecond: BLOCK waits exactly as long as it says, also when it was woken in vain, and TIME, idle times and the
// deadline are of one clock.
func TestBlockEndsToTheMillisecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := storage.NewMem(1)
		eng, err := engine.Open(ctx, st, engine.Options{TailCache: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		b, err := bridge.Open(ctx, eng, bridge.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, ln := New(b, Options{}), newPipeListener()
		go s.Serve(ln)
		k, w := ln.dial(t), ln.dial(t)
		start := time.Now()
		k.send("XREAD", "BLOCK", "3600000", "STREAMS", "s", "5-0")
		synctest.Wait()
		if n := s.Stats().Blocked; n != 1 {
			t.Fatalf("%d wait", n)
		}
		pause(time.Hour / 2) // of fake time
		w.want("XADD s 1-0 f v", `"1-0"`)
		if v := k.read(); !v.null {
			t.Error(v)
		}
		if took := time.Since(start); took != time.Hour {
			t.Errorf("BLOCK 3600000 took %v", took)
		}
		k.nc.Close()
		w.nc.Close()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		b.Close(ctx)
		eng.Close(ctx)
		st.Close(ctx)
	})
}
