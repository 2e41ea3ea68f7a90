package kafkaproto

import (
	"testing"
	"time"
)

func TestCompanyIsWaitedForWhileItComes(t *testing.T) {
	c := company{}
	wait := func(told, have int, took time.Duration) time.Duration {
		c.expect(told, have, 1000, took)
		return time.Duration(max(c.until-1000, 0))
	}
	if d := wait(1, 0, time.Second); d != 0 {
		t.Errorf("one producer alone waits %v for himself", d)
	}
	if d := wait(8, 8, 400*time.Microsecond); d != 100*time.Microsecond || c.complete(15) || !c.complete(16) {
		t.Errorf("waits %v for %d", d, c.expected)
	}
	c.judge(12) // three quarters have come
	if d := wait(8, 4, time.Second); d != mostLinger {
		t.Errorf("waits %v after an fsync that took a second", d)
	}
	pauses := func() (n int) {
		for c.judge(1); wait(8, 8, time.Millisecond) == 0; c.judge(1) {
			n++
		}
		return n
	}
	for _, want := range []int{1, 3, 7, 15, 31, 63, 64, 64} {
		if got := pauses(); got != want {
			t.Errorf("not waited for %d times after a disappointment, want %d", got, want)
		}
	}
	c.judge(16)
	wait(8, 8, time.Millisecond)
	if got := pauses(); got != 1 {
		t.Errorf("they came, and then not: not waited for %d times", got)
	}
}
