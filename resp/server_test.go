package resp

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"weir/bridge"
	"weir/engine"
	"weir/storage"
)

// openBridge opens an empty store in memory with all that stands on it.
func openBridge(t testing.TB) *bridge.Bridge {
	t.Helper()
	return bridgeOn(t, storage.NewMem(16))
}

// bridgeOn opens what stands on a store; all is closed when the test ends.
func bridgeOn(t testing.TB, st storage.Store) *bridge.Bridge {
	t.Helper()
	ctx := context.Background()
	eng, err := engine.Open(ctx, st, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bridge.Open(ctx, eng, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close(ctx)
		eng.Close(ctx)
		st.Close(ctx)
	})
	return b
}

// serve runs a server on a free port until the test ends.
func serve(t testing.TB, s *Server) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, s, ln)
}

// serveOn runs a server on a listener until the test ends.
func serveOn(t testing.TB, s *Server, ln net.Listener) (addr string) {
	done := make(chan error, 1)
	go func() { done <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		select {
		case err := <-done:
			if !errors.Is(err, ErrServerClosed) {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(patience):
			t.Error("Serve did not return")
		}
	})
	return ln.Addr().String()
}

// startServer runs a server on an empty store in memory.
func startServer(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	s := New(openBridge(t), o)
	return s, serve(t, s)
}

// socketServer runs a server without streams: the socket, and the commands that need none.
func socketServer(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	s := New((*bridge.Bridge)(nil), o)
	return s, serve(t, s)
}

// A client that is killed while commands of it wait is not ready for them: the portable loop once went round for ever.
func TestAKilledClientIsNotReady(t *testing.T) {
	c := newConn(New(nil, Options{}), nil, 1, "", "", time.Unix(1, 0))
	c.in.feed([]byte("PING\r\n"))
	if !c.ready() {
		t.Fatal("a command waits, but the connection is not ready")
	}
	c.sess.killed.Store(true)
	if c.ready() {
		t.Error("a killed connection is ready")
	}
}
