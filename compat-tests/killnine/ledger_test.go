package main

import (
	"errors"
	"strings"
	"testing"
)

// filled returns a ledger in which b1 and b2 were answered, b3 is open.
func filled() *ledger[int64] {
	l := newLedger[int64]()
	l.sent("b1", "b2", "b3")
	l.answer(0, "b1")
	l.answer(1, "b2")
	return l
}

func TestALedgerNamesWhatWasLost(t *testing.T) {
	log := func(values ...string) (out []placed[int64]) {
		for i, v := range values {
			out = append(out, placed[int64]{int64(i), v})
		}
		return out
	}
	for _, c := range []struct {
		title string
		log   []placed[int64]
		want  string // part of the only finding; empty: none
	}{
		{"all that was answered is there", log("b1", "b2"), ""},
		{"what was sent and not answered may be there", log("b1", "b2", "b3"), ""},
		{"an answered value is missing", log("b1"), "1 = b2 was acknowledged and is lost"},
		{"an unanswered value is there twice", log("b1", "b2", "b3", "b3"), "b3 is there twice"},
		{"an answered value is there twice", log("b1", "b2", "b2"), "b2 is there twice"},
		{"another value stands at an answered place", log("b1", "b3"), "1 was acknowledged as b2 and is now b3"},
		{"a value that nobody sent", log("b1", "b2", "x"), "nobody sent"},
		{"one place is there twice", append(log("b1", "b2"), placed[int64]{1, "b3"}), "1 is there twice"},
	} {
		t.Run(c.title, func(t *testing.T) {
			found := filled().compare("log", c.log)
			if c.want == "" {
				if len(found) > 0 {
					t.Fatalf("findings where there is nothing: %q", found)
				}
				return
			}
			if !strings.Contains(strings.Join(found, "\n"), c.want) {
				t.Fatalf("findings are %q, none has %q", found, c.want)
			}
		})
	}
}

func TestALedgerRemembersAPlaceGivenTwiceAndARefusal(t *testing.T) {
	l := filled()
	l.answer(1, "b3")
	l.sent("b4")
	l.refuse("b4", errors.New("no"))
	found := strings.Join(l.compare("log", nil), "\n")
	for _, want := range []string{"1 was given twice: to b2 and to b3", "b4 was answered with: no"} {
		if !strings.Contains(found, want) {
			t.Errorf("findings are %q, without %q", found, want)
		}
	}
}

func TestAComparedLogIsTheNewLedger(t *testing.T) {
	l := filled()
	if found := l.compare("log", []placed[int64]{{0, "b1"}, {1, "b2"}, {2, "b3"}}); len(found) > 0 {
		t.Fatal(found)
	}
	if found := l.compare("log", []placed[int64]{{0, "b1"}, {1, "b2"}}); len(found) != 1 {
		t.Fatalf("b3 was seen once, so it may not go again: %q", found)
	}
}
