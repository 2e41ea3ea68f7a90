package kafkaproto

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
	"weir/kafkaproto/batch"
)

// rawConn is a client that writes its own bytes.
type rawConn struct {
	t testing.TB
	net.Conn
}

func dialRaw(t testing.TB, addr string) *rawConn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return &rawConn{t, nc}
}

// frame is a request with its header; body as it is.
func frame(key, version int16, correlation int32, flexible bool, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = append(b, 0, 1, 'r')
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func (c *rawConn) send(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// request sends a kmsg request.
func (c *rawConn) request(correlation int32, req kmsg.Request) {
	c.t.Helper()
	c.send(frame(req.Key(), req.GetVersion(), correlation, req.IsFlexible(), req.AppendTo(nil)))
}

// reply reads one reply of a correlation, without its header.
func (c *rawConn) reply(correlation int32, resp kmsg.Response) {
	c.t.Helper()
	b, err := readFrame(c.Conn)
	if err != nil {
		c.t.Fatal(err)
	}
	if got := int32(binary.BigEndian.Uint32(b)); got != correlation {
		c.t.Fatalf("reply to %d, not %d", got, correlation)
	}
	b = b[4:]
	if resp.IsFlexible() && resp.Key() != apiVersionsKey {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		c.t.Fatal(err)
	}
}

// closed says that the server hung up.
func (c *rawConn) closed(why string) {
	c.t.Helper()
	if b, err := readFrame(c.Conn); err == nil {
		c.t.Fatalf("%s: answered with %d bytes", why, len(b))
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatalf("%s: still open", why)
	}
}

func apiVersions(version int16) *kmsg.ApiVersionsRequest {
	r := kmsg.NewPtrApiVersionsRequest()
	r.SetVersion(version)
	r.ClientSoftwareName, r.ClientSoftwareVersion = "test", "1.0"
	return r
}

func metadata(version int16, topics ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	r.SetVersion(version)
	r.AllowAutoTopicCreation = true
	for _, name := range topics {
		r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return r
}

func oneRecord(t testing.TB, value string) []byte {
	t.Helper()
	data, err := batch.Codec{}.Encode(nil, 0, 0, -1, []bridge.Record{{Timestamp: time.Now().UnixMilli(), Value: []byte(value)}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// recordsOf is a batch of records at time 7.
func recordsOf(t testing.TB, values ...string) []byte {
	t.Helper()
	var records []bridge.Record
	for i, v := range values {
		records = append(records, bridge.Record{Offset: int64(i), Timestamp: 7, Value: []byte(v)})
	}
	data, err := batch.Codec{}.Encode(nil, 0, int64(len(values)-1), -1, records)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func produceTo(topic string, acks int16, data []byte) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.SetVersion(9)
	r.Acks, r.TimeoutMillis = acks, 1000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = data
	rt.Partitions = append(rt.Partitions, rp)
	r.Topics = append(r.Topics, rt)
	return r
}

// Case C01.
func TestAnUnknownApiVersionsVersionGetsTheListInVersion0(t *testing.T) {
	addr, s := newWeir(t, bridge.Options{})
	c := dialRaw(t, addr)
	for i, version := range []int16{99, 6, 1000} {
		c.send(frame(18, version, int32(i), true, []byte("whatever a newer client says")))
		b, err := readFrame(c.Conn)
		if err != nil {
			t.Fatal(err)
		}
		// correlation:4 error:2 keys:4 (key min max)*
		if code := binary.BigEndian.Uint16(b[4:]); code != 35 {
			t.Fatalf("v%d: error %d", version, code)
		}
		if n := int(binary.BigEndian.Uint32(b[6:])); n != len(s.list) || len(b) != 10+6*n {
			t.Fatalf("v%d: %d keys in %d bytes", version, n, len(b))
		}
	}
	for version := int16(0); version <= 5; version++ {
		c.request(7, apiVersions(version))
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.SetVersion(version)
		c.reply(7, resp)
		if resp.ErrorCode != 0 || len(resp.ApiKeys) != len(s.list) || resp.ApiKeys[0].MinVersion != 0 || resp.ApiKeys[0].MaxVersion != 13 {
			t.Fatalf("v%d: %+v", version, resp)
		}
	}
}

func TestApiVersionsChecksWhoIsMeant(t *testing.T) {
	addr, s := newWeir(t, bridge.Options{})
	c := dialRaw(t, addr)
	ours, theirs := s.b.ClusterID(), "elsewhere"
	for _, x := range []struct {
		why     string
		cluster *string
		node    int32
		want    int16
	}{
		{"bootstrapping", nil, -1, 0},
		{"at home", &ours, 1, 0},
		{"another cluster", &theirs, 1, rebootstrapRequired},
		{"another node", &ours, 2, rebootstrapRequired},
		{"only a cluster", &ours, -1, invalidRequest},
		{"only a node", nil, 1, invalidRequest},
	} {
		r := apiVersions(5)
		r.ClusterID, r.NodeID = x.cluster, x.node
		c.request(1, r)
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.SetVersion(5)
		if c.reply(1, resp); resp.ErrorCode != x.want {
			t.Errorf("%s: error %d", x.why, resp.ErrorCode)
		}
	}
	for _, name := range []string{"", "-x", "a b", "näme", "x."} {
		r := apiVersions(3)
		r.ClientSoftwareName = name
		c.request(2, r)
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.SetVersion(3)
		if c.reply(2, resp); resp.ErrorCode != invalidRequest {
			t.Errorf("client %q: error %d", name, resp.ErrorCode)
		}
	}
	if len(s.b.ClusterID()) != 22 {
		t.Errorf("cluster id %q", s.b.ClusterID())
	}
}

// Case C41.
func TestAcksZeroIsNeverAnswered(t *testing.T) {
	addr, s := newWeir(t, bridge.Options{AutoCreate: true})
	c := dialRaw(t, addr)
	c.request(1, metadata(9, "t"))
	resp := kmsg.NewPtrMetadataResponse()
	resp.SetVersion(9)
	c.reply(1, resp)
	c.request(2, produceTo("t", 0, oneRecord(t, "a")))
	c.request(3, produceTo("t", 0, oneRecord(t, "b")))
	c.request(4, metadata(9, "t"))
	c.reply(4, resp)
	topic, _ := s.b.Topic("t")
	if ends, err := s.b.Ends(topic.Streams[0]); err != nil || ends.HighWater != 2 {
		t.Errorf("stored: %+v %v", ends, err)
	}
	broken := oneRecord(t, "c")
	broken[len(broken)-1]++
	c.request(5, produceTo("t", 0, broken))
	c.closed("acks=0 with a damaged batch")
}

func TestPipelinedProducesAreAnsweredInOrder(t *testing.T) {
	addr, _ := newWeir(t, bridge.Options{AutoCreate: true})
	c := dialRaw(t, addr)
	c.request(1, metadata(9, "t"))
	md := kmsg.NewPtrMetadataResponse()
	md.SetVersion(9)
	c.reply(1, md)
	var all []byte
	const n = 400 // more than may be pending
	for i := range n {
		r := produceTo("t", int16(-1+2*(i%2)), oneRecord(t, fmt.Sprint(i)))
		all = append(all, frame(0, 9, int32(10+i), true, r.AppendTo(nil))...)
	}
	go c.Write(append(all, frame(3, 9, 7777, true, metadata(9, "t").AppendTo(nil))...))
	for i := range n {
		resp := kmsg.NewPtrProduceResponse()
		resp.SetVersion(9)
		c.reply(int32(10+i), resp)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != int64(i) {
			t.Fatalf("%d: %+v", i, p)
		}
	}
	c.reply(7777, md)
}

// What a connection sends is done in its order: a fetch behind a produce that waits for the disk finds its record.
func TestAFetchSeesTheProducesBeforeIt(t *testing.T) {
	addr, _ := newWeir(t, bridge.Options{AutoCreate: true})
	c := dialRaw(t, addr)
	c.request(1, metadata(9, "t"))
	md := kmsg.NewPtrMetadataResponse()
	md.SetVersion(9)
	c.reply(1, md)
	produced := kmsg.NewPtrProduceResponse()
	produced.SetVersion(9)
	fetched := kmsg.NewPtrFetchResponse()
	fetched.SetVersion(11)
	for i := range 50 {
		fetch := fetchOf("t", int64(i))
		both := frame(0, 9, 2, true, produceTo("t", -1, oneRecord(t, "x")).AppendTo(nil))
		c.send(append(both, frame(1, 11, 3, false, fetch.AppendTo(nil))...))
		c.reply(2, produced)
		if c.reply(3, fetched); len(fetched.Topics[0].Partitions[0].RecordBatches) == 0 {
			t.Fatalf("record %d is not there", i)
		}
	}
}

// fetchOf asks for a topic's first partition, without waiting.
func fetchOf(topic string, offset int64) *kmsg.FetchRequest {
	fetch := kmsg.NewPtrFetchRequest()
	fetch.SetVersion(11)
	fetch.MinBytes, fetch.MaxBytes, fetch.SessionEpoch = 1, 1<<20, -1
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.FetchOffset, rp.PartitionMaxBytes = offset, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	fetch.Topics = append(fetch.Topics, rt)
	return fetch
}

func TestBadFramesCloseTheirConnectionOnly(t *testing.T) {
	addr, _ := newWeir(t, bridge.Options{})
	good := dialRaw(t, addr)
	u32 := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	for _, x := range []struct {
		why  string
		data []byte
	}{
		{"a frame beyond the cap", u32(101 << 20)},
		{"a negative size", u32(1<<32 - 5)},
		{"a frame of nothing", u32(0)},
		{"half a header", append(u32(3), 1, 2, 3)},
		{"a client id that is longer than the frame", append(u32(10), 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff)},
		{"a client id of length -2", append(u32(10), 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xfe)},
		{"an unknown key", frame(999, 0, 1, false, nil)},
		{"a negative key", frame(-1, 0, 1, false, nil)},
		{"a raft key", frame(52, 0, 1, false, nil)},
		{"Produce v2", frame(0, 2, 1, false, make([]byte, 20))},
		{"Produce v14", frame(0, 14, 1, true, make([]byte, 20))},
		{"Fetch v3", frame(1, 3, 1, false, make([]byte, 20))},
		{"a negative version", frame(3, -1, 1, false, nil)},
		{"a body cut short", frame(3, 9, 1, true, []byte{5, 0})},
		{"an array longer than the frame", frame(3, 8, 1, false, []byte{0x7f, 0xff, 0xff, 0xff})},
		{"tags that lie", frame(3, 9, 1, false, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
	} {
		c := dialRaw(t, addr)
		c.send(x.data)
		c.closed(x.why)
	}
	good.request(3, apiVersions(0))
	resp := kmsg.NewPtrApiVersionsResponse()
	good.reply(3, resp)
}

func TestAParkedFetchEndsWithItsClientAndWithTheServer(t *testing.T) {
	addr, s := newWeir(t, bridge.Options{AutoCreate: true})
	c := dialRaw(t, addr)
	c.request(1, metadata(9, "t"))
	md := kmsg.NewPtrMetadataResponse()
	md.SetVersion(9)
	c.reply(1, md)
	fetch := fetchOf("t", 0)
	fetch.MaxWaitMillis = 600_000
	topic, _ := s.b.Topic("t")
	place := bridge.Place{Stream: topic.Streams[0]}
	parked := func(want int) {
		t.Helper()
		for range 2000 {
			if len(s.b.Engine().Parked(place)) == want {
				return
			}
			<-time.After(5 * time.Millisecond)
		}
		t.Fatalf("%d parked, not %d", len(s.b.Engine().Parked(place)), want)
	}
	c.request(2, fetch)
	parked(1)
	c.Close()
	parked(0)
	// The other one is let go by the server's shutdown (newWeir's cleanup would hang for ten minutes otherwise).
	d := dialRaw(t, addr)
	d.request(3, fetch)
	parked(1)
}

func TestRepliesGetSmallerWhenManyAreOnTheirWay(t *testing.T) {
	addr, s := newWeir(t, bridge.Options{AutoCreate: true})
	c := dialRaw(t, addr)
	c.request(1, metadata(9, "t"))
	md := kmsg.NewPtrMetadataResponse()
	md.SetVersion(9)
	c.reply(1, md)
	produced := kmsg.NewPtrProduceResponse()
	produced.SetVersion(9)
	for range 20 {
		c.request(2, produceTo("t", 1, oneRecord(t, strings.Repeat("x", 40_000))))
		c.reply(2, produced)
	}
	fetch := fetchOf("t", 0)
	size := func() int {
		c.request(3, fetch)
		resp := kmsg.NewPtrFetchResponse()
		resp.SetVersion(11)
		c.reply(3, resp)
		return len(resp.Topics[0].Partitions[0].RecordBatches)
	}
	if n := size(); n < 800_000 {
		t.Errorf("%d bytes while nothing else is on its way", n)
	}
	s.replying.Add(s.o.MaxReplying)
	if n := size(); n == 0 || n > leastReply {
		t.Errorf("%d bytes while much is on its way", n)
	}
	c.request(4, apiVersions(0)) // the reader is past the last reply when it answers this
	c.reply(4, kmsg.NewPtrApiVersionsResponse())
	if left := s.replying.Add(-s.o.MaxReplying); left != 0 {
		t.Errorf("%d bytes are still counted", left)
	}
}

func TestRoomForRepliesIsGivenOnce(t *testing.T) {
	const all, clients = 256 << 20, 1000
	s := &Server{o: Options{MaxReplying: all}}
	for range clients { // all ask before any has read
		if got := s.reserve(mostFetched); got < leastReply {
			t.Fatalf("room for %d bytes", got)
		}
	}
	if taken := s.replying.Load(); taken > all+clients*leastReply {
		t.Errorf("%d clients were promised %d MB", clients, taken>>20)
	}
}

func TestTheListAgreesWithKmsg(t *testing.T) {
	_, s := newWeir(t, bridge.Options{})
	for _, r := range s.rows() {
		req := kmsg.RequestForKey(r.key)
		if req == nil || !strings.EqualFold(kmsg.NameForKey(r.key), r.name) {
			t.Errorf("key %d is called %s", r.key, r.name)
			continue
		}
		if r.max != req.MaxVersion() {
			t.Errorf("%s: served up to version %d, kmsg knows %d", r.name, r.max, req.MaxVersion())
		}
		for v := r.min; v <= r.max; v++ {
			if req.SetVersion(v); req.IsFlexible() != (v >= r.flexible) {
				t.Errorf("%s version %d: flexible is %v", r.name, v, req.IsFlexible())
			}
		}
		if r.handle == nil || r.min < 0 || r.min > r.max {
			t.Errorf("%s: %d to %d", r.name, r.min, r.max)
		}
	}
}
