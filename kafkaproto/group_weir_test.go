package kafkaproto

import (
	"context"
	"net"
	"testing"
	"time"

	"weir/bridge"
	"weir/engine"
	"weir/kafkaproto/batch"
	"weir/storage"
)

// startGroupsWeir serves an empty weir in this process, with the settings that the group stories ask of a real Kafka, until
// the test ends. It returns the address.
func startGroupsWeir(t *testing.T) string {
	t.Helper()
	addr, _ := startGroupsBridge(t)
	return addr
}

// startGroupsBridge is startGroupsWeir for tests that look behind the wire.
func startGroupsBridge(t *testing.T) (string, *bridge.Bridge) {
	t.Helper()
	ctx := context.Background()
	eng, err := engine.Open(ctx, storage.NewMem(4), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bridge.Open(ctx, eng, bridge.Options{Codec: batch.Codec{}, MinSessionTimeout: 100 * time.Millisecond, MaxGroupSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(b, Options{})
	lendAsSaid(s)
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		b.Close(ctx)
		eng.Close(ctx)
	})
	return ln.Addr().String(), b
}
