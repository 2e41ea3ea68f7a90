package resp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// Transcripts are stories between clients and a server. Their expected side is written by a real redis-server:
//
//	REDIS_ORACLE=127.0.0.1:7000 go test ./resp -run Transcripts -rewrite
//
// (it is emptied by FLUSHALL before each file), and compared with weir's without one. testdata/*.txt are such; testdata/weir/*.txt are
// about what Redis does not have and are compared with weir only.
//
//	run                      a block of lines; options: resp3 (all connections of the block say HELLO 3 first),
//	XADD s 1-0 f v           shape (values are left out, types shown), ints (integers are left out)
//	a> XREAD BLOCK 0 STREAMS s $    a named connection; the first line's is called c
//	id = XADD s * f v        keeps the reply, for $id in later lines
//	b>> PING                 sends and does not read
//	b<                       reads one reply, waiting for it as long as it takes (a BLOCK that runs out); the next
//	                         command of a connection that waits does so first
//	----
//	"1-0"                    a reply of c; those of other connections are preceded by their name
//	a: (waits)               the command is blocked
//	a: [["s", ...]]          a reply that a line above set free
//
//	raw                      Go-quoted strings are sent as they are on a new connection, which is then half closed
//	----
//	...                      all that was answered, one quoted line each, until the server closed
//
// Clocks differ: IDs and times of now are shown as <ms>, idle times as <idle>.

func TestTranscripts(t *testing.T) {
	oracle := os.Getenv("REDIS_ORACLE")
	walk := func(t *testing.T, pattern, oracle string) {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				play := func(t *testing.T, addr string) {
					st := newStage(t, addr)
					defer st.close()
					datadriven.RunTest(t, file, st.play)
				}
				if oracle != "" {
					play(t, oracle)
					return
				}
				for _, o := range []Options{{Loops: 1}, {Loops: 3}, {Portable: true}} {
					t.Run(fmt.Sprintf("loops=%d", o.Loops), func(t *testing.T) {
						_, addr := startServer(t, o)
						play(t, addr)
					})
				}
			})
		}
	}
	walk(t, filepath.Join("testdata", "*.txt"), oracle)
	if oracle == "" {
		walk(t, filepath.Join("testdata", "weir", "*.txt"), "")
	}
}

// stage is one file's connections.
type stage struct {
	t      *testing.T
	addr   string
	actors map[string]*actor
	order  []*actor // in the order of their entrance
	ask    *actor   // asks who is blocked
	vars   map[string]string
}

// actor is one named connection.
type actor struct {
	name    string
	nc      net.Conn
	r       *bufio.Reader
	id      string
	waits   []string // the command it is blocked on
	keep    string   // variable for the reply
	proto3  bool
	unread  int // sent by >> and not read
	pending [][]string
}

func newStage(t *testing.T, addr string) *stage {
	s := &stage{t: t, addr: addr, actors: map[string]*actor{}, vars: map[string]string{}}
	s.ask = s.enter("(ask)")
	s.say(s.ask, "FLUSHALL")
	return s
}

func (s *stage) close() {
	for _, a := range s.order {
		a.nc.Close()
	}
}

func (s *stage) enter(name string) *actor {
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	a := &actor{name: name, nc: nc, r: bufio.NewReader(nc)}
	a.id = s.say(a, "CLIENT", "ID").text
	s.order = append(s.order, a)
	return a
}

// say sends and reads, for the stage's own needs.
func (s *stage) say(a *actor, words ...string) value {
	s.send(a, words)
	return s.hear(a)
}

func (s *stage) send(a *actor, words []string) {
	a.nc.SetWriteDeadline(time.Now().Add(patience))
	if _, err := a.nc.Write(multibulk(words...)); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		s.t.Fatalf("%s> %s: %v", a.name, strings.Join(words, " "), err)
	}
}

func (s *stage) hear(a *actor) value {
	a.nc.SetReadDeadline(time.Now().Add(patience))
	v, err := readValue(a.r)
	if err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
		return value{kind: '+', text: "(closed)"}
	}
	if err != nil {
		s.t.Fatalf("%s<: %v", a.name, err)
	}
	return v
}

// blocked asks the server whether a connection waits.
func (s *stage) blocked(a *actor) bool {
	line := s.say(s.ask, "CLIENT", "LIST", "ID", a.id).text
	_, rest, _ := strings.Cut(line, " flags=")
	letters, _, _ := strings.Cut(rest, " ")
	return strings.Contains(letters, "b")
}

var lineForm = regexp.MustCompile(`^(?:(\w+)(>>|>|<)\s*)?(?:(\w+) = )?(.*)$`)

func (s *stage) play(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	if d.Cmd == "raw" {
		return s.raw(d.Input)
	}
	if d.Cmd != "run" {
		d.Fatalf(t, "unknown directive %s", d.Cmd)
	}
	p := &playing{stage: s, expected: strings.Split(d.Expected, "\n"), shape: d.HasArg("shape"), ints: d.HasArg("ints"), resp3: d.HasArg("resp3")}
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p.line(line)
	}
	return p.out.String()
}

// playing is one block.
type playing struct {
	*stage
	expected           []string
	shape, ints, resp3 bool
	out                strings.Builder
}

func (p *playing) line(line string) {
	m := lineForm.FindStringSubmatch(line)
	name, how, keep, text := m[1], m[2], m[3], m[4]
	if name == "" {
		name = "c"
	}
	a := p.actors[name]
	if a == nil {
		a = p.enter(name)
		p.actors[name] = a
	}
	if p.resp3 != a.proto3 && a.waits == nil && how != "<" {
		p.say(a, "HELLO", map[bool]string{true: "3", false: "2"}[p.resp3])
		a.proto3 = p.resp3
	}
	if how == "<" {
		words := a.waits
		if a.waits == nil && len(a.pending) == 0 {
			return // due has shown it already
		}
		if a.waits == nil {
			words, a.pending = a.pending[0], a.pending[1:]
		}
		p.show(a, words, p.hear(a))
		a.waits = nil
		return
	}
	if a.waits != nil && how != ">>" {
		p.show(a, a.waits, p.hear(a)) // it is still waiting, for a time that runs out
		a.waits = nil
	}
	raw, ok := splitWords([]byte(text), nil)
	if !ok {
		p.t.Fatalf("unbalanced quotes: %s", line)
	}
	words := make([]string, len(raw))
	for i, w := range raw {
		words[i] = p.replace(string(w))
	}
	p.send(a, words)
	if how == ">>" {
		a.pending = append(a.pending, words)
		return
	}
	a.keep = keep
	p.answer(a, words)
	for _, other := range p.order {
		if other.waits != nil && other != a && (p.due(other) || !p.blocked(other)) {
			words := other.waits
			other.waits = nil
			p.show(other, words, p.hear(other))
		}
	}
}

// due says that the transcript goes on with an actor's reply: it is waited for, for between goroutines a reader wakes a moment
// after the writer is answered.
func (p *playing) due(a *actor) bool {
	n := strings.Count(p.out.String(), "\n")
	return n < len(p.expected) && strings.HasPrefix(p.expected[n], a.name+": ") && !strings.HasSuffix(p.expected[n], "(waits)")
}

// answer shows the reply, or that there is none because the command waits. A reply and a wait exclude each other, so both
// are looked for in turns.
func (p *playing) answer(a *actor, words []string) {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		a.nc.SetReadDeadline(time.Now().Add(wait))
		if _, err := a.r.Peek(1); err == nil || err == io.EOF || errors.Is(err, syscall.ECONNRESET) {
			p.show(a, words, p.hear(a))
			return
		}
		if p.blocked(a) {
			fmt.Fprintf(&p.out, "%s: (waits)\n", a.name)
			a.waits = words
			return
		}
	}
}

func (p *playing) show(a *actor, words []string, v value) {
	if a.keep != "" {
		p.vars[a.keep] = v.text
		a.keep = ""
	}
	v = mask(words, v)
	if p.shape {
		v = v.shape()
	}
	if p.ints {
		v = hideInts(v)
	}
	prefix := ""
	if a.name != "c" {
		prefix = a.name + ": "
	}
	text := nowMS.ReplaceAllString(v.String(), "<ms>")
	if len(text) > 120 && v.elems != nil && (v.kind == '*' || v.kind == '%') {
		text = v.broken()
		text = nowMS.ReplaceAllString(text, "<ms>")
	}
	fmt.Fprintf(&p.out, "%s%s\n", prefix, text)
}

// broken is a long array or map with a line for each element.
func (v value) broken() string {
	var b strings.Builder
	open, shut, step := "[", "]", 1
	if v.kind == '%' {
		open, shut, step = "{", "}", 2
	}
	b.WriteString(open + "\n")
	for i := 0; i+step <= len(v.elems); i += step {
		b.WriteString("  " + v.elems[i].String())
		if step == 2 {
			b.WriteString(": " + v.elems[i+1].String())
		}
		b.WriteString("\n")
	}
	return b.String() + shut
}

var (
	nowMS    = regexp.MustCompile(`\b1[5-9]\d{11}\b`)
	variable = regexp.MustCompile(`^\$(\w+)$`)
)

// replace puts a kept reply for $name; other words stay as they are.
func (s *stage) replace(word string) string {
	if m := variable.FindStringSubmatch(word); m != nil {
		if v, ok := s.vars[m[1]]; ok {
			return v
		}
	}
	return word
}

// mask hides idle times.
func mask(words []string, v value) value {
	idle := func(e *value) {
		if e.kind == ':' && !strings.HasPrefix(e.text, "-") {
			e.text = "<idle>"
		}
	}
	switch {
	case len(words) == 2 && strings.EqualFold(words[0]+" "+words[1], "client id"):
		v.text = "<id>"
	case strings.EqualFold(words[0], "hello") && len(v.elems) == 14:
		v.elems[7].text = "<id>"
		v.elems[13].elems = nil // modules
	case len(words) > 3 && strings.EqualFold(words[0], "xpending"):
		for i := range v.elems {
			if len(v.elems[i].elems) == 4 {
				idle(&v.elems[i].elems[2])
			}
		}
	case len(words) > 1 && strings.EqualFold(words[0], "xinfo") && strings.EqualFold(words[1], "consumers"):
		for _, c := range v.elems {
			for i := 0; i+1 < len(c.elems); i += 2 {
				if c.elems[i].text == "idle" || c.elems[i].text == "inactive" {
					idle(&c.elems[i+1])
				}
			}
		}
	}
	return v
}

func hideInts(v value) value {
	if v.kind == ':' {
		v.text = "<int>"
	}
	elems := v.elems
	v.elems = nil
	for _, e := range elems {
		v.elems = append(v.elems, hideInts(e))
	}
	return v
}

// raw plays bytes as they are.
func (s *stage) raw(input string) string {
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer nc.Close()
	for line := range strings.Lines(input) {
		text, err := strconv.Unquote(strings.TrimSpace(line))
		if err != nil {
			s.t.Fatalf("%s: %v", line, err)
		}
		nc.SetDeadline(time.Now().Add(patience))
		if _, err := nc.Write([]byte(text)); err != nil {
			break // the server has closed already; what it said is still to be read
		}
	}
	nc.(*net.TCPConn).CloseWrite()
	b, err := io.ReadAll(nc)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		s.t.Fatal("the server did not close")
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		fmt.Fprintf(&out, "%q\n", line)
	}
	if out.Len() == 0 {
		return "(closed)\n"
	}
	return out.String()
}
