package main

import (
	"strings"
	"testing"
)

// played returns a script that has had n commands answered and m not.
func played(n, m int) *script {
	a := newScript("s", 42)
	for range n {
		a.w.next(a.answered).apply(a.answered)
	}
	state := a.answered.clone()
	for range m {
		o := a.w.next(state)
		o.apply(state)
		a.unanswered = append(a.unanswered, o)
	}
	return a
}

func TestEveryPrefixOfTheUnansweredCommandsIsAccepted(t *testing.T) {
	for k := range 9 {
		a := played(500, 8)
		got := a.answered.clone()
		for _, o := range a.unanswered[:k] {
			o.apply(got)
		}
		if found := a.settle(got, true); len(found) > 0 {
			t.Errorf("%d of 8 unanswered commands carried out: %q", k, found)
		}
	}
}

func TestASkippedCommandIsNoticed(t *testing.T) {
	a := played(500, 0)
	got := a.answered.clone()
	gone := got.entries[len(got.entries)-1]
	got.entries = got.entries[:len(got.entries)-1]
	found := a.settle(got, true)
	if len(found) != 1 || !strings.Contains(found[0], "lost: entry "+gone.id.String()) {
		t.Fatalf("the newest entry was taken away: %q", found)
	}
}

func TestAPendingRowThatChangesHandsIsNoticed(t *testing.T) {
	a := played(2000, 0)
	got := a.answered.clone()
	for _, g := range got.groups {
		for i, p := range g.pel {
			p.consumer += "x"
			g.pel[i] = p
			if found := a.settle(got, true); len(found) != 2 {
				t.Fatalf("one row is with another consumer: %q", found)
			}
			return
		}
	}
	t.Fatal("the script left nothing pending; choose another seed")
}
