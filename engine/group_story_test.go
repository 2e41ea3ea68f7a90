package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"weir/storage"
)

// TestGroupStories plays testdata/groups_*.txt: dictionary section 5, rule by rule. Each line of a block is one command
// and answers one line (state: several). The clock stands at 1000 ms and moves by `tick`.
//
// A block `together` is one turn, as a pipeline is; in a block `run` every command is its own.
//
// After every turn the stream is read anew from the store and must be the same; what is
// lazy is left out of that until it is written.
func TestGroupStories(t *testing.T) {
	files, err := filepath.Glob("testdata/groups_*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	eachGroupStore(t, func(t *testing.T, st storage.Store) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
				p := newPlay(t, st)
				datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
					var out strings.Builder
					for line := range strings.Lines(d.Input) {
						if line = strings.TrimSpace(line); line == "" {
							continue
						}
						out.WriteString(strings.TrimRight(p.line(t, line), "\n") + "\n")
						if d.Cmd == "run" {
							p.compare(t, line)
						}
					}
					p.compare(t, d.Cmd)
					return out.String()
				})
				p.close(t)
			})
		}
	})
}

// eachGroupStore runs a test over the three stores that must behave alike.
func eachGroupStore(t *testing.T, f func(t *testing.T, st storage.Store)) {
	open := func(t *testing.T) storage.Store {
		st, err := storage.OpenPebble(t.TempDir(), storage.Options{Shards: 4})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	for name, make := range map[string]func(t *testing.T) storage.Store{
		"mem":    func(*testing.T) storage.Store { return storage.NewMem(4) },
		"pebble": open,
		"shadow": func(t *testing.T) storage.Store { return storage.NewShadow(open(t), storage.NewMem(4)) },
	} {
		t.Run(name, func(t *testing.T) {
			st := make(t)
			f(t, st)
			if err := st.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// play is one stream under a fake clock.
type play struct {
	st    storage.Store
	e     *Engine
	no    StreamNo
	clock int64
	turn  *Turn
}

func newPlay(t *testing.T, st storage.Store) *play {
	p := &play{st: st, clock: 1000}
	p.open(t)
	no, err := p.turn.Create([]byte(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	p.no = no
	p.wait(t)
	return p
}

func (p *play) open(t *testing.T) {
	e, err := Open(context.Background(), p.st, Options{NowMS: func() int64 { return p.clock }})
	if err != nil {
		t.Fatal(err)
	}
	p.e, p.turn = e, e.Begin(Written)
}

func (p *play) wait(t *testing.T) {
	t.Helper()
	if err := p.turn.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func (p *play) close(t *testing.T) {
	if err := p.e.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// compare reads the stream anew and compares its groups with those in memory.
func (p *play) compare(t *testing.T, after string) {
	t.Helper()
	p.wait(t)
	sh := p.e.shardOf(p.no)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	live, ok := sh.streams[p.no]
	if !ok {
		return
	}
	read, err := loadStream(sh, p.no)
	if err != nil {
		t.Fatalf("after %q: %v", after, err)
	}
	for name, gr := range live.groups {
		if gr.due {
			t.Errorf("after %q: group %s is due although its round is written", after, name)
		}
		if gr.lazy || gr.provisional {
			delete(read.groups, name)
			continue
		}
		other := read.groups[name]
		if other == nil {
			t.Errorf("after %q: group %s is not in the store", after, name)
			continue
		}
		if a, b := rowsOf(gr), rowsOf(other); a != b {
			t.Errorf("after %q: in memory\n%sin the store\n%s", after, a, b)
		}
		delete(read.groups, name)
	}
	for name := range read.groups {
		t.Errorf("after %q: group %s is in the store only", after, name)
	}
	if err := countsAgree(live); err != nil {
		t.Errorf("after %q: %v", after, err)
	}
}

// rowsOf is everything of a group that storage keeps.
func rowsOf(gr *group) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %+v\n", gr.name, gr.row)
	for _, c := range gr.sortedConsumers() {
		fmt.Fprintf(&b, " %s %d %d seen %d active %d\n", c.name, c.number, c.kind, c.seen, c.active)
	}
	gr.pel.each(0, maxOffset, func(s pelSpan) bool {
		fmt.Fprintf(&b, " %d-%d %s\n", s.first, s.last, rowText(s.pelRow))
		return true
	})
	return b.String()
}

func rowText(r pelRow) string {
	owner := "-"
	if r.owner != nil {
		owner = r.owner.name
	}
	text := fmt.Sprintf("%s t=%d n=%d", owner, r.time, r.count)
	if r.claimed {
		text += " claimed"
	}
	return text
}

// countsAgree checks that a group's PEL is the sum of its consumers'.
func countsAgree(s *stream) error {
	for _, gr := range s.groups {
		owned := map[*consumer]int64{}
		var all int64
		gr.pel.each(0, maxOffset, func(sp pelSpan) bool {
			owned[sp.owner] += sp.size()
			all += sp.size()
			return true
		})
		for _, c := range gr.consumers {
			if owned[c] != c.pending {
				return fmt.Errorf("group %s: %s counts %d pending, owns %d", gr.name, c.name, c.pending, owned[c])
			}
			delete(owned, c)
		}
		if owned[nil] != gr.pel.released || all != gr.pel.count {
			return fmt.Errorf("group %s: %d rows counted, %d released; has %d, %d", gr.name, gr.pel.count, gr.pel.released, all, owned[nil])
		}
		delete(owned, nil)
		if len(owned) > 0 {
			return fmt.Errorf("group %s: rows of consumers that are not there", gr.name)
		}
	}
	return nil
}

// words are one command: a verb, then words and key=value options.
type words struct {
	args []string
	opts map[string]string
}

func parseWords(line string) (w words) {
	w.opts = map[string]string{}
	for _, f := range strings.Fields(line) {
		if k, v, ok := strings.Cut(f, "="); ok {
			w.opts[k] = v
		} else {
			w.args = append(w.args, f)
		}
	}
	return w
}

func (w *words) arg(i int) string {
	if i < len(w.args) {
		return w.args[i]
	}
	return ""
}

func (w *words) has(word string) bool {
	for _, a := range w.args {
		if a == word {
			return true
		}
	}
	return false
}

func wordInt(s string, def int64) int64 {
	if s == "" {
		return def
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func wordID(s string) ID {
	ms, seq, _ := strings.Cut(s, "-")
	return ID{MS: uint64(wordInt(ms, 0)), Seq: uint64(wordInt(seq, 0))}
}

// ids are the words that begin with a digit, from the i-th on.
func (w *words) ids(i int) (out []ID) {
	for _, a := range w.args[min(i, len(w.args)):] {
		if a[0] >= '0' && a[0] <= '9' {
			out = append(out, wordID(a))
		}
	}
	return out
}

var kinds = map[string]ConsumerKind{"": RedisConsumer, "classic": ClassicMember, "consumer": ConsumerMember, "share": ShareMember}

// line plays one command.
func (p *play) line(t *testing.T, line string) string {
	p.turn.Tick()
	w := parseWords(line)
	g := p.turn.Group(p.no, w.arg(1))
	for _, f := range []func(*testing.T, *words, Group) (string, bool){p.streamWord, p.groupWord, p.kafkaWord, p.claimWord} {
		if out, ok := f(t, &w, g); ok {
			return out
		}
	}
	t.Fatalf("unknown command %q", line)
	return ""
}

func errText(err error) string {
	if err != nil {
		return strings.TrimPrefix(err.Error(), "engine: ")
	}
	return "ok"
}

func (p *play) streamWord(t *testing.T, w *words, _ Group) (string, bool) {
	switch w.args[0] {
	case "add": // each word is one entry, one block per line
		for _, id := range w.ids(1) {
			if _, err := p.turn.Append(p.no, AppendArgs{ID: id, Fields: [][]byte{[]byte("f"), []byte("v")}}); err != nil {
				return errText(err), true
			}
		}
		return "ok", true
	case "del":
		n, err := p.turn.Delete(p.no, w.ids(1))
		return fmt.Sprint(n, " ", errText(err)), true
	case "trim":
		n, err := p.turn.Trim(p.no, TrimArgs{Kind: TrimMaxLen, MaxLen: wordInt(w.arg(1), 0)})
		return fmt.Sprint(n, " ", errText(err)), true
	case "xsetid":
		return errText(p.turn.SetID(p.no, SetIDArgs{ID: wordID(w.arg(1)), EntriesAdded: -1})), true
	case "tick":
		p.clock += wordInt(w.arg(1), 1)
		return fmt.Sprint("t=", p.clock), true
	case "reopen":
		p.wait(t)
		p.close(t)
		p.open(t)
		return "ok", true
	}
	return "", false
}

func (p *play) groupWord(_ *testing.T, w *words, g Group) (string, bool) {
	c, kind := w.arg(2), kinds[w.opts["kind"]]
	start := func() GroupStart {
		return GroupStart{Last: w.arg(2) == "last", ID: wordID(strings.TrimPrefix(w.arg(2), "last")), EntriesRead: wordInt(w.opts["read"], -1)}
	}
	switch w.args[0] {
	case "create":
		return errText(g.Create(start())), true
	case "setid":
		return errText(g.SetID(start())), true
	case "destroy":
		ok, err := g.Destroy()
		return fmt.Sprint(ok, " ", errText(err)), true
	case "consumer":
		made, err := g.ConsumerCreate(c, kind)
		return fmt.Sprint(made, " ", errText(err)), true
	case "delconsumer":
		n, err := g.ConsumerDelete(c)
		return fmt.Sprint(n, " ", errText(err)), true
	case "touch":
		return errText(g.ConsumerTouch(c, kind)), true
	case "read":
		r, err := g.Deliver(c, DeliverArgs{Count: wordInt(w.opts["count"], 0), NoAck: w.has("noack"), Kind: kind})
		if err != nil {
			return errText(err), true
		}
		return readerText(r), true
	case "history":
		held, err := g.History(c, wordID(w.arg(3)), wordInt(w.opts["count"], 0))
		return heldText(held, err), true
	case "ack":
		n, err := g.Ack(w.ids(2))
		return fmt.Sprint(n, " ", errText(err)), true
	case "reject":
		n, err := g.Reject(w.ids(2))
		return fmt.Sprint(n, " ", errText(err)), true
	case "release":
		mode := map[string]ReleaseMode{"silent": ReleaseSilent, "fail": ReleaseFail, "fatal": ReleaseFatal}[w.arg(2)]
		n, err := g.Release(w.ids(3), mode, wordCount(w.opts["retry"]), w.has("force"))
		return fmt.Sprint(n, " ", errText(err)), true
	case "state":
		return p.state(w.arg(1)), true
	}
	return "", false
}

func (p *play) kafkaWord(_ *testing.T, w *words, g Group) (string, bool) {
	kind := kinds[w.opts["kind"]]
	if w.opts["kind"] == "" {
		kind = ClassicMember
	}
	switch w.args[0] {
	case "fetch":
		return errText(g.DeliverFetched(w.arg(2), kind, wordInt(w.arg(3), 0), wordInt(w.arg(4), 0))), true
	case "commit":
		return errText(g.Commit(CommitArgs{Offset: wordInt(w.arg(2), 0), Epoch: int32(wordInt(w.opts["epoch"], -1)), Metadata: []byte(w.opts["meta"])})), true
	case "committed":
		c, ok, err := g.Committed()
		if err != nil || !ok {
			return "none " + errText(err), true
		}
		return strings.TrimSpace(fmt.Sprintf("%d epoch=%d %s", c.Offset, c.Epoch, c.Metadata)), true
	case "claimall":
		return errText(g.ClaimAll(w.arg(2), kind)), true
	case "reader":
		return errText(g.SetReader(w.arg(2))), true
	case "putback":
		return errText(g.PutBack()), true
	}
	return "", false
}

func wordCount(s string) *uint64 {
	if s == "" {
		return nil
	}
	n := uint64(wordInt(s, 0))
	return &n
}

func (p *play) claimWord(_ *testing.T, w *words, g Group) (string, bool) {
	switch w.args[0] {
	case "claim":
		a := ClaimArgs{
			Consumer: w.arg(2), MinIdle: wordInt(w.opts["idle"], 0), IDs: w.ids(3), Time: wordInt(w.opts["time"], -1),
			RetryCount: wordCount(w.opts["retry"]), Force: w.has("force"), JustID: w.has("justid"),
		}
		if s := w.opts["lastid"]; s != "" {
			last := wordID(s)
			a.LastID = &last
		}
		return heldText(g.Claim(a)), true
	case "autoclaim":
		a, err := g.AutoClaim(AutoClaimArgs{
			Consumer: w.arg(2), MinIdle: wordInt(w.opts["idle"], 0), Start: wordID(w.arg(3)), Count: wordInt(w.opts["count"], 100), JustID: w.has("justid"),
		})
		return fmt.Sprintf("next %v, %s, deleted %v", a.Next, heldText(a.Held, err), runIDs(a.Deleted)), true
	case "pending":
		s, err := g.PendingSummary()
		return fmt.Sprintf("%d %v..%v %v %s", s.Count, s.Min, s.Max, s.Consumers, errText(err)), true
	case "rows":
		a := PendingArgs{MinIdle: wordInt(w.opts["idle"], 0), From: wordID(w.arg(2)), To: MaxID, Count: wordInt(w.opts["count"], 100)}
		if s := w.arg(3); s != "" {
			a.To = wordID(s)
		}
		if s, ok := w.opts["consumer"]; ok {
			a.Consumer = &s
		}
		rows, err := g.Pending(a)
		if err != nil {
			return errText(err), true
		}
		var b strings.Builder
		for _, r := range rows {
			fmt.Fprintf(&b, "%v(%d) %q idle=%d n=%d; ", r.ID, r.Offset, r.Consumer, r.Idle, r.Count)
		}
		return "[" + strings.TrimSuffix(b.String(), "; ") + "]", true
	}
	return "", false
}

// state is what both sides see of a group, and its PEL.
func (p *play) state(name string) string {
	stats, err := p.turn.Groups(p.no)
	if err != nil {
		return errText(err)
	}
	for _, s := range stats {
		if s.Name != name {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "last %d (%v) read %d lag %d pending %d watermark %d oldest %d", s.LastOffset, s.LastID, s.EntriesRead, shownLag(s.Lag), s.Pending, s.Watermark, s.OldestTime)
		if s.Reader != "" {
			fmt.Fprintf(&b, " reader %s", s.Reader)
		}
		consumers, err := p.turn.Group(p.no, name).Consumers()
		if err != nil {
			return errText(err)
		}
		for _, c := range consumers {
			fmt.Fprintf(&b, "\n  %s kind=%d pending=%d seen=%d active=%d", c.Name, c.Kind, c.Pending, c.Seen, c.Active)
		}
		sh := p.e.shardOf(p.no)
		sh.mu.Lock()
		defer sh.mu.Unlock()
		sh.streams[p.no].groups[name].pel.each(0, maxOffset, func(sp pelSpan) bool {
			fmt.Fprintf(&b, "\n  %d..%d %s", sp.first, sp.last, rowText(sp.pelRow))
			return true
		})
		return b.String()
	}
	return "no group"
}

// readerText lists the IDs that a reader yields.
func readerText(r *Reader) string {
	if r == nil {
		return "nothing"
	}
	defer r.Close()
	want := r.Count()
	var ids []string
	for {
		run, ok, err := r.Next()
		if err != nil {
			return errText(err)
		}
		if !ok {
			break
		}
		ids = appendRunIDs(ids, &run)
	}
	if int64(len(ids)) != want {
		return fmt.Sprintf("%d entries said, %v read", want, ids)
	}
	return strings.Join(ids, " ")
}

func appendRunIDs(ids []string, run *Run) []string {
	for o := run.From; o <= run.To; o++ {
		if run.Living(o) {
			id, _ := run.Block.IDAt(o)
			ids = append(ids, id.String())
		}
	}
	return ids
}

// heldText lists what was handed out again; entries that are gone in parentheses.
func heldText(held *HeldReader, err error) string {
	if err != nil {
		return errText(err)
	}
	defer held.Close()
	var ids []string
	for {
		h, ok, err := held.Next()
		if err != nil {
			return errText(err)
		}
		if !ok {
			break
		}
		for _, id := range runIDs(h.Gone) {
			ids = append(ids, "("+id.String()+")")
		}
		if h.Gone == nil {
			ids = appendRunIDs(ids, &h.Run)
		}
	}
	if n := held.Count(); n != int64(len(ids)) {
		return fmt.Sprintf("%d of %d", len(ids), n)
	}
	return "[" + strings.Join(ids, " ") + "]"
}

// runIDs spells runs out.
func runIDs(runs []IDRun) []ID {
	ids := []ID{}
	for _, r := range runs {
		for i := range r.Count {
			ids = append(ids, r.At(i))
		}
	}
	return ids
}
