package engine

import (
	"context"
	"errors"
	"testing"

	"weir/storage"
)

// TestGroupRowsThatFitNothingAreRefused: a damaged store is reported when the stream is loaded, whatever is damaged.
func TestGroupRowsThatFitNothingAreRefused(t *testing.T) {
	group := func(n uint32) []byte { r := storage.GroupRow{Number: n}; return r.Append(nil) }
	consumer := func(n uint32) []byte { r := storage.ConsumerRow{Number: n}; return r.Append(nil) }
	pending := func(last int64, owner uint32) []byte {
		r := storage.PendingRow{Last: last, Owner: owner}
		return r.Append(nil)
	}
	name := []byte("g")
	for title, rows := range map[string]func(no StreamNo) map[string][]byte{
		"sound": func(no StreamNo) map[string][]byte {
			return map[string][]byte{
				string(storage.GroupKey(no, name)): group(1), string(storage.ConsumerKey(no, 1, name)): consumer(1),
				string(storage.PendingKey(no, 1, 5)): pending(9, 1), string(storage.PendingKey(no, 1, 10)): pending(10, 0),
			}
		},
		"a consumer of no group": func(no StreamNo) map[string][]byte {
			return map[string][]byte{string(storage.ConsumerKey(no, 1, name)): consumer(1)}
		},
		"pending in no group": func(no StreamNo) map[string][]byte {
			return map[string][]byte{string(storage.PendingKey(no, 1, 5)): pending(9, 0)}
		},
		"pending with nobody": func(no StreamNo) map[string][]byte {
			return map[string][]byte{string(storage.GroupKey(no, name)): group(1), string(storage.PendingKey(no, 1, 5)): pending(9, 7)}
		},
		"overlapping": func(no StreamNo) map[string][]byte {
			return map[string][]byte{
				string(storage.GroupKey(no, name)):   group(1),
				string(storage.PendingKey(no, 1, 5)): pending(9, 0), string(storage.PendingKey(no, 1, 9)): pending(9, 0),
			}
		},
		"backwards": func(no StreamNo) map[string][]byte {
			return map[string][]byte{string(storage.GroupKey(no, name)): group(1), string(storage.PendingKey(no, 1, 5)): pending(4, 0)}
		},
		"before the first offset": func(no StreamNo) map[string][]byte {
			return map[string][]byte{string(storage.GroupKey(no, name)): group(1), string(storage.PendingKey(no, 1, -3)): pending(4, 0)}
		},
		"one number twice": func(no StreamNo) map[string][]byte {
			return map[string][]byte{string(storage.GroupKey(no, name)): group(1), string(storage.GroupKey(no, []byte("h"))): group(1)}
		},
		"cut short": func(no StreamNo) map[string][]byte {
			return map[string][]byte{string(storage.GroupKey(no, name)): group(1)[:3]}
		},
	} {
		st := storage.NewMem(1)
		e, err := Open(context.Background(), st, Options{})
		if err != nil {
			t.Fatal(err)
		}
		turn := e.Begin(Written)
		no, err := turn.Create([]byte("s"))
		if err != nil {
			t.Fatal(err)
		}
		waitTurn(t, turn)
		w := e.shards[0].w
		b := w.Begin()
		for k, v := range rows(no) {
			if err := b.Set([]byte(k), v); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Commit(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		if _, err := loadStream(e.shards[0], no); errors.Is(err, storage.ErrCorrupt) == (title == "sound") {
			t.Errorf("%s: %v", title, err)
		}
		e.Close(context.Background())
	}
}
