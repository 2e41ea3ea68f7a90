package engine

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/storage"
)

// TestGroupsAnswerAsRedis plays random commands on groups against a real Redis (8.2.3 is
// the oracle) and compares every answer and, after every command, everything that
// XINFO and XPENDING tell. Set WEIR_REDIS_ORACLE to its address, host:port;
// WEIR_REDIS_SEEDS to the number of runs, or one seed as "=seed".
func TestGroupsAnswerAsRedis(t *testing.T) {
	addr := os.Getenv("WEIR_REDIS_ORACLE")
	if addr == "" {
		t.Skip("WEIR_REDIS_ORACLE is not set")
	}
	from, to := uint64(0), uint64(100)
	if s := os.Getenv("WEIR_REDIS_SEEDS"); strings.HasPrefix(s, "=") {
		from = uint64(wordInt(s[1:], 0))
		to = from + 1
	} else {
		to = uint64(wordInt(s, 100))
	}
	for seed := from; seed < to; seed++ {
		d := newDuel(t, addr, seed)
		if msg := d.fight(300); msg != "" {
			t.Errorf("seed %d: %s\nlast commands:\n%s", seed, msg, strings.Join(d.log[max(0, len(d.log)-40):], "\n"))
			return
		}
	}
}

// duel is one stream on both servers.
type duel struct {
	rnd  *rand.Rand
	conn net.Conn
	in   *bufio.Reader
	key  string
	e    *Engine
	t    *Turn
	no   StreamNo
	ids  []ID // all that were ever added
	last ID
	log  []string
}

// idleStep is the unit of idle times here: far more than a test takes, so that both clocks agree.
const idleStep = 1_000_000

func newDuel(t *testing.T, addr string, seed uint64) *duel {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	st := storage.NewMem(1)
	e, err := Open(context.Background(), st, Options{TailCache: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(context.Background()) })
	d := &duel{rnd: rand.New(rand.NewPCG(seed, 3)), conn: conn, in: bufio.NewReader(conn), key: fmt.Sprint("duel-", os.Getpid()), e: e, t: e.Begin(Written)}
	d.redis("DEL", d.key)
	d.redis("CONFIG", "SET", "stream-node-max-entries", "5")
	if d.no, err = d.t.Create([]byte(d.key)); err != nil {
		t.Fatal(err)
	}
	d.redis("XGROUP", "CREATE", d.key, "first", "0", "MKSTREAM")
	if err := d.t.Group(d.no, "first").Create(GroupStart{EntriesRead: -1}); err != nil {
		t.Fatal(err)
	}
	return d
}

// redis sends a command and returns the answer as Go values: string, int64, nil, []any, error.
func (d *duel) redis(args ...string) any {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	d.log = append(d.log, strings.Join(args, " "))
	if _, err := d.conn.Write([]byte(b.String())); err != nil {
		panic(err)
	}
	return d.answer()
}

func (d *duel) answer() any {
	line, err := d.in.ReadString('\n')
	if err != nil {
		panic(err)
	}
	line = strings.TrimRight(line, "\r\n")
	switch line[0] {
	case '+':
		return line[1:]
	case '-':
		return fmt.Errorf("%s", line[1:])
	case ':':
		return wordInt(line[1:], 0)
	case '$':
		n := wordInt(line[1:], 0)
		if n < 0 {
			return nil
		}
		buf := make([]byte, n+2)
		for got := 0; got < len(buf); {
			k, err := d.in.Read(buf[got:])
			if err != nil {
				panic(err)
			}
			got += k
		}
		return string(buf[:n])
	case '*':
		n := wordInt(line[1:], 0)
		if n < 0 {
			return nil
		}
		out := make([]any, n)
		for i := range out {
			out[i] = d.answer()
		}
		return out
	}
	panic("answer " + line)
}

// fight plays steps commands; "" when both answered alike.
func (d *duel) fight(steps int) string {
	for range steps {
		d.t.Tick()
		want, got := d.step()
		if want != got {
			return fmt.Sprintf("redis answers %s\nthe engine    %s", want, got)
		}
		if want, got := d.redisState(), d.engineState(); want != got {
			return fmt.Sprintf("redis has\n%s\nthe engine has\n%s", want, got)
		}
		if d.rnd.IntN(4) == 0 {
			if err := d.t.Wait(context.Background()); err != nil {
				return err.Error()
			}
		}
		if d.rnd.IntN(20) == 0 { // what is in memory only can be dropped and read again
			sh := d.e.shards[0]
			sh.mu.Lock()
			sh.sealIdleGroups()
			if sh.open != nil {
				d.t.join(sh.open)
			}
			sh.mu.Unlock()
			if err := d.t.Wait(context.Background()); err != nil {
				return err.Error()
			}
			sh.mu.Lock()
			sh.forget(ErrClosed)
			sh.mu.Unlock()
		}
	}
	return ""
}

func (d *duel) pick(words ...string) string { return words[d.rnd.IntN(len(words))] }

// someIDs are mostly IDs that were added, sometimes others.
func (d *duel) someIDs() (ids []ID, words []string) {
	for range 1 + d.rnd.IntN(4) {
		id := d.someID()
		ids, words = append(ids, id), append(words, id.String())
	}
	return ids, words
}

func (d *duel) someID() ID {
	if len(d.ids) == 0 || d.rnd.IntN(8) == 0 {
		near := d.last.MS - min(d.last.MS, uint64(d.rnd.IntN(40)))
		return ID{MS: near + uint64(d.rnd.IntN(3)), Seq: uint64(d.rnd.IntN(3))}
	}
	if d.rnd.IntN(2) == 0 { // rather a new one
		return d.ids[max(0, len(d.ids)-1-d.rnd.IntN(12))]
	}
	return d.ids[d.rnd.IntN(len(d.ids))]
}

// step plays one random command on both.
func (d *duel) step() (want, got string) {
	group := d.pick("first", "first", "second")
	g := d.t.Group(d.no, group)
	switch d.rnd.IntN(16) {
	case 0, 1, 2:
		return d.add()
	case 3:
		ids, words := d.someIDs()
		n, err := d.t.Delete(d.no, ids)
		return d.same(d.redis(append([]string{"XDEL", d.key}, words...)...)), orError(n, err)
	case 4:
		if d.rnd.IntN(3) > 0 {
			return d.setID()
		}
		keep := int64(d.rnd.IntN(20))
		n, err := d.t.Trim(d.no, TrimArgs{Kind: TrimMaxLen, MaxLen: keep})
		return d.same(d.redis("XTRIM", d.key, "MAXLEN", strconv.Itoa(int(keep)))), orError(n, err)
	case 5:
		return d.xgroup(g)
	case 6, 7, 8:
		return d.read(g)
	case 9:
		c, after, count := d.pick("a", "b", "c"), d.someID(), int64(d.rnd.IntN(4))
		if d.rnd.IntN(2) == 0 {
			after = ID{}
		}
		if err := g.ConsumerTouch(c, RedisConsumer); err != nil {
			return "", ""
		}
		args := []string{"XREADGROUP", "GROUP", group, c}
		if count > 0 {
			args = append(args, "COUNT", strconv.Itoa(int(count)))
		}
		want = entryIDs(d.redis(append(args, "STREAMS", d.key, after.String())...))
		return want, heldText(g.History(c, after, count))
	case 10, 11:
		ids, words := d.someIDs()
		n, err := g.Ack(ids)
		return d.same(d.redis(append([]string{"XACK", d.key, group}, words...)...)), orError(n, err)
	case 12, 13:
		return d.claim(g)
	case 14:
		return d.autoClaim(g)
	}
	return d.pendingRange(g)
}

func (d *duel) same(v any) string {
	if _, ok := v.(error); ok {
		return "error"
	}
	return fmt.Sprint(v)
}

func orError(v any, err error) string {
	if err != nil {
		return "error"
	}
	return fmt.Sprint(v)
}

func (d *duel) add() (want, got string) {
	if d.rnd.IntN(3) == 0 {
		return d.addBatch()
	}
	for range 1 + d.rnd.IntN(7) {
		if d.rnd.IntN(3) == 0 {
			d.last.Seq += uint64(1 + d.rnd.IntN(2))
		} else {
			d.last = ID{MS: d.last.MS + uint64(1+d.rnd.IntN(2)), Seq: uint64(d.rnd.IntN(2))}
		}
		_, err := d.t.Append(d.no, AppendArgs{ID: d.last, Fields: [][]byte{[]byte("f"), []byte("v")}})
		if want, got = d.same(d.redis("XADD", d.key, d.last.String(), "f", "v")), orError(d.last, err); want != got {
			return want, got
		}
		d.ids = append(d.ids, d.last)
	}
	return want, got
}

// setID is XSETID, now and then.
func (d *duel) setID() (want, got string) {
	if d.rnd.IntN(4) > 0 {
		return "", ""
	}
	a := SetIDArgs{ID: ID{MS: d.last.MS + uint64(d.rnd.IntN(4)), Seq: d.last.Seq}, EntriesAdded: -1}
	if d.rnd.IntN(4) == 0 {
		a.ID = d.someID()
	}
	args := []string{"XSETID", d.key, a.ID.String()}
	if d.rnd.IntN(2) == 0 {
		a.EntriesAdded = int64(d.rnd.IntN(2*len(d.ids) + 1))
		args = append(args, "ENTRIESADDED", strconv.Itoa(int(a.EntriesAdded)))
	}
	if d.rnd.IntN(2) == 0 {
		id := d.someID()
		if !a.ID.Less(id) {
			a.MaxDeleted = &id
			args = append(args, "MAXDELETEDID", id.String())
		}
	}
	want, got = d.same(d.redis(args...)), orError("OK", d.t.SetID(d.no, a))
	if got == "OK" {
		d.last = maxID(d.last, a.ID)
	}
	return want, got
}

// addBatch appends a Kafka batch, whose IDs the engine chooses, and gives Redis entries with the same IDs.
func (d *duel) addBatch() (want, got string) {
	n := int32(1 + d.rnd.IntN(9))
	a, err := d.t.AppendBatch(d.no, BatchArgs{Data: make([]byte, 80), Count: n, MinTime: 1, MaxTime: 2})
	if err != nil {
		return "appended", err.Error()
	}
	for i := range n {
		d.last = ID{MS: a.FirstID.MS, Seq: a.FirstID.Seq + uint64(i)}
		if want = d.same(d.redis("XADD", d.key, d.last.String(), "f", "v")); want != d.last.String() {
			return want, d.last.String()
		}
		d.ids = append(d.ids, d.last)
	}
	return "", ""
}

func (d *duel) xgroup(g Group) (want, got string) {
	c := d.pick("a", "b", "c")
	at := GroupStart{ID: d.someID(), EntriesRead: int64(d.rnd.IntN(len(d.ids)+3)) - 1}
	word := at.ID.String()
	if at.Last = d.rnd.IntN(3) == 0; at.Last {
		word = "$"
	}
	args := []string{d.key, g.name, word}
	if d.rnd.IntN(2) == 0 {
		args = append(args, "ENTRIESREAD", strconv.Itoa(int(at.EntriesRead)))
	} else {
		at.EntriesRead = -1
	}
	switch d.rnd.IntN(10) {
	case 0, 1, 2:
		return d.same(d.redis(append([]string{"XGROUP", "CREATE"}, args...)...)), orError("OK", g.Create(at))
	case 3, 4, 5, 6:
		return d.same(d.redis(append([]string{"XGROUP", "SETID"}, args...)...)), orError("OK", g.SetID(at))
	case 7:
		if d.rnd.IntN(3) > 0 {
			return "", ""
		}
		ok, err := g.Destroy()
		n := 0
		if ok {
			n = 1
		}
		return d.same(d.redis("XGROUP", "DESTROY", d.key, g.name)), orError(n, err)
	case 8:
		made, err := g.ConsumerCreate(c, RedisConsumer)
		n := 0
		if made {
			n = 1
		}
		return d.same(d.redis("XGROUP", "CREATECONSUMER", d.key, g.name, c)), orError(n, err)
	}
	n, err := g.ConsumerDelete(c)
	return d.same(d.redis("XGROUP", "DELCONSUMER", d.key, g.name, c)), orError(n, err)
}

func (d *duel) read(g Group) (want, got string) {
	c := d.pick("a", "b", "c")
	a := DeliverArgs{Count: int64(d.rnd.IntN(5)), NoAck: d.rnd.IntN(6) == 0}
	args := []string{"XREADGROUP", "GROUP", g.name, c}
	if a.Count > 0 {
		args = append(args, "COUNT", strconv.Itoa(int(a.Count)))
	}
	if a.NoAck {
		args = append(args, "NOACK")
	}
	want = entryIDs(d.redis(append(args, "STREAMS", d.key, ">")...))
	r, err := g.Deliver(c, a)
	switch {
	case err != nil:
		return want, "error"
	case r == nil:
		return want, "[]"
	}
	return want, "[" + readerText(r) + "]"
}

func (d *duel) claim(g Group) (want, got string) {
	ids, words := d.someIDs()
	a := ClaimArgs{Consumer: d.pick("a", "b", "c"), IDs: ids, Time: -1}
	steps := int64(d.rnd.IntN(3))
	if steps > 0 {
		a.MinIdle = steps*idleStep - idleStep/2
	}
	args := append([]string{"XCLAIM", d.key, g.name, a.Consumer, strconv.Itoa(int(a.MinIdle))}, words...)
	if d.rnd.IntN(2) == 0 {
		idle := int64(d.rnd.IntN(4)) * idleStep
		a.Time = d.t.Now() - idle
		args = append(args, "IDLE", strconv.Itoa(int(idle)))
	}
	if d.rnd.IntN(4) == 0 {
		n := uint64(d.rnd.IntN(5))
		a.RetryCount = &n
		args = append(args, "RETRYCOUNT", strconv.Itoa(int(n)))
	}
	if a.Force = d.rnd.IntN(4) == 0; a.Force {
		args = append(args, "FORCE")
	}
	if a.JustID = d.rnd.IntN(3) == 0; a.JustID {
		args = append(args, "JUSTID")
	}
	if d.rnd.IntN(8) == 0 {
		last := d.someID()
		a.LastID = &last
		args = append(args, "LASTID", last.String())
	}
	want = entryIDs(d.redis(args...))
	held, err := g.Claim(a)
	if err != nil {
		return want, "error"
	}
	return want, heldText(held, nil)
}

func (d *duel) autoClaim(g Group) (want, got string) {
	a := AutoClaimArgs{Consumer: d.pick("a", "b", "c"), Start: d.someID(), Count: int64(1 + d.rnd.IntN(4)), JustID: d.rnd.IntN(3) == 0}
	if d.rnd.IntN(2) == 0 {
		a.Start = ID{}
	}
	if steps := int64(d.rnd.IntN(3)); steps > 0 {
		a.MinIdle = steps*idleStep - idleStep/2
	}
	args := []string{"XAUTOCLAIM", d.key, g.name, a.Consumer, strconv.Itoa(int(a.MinIdle)), a.Start.String(), "COUNT", strconv.Itoa(int(a.Count))}
	if a.JustID {
		args = append(args, "JUSTID")
	}
	v := d.redis(args...)
	out, err := g.AutoClaim(a)
	if _, failed := v.(error); failed || err != nil {
		return d.same(v), orError("claimed", err)
	}
	parts := v.([]any)
	return fmt.Sprintf("%v %s %v", parts[0], entryIDs(parts[1]), parts[2]), fmt.Sprintf("%v %s %v", out.Next, heldText(out.Held, nil), runIDs(out.Deleted))
}

func (d *duel) pendingRange(g Group) (want, got string) {
	a := PendingArgs{From: d.someID(), To: d.someID(), Count: int64(d.rnd.IntN(6))}
	if steps := int64(d.rnd.IntN(3)); steps > 0 {
		a.MinIdle = steps*idleStep - idleStep/2
	}
	args := []string{"XPENDING", d.key, g.name, "IDLE", strconv.Itoa(int(a.MinIdle)), a.From.String(), a.To.String(), strconv.Itoa(int(a.Count))}
	if d.rnd.IntN(2) == 0 {
		c := d.pick("a", "b", "c")
		a.Consumer = &c
		args = append(args, c)
	}
	want = pendingText(d.redis(args...))
	rows, err := g.Pending(a)
	if err != nil {
		return want, "error"
	}
	return want, detailText(rows)
}

// entries lists the IDs of an answer: bare, with fields, or gone; XREADGROUP's or XCLAIM's.
func entryIDs(v any) string {
	if _, ok := v.(error); ok {
		return "error"
	}
	list, _ := v.([]any)
	if len(list) == 1 {
		if one, ok := list[0].([]any); ok && len(one) == 2 && strings.HasPrefix(fmt.Sprint(one[0]), "duel-") {
			list, _ = one[1].([]any)
		}
	}
	var ids []string
	for _, x := range list {
		switch x := x.(type) {
		case string:
			ids = append(ids, x)
		case []any:
			if x[1] == nil {
				ids = append(ids, "("+x[0].(string)+")")
			} else {
				ids = append(ids, x[0].(string))
			}
		}
	}
	return "[" + strings.Join(ids, " ") + "]"
}

func pendingText(v any) string {
	if _, ok := v.(error); ok {
		return "error"
	}
	var b strings.Builder
	list, _ := v.([]any)
	for _, x := range list {
		row := x.([]any)
		fmt.Fprintf(&b, "%v %v idle=%d n=%d; ", row[0], row[1], (row[2].(int64)+idleStep/2)/idleStep, row[3])
	}
	return b.String()
}

func detailText(rows []HeldDetail) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%v %v idle=%d n=%d; ", r.ID, r.Consumer, (r.Idle+idleStep/2)/idleStep, r.Count)
	}
	return b.String()
}

// redisState and engineState are everything that XINFO and XPENDING tell of the groups.
func (d *duel) redisState() string {
	defer func(n int) { d.log = d.log[:n] }(len(d.log))
	var b strings.Builder
	fmt.Fprintln(&b, "length", d.redis("XLEN", d.key))
	for _, x := range d.redis("XINFO", "GROUPS", d.key).([]any) {
		f := infoFields(x)
		fmt.Fprintf(&b, "%v consumers %v pending %v last %v read %v lag %v\n", f["name"], f["consumers"], f["pending"], f["last-delivered-id"], orUnknown(f["entries-read"]), orUnknown(f["lag"]))
		name := f["name"].(string)
		for _, x := range d.redis("XINFO", "CONSUMERS", d.key, name).([]any) {
			c := infoFields(x)
			fmt.Fprintf(&b, "  %v pending %v never %v\n", c["name"], c["pending"], c["inactive"] == int64(-1))
		}
		s := d.redis("XPENDING", d.key, name).([]any)
		fmt.Fprintf(&b, "  summary %v %v %v %v\n", s[0], orZero(s[1]), orZero(s[2]), orUnknown(s[3]))
		fmt.Fprintln(&b, " ", pendingText(d.redis("XPENDING", d.key, name, "-", "+", "100000")))
	}
	return b.String()
}

func infoFields(v any) map[string]any {
	list, out := v.([]any), map[string]any{}
	for i := 0; i < len(list); i += 2 {
		out[list[i].(string)] = list[i+1]
	}
	return out
}

func orUnknown(v any) any {
	if v == nil {
		return int64(-1)
	}
	return v
}

func orZero(v any) any {
	if v == nil {
		return ID{}
	}
	return v
}

func (d *duel) engineState() string {
	d.t.now = time.Now().UnixMilli()
	var b strings.Builder
	n, err := d.t.Length(d.no)
	if err != nil {
		return err.Error()
	}
	fmt.Fprintln(&b, "length", n)
	groups, err := d.t.Groups(d.no)
	if err != nil {
		return err.Error()
	}
	for _, s := range groups {
		fmt.Fprintf(&b, "%v consumers %v pending %v last %v read %v lag %v\n", s.Name, s.Consumers, s.Pending, s.LastID, s.EntriesRead, shownLag(s.Lag))
		g := d.t.Group(d.no, s.Name)
		consumers, _ := g.Consumers()
		for _, c := range consumers {
			fmt.Fprintf(&b, "  %v pending %v never %v\n", c.Name, c.Pending, c.Active == -1)
		}
		p, err := g.PendingSummary()
		if err != nil {
			return err.Error()
		}
		var list any = int64(-1)
		if p.Count > 0 {
			var pairs []any
			for _, c := range p.Consumers {
				pairs = append(pairs, []any{c.Name, c.Count})
			}
			list = pairs
		}
		fmt.Fprintf(&b, "  summary %v %v %v %v\n", p.Count, p.Min, p.Max, list)
		rows, err := g.Pending(PendingArgs{To: MaxID, Count: 100000})
		if err != nil {
			return err.Error()
		}
		fmt.Fprintln(&b, " ", detailText(rows))
	}
	return b.String()
}
