package kafkaproto

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Group requests told as stories (testdata/groups/*.txt), spoken to a weir in this process or, with KAFKA=host:port in the environment, to a
// real Kafka (then -rewrite writes what is right; it needs group.min.session.timeout.ms=100,
// group.max.size=4, group.initial.rebalance.delay.ms=0).
//
//	JoinGroup v9 A [later]      the request's fields as JSON below; A is the client (its own connection and client id)
//	await A                     the reply of a request that was sent "later"
//	until X g=Empty             waits until group g is described in that state
//	members X g=3               waits until it has so many members
//
// Elements of lists are told in order of their text: Kafka answers errors first, and members in no order.
// What is said of a client is remembered: $A is its member id, $A.2 the id before the last, $topic the id of topic "topic". Fields
// of replies that are zero are left out. A story uses its own names for groups and topics, so it can be told twice.
func TestGroupStories(t *testing.T) {
	addr := os.Getenv("KAFKA")
	datadriven.Walk(t, "testdata/groups", func(t *testing.T, path string) {
		s := &groupStory{addr: addr, clients: map[string]*storyClient{}, names: map[string]string{}}
		if addr == "" {
			s.addr = startGroupsWeir(t)
		}
		defer s.close()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return s.step(t, d)
		})
	})
}

type groupStory struct {
	addr    string
	clients map[string]*storyClient
	names   map[string]string // of ids: "$A" -> what it stands for
}

// storyClient is one connection that sends one request at a time.
type storyClient struct {
	name  string
	nc    net.Conn
	later kmsg.Request // sent, not answered yet
	next  int32
}

func (s *groupStory) close() {
	for _, c := range s.clients {
		c.nc.Close()
	}
}

func (s *groupStory) client(t *testing.T, name string) *storyClient {
	if c := s.clients[name]; c != nil {
		return c
	}
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	s.clients[name] = &storyClient{name: name, nc: nc}
	return s.clients[name]
}

func (s *groupStory) step(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd == "await" {
		c := s.client(t, d.CmdArgs[0].Key)
		return s.hear(t, c, c.later)
	}
	if d.Cmd == "until" || d.Cmd == "members" {
		s.until(t, d)
		return ""
	}
	var version int16
	if _, err := fmt.Sscanf(d.CmdArgs[0].Key, "v%d", &version); err != nil {
		d.Fatalf(t, "no version: %v", err)
	}
	c := s.client(t, d.CmdArgs[1].Key)
	req := requestNamed(d.Cmd)
	if req == nil {
		d.Fatalf(t, "no request %q", d.Cmd)
	}
	req.SetVersion(version)
	input := d.Input
	names := make([]string, 0, len(s.names))
	for name := range s.names {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool { return len(names[i]) > len(names[j]) })
	for _, name := range names {
		input = strings.ReplaceAll(input, name, s.names[name])
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte("{"+input+"}"), &fields); err != nil {
		d.Fatalf(t, "%v: %s", err, input)
	}
	fill(reflect.ValueOf(req).Elem(), fields)
	if err := c.say(req); err != nil {
		return err.Error()
	}
	if d.HasArg("later") {
		c.later = req
		return ""
	}
	return s.hear(t, c, req)
}

// until asks for a group until it has a state.
func (s *groupStory) until(t *testing.T, d *datadriven.TestData) {
	c, group, state := s.client(t, d.CmdArgs[0].Key), d.CmdArgs[1].Key, d.CmdArgs[1].Vals[0]
	for range 100_000 {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.SetVersion(5)
		req.Groups = []string{group}
		if err := c.say(req); err != nil {
			t.Fatal(err)
		}
		told := s.hear(t, c, req)
		if d.Cmd == "until" && strings.Contains(told, "State="+state) ||
			d.Cmd == "members" && strconv.Itoa(strings.Count(told, "Members:")) == state {
			return
		}
	}
	d.Fatalf(t, "group %s is never %s", group, state)
}

// say sends a request.
func (c *storyClient) say(req kmsg.Request) error {
	c.next++
	b := binary.BigEndian.AppendUint16(nil, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(req.GetVersion()))
	b = binary.BigEndian.AppendUint32(b, uint32(c.next))
	b = append(binary.BigEndian.AppendUint16(b, uint16(len(c.name))), c.name...)
	if req.IsFlexible() {
		b = append(b, 0)
	}
	b = req.AppendTo(b)
	_, err := c.nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

// hear reads a reply and tells it.
func (s *groupStory) hear(t *testing.T, c *storyClient, req kmsg.Request) string {
	c.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := c.body(t)
	resp := req.ResponseKind()
	if req.IsFlexible() {
		b = b[1:]
	}
	if err := resp.ReadFrom(b); err != nil {
		t.Fatalf("%T: %v", resp, err)
	}
	s.remember(c, resp)
	out := picture(reflect.ValueOf(resp).Elem(), "")
	for _, name := range slices.Sorted(maps.Keys(s.names)) {
		if id := s.names[name]; strings.Contains(id, "-") { // member ids; topic ids are bytes
			out = strings.ReplaceAll(out, id, name)
		}
	}
	out = memberSuffix.ReplaceAllString(out, "-new")
	if strings.TrimSpace(out) == "" {
		return "ok\n"
	}
	return strings.TrimSpace(strings.ReplaceAll(out, s.addr[strings.LastIndexByte(s.addr, ':')+1:], "PORT")) + "\n"
}

// memberSuffix is what makes a member id unique.
var memberSuffix = regexp.MustCompile(`-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// remember keeps the ids that a reply gives out.
func (s *groupStory) remember(c *storyClient, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.JoinGroupResponse:
		if name := "$" + c.name; r.MemberID != "" && s.names[name] != r.MemberID {
			if old, ok := s.names[name]; ok {
				s.names[name+".2"] = old
			}
			s.names[name] = r.MemberID
		}
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			id, _ := json.Marshal(r.Topics[i].TopicID)
			s.names["$"+r.Topics[i].Topic] = string(id)
			r.Topics[i].TopicID = [16]byte{}
			r.Topics[i].Configs = nil
		}
	case *kmsg.DeleteTopicsResponse:
		for i := range r.Topics {
			r.Topics[i].TopicID = [16]byte{}
		}
		name := func(i int) string {
			if r.Topics[i].Topic == nil {
				return ""
			}
			return *r.Topics[i].Topic
		}
		sort.Slice(r.Topics, func(i, j int) bool { return name(i) < name(j) })
	case *kmsg.MetadataResponse:
		r.ClusterID = nil
		for i := range r.Topics {
			if r.Topics[i].Topic != nil {
				r.Topics[i].TopicID = [16]byte{}
			}
		}
	case *kmsg.OffsetCommitResponse:
		for i := range r.Topics {
			r.Topics[i].TopicID = [16]byte{}
		}
	case *kmsg.OffsetFetchResponse:
		for i := range r.Groups {
			for j := range r.Groups[i].Topics {
				r.Groups[i].Topics[j].TopicID = [16]byte{}
			}
		}
	}
}

// body reads one reply as it came, without its correlation id.
func (c *storyClient) body(t *testing.T) []byte {
	t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, b); err != nil {
		t.Fatal(err)
	}
	return b[4:]
}

// requestNamed makes an empty request from its name.
func requestNamed(name string) kmsg.Request {
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		if kmsg.NameForKey(key) == name {
			return kmsg.RequestForKey(key)
		}
	}
	return nil
}

// fill sets the fields of a request; byte strings are given as text.
func fill(v reflect.Value, from any) {
	switch v.Kind() {
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		for name, value := range from.(map[string]any) {
			f := v.FieldByName(name)
			if !f.IsValid() {
				panic("no field " + name)
			}
			fill(f, value)
		}
	case reflect.Pointer:
		if from != nil {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), from)
		}
	case reflect.Slice:
		if from == nil {
			v.SetZero()
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(from.(string)))
			return
		}
		list := from.([]any)
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
		for i := range list {
			fill(v.Index(i), list[i])
		}
	case reflect.Array:
		for i, b := range from.([]any) {
			v.Index(i).SetUint(uint64(b.(float64)))
		}
	case reflect.String:
		v.SetString(from.(string))
	case reflect.Bool:
		v.SetBool(from.(bool))
	default:
		v.SetInt(int64(from.(float64)))
	}
}

// picture draws a reply, a line for each element of a list.
func picture(v reflect.Value, indent string) string {
	var line, below strings.Builder
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case name == "Version" || name == "UnknownTags" || name == "ThrottleMillis" || name == "ErrorMessage" || f.IsZero():
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			each := make([]string, f.Len())
			for j := range each {
				each[j] = fmt.Sprintf("%s%s:%s", indent, name, picture(f.Index(j), indent+"  "))
			}
			sort.Strings(each)
			below.WriteString(strings.Join(each, ""))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Uint8:
			fmt.Fprintf(&line, " %s=%q", name, f.Bytes())
		case f.Kind() == reflect.Pointer:
			fmt.Fprintf(&line, " %s=%q", name, f.Elem().Interface())
		case f.Kind() == reflect.String:
			fmt.Fprintf(&line, " %s=%s", name, f.String())
		default:
			fmt.Fprintf(&line, " %s=%v", name, f.Interface())
		}
	}
	return line.String() + "\n" + below.String()
}
