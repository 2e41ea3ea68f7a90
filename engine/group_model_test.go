package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/storage"
)

// TestGroupRulesAgreeWithTheModel plays random verbs of both sides on a group and on a
// model that keeps a row per entry, over the three stores, dropping now and then what
// is in memory only. Dictionary section 5 is spelled out in the model, once more and
// entry by entry.
func TestGroupRulesAgreeWithTheModel(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	eachGroupStore(t, func(t *testing.T, st storage.Store) {
		for seed := range uint64(seeds) {
			p := newPlay(t, st)
			r := &ruleRun{t: t, p: p, rnd: rand.New(rand.NewPCG(seed, 5)), m: newRuleModel()}
			if msg := r.run(150); msg != "" {
				t.Fatalf("seed %d: %s\nlast steps:\n%s", seed, msg, strings.Join(r.log[max(0, len(r.log)-25):], "\n"))
			}
			p.close(t)
		}
	})
}

// ruleModel is one stream and its group. Offset o has ID (o+1)-0.
type ruleModel struct {
	alive  []bool
	start  int64
	exists bool
	ruleGroup
	saved ruleGroup // what storage has: the group without what is lazy
	due   bool      // something is written with the open round, and what is lazy with it
}

type ruleGroup struct {
	last        int64 // the cursor
	rows        map[int64]ruleRow
	members     map[string]ConsumerKind
	commit      int64 // -1 none, or not fresh
	provisional bool
	reader      string
}

type ruleRow struct {
	owner   string
	count   uint64
	claimed bool
}

func newRuleModel() *ruleModel { return &ruleModel{} }

func (g *ruleGroup) clone() ruleGroup {
	c := *g
	c.rows, c.members = maps.Clone(g.rows), maps.Clone(g.members)
	return c
}

func (m *ruleModel) make(last int64) {
	m.exists = true
	m.ruleGroup = ruleGroup{last: last, rows: map[int64]ruleRow{}, members: map[string]ConsumerKind{}, commit: -1, reader: m.reader}
}

// save is what every verb does that is written.
func (m *ruleModel) save() {
	m.provisional, m.due = false, true
}

// written is the end of the open round.
func (m *ruleModel) written() {
	if m.due {
		m.saved, m.due = m.clone(), false
	}
}

func (m *ruleModel) next() int64 { return int64(len(m.alive)) }

func (m *ruleModel) lives(o int64) bool {
	return o >= m.start && o < m.next() && m.alive[o]
}

// someAlive says whether an entry in [from, to] lives for which ok holds.
func (m *ruleModel) someAlive(from, to int64, ok func(o int64) bool) bool {
	for o := max(from, 0); o <= min(to, m.next()-1); o++ {
		if m.lives(o) && ok(o) {
			return true
		}
	}
	return false
}

func (m *ruleModel) watermark() int64 {
	for o := m.start; o <= m.last; o++ {
		if _, ok := m.rows[o]; ok {
			return o
		}
	}
	return max(m.last+1, m.start)
}

func (m *ruleModel) kafka(name string) bool {
	return name != "" && m.members[name] != RedisConsumer
}

func (m *ruleModel) see(name string, kind ConsumerKind) {
	if _, ok := m.members[name]; !ok || kind != RedisConsumer {
		m.members[name] = kind
	}
}

func (m *ruleModel) ack(o int64) bool {
	if _, ok := m.rows[o]; !ok {
		return false
	}
	delete(m.rows, o)
	m.commit = -1
	return true
}

func (m *ruleModel) deliver(c string, count int64, noack bool) (got []int64) {
	if _, ok := m.members[c]; !ok {
		m.see(c, RedisConsumer)
		m.save()
	}
	if m.reader != "" {
		return nil
	}
	o := m.last + 1
	for ; o < m.next() && (count <= 0 || int64(len(got)) < count); o++ {
		if m.lives(o) {
			got = append(got, o)
		}
	}
	if len(got) == 0 {
		return nil
	}
	m.last = o - 1
	for _, o := range got {
		if noack {
			m.commit = -1
		} else {
			m.rows[o] = ruleRow{owner: c, count: 1}
		}
	}
	m.save()
	return got
}

func (m *ruleModel) fetch(c string, from, to int64) {
	to = min(to, m.next()-1)
	if from > to {
		return
	}
	if !m.exists {
		m.make(from - 1)
		m.provisional = true
	}
	if m.someAlive(m.last+1, from-1, func(int64) bool { return true }) {
		return
	}
	m.see(c, ClassicMember)
	for o := from; o <= to; o++ {
		row, pending := m.rows[o]
		switch {
		case o > m.last && m.lives(o): // new to the group, or a cursor set back makes it so
			m.rows[o] = ruleRow{owner: c, count: 1}
		case pending && row.claimed:
			m.rows[o] = ruleRow{owner: c, count: row.count + 1}
		}
	}
	m.last = max(m.last, to)
}

func (m *ruleModel) commitAt(n int64) {
	if !m.exists {
		m.make(n - 1)
	}
	for o := range m.rows {
		if o < n {
			delete(m.rows, o)
		}
	}
	notPending := func(o int64) bool { _, ok := m.rows[o]; return !ok }
	if n <= m.last && m.someAlive(n, m.last, notPending) {
		for o := range m.rows {
			if o >= n {
				delete(m.rows, o)
			}
		}
		m.last = n - 1
	}
	m.last = max(m.last, n-1)
	m.commit = n
	m.save()
}

func (m *ruleModel) claimAll(c string) {
	m.see(c, ClassicMember)
	for o, row := range m.rows {
		m.rows[o] = ruleRow{owner: c, count: row.count, claimed: true}
	}
	m.dropMembers(c)
	if !m.provisional {
		m.save()
	}
}

// dropMembers lets Kafka members go that hold nothing.
func (m *ruleModel) dropMembers(except string) {
	for name := range m.members {
		holds := false
		for _, row := range m.rows {
			holds = holds || row.owner == name
		}
		if m.kafka(name) && !holds && name != except {
			delete(m.members, name)
		}
	}
}

func (m *ruleModel) putBack() {
	m.reader = ""
	if !m.exists {
		return
	}
	if m.provisional {
		m.exists, m.provisional = false, false
		return
	}
	w := m.watermark()
	all := !m.someAlive(w, m.last, func(o int64) bool {
		row, ok := m.rows[o]
		return !ok || !m.kafka(row.owner)
	})
	for o := w; o <= m.last; o++ { // gone from the stream, but somebody else's
		if row, ok := m.rows[o]; ok && !m.kafka(row.owner) {
			all = false
		}
	}
	for o, row := range m.rows {
		switch {
		case all && o >= w && o <= m.last, all && o < m.start && (m.kafka(row.owner) || row.owner == ""):
			delete(m.rows, o)
		case m.kafka(row.owner):
			m.rows[o] = ruleRow{count: row.count}
		}
	}
	if all {
		m.last = w - 1
	}
	m.dropMembers("")
	m.save()
}

// ruleRun plays both.
type ruleRun struct {
	t   *testing.T
	p   *play
	rnd *rand.Rand
	m   *ruleModel
	log []string
}

func (r *ruleRun) run(steps int) string {
	for range steps {
		if msg := r.step(); msg != "" {
			return msg
		}
		if r.rnd.IntN(2) == 0 {
			r.p.wait(r.t)
			r.m.written()
		}
		if msg := r.differs(); msg != "" {
			return msg
		}
	}
	return ""
}

// tell plays a line of a story and notes it.
func (r *ruleRun) tell(format string, args ...any) string {
	line := fmt.Sprintf(format, args...)
	out := r.p.line(r.t, line)
	r.log = append(r.log, line+"  -> "+out)
	return out
}

func offsetID(o int64) ID { return ID{MS: uint64(o + 1)} }

func offsetIDs(offsets []int64) string {
	var b strings.Builder
	for _, o := range offsets {
		fmt.Fprintf(&b, " %v", offsetID(o))
	}
	return strings.TrimSpace(b.String())
}

func (r *ruleRun) offsets() (out []int64) {
	for range 1 + r.rnd.IntN(5) {
		if n := r.m.next(); n > 0 {
			out = append(out, max(0, n-1-r.rnd.Int64N(25)))
		}
	}
	return out
}

func (r *ruleRun) pick(words ...string) string { return words[r.rnd.IntN(len(words))] }

func (r *ruleRun) step() string {
	m := r.m
	if len(m.alive) == 0 || r.rnd.IntN(5) == 0 {
		var ids []int64
		for range 1 + r.rnd.IntN(8) {
			ids = append(ids, m.next())
			m.alive = append(m.alive, true)
		}
		return expect(r.tell("add %s", offsetIDs(ids)), "ok")
	}
	switch r.rnd.IntN(14) {
	case 0:
		return r.shrink()
	case 1, 2:
		return r.deliver()
	case 3, 4:
		from := max(0, m.watermark()-2+r.rnd.Int64N(4))
		if m.exists && r.rnd.IntN(2) == 0 {
			from = max(0, m.last+1)
		}
		c, to := r.pick("A", "B"), from+r.rnd.Int64N(8)
		m.fetch(c, from, to)
		return expect(r.tell("fetch g %s %d %d", c, from, to), "ok")
	case 5, 6:
		n := max(0, m.last+1-r.rnd.Int64N(8)+r.rnd.Int64N(4))
		m.commitAt(n)
		return expect(r.tell("commit g %d", n), "ok")
	case 7:
		c := r.pick("A", "B", "C")
		if !m.exists {
			return expect(r.tell("claimall g %s", c), "no such group")
		}
		m.claimAll(c)
		return expect(r.tell("claimall g %s", c), "ok")
	case 8:
		m.reader = r.pick("A", "")
		return expect(strings.TrimSpace(r.tell("reader g %s", m.reader)), "ok")
	case 9:
		m.putBack()
		return expect(r.tell("putback g"), "ok")
	case 10:
		return r.again()
	}
	return r.redisWord()
}

func expect(got, want string) string {
	if got != want {
		return fmt.Sprintf("answered %q, want %q", got, want)
	}
	return ""
}

func (r *ruleRun) shrink() string {
	m := r.m
	if r.rnd.IntN(3) == 0 {
		living := int64(0)
		for o := m.start; o < m.next(); o++ {
			if m.alive[o] {
				living++
			}
		}
		keep := r.rnd.Int64N(20)
		for gone := living - keep; gone > 0; m.start++ {
			if m.alive[m.start] {
				gone--
			}
		}
		r.tell("trim %d", keep)
		return ""
	}
	from := r.offsets()[0]
	var ids []int64
	n := 0
	for o := from; o < min(from+r.rnd.Int64N(6), m.next()); o++ {
		if m.lives(o) {
			n++
		}
		ids, m.alive[o] = append(ids, o), false
	}
	return expect(r.tell("del %s", offsetIDs(ids)), fmt.Sprint(n, " ok"))
}

func (r *ruleRun) deliver() string {
	c, n, noack := r.pick("r", "s"), r.rnd.Int64N(5), r.pick("", "", "", "noack")
	if !r.m.exists {
		return expect(r.tell("read g %s", c), "no such group")
	}
	want := "nothing"
	if got := r.m.deliver(c, n, noack != ""); len(got) > 0 {
		want = offsetIDs(got)
	}
	return expect(r.tell("read g %s count=%d %s", c, n, noack), want)
}

// again drops what is in memory only.
func (r *ruleRun) again() string {
	m := r.m
	sh := r.p.e.shardOf(r.p.no)
	r.p.wait(r.t)
	m.written()
	sh.mu.Lock()
	if sh.open == nil || sh.open.batch.Empty() { // else a round of nobody's is still open: not now
		sh.forget(ErrClosed)
		m.ruleGroup, m.exists = m.saved.clone(), m.saved.rows != nil
		m.reader = r.p.e.groups.reader("g", r.p.no)
		r.log = append(r.log, "forget")
	}
	sh.mu.Unlock()
	return ""
}

func (r *ruleRun) redisWord() string {
	m, offsets := r.m, r.offsets()
	if !m.exists {
		m.make(-1)
		m.save()
		return expect(r.tell("create g 0-0"), "ok")
	}
	c := r.pick("r", "s")
	switch r.rnd.IntN(8) {
	case 0:
		o := offsets[0]
		m.last, m.commit = o, -1
		m.save()
		return expect(r.tell("setid g %v", offsetID(o)), "ok")
	case 1:
		return r.claim(c, offsets)
	case 2:
		slices.Sort(offsets)
		offsets = slices.Compact(offsets)
		n := 0
		for _, o := range offsets {
			if row, ok := m.rows[o]; ok {
				m.rows[o] = ruleRow{count: row.count}
				n++
			}
		}
		if n > 0 {
			m.save()
		}
		return expect(r.tell("release g fail %s", offsetIDs(offsets)), fmt.Sprint(n, " ok"))
	case 3:
		if _, ok := m.members[c]; !ok {
			return expect(r.tell("delconsumer g %s", c), "0 ok")
		}
		n := 0
		for o, row := range m.rows {
			if row.owner == c {
				m.ack(o)
				n++
			}
		}
		delete(m.members, c)
		m.save()
		return expect(r.tell("delconsumer g %s", c), fmt.Sprint(n, " ok"))
	}
	n := 0
	for _, o := range offsets {
		if m.ack(o) {
			n++
		}
	}
	if n > 0 {
		m.save()
	}
	return expect(r.tell("ack g %s", offsetIDs(offsets)), fmt.Sprint(n, " ok"))
}

func (r *ruleRun) claim(c string, offsets []int64) string {
	m := r.m
	if _, ok := m.members[c]; !ok {
		m.see(c, RedisConsumer)
		m.save()
	}
	var got []int64
	for _, o := range offsets {
		row, ok := m.rows[o]
		switch {
		case ok && !m.lives(o):
			m.ack(o)
			m.save()
		case ok:
			m.rows[o] = ruleRow{owner: c, count: row.count + 1}
			got = append(got, o)
			m.save()
		}
	}
	return expect(r.tell("claim g %s %s", c, offsetIDs(offsets)), "["+offsetIDs(got)+"]")
}

// differs compares everything; "" when nothing does.
func (r *ruleRun) differs() string {
	m := r.m
	sh := r.p.e.shardOf(r.p.no)
	sh.mu.Lock()
	st, err := sh.stream(r.p.no)
	if err != nil {
		sh.mu.Unlock()
		return err.Error()
	}
	gr := st.groups["g"]
	var have string
	if gr != nil {
		have = modelText(gr)
		err = gr.settle()
	}
	sh.mu.Unlock()
	if err != nil || (gr != nil) != m.exists {
		return fmt.Sprintf("group there %v, want %v (%v)", gr != nil, m.exists, err)
	}
	if gr == nil {
		return ""
	}
	if want := m.text(); have != want {
		return fmt.Sprintf("the engine has\n%swant\n%s", have, want)
	}
	c, ok, err := r.p.turn.Group(r.p.no, "g").Committed()
	if err != nil || ok == m.provisional {
		return fmt.Sprintf("committed %v %v, provisional %v", ok, err, m.provisional)
	}
	want := m.commit
	if want < 0 {
		// Deleted entries may lie on either side of a cursor.
		c.Offset, want = m.settle(c.Offset, true), m.settle(m.watermark(), true)
	}
	if ok && c.Offset != want {
		return fmt.Sprintf("committed %d, want %d", c.Offset, want)
	}
	if a, b := m.settle(gr.row.LastOffset+1, false), m.settle(m.last+1, false); a != b {
		return fmt.Sprintf("goes on at %d, want %d", a, b)
	}
	return ""
}

// settle is the first offset from o on that lives (or is pending), or the end.
func (m *ruleModel) settle(o int64, pending bool) int64 {
	for o = max(o, 0); o < m.next(); o++ {
		if _, ok := m.rows[o]; ok && pending || m.lives(o) {
			return o
		}
	}
	return o
}

func modelText(gr *group) string {
	var b strings.Builder
	for _, c := range gr.sortedConsumers() {
		fmt.Fprintf(&b, "%s kind %d\n", c.name, c.kind)
	}
	gr.pel.each(0, maxOffset, func(s pelSpan) bool {
		name := ""
		if s.owner != nil {
			name = s.owner.name
		}
		for o := s.first; o <= s.last; o++ {
			fmt.Fprintf(&b, "%d %q %d %v\n", o, name, s.count, s.claimed)
		}
		return true
	})
	return b.String()
}

func (m *ruleModel) text() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.members)) {
		fmt.Fprintf(&b, "%s kind %d\n", name, m.members[name])
	}
	for _, o := range slices.Sorted(maps.Keys(m.rows)) {
		row := m.rows[o]
		fmt.Fprintf(&b, "%d %q %d %v\n", o, row.owner, row.count, row.claimed)
	}
	return b.String()
}
