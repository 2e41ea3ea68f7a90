package main

import (
	"fmt"
	"sync"
)

// A ledger is what several writers of one log know about it. Every value is unique
// in the run. Places are offsets, or stream IDs as text.
type ledger[place comparable] struct {
	mu sync.Mutex
	// answered has, for each place that a server has given, the value that it was
	// given for.
	answered map[place]string
	// open are values sent and not answered: there or not, but not twice.
	open  map[string]bool
	count int64
	wrong findings
}

func newLedger[place comparable]() *ledger[place] {
	return &ledger[place]{answered: map[place]string{}, open: map[string]bool{}}
}

// sent notes values before they are written to a socket.
func (l *ledger[place]) sent(values ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range values {
		l.open[v] = true
	}
}

// answer notes that value has got at; a place given twice is a finding at once.
func (l *ledger[place]) answer(at place, value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, value)
	l.count++
	if other, ok := l.answered[at]; ok && other != value {
		l.wrong.add("%v was given twice: to %s and to %s", at, other, value)
	}
	l.answered[at] = value
}

// refuse notes that the server answered value with an error, which no load here
// provokes.
func (l *ledger[place]) refuse(value string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, value)
	l.wrong.add("%s was answered with: %v", value, err)
}

func (l *ledger[place]) answers() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// A placed is one value found in the log.
type placed[place comparable] struct {
	at    place
	value string
}

// compare checks a whole log against the ledger and takes the log over as answered.
// what names the log in findings.
func (l *ledger[place]) compare(what string, log []placed[place]) findings {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.wrong
	l.wrong = nil
	there := map[place]string{}
	seen := map[string]place{}
	for _, p := range log {
		if _, ok := there[p.at]; ok {
			found.add("%s: %v is there twice", what, p.at)
		}
		there[p.at] = p.value
		if other, ok := seen[p.value]; ok {
			found.add("%s: %s is there twice, at %v and at %v", what, p.value, other, p.at)
		}
		seen[p.value] = p.at
		if was, ok := l.answered[p.at]; ok {
			if was != p.value {
				found.add("%s: %v was acknowledged as %s and is now %s", what, p.at, was, p.value)
			}
			continue
		}
		if !l.open[p.value] {
			found.add("%s: %v holds %s, which nobody sent or which was acknowledged elsewhere", what, p.at, p.value)
		}
	}
	for at, v := range l.answered {
		if _, ok := there[at]; !ok {
			moved := ""
			if other, ok := seen[v]; ok {
				moved = fmt.Sprintf(" (it is at %v)", other)
			}
			found.add("%s: %v = %s was acknowledged and is lost%s", what, at, v, moved)
		}
	}
	l.answered, l.open = there, map[string]bool{}
	return found
}

// unsend forgets a value that never reached a socket.
func (l *ledger[place]) unsend(value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, value)
}
