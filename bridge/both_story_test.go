package bridge

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"weir/engine"
	"weir/storage"
)

// Both protocols on one group, told as stories (testdata/both_*.txt): what a Redis client and what a member of a Kafka group each
// do, through the verbs that both edges call, and how the group looks afterwards. Time is fake, and costs nothing.
//
//	topic t [partitions=n] | drop t    t is partition 0, t/1 another one
//	add t n                            XADD n entries
//	xdel t 3 4 | xgroup t g id=offset|$|0 | setid t g after=offset
//	xread t g w [count=n]              XREADGROUP >
//	xhistory t g w | xack t g 0 1 2 | xclaim t g w 0 1 [justid]
//	rebalance g A B give=(A:t/0,B:t/1) [static]   A and B join (or join again), and sync
//	join g A B                         the first half of it only
//	heartbeat g A | leave g A | wait 10s
//	fetch A t 0-4                      a Fetch of A's client that was answered with these offsets
//	commit g A t=3 [metadata=m]        OffsetCommit by the member; by nobody with "-"
//	offsets g [t t/1]                  OffsetFetch
//	group t g                          the group as both sides see it
//	groups                             ListGroups and DescribeGroups
//	forget g t | delete g              OffsetDelete, DeleteGroups
//	restart | crash                    of the process; a crash forgets what was not committed
func TestBothProtocols(t *testing.T) {
	paths, err := filepath.Glob("testdata/both_*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no stories", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &bothStory{t: t, store: storage.NewMem(4), ids: map[string]string{}, generation: map[string]int32{}, static: map[string]bool{}}
				s.open()
				defer func() {
					for _, s.b = range append(s.gone, s.b) {
						s.eng = s.b.Engine()
						s.shut()
					}
				}()
				datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
					s.d = d
					s.say.Reset()
					s.step()
					return s.named(s.say.String())
				})
			})
		})
	}
}

type bothStory struct {
	t          *testing.T
	d          *datadriven.TestData
	say        strings.Builder
	store      storage.Store
	eng        *engine.Engine
	b          *Bridge
	gone       []*Bridge         // of processes that crashed; their goroutines must end with the story
	ids        map[string]string // "g A" -> member id
	generation map[string]int32  // of the group
	static     map[string]bool   // "g A" joined with its letter as instance id
}

func (s *bothStory) open() {
	var err error
	if s.eng, err = engine.Open(context.Background(), s.store, engine.Options{}); err != nil {
		s.t.Fatal(err)
	}
	if s.b, err = Open(context.Background(), s.eng, Options{InitialRebalanceDelay: time.Second}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *bothStory) shut() {
	s.b.Close(context.Background())
	s.eng.Close(context.Background())
}

func (s *bothStory) step() {
	arg := func(i int) string { return s.d.CmdArgs[i].Key }
	switch s.d.Cmd {
	case "topic":
		n := 1
		s.d.MaybeScanArgs(s.t, "partitions", &n)
		if _, err := s.b.CreateTopic(context.Background(), NewTopic{Name: arg(0), Partitions: int32(n), Replication: 1}, false); err != nil {
			s.fail(err)
		}
	case "drop":
		topic, _ := s.b.Topic(arg(0))
		s.fail(s.b.DeleteTopic(context.Background(), topic))
	case "join", "rebalance":
		s.rebalance()
	case "heartbeat":
		err := s.b.Heartbeat(&HeartbeatRequest{Group: arg(0), MemberID: s.id(arg(0), arg(1)), Generation: s.generation[arg(0)]})
		s.verdict(err)
	case "leave":
		errs, err := s.b.LeaveGroup(&LeaveRequest{Group: arg(0), Members: []LeavingMember{{MemberID: s.id(arg(0), arg(1))}}})
		s.verdict(append(errs, err)[0])
	case "wait":
		d, err := time.ParseDuration(arg(0))
		if err != nil {
			s.fail(err)
		}
		<-time.After(d)
		synctest.Wait()
	case "fetch":
		from, to := span(arg(2))
		_, no := s.stream(arg(1))
		s.b.MemberFetched(strings.ToLower(arg(0)), "/127.0.0.1", no, from, to)
	case "commit":
		s.commit()
	case "offsets":
		s.offsets()
	case "groups":
		for _, l := range s.b.ListGroups() {
			d, _ := s.b.DescribeGroup(l.Name)
			fmt.Fprintf(&s.say, "%s %s %q", l.Name, l.State, l.ProtocolType)
			for _, m := range d.Members {
				fmt.Fprintf(&s.say, " %s %v", m.MemberID, assignedPartitions(m.Assignment))
			}
			s.say.WriteByte('\n')
		}
	case "forget":
		tp, _ := s.stream(arg(1))
		errs, err := s.b.ForgetOffsets(arg(0), []TopicPartition{tp})
		s.verdict(firstError(err, append(errs, nil)[0]))
	case "delete":
		s.verdict(s.b.DeleteGroup(arg(0)))
	case "restart":
		s.shut()
		s.open()
	case "crash": // what the store has is all that is left
		s.gone = append(s.gone, s.b)
		s.open()
	default:
		s.verbs()
	}
}

// verbs are the ones that Redis clients use, on one stream within one turn.
func (s *bothStory) verbs() {
	arg := func(i int) string { return s.d.CmdArgs[i].Key }
	_, no := s.stream(arg(0))
	turn := s.eng.Begin(engine.Written)
	on := engine.Group{}
	if len(s.d.CmdArgs) > 1 {
		on = turn.Group(no, arg(1))
	}
	switch s.d.Cmd {
	case "add":
		n, _ := strconv.Atoi(arg(1))
		for range n {
			if _, err := turn.Append(no, engine.AppendArgs{Auto: true, Fields: [][]byte{[]byte("k"), []byte("v")}}); err != nil {
				s.fail(err)
			}
		}
	case "xdel":
		n, err := turn.Delete(no, s.entries(turn, no, 1))
		s.fail(err)
		fmt.Fprintln(&s.say, n)
	case "xgroup", "setid":
		at := engine.GroupStart{EntriesRead: -1}
		switch where := s.text("after", "0"); where {
		case "$":
			at.Last = true
		case "0":
		default:
			offset, _ := strconv.ParseInt(where, 10, 64)
			at.ID = s.entry(turn, no, offset)
		}
		if s.d.Cmd == "setid" {
			s.fail(on.SetID(at))
		} else {
			s.fail(on.Create(at))
		}
	case "xread":
		count := 0
		s.d.MaybeScanArgs(s.t, "count", &count)
		r, err := on.Deliver(arg(2), engine.DeliverArgs{Count: int64(count), Kind: engine.RedisConsumer})
		s.fail(err)
		if r == nil {
			s.say.WriteString("nothing new\n")
			break
		}
		for {
			run, ok, err := r.Next()
			s.fail(err)
			if !ok {
				break
			}
			fmt.Fprintf(&s.say, "%d-%d\n", run.From, run.To)
		}
		r.Close()
	case "xhistory":
		held, err := on.History(arg(2), engine.ID{}, 0)
		s.fail(err)
		s.held(held)
	case "xack":
		n, err := on.Ack(s.entries(turn, no, 2))
		s.fail(err)
		fmt.Fprintln(&s.say, n)
	case "xclaim":
		a := engine.ClaimArgs{Consumer: arg(2), Kind: engine.RedisConsumer, Time: -1, IDs: s.entries(turn, no, 3), JustID: s.d.HasArg("justid")}
		held, err := on.Claim(a)
		s.fail(err)
		s.held(held)
	case "group":
		s.group(turn, on, no)
	default:
		s.d.Fatalf(s.t, "what is %q", s.d.Cmd)
	}
	s.fail(turn.Wait(context.Background()))
}

func (s *bothStory) held(held *engine.HeldReader) {
	defer held.Close()
	for {
		h, ok, err := held.Next()
		s.fail(err)
		if !ok {
			return
		}
		if h.Gone != nil {
			fmt.Fprintf(&s.say, "gone %v\n", h.Gone)
			continue
		}
		fmt.Fprintf(&s.say, "%d-%d\n", h.Run.From, h.Run.To)
	}
}

// group tells the state that both sides read.
func (s *bothStory) group(turn *engine.Turn, on engine.Group, no StreamNo) {
	st, err := on.Stat()
	if err != nil {
		fmt.Fprintln(&s.say, err)
		return
	}
	fmt.Fprintf(&s.say, "watermark %d, delivered up to %d, pending %d", st.Watermark, st.LastOffset, st.Pending)
	if st.Reader != "" {
		fmt.Fprintf(&s.say, ", read by %s", st.Reader)
	}
	s.say.WriteByte('\n')
	rows, err := on.Pending(engine.PendingArgs{To: engine.MaxID, Count: 1000})
	s.fail(err)
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j].Offset == rows[j-1].Offset+1 && rows[j].Consumer == rows[i].Consumer && rows[j].Count == rows[i].Count {
			j++
		}
		fmt.Fprintf(&s.say, "  %d-%d %s x%d\n", rows[i].Offset, rows[j-1].Offset, orNobody(rows[i].Consumer), rows[i].Count)
		i = j
	}
	consumers, err := on.Consumers()
	s.fail(err)
	for _, c := range consumers {
		kind := "redis"
		if c.Kind == engine.ClassicMember {
			kind = "member"
		}
		fmt.Fprintf(&s.say, "  %s %s holds %d\n", kind, c.Name, c.Pending)
	}
}

// rebalance has clients join, or join again, and, unless they only join, sync.
func (s *bothStory) rebalance() {
	group := s.d.CmdArgs[0].Key
	var letters []string
	for _, a := range s.d.CmdArgs[1:] {
		if a.Vals == nil && a.Key != "static" {
			letters = append(letters, a.Key)
		}
	}
	// Those who are new first: the group waits for the others then.
	slices.SortStableFunc(letters, func(a, b string) int {
		return strings.Compare(s.id(group, a), "") - strings.Compare(s.id(group, b), "")
	})
	replies := make([]JoinReply, len(letters))
	var wait sync.WaitGroup
	for i, letter := range letters {
		if s.d.HasArg("static") {
			s.static[group+" "+letter] = true
		}
		r := JoinRequest{
			Group: group, MemberID: s.ids[group+" "+letter], InstanceID: s.instance(group, letter), ClientID: strings.ToLower(letter),
			Host: "/127.0.0.1", ProtocolType: consumerProtocol, Protocols: []Protocol{{"range", subscription("t", "u")}},
			SessionTimeout: 10_000, RebalanceTimeout: 60_000,
		}
		wait.Go(func() { replies[i] = s.b.JoinGroup(context.Background(), &r) })
		synctest.Wait()
	}
	if s.d.Cmd == "join" {
		// Whoever is let in only when others join again is left waiting.
		synctest.Wait()
		return
	}
	wait.Wait()
	leader := 0
	for i, r := range replies {
		if r.Err != nil {
			fmt.Fprintf(&s.say, "%s: %v\n", letters[i], r.Err)
			return
		}
		s.ids[group+" "+letters[i]], s.generation[group] = r.MemberID, r.Generation
		if r.Leader == r.MemberID {
			leader = i
		}
	}
	var given []Assignment
	for _, a := range s.d.CmdArgs {
		for _, v := range a.Vals {
			to, what, _ := strings.Cut(v, ":")
			given = giveTo(given, s.ids[group+" "+to], what)
		}
	}
	for i, letter := range letters {
		r := SyncRequest{Group: group, MemberID: replies[i].MemberID, InstanceID: s.instance(group, letter), Generation: replies[i].Generation}
		if i == leader {
			r.Assignments = given
		}
		wait.Go(func() {
			if got := s.b.SyncGroup(context.Background(), &r); got.Err != nil {
				s.t.Errorf("%s: %s: %v", s.d.Pos, letter, got.Err)
			}
		})
	}
	wait.Wait()
	fmt.Fprintf(&s.say, "generation %d\n", s.generation[group])
}

func (s *bothStory) commit() {
	group, letter := s.d.CmdArgs[0].Key, s.d.CmdArgs[1].Key
	r := CommitRequest{Group: group, Generation: -1}
	if letter != "-" {
		r.MemberID, r.InstanceID, r.Generation = s.id(group, letter), s.instance(group, letter), s.generation[group]
	}
	for _, a := range s.d.CmdArgs[2:] {
		if a.Key == "metadata" {
			continue
		}
		tp, _ := s.stream(a.Key)
		offset, _ := strconv.ParseInt(a.Vals[0], 10, 64)
		r.Partitions = append(r.Partitions, PartitionCommit{TopicPartition: tp, Offset: offset, Epoch: -1, Metadata: []byte(s.text("metadata", ""))})
	}
	errs, err := s.b.CommitOffsets(&r)
	s.verdict(firstError(errs[0], err))
}

func (s *bothStory) offsets() {
	var want []TopicPartition
	for _, a := range s.d.CmdArgs[1:] {
		tp, _ := s.stream(a.Key)
		want = append(want, tp)
	}
	got, err := s.b.CommittedOffsets(s.d.CmdArgs[0].Key, want)
	s.fail(err)
	for _, c := range got {
		fmt.Fprintf(&s.say, "%s/%d %d %s\n", c.Topic, c.Partition, c.Offset, c.Metadata)
	}
}

// stream finds a partition by "t" or "t/1".
func (s *bothStory) stream(name string) (TopicPartition, StreamNo) {
	topic, number, _ := strings.Cut(name, "/")
	p, _ := strconv.Atoi(number)
	tp := TopicPartition{topic, int32(p)}
	no, _ := s.b.streamOf(tp)
	return tp, no
}

// entries are the IDs of the offsets that the arguments from i on name.
func (s *bothStory) entries(turn *engine.Turn, no StreamNo, i int) []engine.ID {
	var ids []engine.ID
	for _, a := range s.d.CmdArgs[i:] {
		if offset, err := strconv.ParseInt(a.Key, 10, 64); err == nil {
			ids = append(ids, s.entry(turn, no, offset))
		}
	}
	return ids
}

// entry is the ID of a living entry.
func (s *bothStory) entry(turn *engine.Turn, no StreamNo, offset int64) (id engine.ID) {
	r, err := turn.Range(no, engine.RangeArgs{To: engine.MaxID, Count: -1})
	s.fail(err)
	if r == nil {
		return id
	}
	defer r.Close()
	for {
		run, ok, err := r.Next()
		s.fail(err)
		if !ok {
			return id
		}
		if offset >= run.From && offset <= run.To {
			s.fail(s.b.EachEntry(&run, false, func(e *Entry) bool {
				if e.Offset == offset {
					id = e.ID
				}
				return true
			}))
		}
	}
}

func (s *bothStory) text(key, or string) string {
	s.d.MaybeScanArgs(s.t, key, &or)
	return or
}

func (s *bothStory) id(group, letter string) string { return s.ids[group+" "+letter] }

func (s *bothStory) instance(group, letter string) string {
	if s.static[group+" "+letter] {
		return "static-" + letter
	}
	return ""
}

// named replaces member ids by the letters of their clients.
func (s *bothStory) named(text string) string {
	for key, id := range s.ids {
		_, letter, _ := strings.Cut(key, " ")
		text = strings.ReplaceAll(text, id, letter)
	}
	lines := strings.SplitAfter(text, "\n")
	// Consumers are told in order of their real names, which are random.
	slices.SortStableFunc(lines, func(a, b string) int {
		if strings.HasPrefix(a, "  member") && strings.HasPrefix(b, "  member") {
			return strings.Compare(a, b)
		}
		return 0
	})
	return strings.Join(lines, "")
}

func (s *bothStory) verdict(err error) {
	if err != nil {
		fmt.Fprintln(&s.say, err)
	}
}

func (s *bothStory) fail(err error) {
	if err != nil {
		s.d.Fatalf(s.t, "%v", err)
	}
}

func span(s string) (from, to int64) {
	fmt.Sscanf(s, "%d-%d", &from, &to)
	return from, to
}
