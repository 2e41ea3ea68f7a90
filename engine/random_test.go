package engine

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sort"
	"strings"
	"testing"

	"weir/storage"
)

var (
	randomSeed = flag.Uint64("seed", 0, "seed of one random run; 0: a fixed set")
	randomOps  = flag.Int("ops", 400, "operations of a random run")
)

// An op means the same whatever came before it: its numbers are taken modulo what there is. So a failing list can be
// shortened by leaving ops out.
type op struct {
	kind    string
	a, b, c uint32
}

var opKinds = []string{
	"append", "append", "append", "append", "explicit", "batch", "batch", "delete", "delete", "deleteRun",
	"trimLen", "trimID", "trimBefore", "setID", "range", "range", "fetch", "time", "stat", "tick", "tick",
	"modulus", "wait", "wait", "reopen", "crash", "let", "let",
	"gcreate", "deliver", "deliver", "deliver", "ack", "ack", "commit", "pending", "watermark", "gdestroy", "gsetid",
}

func randomList(seed uint64, n int) []op {
	rng := rand.New(rand.NewPCG(seed, 1))
	ops := make([]op, n)
	for i := range ops {
		ops[i] = op{opKinds[rng.IntN(len(opKinds))], rng.Uint32(), rng.Uint32(), rng.Uint32()}
	}
	return ops
}

// system runs ops on an engine and on the model.
type system struct {
	t     *testing.T
	store storage.Store
	e     *Engine
	turn  *Turn
	clock *clock
	no    StreamNo
	m     *modelStream
	tail  int64
}

func (s *system) open() error {
	e, err := Open(context.Background(), s.store, Options{NowMS: s.clock.now, TailCache: s.tail})
	if err != nil {
		return err
	}
	s.e, s.turn = e, e.Begin(Written)
	return nil
}

func runOps(t *testing.T, store storage.Store, tail int64, ops []op) (err error) {
	s := &system{t: t, store: store, clock: &clock{1_000_000}, m: newModelStream(), tail: tail}
	if err := s.open(); err != nil {
		return err
	}
	if s.no, err = s.turn.Create([]byte("s")); err != nil {
		return err
	}
	defer func() { s.e.Close(context.Background()) }()
	for i, o := range ops {
		if err := s.step(o); err != nil {
			return fmt.Errorf("op %d %v: %w", i, o, err)
		}
	}
	if err := s.turn.Wait(context.Background()); err != nil {
		return err
	}
	if err := s.e.flush(context.Background()); err != nil {
		return err
	}
	if x, ok := store.(*shadow); ok {
		if err := storage.Compare(x.first, x.second); err != nil {
			return err
		}
	}
	return checkStore(store)
}

func checkStore(store storage.Store) error {
	report, err := storage.Check(context.Background(), store)
	if err != nil {
		return err
	}
	if !report.Sound() {
		return fmt.Errorf("check: %v", report.Problems)
	}
	return nil
}

func same(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s: engine %v, model %v", what, got, want)
	}
	return nil
}

func (s *system) step(o op) error {
	s.turn.Tick()
	switch o.kind {
	case "tick":
		s.clock.ms += int64(o.a%5) - 1 // also back
	case "wait":
		return s.turn.Wait(context.Background())
	case "let":
		if o.a%2 == 0 {
			if err := s.turn.Wait(context.Background()); err != nil {
				return err
			}
		}
		sh := s.e.shardOf(s.no)
		sh.mu.Lock()
		if st := sh.streams[s.no]; st != nil && st.settled() {
			if st.stored() {
				sh.let(s.no, st)
			} else {
				st.writeLate(sh.round())
			}
		}
		sh.mu.Unlock()
	case "reopen", "crash":
		if err := s.turn.Wait(context.Background()); err != nil {
			return err
		}
		if o.kind == "reopen" {
			if err := s.e.Close(context.Background()); err != nil {
				return err
			}
		} else {
			s.e.syncer.stop() // nothing else is written
			s.e.tail.stop()
			s.e.closed.Store(true)
		}
		return s.open()
	case "modulus":
		s.m.modulus, s.m.residue = PartitionModulus, uint64(o.a%8)
		return s.turn.SetModulus(s.no, uint32(s.m.residue))
	case "append", "explicit", "batch":
		return s.add(o)
	case "delete", "deleteRun":
		return s.remove(o)
	case "trimLen", "trimID", "trimBefore":
		return s.trim(o)
	case "setID":
		return s.setID(o)
	case "range", "fetch", "time", "stat":
		return s.look(o)
	default:
		return s.group(o)
	}
	return nil
}

// anyID is an ID in or about the stream.
func (s *system) anyID(a uint32) ID {
	if len(s.m.entries) == 0 || a%17 == 0 {
		return ID{MS: uint64(a % 2_000_000), Seq: uint64(a % 3)}
	}
	id := s.m.entries[int(a)%len(s.m.entries)].id
	if a%5 == 0 {
		id.Seq++
	}
	return id
}

func (s *system) add(o op) error {
	now := uint64(max(s.turn.Now(), 0))
	switch o.kind {
	case "append":
		for range 1 + o.b%3 {
			want := s.m.nextID(now)
			got, err := s.turn.Append(s.no, AppendArgs{Auto: true, Fields: fields("f", strings.Repeat("v", int(o.a%300)))})
			if err != nil {
				return err
			}
			s.m.push(want, int64(want.MS))
			if err := same("appended", []any{got.Base, got.FirstID}, []any{s.m.next() - 1, want}); err != nil {
				return err
			}
		}
	case "explicit":
		id := ID{MS: s.m.lastID.MS + uint64(o.a%3), Seq: uint64(o.b % 4)}
		_, err := s.turn.Append(s.no, AppendArgs{ID: id, Fields: fields("f", "v")})
		if !s.m.lastID.Less(id) {
			if err == nil {
				return fmt.Errorf("ID %v was taken after %v", id, s.m.lastID)
			}
			return nil
		}
		if err != nil {
			return err
		}
		s.m.push(id, int64(id.MS))
	case "batch":
		n := 1 + int(o.a%20)
		times := make([]int64, n)
		lo, hi := int64(1<<62), int64(0)
		for i := range times {
			times[i] = 900_000 + int64((o.b+uint32(i)*o.c)%300_000)
			lo, hi = min(lo, times[i]), max(hi, times[i])
		}
		want := s.m.nextID(now)
		got, err := s.turn.AppendBatch(s.no, BatchArgs{Data: fakeBatch(n), Count: int32(n), MinTime: lo, MaxTime: hi})
		if err != nil {
			return err
		}
		if err := same("batch", []any{got.Base, got.FirstID}, []any{s.m.next(), want}); err != nil {
			return err
		}
		s.m.batch(now, times)
	}
	return nil
}

// fakeBatch has room for what the engine writes into a batch's header.
func fakeBatch(n int) []byte {
	b := make([]byte, 61+n*10)
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	return b
}

func (s *system) remove(o op) error {
	list := []ID{s.anyID(o.a)}
	if o.kind == "deleteRun" && len(s.m.entries) > 0 {
		from := int(o.a) % len(s.m.entries)
		for i := from; i < min(from+int(o.b%30), len(s.m.entries)); i++ {
			list = append(list, s.m.entries[i].id)
		}
	}
	want := int64(0)
	for _, id := range list {
		if s.m.delete(id) {
			want++
		}
	}
	got, err := s.turn.Delete(s.no, list)
	if err != nil {
		return err
	}
	return same("deleted", got, want)
}

func (s *system) trim(o op) error {
	var a TrimArgs
	var want int64
	switch o.kind {
	case "trimLen":
		a = TrimArgs{Kind: TrimMaxLen, MaxLen: int64(o.a) % (s.m.next() + 2)}
		if o.b%3 > 0 {
			a.MaxLen = max(0, int64(len(s.m.living()))-int64(o.a%5))
		}
		want = s.m.trimLen(a.MaxLen)
	case "trimID":
		a = TrimArgs{Kind: TrimMinID, MinID: s.anyID(o.a)}
		if o.b%4 > 0 && len(s.m.entries) > 0 {
			a.MinID = s.m.entries[min(int(s.m.start)+int(o.a%5), len(s.m.entries)-1)].id
		}
		want = s.m.trimID(a.MinID)
	case "trimBefore":
		if err := s.turn.Wait(context.Background()); err != nil {
			return err
		}
		a = TrimArgs{Kind: TrimBefore, Before: min(s.m.start+int64(o.a%7), s.m.next())}
		want = s.m.trimTo(a.Before)
	}
	got, err := s.turn.Trim(s.no, a)
	if err != nil {
		return err
	}
	st, err := s.turn.Stat(s.no)
	if err != nil {
		return err
	}
	if err := s.startMoved(st.Start); err != nil {
		return err
	}
	return same("trimmed", got, want)
}

func (s *system) setID(o op) error {
	id := ID{MS: s.m.lastID.MS + uint64(o.a%2), Seq: s.m.lastID.Seq}
	if err := s.turn.SetID(s.no, SetIDArgs{ID: id, EntriesAdded: -1}); err != nil {
		return err
	}
	s.m.lastID = id
	return nil
}

func (s *system) look(o op) error {
	switch o.kind {
	case "range":
		from, to, count := s.anyID(o.a), s.anyID(o.b), int64(o.c%20)-1
		if o.c%3 == 0 {
			from, to = ID{}, MaxID
		}
		reverse := o.c%2 == 0
		r, err := s.turn.Range(s.no, RangeArgs{From: from, To: to, Count: count, Reverse: reverse})
		if err != nil {
			return err
		}
		got := append([]string{}, ids(s.t, r, reverse)...)
		return same(fmt.Sprintf("range %v..%v count %d reverse %v", from, to, count, reverse), got, s.m.rangeIDs(from, to, count, reverse))
	case "stat":
		st, err := s.turn.Stat(s.no)
		if err != nil {
			return err
		}
		first := ID{}
		if l := s.m.living(); len(l) > 0 {
			first = l[0].id
		}
		if err := s.startMoved(st.Start); err != nil {
			return err
		}
		return same("stat", []any{st.Length, st.Start, st.Next, st.LastID, st.MaxDeletedID, st.FirstID},
			[]any{int64(len(s.m.living())), s.m.start, s.m.next(), s.m.lastID, s.m.maxDeleted, first})
	case "fetch":
		if err := s.turn.Wait(context.Background()); err != nil {
			return err
		}
		return s.fetch(s.m.start+int64(o.a)%(s.m.next()-s.m.start+1), int(o.b%3000))
	default:
		if err := s.turn.Wait(context.Background()); err != nil {
			return err
		}
		return s.atTime(int64(900_000 + o.a%400_000))
	}
}

// startMoved lets the log start of the engine run ahead of the model's over entries that are deleted anyway.
func (s *system) startMoved(start int64) error {
	for o := s.m.start; o < start; o++ {
		if s.m.alive(o) {
			return fmt.Errorf("log start %d: offset %d lives", start, o)
		}
	}
	s.m.start = max(s.m.start, start)
	return nil
}

// fetch follows blocks to the end as a consumer would, and must meet every living entry.
func (s *system) fetch(from int64, maxBytes int) error {
	var got, want []int64
	for o := from; o < s.m.next(); o++ {
		if s.m.alive(o) {
			want = append(want, o)
		}
	}
	for at := from; at < s.m.next(); {
		f, err := s.e.Fetch(s.no, at, maxBytes)
		if err != nil {
			return err
		}
		if len(f.Blocks) == 0 {
			break
		}
		for _, run := range f.Blocks {
			for o := max(run.From, at); o <= run.To; o++ {
				if run.Living(o) {
					got = append(got, o)
				}
			}
			at = run.To + 1
		}
	}
	return same("fetched", got, want)
}

func (s *system) atTime(ms int64) error {
	run, ok, err := s.e.BlockAtTime(s.no, ms)
	if err != nil {
		return err
	}
	// The model knows no blocks: the block must hold, or lie before, the first entry of that time, and none before the block may have it.
	want := int64(-1)
	for _, e := range s.m.living() {
		if e.time >= ms {
			want = e.offset
			break
		}
	}
	if want >= 0 && (!ok || run.From > want) {
		return fmt.Errorf("time %d: engine %v from %d, model offset %d", ms, ok, run.From, want)
	}
	return nil
}

func (s *system) group(o op) error {
	name := fmt.Sprint("g", o.a%2)
	g, mg := s.turn.Group(s.no, name), s.m.groups[name]
	if mg == nil {
		if o.kind != "gcreate" {
			return nil
		}
		mg = &modelGroup{pending: map[int64]modelRow{}, consumers: map[string]bool{}, lastOffset: s.m.start - 1}
		s.m.groups[name] = mg
		return g.Create(GroupStart{EntriesRead: -1})
	}
	consumer := fmt.Sprint("c", o.b%3)
	switch o.kind {
	case "deliver":
		n := 1 + int64(o.c%12)
		want := s.m.deliver(mg, consumer, n, s.turn.Now())
		if err := g.ConsumerTouch(consumer, RedisConsumer); err != nil {
			return err
		}
		r, err := g.Deliver(consumer, DeliverArgs{Count: n})
		if err != nil {
			return err
		}
		var got []string
		if r != nil {
			got = ids(s.t, r, false)
		}
		return same("delivered", got, want)
	case "ack":
		var list []ID
		for _, off := range sortedKeys(mg.pending) {
			if uint32(off)%(1+o.b%3) == 0 && len(list) < int(o.c%9) {
				list = append(list, s.m.entries[off].id)
			}
		}
		want := int64(0)
		for _, id := range list {
			if s.m.ack(mg, id) {
				want++
			}
		}
		got, err := g.Ack(list)
		if err != nil {
			return err
		}
		return same("acked", got, want)
	case "commit":
		n := max(0, mg.watermark(s.m.start)+int64(o.b%9)-2)
		s.m.commitAt(mg, n)
		return g.Commit(CommitArgs{Offset: n, Epoch: -1})
	case "gdestroy":
		if o.b%5 > 0 {
			return nil
		}
		delete(s.m.groups, name)
		_, err := g.Destroy()
		return err
	case "gsetid":
		if o.b%4 > 0 || mg.lastOffset < 0 || mg.lastOffset >= s.m.next() {
			return nil
		}
		return nil
	case "watermark", "pending":
		return s.pending(g, mg)
	}
	return nil
}

func sortedKeys(m map[int64]modelRow) []int64 {
	var out []int64
	for o := range m {
		out = append(out, o)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

func (s *system) pending(g Group, mg *modelGroup) error {
	st, err := s.turn.Stat(s.no)
	if err != nil {
		return err
	}
	if err := s.startMoved(st.Start); err != nil {
		return err
	}
	got, err := g.Pending(PendingArgs{To: MaxID, Count: 1 << 40})
	if err != nil {
		return err
	}
	var gotRows, wantRows []string
	for _, d := range got {
		gotRows = append(gotRows, fmt.Sprintf("%d %s %s %d %d", d.Offset, d.ID, d.Consumer, s.turn.Now()-d.Idle, d.Count))
	}
	for _, o := range sortedKeys(mg.pending) {
		r := mg.pending[o]
		wantRows = append(wantRows, fmt.Sprintf("%d %s %s %d %d", o, s.m.entries[o].id, r.consumer, min(r.time, s.turn.Now()), r.count))
	}
	if err := same("pending", gotRows, wantRows); err != nil {
		return err
	}
	c, ok, err := g.Committed()
	if err != nil || !ok {
		return fmt.Errorf("committed: %v %v", ok, err)
	}
	want := mg.watermark(s.m.start)
	if mg.fresh {
		want = mg.commit
	}
	for !mg.fresh && want < c.Offset && !s.m.alive(want) {
		if _, held := mg.pending[want]; held {
			break
		}
		want++ // a watermark may stand anywhere among entries that are gone
	}
	return same("committed", c.Offset, want)
}

// shadow is a store whose every batch also went, as bytes, to a second copy: they must be alike at the end (rule 9).
type shadow struct {
	storage.Store
	first, second storage.Store
}

// shrink leaves out ops while the run still fails.
func shrink(ops []op, fails func([]op) bool) []op {
	for size := len(ops) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(ops); {
			shorter := append(append([]op{}, ops[:i]...), ops[i+size:]...)
			if fails(shorter) {
				ops = shorter
			} else {
				i += size
			}
		}
	}
	return ops
}

func TestRandomOperationsAgreeWithTheModel(t *testing.T) {
	stores := map[string]func(t *testing.T) storage.Store{
		"mem": func(t *testing.T) storage.Store { return storage.NewMem(4) },
		"pebble": func(t *testing.T) storage.Store {
			st, err := storage.OpenPebble(t.TempDir(), storage.Options{Shards: 4})
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
		"shadow": func(t *testing.T) storage.Store {
			st, err := storage.OpenPebble(t.TempDir(), storage.Options{Shards: 4})
			if err != nil {
				t.Fatal(err)
			}
			second := storage.NewMem(4)
			return &shadow{storage.NewShadow(st, second), st, second}
		},
	}
	seeds := []uint64{1, 2, 3, 4, 5, 6, 7, 8}
	if *randomSeed != 0 {
		seeds = []uint64{*randomSeed}
	}
	for name, open := range stores {
		for _, seed := range seeds {
			for _, tail := range []int64{1, 4 << 10, 0} {
				t.Run(fmt.Sprintf("%s/seed%d/tail%d", name, seed, tail), func(t *testing.T) {
					run := func(ops []op) error {
						st := open(t)
						defer st.Close(context.Background())
						return runOps(t, st, tail, ops)
					}
					ops := randomList(seed, *randomOps)
					if err := run(ops); err != nil {
						short := shrink(ops, func(o []op) bool { return run(o) != nil })
						t.Fatalf("seed %d: %v\nshrunk to %d ops: %v\n%v", seed, err, len(short), run(short), short)
					}
				})
			}
		}
	}
}
