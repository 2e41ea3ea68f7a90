package resp

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/redcon"
)

// cutAll feeds input in pieces of at most size bytes and returns the commands, quoted, and the error that ended it.
func cutAll(input []byte, size int, authed bool) (commands []string, err error) {
	lim := Limits{}.withDefaults()
	r := newReader(&lim)
	for len(input) > 0 {
		n := min(size, len(input))
		chunk := bytes.Clone(input[:n])
		input = input[n:]
		r.feed(chunk)
		for {
			args, ok, err := r.next(authed)
			if err != nil {
				return commands, err
			}
			if !ok {
				break
			}
			commands = append(commands, fmt.Sprintf("%q", args))
		}
		r.release()
		clear(chunk) // the chunk is the caller's again: nothing may alias it
	}
	return commands, nil
}

// TestReaderCutsAtAnyByte: a stream gives the same commands however it arrives.
func TestReaderCutsAtAnyByte(t *testing.T) {
	for _, tc := range []struct{ in, want, err string }{
		{"*1\r\n$4\r\nPING\r\n", `["PING"]`, ""},
		{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n", `["ECHO" ""] ["PING"]`, ""},
		{"PING\r\nPING\n", `["PING"] ["PING"]`, ""},
		{"\r\n\n  \r\nPING\r\n", `["PING"]`, ""},
		{`SET "a b" 'c\'d' "\x41\n\"" e` + "\r\n", `["SET" "a b" "c'd" "A\n\"" "e"]`, ""},
		{`a"b c"` + "\r\n", `["ab c"]`, ""},
		{"*0\r\n*-10\r\n*1\r\n$4\r\nPING\r\n", `["PING"]`, ""},
		{"*1\r\n$2\r\n\r\n\r\n", `["\r\n"]`, ""},
		{"*1\r\n$4\r\nPING\r\n*x\r\n", `["PING"]`, "invalid multibulk length"},
		{"*\r\n", ``, "invalid multibulk length"},
		{"*01\r\n", ``, "invalid multibulk length"},
		{"*+1\r\n", ``, "invalid multibulk length"},
		{"*1048577\r\n", ``, "invalid multibulk length"},
		{"*3000000000\r\n", ``, "invalid multibulk length"},
		{"*9223372036854775808\r\n", ``, "invalid multibulk length"},
		{"*1\r\n+4\r\n", ``, "expected '$', got '+'"},
		{"*1\r\n\xff4\r\n", ``, "expected '$', got '\xff'"},
		{"*1\r\n$-1\r\n", ``, "invalid bulk length"},
		{"*1\r\n$x\r\n", ``, "invalid bulk length"},
		{"*1\r\n$9223372036854775807\r\n", ``, "invalid bulk length"},
		{"*1\r\n$536870913\r\n", ``, "invalid bulk length"},
		{`a "b` + "\r\n", ``, "unbalanced quotes in request"},
		{`"a"b` + "\r\n", ``, "unbalanced quotes in request"},
		{strings.Repeat("a", 65537), ``, "too big inline request"},
		{"*" + strings.Repeat("1", 65537), ``, "too big mbulk count string"},
		{"*1\r\n$" + strings.Repeat("1", 65537), ``, "too big bulk count string"},
	} {
		for _, size := range []int{1, 2, 3, 7, 1 << 20} {
			got, err := cutAll([]byte(tc.in), size, true)
			if strings.Join(got, " ") != tc.want {
				t.Errorf("%.40q in pieces of %d: %s, want %s", tc.in, size, got, tc.want)
			}
			want := ""
			if tc.err != "" {
				want = "ERR Protocol error: " + tc.err
			}
			if (err == nil && want != "") || (err != nil && err.Error() != want) {
				t.Errorf("%.40q in pieces of %d: error %v, want %q", tc.in, size, err, want)
			}
		}
	}
}

// TestReaderLimitsBeforeLogin: who has not logged in may send ten arguments of 16 KiB.
func TestReaderLimitsBeforeLogin(t *testing.T) {
	for in, want := range map[string]string{
		"*11\r\n":            "ERR Protocol error: unauthenticated multibulk length",
		"*10\r\n$16385\r\n":  "ERR Protocol error: unauthenticated bulk length",
		"*10\r\n$16384\r\nx": "",
	} {
		_, err := cutAll([]byte(in), 100, false)
		if (err == nil && want != "") || (err != nil && err.Error() != want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

// TestReaderKeepsNoMemory: what a large command took is given back when it is done.
func TestReaderKeepsNoMemory(t *testing.T) {
	lim := Limits{}.withDefaults()
	r := newReader(&lim)
	big := multibulk(strings.Repeat("x", 1<<20))
	for _, chunk := range [][]byte{big[:1<<19], big[1<<19:]} {
		r.feed(chunk)
		for {
			if _, ok, _ := r.next(true); !ok {
				break
			}
		}
		r.release()
	}
	if cap(r.own) > keepOwn {
		t.Errorf("an idle reader keeps %d bytes", cap(r.own))
	}
}

// TestReaderAllocatesWhatCame: of an announced 512 MiB no more is allocated than twice what was received.
func TestReaderAllocatesWhatCame(t *testing.T) {
	lim := Limits{}.withDefaults()
	r := newReader(&lim)
	chunk := make([]byte, 64<<10)
	r.feed([]byte("*1\r\n$536870912\r\n"))
	for i := range 32 {
		if _, ok, err := r.next(true); ok || err != nil {
			t.Fatal(ok, err)
		}
		r.release()
		r.feed(chunk)
		if got := (i + 1) * len(chunk); cap(r.own) > 3*got {
			t.Fatalf("%d bytes are allocated for %d received", cap(r.own), got)
		}
	}
}

// TestReaderCountsLongCommands: a command over the limit ends the connection although each argument is small.
func TestReaderCountsLongCommands(t *testing.T) {
	lim := Limits{Command: 1000}.withDefaults()
	r := newReader(&lim)
	words := make([]string, 400)
	for i := range words {
		words[i] = "abc"
	}
	r.feed(multibulk(words...))
	if _, _, err := r.next(true); err != errCommandSize {
		t.Errorf("error %v, want %v", err, errCommandSize)
	}
}

// FuzzReader: any bytes give the same commands in one piece and in small ones; and what redcon's parser takes for a command,
// so does ours.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"*1\r\n$4\r\nPING\r\n", "PING\r\n", "*2\r\n$3\r\nGET\r\n$1\r\nk\r\nECHO 'a b'\r\n", "*0\r\n*-1\r\n", "*1\r\n$-2\r\n",
		"*1\r\n$9223372036854775807\r\n", "a \"b", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\n", "\r\n\x00*1"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint8) {
		whole, err := cutAll(in, max(1, len(in)), true)
		pieces, perr := cutAll(in, 1+int(size), true)
		if fmt.Sprint(whole, err) != fmt.Sprint(pieces, perr) {
			t.Fatalf("in one piece %q %v, in pieces %q %v", whole, err, pieces, perr)
		}
		compareRedcon(t, in, whole)
		// The same bytes as arguments of a well-formed command.
		var args [][]byte
		for len(in) > 0 {
			n := min(len(in), 1+int(size))
			args = append(args, in[:n])
			in = in[n:]
		}
		if len(args) == 0 {
			return
		}
		packet := multibulk(args...)
		ours, err := cutAll(packet, 1+int(size), true)
		if err != nil || len(ours) != 1 || ours[0] != fmt.Sprintf("%q", args) {
			t.Fatalf("%q became %q, %v", args, ours, err)
		}
		compareRedcon(t, packet, ours)
	})
}

// compareRedcon reads in with redcon as far as it is sane for it: multibulks whose lengths are short and not negative.
func compareRedcon(t *testing.T, in []byte, ours []string) {
	for i := 0; len(in) > 0 && in[0] == '*' && sane(in); {
		complete, args, kind, left, err := redcon.ReadNextCommand(in, nil)
		if err != nil || !complete || kind != redcon.Redis {
			return
		}
		in = left
		if len(args) == 0 {
			continue
		}
		if i >= len(ours) || ours[i] != fmt.Sprintf("%q", args) {
			t.Fatalf("command %d: redcon reads %q, we %q", i, args, ours)
		}
		i++
	}
}

// sane says that redcon's arithmetic survives the lengths in b and that its laxer number syntax is not used.
func sane(b []byte) bool {
	for i := 0; i < len(b); i++ {
		if b[i] != '*' && b[i] != '$' {
			continue
		}
		j := i + 1
		for j < len(b) && b[j] >= '0' && b[j] <= '9' {
			j++
		}
		if j == i+1 || j-i > 6 || (b[i+1] == '0' && j > i+2) || j+1 >= len(b) || b[j] != '\r' || b[j+1] != '\n' {
			return false
		}
	}
	return true
}
