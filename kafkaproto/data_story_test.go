package kafkaproto

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
	"weir/engine"
	"weir/kafkaproto/batch"
	"weir/storage"
)

// newWeir serves a weir in memory on a loopback port and returns its address.
func newWeir(t testing.TB, o bridge.Options, before ...func(*Server)) (addr string, s *Server) {
	t.Helper()
	return newWeirOn(t, storage.NewMem(4), o, before...)
}

// newWeirOn is newWeir on a store. before are called before the first connection.
func newWeirOn(t testing.TB, st storage.Store, o bridge.Options, before ...func(*Server)) (addr string, s *Server) {
	t.Helper()
	ctx := context.Background()
	e, err := engine.Open(ctx, st, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Codec = batch.Codec{}
	b, err := bridge.Open(ctx, e, o)
	if err != nil {
		t.Fatal(err)
	}
	s = New(b, Options{})
	lendAsSaid(s)
	for _, fn := range before {
		fn(s)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := s.Shutdown(ctx); err != nil {
			t.Error("shutdown:", err)
		}
		if err := <-served; err != nil {
			t.Error("serve:", err)
		}
		if err := b.Close(ctx); err != nil {
			t.Error("close:", err)
		}
		e.Close(ctx)
		st.Close(ctx)
	})
	return ln.Addr().String(), s
}

// Requests about topics and records told as stories (testdata/data/*.txt), as group_story_test.go tells those about
// groups: to a weir in this process or, with KAFKA=host:port, to a real Kafka, which wrote what
// stands there (-rewrite) except where a line says "weir". Besides requests by name:
//
//	produce v9 A topic/0 [topic/1 ...] [acks=1] [codec=gzip] [pid=7 epoch=0 seq=0] [size=n] [broken] [time]
//	k=v @1000 h:v          a record a line: key=value, null for null, then a timestamp and headers
//	                       with several places: a line for each, which is one batch
//	fetch v12 A topic/0@3 topic/1@0 [max=n] [partmax=n] [min=n] [wait=ms] [session=$ epoch=n]
func TestDataStories(t *testing.T) {
	addr := os.Getenv("KAFKA")
	datadriven.Walk(t, "testdata/data", func(t *testing.T, path string) {
		s := &dataStory{groupStory: groupStory{addr: addr, clients: map[string]*storyClient{}, names: map[string]string{}}}
		if addr == "" {
			s.addr, _ = newWeir(t, bridge.Options{AutoCreate: true})
		}
		defer s.close()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "produce":
				return s.produce(t, d)
			case "fetch":
				return s.fetch(t, d)
			}
			told := s.step(t, d)
			if addr != "" && strings.ContainsAny(d.Cmd[:1], "CDIA") {
				<-time.After(500 * time.Millisecond) // Kafka's own changes reach its broker half a moment later
			}
			return told
		})
	})
}

type dataStory struct {
	groupStory
	session int32
}

// number reads an argument of a step.
func number(t *testing.T, d *datadriven.TestData, name string, otherwise int64) int64 {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) > 0 {
			n, err := strconv.ParseInt(a.Vals[0], 10, 64)
			if err != nil {
				d.Fatalf(t, "%s: %v", name, err)
			}
			return n
		}
	}
	return otherwise
}

func word(d *datadriven.TestData, name string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return a.Vals[0]
		}
	}
	return ""
}

func version(t *testing.T, d *datadriven.TestData) int16 {
	n, err := strconv.ParseInt(strings.TrimPrefix(d.CmdArgs[0].Key, "v"), 10, 16)
	if err != nil {
		d.Fatalf(t, "version: %v", err)
	}
	return int16(n)
}

func orNull(s string) []byte {
	if s == "null" {
		return nil
	}
	return []byte(s)
}

// storyBatch makes a record batch of the lines of a step.
func storyBatch(t *testing.T, d *datadriven.TestData) []byte {
	var records []bridge.Record
	for i, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
		words := strings.Fields(line)
		key, value, _ := strings.Cut(words[0], "=")
		r := bridge.Record{Offset: int64(i), Key: orNull(key), Value: orNull(value)}
		if n := number(t, d, "size", 0); n > 0 {
			r.Value = []byte(strings.Repeat("x", int(n)))
		}
		for _, w := range words[1:] {
			if at, ok := strings.CutPrefix(w, "@"); ok {
				r.Timestamp, _ = strconv.ParseInt(at, 10, 64)
				continue
			}
			name, value, _ := strings.Cut(w, ":")
			r.Headers = append(r.Headers, bridge.Header{Name: name, Value: orNull(value)})
		}
		records = append(records, r)
	}
	data, err := batch.Codec{}.Encode(nil, 0, int64(len(records)-1), -1, records)
	if err != nil {
		t.Fatal(err)
	}
	return dressed(t, data, word(d, "codec"), number(t, d, "pid", -1), int16(number(t, d, "epoch", -1)), int32(number(t, d, "seq", -1)))
}

// dressed compresses a batch and names its producer.
func dressed(t testing.TB, data []byte, codec string, pid int64, epoch int16, seq int32) []byte {
	t.Helper()
	kb := kmsg.NewRecordBatch()
	if err := kb.ReadFrom(data); err != nil {
		t.Fatal(err)
	}
	kb.ProducerID, kb.ProducerEpoch, kb.FirstSequence = pid, epoch, seq
	if codec != "" {
		codecs := map[string]kgo.CompressionCodec{"gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}
		kb.Records, kb.Attributes = compressedRecords(t, kb.Records, codecs[codec])
	}
	return sealed(&kb)
}

func (s *dataStory) produce(t *testing.T, d *datadriven.TestData) string {
	c := s.client(t, d.CmdArgs[1].Key)
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(version(t, d))
	req.Acks, req.TimeoutMillis = int16(number(t, d, "acks", 1)), 5000
	s.fillProduce(t, d, req)
	if err := c.say(req); err != nil {
		return err.Error()
	}
	if req.Acks == 0 {
		return "sent\n"
	}
	resp, broken := s.read(t, c, req)
	if broken != "" {
		return broken
	}
	topics := resp.(*kmsg.ProduceResponse).Topics
	if len(req.Topics) == 1 {
		return producedAt(d, req, &topics[0].Partitions[0])
	}
	var lines []string
	for i := range topics {
		for j := range topics[i].Partitions {
			p := &topics[i].Partitions[j]
			name := topics[i].Topic
			if req.Version >= 13 {
				name = s.nameOf(topics[i].TopicID)
			}
			lines = append(lines, fmt.Sprintf("%s/%d: %s", name, p.Partition, producedAt(d, req, p)))
		}
	}
	sort.Strings(lines) // Kafka has them in no order
	return strings.Join(lines, "")
}

// fillProduce puts the batches of a step into a request.
func (s *dataStory) fillProduce(t *testing.T, d *datadriven.TestData, req *kmsg.ProduceRequest) {
	var places []string
	for _, a := range d.CmdArgs[2:] {
		if strings.Contains(a.Key, "/") {
			places = append(places, a.Key)
		}
	}
	lines := strings.Split(strings.TrimSpace(d.Input), "\n")
	for i, at := range places {
		topic, p, _ := strings.Cut(at, "/")
		partition, _ := strconv.Atoi(p)
		if len(places) > 1 {
			d.Input = lines[i]
		}
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic, rt.TopicID = topic, s.topicID(topic)
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = int32(partition), storyBatch(t, d)
		if d.HasArg("broken") {
			rp.Records[len(rp.Records)-1]++
		}
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	d.Input = strings.Join(lines, "\n") + "\n"
}

// producedAt tells what one partition answers.
func producedAt(d *datadriven.TestData, req *kmsg.ProduceRequest, out *kmsg.ProduceResponseTopicPartition) string {
	if out.ErrorCode != 0 {
		told := fmt.Sprintf("error %d", out.ErrorCode)
		for _, r := range out.ErrorRecords {
			told += fmt.Sprintf(" record %d", r.RelativeOffset)
		}
		return told + "\n"
	}
	told := fmt.Sprintf("base=%d", out.BaseOffset)
	if req.Version >= 5 {
		told += fmt.Sprintf(" start=%d", out.LogStartOffset)
	}
	if d.HasArg("time") && out.LogAppendTime != -1 {
		told += " append-time"
	}
	return told + "\n"
}

// topicID is the id of a topic that this story created; zero otherwise.
func (s *dataStory) topicID(topic string) (id [16]byte) {
	json.Unmarshal([]byte(s.names["$"+topic]), &id)
	return id
}

func (s *dataStory) fetch(t *testing.T, d *datadriven.TestData) string {
	c := s.client(t, d.CmdArgs[1].Key)
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(version(t, d))
	req.MaxWaitMillis, req.MinBytes = int32(number(t, d, "wait", 0)), int32(number(t, d, "min", 1))
	req.MaxBytes = int32(number(t, d, "max", 1<<20))
	req.SessionEpoch = int32(number(t, d, "epoch", -1))
	if d.HasArg("session") {
		req.SessionID = s.session
		if n := number(t, d, "session", 0); n != 0 {
			req.SessionID = int32(n)
		}
	}
	for _, a := range d.CmdArgs[2:] {
		place, offset, ok := strings.Cut(a.Key, "@")
		if !ok {
			continue
		}
		topic, p, _ := strings.Cut(place, "/")
		partition, _ := strconv.Atoi(p)
		if forgotten, yes := strings.CutPrefix(topic, "-"); yes {
			req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: forgotten, TopicID: s.topicID(forgotten), Partitions: []int32{int32(partition)}})
			continue
		}
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.PartitionMaxBytes = int32(partition), int32(number(t, d, "partmax", 1<<20))
		rp.FetchOffset, _ = strconv.ParseInt(offset, 10, 64)
		rp.CurrentLeaderEpoch = int32(number(t, d, "leader", -1))
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = topic, s.topicID(topic)
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	if err := c.say(req); err != nil {
		return err.Error()
	}
	resp, broken := s.read(t, c, req)
	if broken != "" {
		return broken
	}
	return s.fetched(t, resp)
}

// fetched tells a Fetch reply.
func (s *dataStory) fetched(t testing.TB, of kmsg.Response) string {
	resp := of.(*kmsg.FetchResponse)
	var b strings.Builder
	if resp.ErrorCode != 0 {
		fmt.Fprintf(&b, "error %d\n", resp.ErrorCode)
	}
	if resp.SessionID != 0 {
		s.session = resp.SessionID
		b.WriteString("session\n")
	}
	for _, rt := range resp.Topics {
		for _, p := range rt.Partitions {
			name := rt.Topic
			if name == "" {
				name = s.nameOf(rt.TopicID)
			}
			fmt.Fprintf(&b, "%s/%d:", name, p.Partition)
			if p.ErrorCode != 0 {
				fmt.Fprintf(&b, " error %d\n", p.ErrorCode)
				continue
			}
			fmt.Fprintf(&b, " high=%d start=%d\n", p.HighWatermark, p.LogStartOffset)
			if p.RecordBatches == nil {
				b.WriteString("  NULL record set\n")
			}
			tellBatches(t, &b, p.RecordBatches)
		}
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func (s *dataStory) nameOf(id [16]byte) string {
	text, _ := json.Marshal(id)
	for name, known := range s.names {
		if known == string(text) {
			return strings.TrimPrefix(name, "$")
		}
	}
	return fmt.Sprint(id)
}

// tellBatches writes batches down, records shortened.
func tellBatches(t testing.TB, b *strings.Builder, data []byte) {
	for len(data) > 0 {
		n, whole := batch.Split(data)
		if !whole {
			fmt.Fprintf(b, "  %d bytes of another batch\n", len(data))
			return
		}
		h, err := batch.Parse(data[:n])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(b, "  batch %d..%d", h.BaseOffset, h.BaseOffset+int64(h.LastDelta))
		if h.Codec != 0 {
			fmt.Fprintf(b, " codec %d", h.Codec)
		}
		if h.ProducerID >= 0 {
			fmt.Fprintf(b, " seq %d", h.BaseSequence)
		}
		b.WriteString("\n")
		text := func(p []byte) string {
			if p == nil {
				return "null"
			}
			return fmt.Sprintf("%.10s", p)
		}
		err = batch.Codec{}.Decode(data[:n], 0, func(i int, r *bridge.Record) bool {
			fmt.Fprintf(b, "    %d %s=%s", r.Offset, text(r.Key), text(r.Value))
			if !h.LogAppendTime {
				fmt.Fprintf(b, " @%d", r.Timestamp)
			}
			for _, hd := range r.Headers {
				fmt.Fprintf(b, " %s:%s", hd.Name, text(hd.Value))
			}
			b.WriteString("\n")
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		data = data[n:]
	}
}
