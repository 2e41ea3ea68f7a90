package kafkaproto

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"weir/bridge"
	"weir/engine"
)

// inTurn runs verbs as Redis's side would and commits them.
func inTurn(t testing.TB, s *Server, fn func(*engine.Turn)) {
	t.Helper()
	turn := s.b.Engine().Begin(engine.Written)
	fn(turn)
	if err := turn.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// xadd writes an entry with an ID of ms and fields name, value, ...
func xadd(t testing.TB, turn *engine.Turn, no engine.StreamNo, ms uint64, fields ...string) {
	t.Helper()
	a := engine.AppendArgs{ID: engine.ID{MS: ms}}
	for _, f := range fields {
		a.Fields = append(a.Fields, []byte(f))
	}
	if _, err := turn.Append(no, a); err != nil {
		t.Fatal(err)
	}
}

// consume fetches from an offset and tells what came.
func consume(t testing.TB, c *rawConn, topic string, offset int64) string {
	t.Helper()
	req := fetchOf(topic, offset)
	c.request(5, req)
	resp := req.ResponseKind()
	c.reply(5, resp)
	var s dataStory
	return s.fetched(t, resp)
}

func TestKafkaReadsWhatRedisWrote(t *testing.T) {
	addr, s := newWeir(t, bridge.Options{AutoCreate: true})
	c := dialRaw(t, addr)
	inTurn(t, s, func(turn *engine.Turn) {
		r, err := s.b.CreateKey(turn, []byte("mixed"))
		if err != nil {
			t.Fatal(err)
		}
		xadd(t, turn, r.Stream(), 1, "key", "k", "value", "v", "header:h", "x")
		xadd(t, turn, r.Stream(), 2, "temp", "21")
		xadd(t, turn, r.Stream(), 3, "value", "")
	})
	topic, _ := s.b.Topic("mixed")
	no := topic.Streams[0]
	c.request(2, produceTo("mixed", 1, oneRecord(t, "from kafka")))
	c.reply(2, produceTo("mixed", 1, nil).ResponseKind())
	inTurn(t, s, func(turn *engine.Turn) { xadd(t, turn, no, 9_000_000_000_000, "value", "last") })

	got := consume(t, c, "mixed", 0)
	got = hideNow(got)
	want := `mixed/0: high=5 start=0
  batch 0..2
    0 k=v @1 h:x
    1 null={"temp":"2 @2
    2 null= @3
  batch 3..3
    3 null=from kafka @now
  batch 4..4
    4 null=last @9000000000000
`
	if got != want {
		t.Errorf("from the start:\n%s", got)
	}
	// From inside a block of Redis's entries: from there on, not from its beginning.
	if got := consume(t, c, "mixed", 2); !strings.HasPrefix(got, "mixed/0: high=5 start=0\n  batch 2..2\n    2 null= @3\n  batch 3..3\n") {
		t.Errorf("from 2:\n%s", got)
	}
	inTurn(t, s, func(turn *engine.Turn) {
		if n, err := turn.Delete(no, []engine.ID{{MS: 2}}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	})
	if got := consume(t, c, "mixed", 1); !strings.HasPrefix(got, "mixed/0: high=5 start=0\n  batch 1..2\n    2 null= @3\n") {
		t.Errorf("after XDEL of 1:\n%s", got)
	}
}

// hideNow replaces the timestamp of what was produced just now.
func hideNow(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if at := strings.LastIndex(l, " @1"); at >= 0 && len(l)-at == len(" @1700000000000") {
			lines[i] = l[:at] + " @now"
		}
	}
	return strings.Join(lines, "\n")
}

func TestDeletedRecordsAreLeftOutAndSteppedOver(t *testing.T) {
	addr, s := newWeir(t, bridge.Options{AutoCreate: true})
	c := dialRaw(t, addr)
	c.request(1, metadata(9, "t"))
	c.reply(1, metadata(9, "t").ResponseKind())
	topic, _ := s.b.Topic("t")
	no := topic.Streams[0]
	for i := range 3 {
		c.request(2, produceTo("t", 1, recordsOf(t, fmt.Sprint("a", i), fmt.Sprint("b", i))))
		c.reply(2, produceTo("t", 1, nil).ResponseKind())
	}
	ids := func(offsets ...int64) (out []engine.ID) {
		f, err := s.b.Engine().Fetch(no, 0, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range f.Blocks {
			for _, o := range offsets {
				if id, ok := b.Block.IDAt(o); ok {
					out = append(out, id)
				}
			}
		}
		return out
	}
	del := func(offsets ...int64) {
		t.Helper()
		inTurn(t, s, func(turn *engine.Turn) {
			if n, err := turn.Delete(no, ids(offsets...)); int(n) != len(offsets) || err != nil {
				t.Fatal(n, err)
			}
		})
	}
	del(1)
	if got := consume(t, c, "t", 0); !strings.HasPrefix(got, "t/0: high=6 start=0\n  batch 0..1\n    0 null=a0 @7\n  batch 2..3\n    2 null=a1 @7\n    3 null=b1 @7\n") {
		t.Errorf("one record of a batch is deleted:\n%s", got)
	}
	// A whole batch goes: the next record, not an empty answer.
	del(2, 3)
	if got := consume(t, c, "t", 2); got != "t/0: high=6 start=0\n  batch 4..5\n    4 null=a2 @7\n    5 null=b2 @7\n" {
		t.Errorf("a whole batch is deleted:\n%s", got)
	}
	// The tail goes: a batch of no records leads over it, so that nobody waits below the high watermark.
	del(4, 5)
	if got := consume(t, c, "t", 3); got != "t/0: high=6 start=0\n  batch 3..5\n" {
		t.Errorf("the tail is deleted:\n%s", got)
	}
	if got := consume(t, c, "t", 6); got != "t/0: high=6 start=0\n" {
		t.Errorf("the end:\n%s", got)
	}
}
