package kafkaproto

import (
	"flag"
	"os"
	"testing"
)

// lendEagerly makes newWeir's servers lend a connection after each small produce.
var lendEagerly bool

// TestMain tells every story twice: with connections lent to lanes as usual, and whenever it is allowed.
func TestMain(m *testing.M) {
	code := m.Run()
	if fuzz := flag.Lookup("test.fuzz"); code == 0 && (fuzz == nil || fuzz.Value.String() == "") {
		lendEagerly = true
		code = m.Run()
	}
	os.Exit(code)
}

// lendAsSaid applies lendEagerly.
func lendAsSaid(s *Server) {
	if lendEagerly {
		s.lending.after, s.lending.again = 1, 1
	}
}
