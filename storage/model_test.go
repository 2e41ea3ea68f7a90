package storage

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var (
	modelSeed = flag.Uint64("seed", 0, "seed of one random run; 0: several, of new seeds")
	modelOps  = flag.Int("ops", 1200, "operations of a random run")
)

// modelShard is what a shard must be: its rows after each batch that a crash may take it back to.
type modelShard struct {
	at      uint64
	states  map[uint64]map[string]string
	durable uint64
}

// modelExport is an export and what it holds.
type modelExport struct {
	data  []byte
	shard int
	at    uint64
	rows  map[string]string
}

// modelView is an open view and what it must show.
type modelView struct {
	view  View
	shard int
	rows  map[string]string
}

// modelPair is a commit of two shards.
type modelPair struct{ shard, at [2]uint64 }

// modelRun drives a store and the model of it.
type modelRun struct {
	t       *testing.T
	rng     *rand.Rand
	mem     *vfs.MemFS
	s       *pebbleStore
	writers []Writer
	shards  []modelShard
	views   []modelView
	exports []modelExport
	pairs   []modelPair
	trace   []string
	did     map[string]int
}

const modelShards = 3

func newModelRun(t *testing.T, seed uint64) *modelRun {
	m := &modelRun{t: t, rng: rand.New(rand.NewPCG(seed, 1)), mem: vfs.NewCrashableMem(), did: map[string]int{}}
	for range modelShards {
		m.shards = append(m.shards, modelShard{states: map[uint64]map[string]string{0: {}}})
	}
	m.open()
	return m
}

func (m *modelRun) open() {
	m.t.Helper()
	s, err := OpenPebble("data", Options{
		Shards: modelShards, fs: &linkAlone{FS: m.mem}, MemtableBytes: 64 << 10, segment: 12 << 10, importTable: 8 << 10,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.s, m.writers = s.(*pebbleStore), nil
	for i := range modelShards {
		m.writers = append(m.writers, lead(m.t, s, ShardID(i)))
	}
}

// value is a value of any size; some look like references.
func (m *modelRun) value() []byte {
	size := m.rng.IntN(200)
	switch m.rng.IntN(6) {
	case 0:
		size = m.rng.IntN(5000)
	case 1, 2:
		size = bulkBytes - 2 + m.rng.IntN(3000)
	case 3:
		size = referenceLen
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(m.rng.Uint32())
	}
	if size == referenceLen && m.rng.IntN(2) == 0 {
		b[0] = referenceKind
		clear(b[1 : 1+m.rng.IntN(9)])
	}
	return b
}

func (m *modelRun) key(shard int) []byte {
	n := StreamNo(shard)<<48 | StreamNo(1+m.rng.IntN(3))
	base := int64(m.rng.IntN(14)) - 2 // the engine has no negative bases, the grammar does
	if m.rng.IntN(3) == 0 {
		base = int64(m.rng.IntN(5 * packSpan))
	}
	switch m.rng.IntN(8) {
	case 0:
		return MarksKey(n, base)
	case 1:
		return rec(ShardID(shard), fmt.Sprint(base))
	case 2:
		return TimeKey(n, base)
	}
	return BlockKey(n, base)
}

// fill puts random operations into a batch, and does them to a copy of the shard's rows.
func (m *modelRun) fill(b Batch, shard int) map[string]string {
	rows := maps.Clone(m.shards[shard].states[m.shards[shard].at])
	for n := range 1 + m.rng.IntN(5) {
		key := m.key(shard)
		op := m.rng.IntN(12)
		if n == 0 {
			op = 11 // not empty, nor only a range that is upside down
		}
		switch op {
		case 0, 1:
			b.Delete(key)
			delete(rows, string(key))
		case 2:
			lower, upper := key, m.key(shard)
			switch m.rng.IntN(6) {
			case 0:
				lower, upper = StreamRange(StreamNo(shard)<<48 | StreamNo(1+m.rng.IntN(3)))
			case 1: // bounds need not be keys
				lower, upper = lower[:2+m.rng.IntN(len(lower)-1)], append(upper, byte(m.rng.Uint32()))
			}
			b.DeleteRange(lower, upper)
			for k := range rows {
				if k >= string(lower) && k < string(upper) {
					delete(rows, k)
				}
			}
		default:
			value := m.value()
			cut := m.rng.IntN(len(value) + 1)
			b.SetTwo(key, value[:cut], value[cut:])
			rows[string(key)] = string(value)
		}
	}
	return rows
}

func (m *modelRun) committed(shard int, pos Pos, rows map[string]string) {
	m.t.Helper()
	sh := &m.shards[shard]
	if pos.Seq != sh.at+1 {
		m.fail("shard %d: committed as %v after %d", shard, pos, sh.at)
	}
	sh.at = pos.Seq
	sh.states[sh.at] = rows
}

func (m *modelRun) commit() {
	i := m.rng.IntN(modelShards)
	b := m.writers[i].Begin()
	rows := m.fill(b, i)
	pos, err := m.writers[i].Commit(ctx, b)
	m.must(err)
	m.committed(i, pos, rows)
}

func (m *modelRun) together() {
	i := m.rng.IntN(modelShards)
	j := (i + 1 + m.rng.IntN(modelShards-1)) % modelShards
	a, b := m.writers[i].Begin(), m.writers[j].Begin()
	ra, rb := m.fill(a, i), m.fill(b, j)
	at, err := m.s.CommitTogether(ctx, []Batch{a, b})
	m.must(err)
	m.committed(i, at[0], ra)
	m.committed(j, at[1], rb)
	m.pairs = append(m.pairs, modelPair{[2]uint64{uint64(i), uint64(j)}, [2]uint64{at[0].Seq, at[1].Seq}})
}

func (m *modelRun) sync() {
	m.must(m.s.SyncAll(ctx))
	m.pairs = nil // they stand
	for i := range m.shards {
		sh := &m.shards[i]
		sh.durable = sh.at
		sh.states = map[uint64]map[string]string{sh.at: sh.states[sh.at]}
	}
}

func (m *modelRun) view() {
	if len(m.views) > 0 && m.rng.IntN(2) == 0 {
		n := m.rng.IntN(len(m.views))
		v := m.views[n]
		m.views = append(m.views[:n], m.views[n+1:]...)
		m.compare(v.view, v.shard, v.rows)
		m.must(v.view.Close())
		return
	}
	i := m.rng.IntN(modelShards)
	v, err := m.s.shards[i].View()
	m.must(err)
	m.views = append(m.views, modelView{v, i, m.shards[i].states[m.shards[i].at]})
}

func (m *modelRun) export() {
	i := m.rng.IntN(modelShards)
	var out bytes.Buffer
	pos, err := m.s.shards[i].Export(ctx, &out)
	m.must(err)
	m.exports = append(m.exports, modelExport{out.Bytes(), i, pos.Seq, m.shards[i].states[m.shards[i].at]})
	if pos.Seq != m.shards[i].at {
		m.fail("export of shard %d shows %d of %d", i, pos.Seq, m.shards[i].at)
	}
	// It holds values, whatever stood in Pebble: another kind of store takes it.
	mem := shardOf(m.t, NewMem(modelShards), ShardID(i))
	_, err = mem.Import(ctx, bytes.NewReader(out.Bytes()))
	m.must(err)
	v, err := mem.View()
	m.must(err)
	m.compare(v, i, m.shards[i].states[m.shards[i].at])
}

// importOne takes a shard back to an export, or forward to one of a life that a crash has ended.
func (m *modelRun) importOne() {
	if len(m.exports) == 0 {
		return
	}
	x := m.exports[m.rng.IntN(len(m.exports))]
	pos, err := m.s.shards[x.shard].Import(ctx, bytes.NewReader(x.data))
	m.must(err)
	if pos.Seq != x.at {
		m.fail("imported %v of %d", pos, x.at)
	}
	m.shards[x.shard] = modelShard{at: x.at, durable: x.at, states: map[uint64]map[string]string{x.at: x.rows}}
	m.writers[x.shard] = lead(m.t, m.s, ShardID(x.shard))
	// What the other halves of its pairs come back to says nothing any more.
	var pairs []modelPair
	for _, p := range m.pairs {
		if p.shard[0] != uint64(x.shard) && p.shard[1] != uint64(x.shard) {
			pairs = append(pairs, p)
		}
	}
	m.pairs = pairs
}

func (m *modelRun) closeViews() {
	for _, v := range m.views {
		m.compare(v.view, v.shard, v.rows)
		m.must(v.view.Close())
	}
	m.views = nil
}

func (m *modelRun) reopen() {
	m.closeViews()
	m.must(m.s.Close(ctx))
	m.open()
	m.recovered(false)
}

// crash goes on with a copy of the disk: after a kill all that was written is in it, after a loss of power some.
func (m *modelRun) crash(percent int) {
	clone := m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: newRand(m.rng)})
	m.closeViews()
	m.must(m.s.Close(ctx))
	m.mem = clone
	m.open()
	m.recovered(percent < 100)
}

// recovered compares a store just opened with the model: the newest state or, after a loss of power, one not older than
// what was durable.
func (m *modelRun) recovered(lossy bool) {
	m.t.Helper()
	for i := range m.shards {
		sh := &m.shards[i]
		at := m.s.shards[i].seq.Load()
		if at > sh.at || at < sh.durable || !lossy && at != sh.at {
			m.fail("shard %d came back at %d; it stood at %d, durable %d", i, at, sh.at, sh.durable)
		}
		sh.at, sh.durable = at, at
		sh.states = map[uint64]map[string]string{at: sh.states[at]}
	}
	for _, p := range m.pairs {
		if (m.shards[p.shard[0]].at >= p.at[0]) != (m.shards[p.shard[1]].at >= p.at[1]) {
			m.fail("half of %v: %d, %d", p, m.shards[p.shard[0]].at, m.shards[p.shard[1]].at)
		}
	}
	m.pairs = nil
	m.all()
}

// all compares every shard.
func (m *modelRun) all() {
	m.t.Helper()
	for i := range m.shards {
		v, err := m.s.shards[i].View()
		m.must(err)
		m.compare(v, i, m.shards[i].states[m.shards[i].at])
		if pos, err := viewPos(ShardID(i), v); err != nil || pos.Seq != m.shards[i].at {
			m.fail("shard %d: position row %v, %v, of %d", i, pos, err, m.shards[i].at)
		}
		m.must(v.Close())
	}
}

// compare holds a view against rows.
func (m *modelRun) compare(v View, shard int, want map[string]string) {
	m.t.Helper()
	it, err := v.Scan(ShardRange(ShardID(shard)))
	m.must(err)
	defer it.Close()
	rows := 0
	for it.Next() {
		if bytes.Equal(it.Key(), PositionKey(ShardID(shard))) {
			continue
		}
		rows++
		value, err := it.Value()
		if err != nil {
			m.fail("shard %d, row %x: %v", shard, it.Key(), err)
		}
		if is, ok := want[string(it.Key())]; !ok || is != string(value) {
			m.fail("shard %d, row %x: %d bytes, want %d, %v", shard, it.Key(), len(value), len(is), ok)
		}
	}
	if err := it.Error(); err != nil || rows != len(want) {
		m.fail("shard %d: %d rows of %d, %v", shard, rows, len(want), err)
	}
	m.wander(v, shard, want)
}

// wander moves an iterator over a part of a shard at random, and looks up what it passes.
func (m *modelRun) wander(v View, shard int, want map[string]string) {
	m.t.Helper()
	lower, upper := rec(ShardID(shard), ""), append(appendShard(nil, ShardID(shard)), 0xFF)
	if m.rng.IntN(2) == 0 {
		lower, upper = m.key(shard), m.key(shard)
	}
	if bytes.Compare(lower, upper) > 0 {
		lower, upper = upper, lower
	}
	it, err := v.Scan(lower, upper)
	m.must(err)
	defer it.Close()
	var keys []string
	for k := range want {
		if k >= string(lower) && k < string(upper) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	at := -1 // as a fresh iterator is
	for range 12 {
		var ok bool
		var did string
		switch key := m.key(shard); m.rng.IntN(6) {
		case 0:
			did, ok = fmt.Sprintf("SeekGE %x", key), it.SeekGE(key)
			at, _ = slices.BinarySearch(keys, string(key))
		case 1:
			did, ok = fmt.Sprintf("SeekLT %x", key), it.SeekLT(key)
			at, _ = slices.BinarySearch(keys, string(key))
			at--
		case 2, 3:
			did, ok = "Next", it.Next()
			at = min(at+1, len(keys))
		default:
			did, ok = "Prev", it.Prev()
			at = max(at-1, -1)
		}
		if is := at >= 0 && at < len(keys); is != ok {
			m.fail("shard %d, %x to %x: %s: %v at %d of %d rows, %v", shard, lower, upper, did, ok, at, len(keys), it.Error())
		}
		if !ok {
			continue
		}
		value, err := it.Value()
		if string(it.Key()) != keys[at] || string(value) != want[keys[at]] || err != nil {
			m.fail("shard %d, %x to %x: %s: row %x, want %x, %v", shard, lower, upper, did, it.Key(), keys[at], err)
		}
	}
	for range 3 {
		key := m.key(shard)
		value, release, err := v.Get(key)
		if is, ok := want[string(key)]; ok != (err == nil) || !ok && err != ErrNotFound || is != string(value) {
			m.fail("shard %d: Get %x: %d bytes, %v; want %d, %v", shard, key, len(value), err, len(is), ok)
		}
		if err == nil {
			release()
		}
	}
}

// compact has Pebble make bases of changes, and deletes what collect finds empty then.
func (m *modelRun) compact() {
	m.must(m.s.db.Compact(ctx, []byte{0}, []byte{0xFF, 0xFF, 0xFF}, false))
	m.must(m.s.space.collect())
	for _, sh := range m.s.shards {
		m.must(m.s.space.eachPack(sh, func(first spot, members []packMember) error {
			if len(members) == 0 {
				m.fail("an empty pack stays at %v of shard %d", first, sh.id)
			}
			return nil
		}))
	}
}

func (m *modelRun) must(err error) {
	m.t.Helper()
	if err != nil {
		m.fail("%v", err)
	}
}

func (m *modelRun) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("after %d steps, the last %v: %s", len(m.trace), m.trace[max(0, len(m.trace)-12):], fmt.Sprintf(format, args...))
}

// step does one thing.
func (m *modelRun) step() {
	type action struct {
		weight int
		name   string
		do     func()
	}
	actions := []action{
		{60, "commit", m.commit},
		{12, "together", m.together},
		{6, "sync", m.sync},
		{10, "view", m.view},
		{3, "collect", func() { m.must(m.s.space.collect()) }},
		{4, "tend", func() { m.must(m.s.space.tend()) }},
		{3, "flush", func() { m.must(m.s.db.Flush()) }},
		{1, "compact", m.compact},
		{1, "export", m.export},
		{1, "import", m.importOne},
		{1, "reopen", m.reopen},
		{1, "kill", func() { m.crash(100) }},
		{2, "power", func() { m.crash([]int{0, 30, 70, 95}[m.rng.IntN(4)]) }},
	}
	sum := 0
	for _, a := range actions {
		sum += a.weight
	}
	n := m.rng.IntN(sum)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			m.trace = append(m.trace, a.name)
			m.did[a.name]++
			a.do()
			return
		}
	}
}

// Random operations on a store of tiny segments and memtables: it is what a map is, through collects, imports and
// views, and after each closing, kill and loss of power.
func TestRandomOperationsLeaveWhatAMapHolds(t *testing.T) {
	runs, seed := 6, rand.Uint64()
	if testing.Short() {
		runs = 2
	}
	if *modelSeed != 0 {
		runs, seed = 1, *modelSeed
	}
	for run := range runs {
		t.Logf("seed %d", seed+uint64(run))
		m := newModelRun(t, seed+uint64(run))
		for range *modelOps {
			m.step()
		}
		m.all()
		m.closeViews()
		m.must(m.s.Close(ctx))
		t.Log(m.did)
	}
}
