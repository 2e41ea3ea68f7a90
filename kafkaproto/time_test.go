package kafkaproto

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"weir/bridge"
	"weir/engine"
	"weir/kafkaproto/batch"
	"weir/storage"
)

// inFakeTime runs a test in a bubble of fake time, with a server and one connection to it without a socket.
func inFakeTime(t *testing.T, fn func(t *testing.T, s *Server, c *rawConn)) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		st := storage.NewMem(1)
		e, err := engine.Open(ctx, st, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := bridge.Open(ctx, e, bridge.Options{AutoCreate: true, RetentionCheck: -1, Codec: batch.Codec{}})
		if err != nil {
			t.Fatal(err)
		}
		s := New(b, Options{})
		ours, theirs := net.Pipe()
		s.accept(theirs)
		fn(t, s, &rawConn{t, ours})
		ours.Close()
		if err := errors.Join(s.Shutdown(ctx), b.Close(ctx), e.Close(ctx), st.Close(ctx)); err != nil {
			t.Error(err)
		}
	})
}

func TestASilentClientIsLetGo(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Server, c *rawConn) {
		begin := time.Now()
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		if after := time.Since(begin); after != 10*time.Minute {
			t.Errorf("closed after %v", after)
		}
	})
}

func TestAFetchWaitsAsLongAsItSays(t *testing.T) {
	inFakeTime(t, func(t *testing.T, s *Server, c *rawConn) {
		c.request(1, metadata(9, "t"))
		c.reply(1, metadata(9, "t").ResponseKind())
		fetch := fetchOf("t", 0)
		fetch.MaxWaitMillis = 12_345
		begin := time.Now()
		c.request(2, fetch)
		resp := fetch.ResponseKind()
		b, err := readPatiently(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.ReadFrom(b[4:]); err != nil {
			t.Fatal(err)
		}
		if after := time.Since(begin); after != 12_345*time.Millisecond {
			t.Errorf("answered after %v", after)
		}
		// min_bytes beyond what is there waits too, and one record wakes it without ending the wait.
		fetch.MinBytes = 1 << 20
		begin = time.Now()
		c.request(3, fetch)
		synctest.Wait()
		inTurn(t, s, func(turn *engine.Turn) {
			topic, _ := s.b.Topic("t")
			xadd(t, turn, topic.Streams[0], 1, "value", "v")
		})
		if b, err = readPatiently(c); err != nil {
			t.Fatal(err)
		}
		if after := time.Since(begin); after != 12_345*time.Millisecond {
			t.Errorf("answered after %v", after)
		}
		// Silence after a fetch that waited is silence too.
		begin = time.Now()
		c.SetReadDeadline(time.Time{})
		if _, err := c.Read(make([]byte, 1)); err != io.EOF || time.Since(begin) != 10*time.Minute {
			t.Errorf("closed after %v: %v", time.Since(begin), err)
		}
	})
}

// readPatiently reads a reply without a deadline.
func readPatiently(c *rawConn) ([]byte, error) {
	c.SetReadDeadline(time.Time{})
	head := make([]byte, 4)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return nil, err
	}
	b := make([]byte, int(head[0])<<24|int(head[1])<<16|int(head[2])<<8|int(head[3]))
	_, err := io.ReadFull(c.Conn, b)
	return b, err
}
