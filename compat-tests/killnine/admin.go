package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/kafkawire"
)

// A topic is what of a topic must survive. retention is its retention.ms.
type topic struct {
	exists    bool
	uuid      [16]byte
	retention int64
	start     []int64 // by partition
	end       []int64
}

func (t topic) clone() topic {
	t.start, t.end = slices.Clone(t.start), slices.Clone(t.end)
	return t
}

func (t topic) String() string {
	if !t.exists {
		return "no topic"
	}
	return fmt.Sprintf("topic id %x.., %d partitions, retention.ms %d, starts %v, ends %v", t.uuid[:4], len(t.end), t.retention, t.start, t.end)
}

// like tells whether the server's state is this one. An unanswered creation's ID is
// unknown, which is all zeroes here.
func (t topic) like(got topic) bool {
	if !t.exists || !got.exists {
		return t.exists == got.exists
	}
	return (t.uuid == got.uuid || t.uuid == [16]byte{}) && t.retention == got.retention &&
		slices.Equal(t.start, got.start) && slices.Equal(t.end, got.end)
}

// An admin owns a few topic names and sends one request at a time: CreateTopics,
// CreatePartitions, IncrementalAlterConfigs, Produce, DeleteRecords, DeleteTopics.
type admin struct {
	prefix string
	rng    *rand.Rand
	topics []topic // answered
	// open is the one unanswered request: topic openAt would become open.
	open   *topic
	openAt int
	// life counts each name's deletions. Against a real Kafka it is part of the name:
	// for a moment after a re-creation a batch that names the topic may still go to
	// the deleted log there, and with it. Weir must not do that.
	life     [4]int
	lifeName bool
	count    int64
	wrong    findings
}

func newAdmin(prefix string, seed uint64, reuseNames bool) *admin {
	a := &admin{prefix: prefix, rng: rand.New(rand.NewPCG(seed, 3)), lifeName: !reuseNames}
	a.topics = make([]topic, len(a.life))
	return a
}

func (a *admin) name() string { return "admin " + a.prefix }

func (a *admin) answers() int64 { return a.count }

func (a *admin) topicName(i int) string {
	if a.lifeName {
		return fmt.Sprintf("%s-%d-%d", a.prefix, i, a.life[i])
	}
	return fmt.Sprintf("%s-%d", a.prefix, i)
}

func (a *admin) load(ctx context.Context, sys *system) {
	c, err := kafkawire.Dial(ctx, sys.kafka)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for ctx.Err() == nil {
		i := a.rng.IntN(len(a.topics))
		req, after, code := a.next(i)
		a.open, a.openAt = &after, i
		resp, err := c.Do(req)
		if err != nil {
			return
		}
		switch err := kerr.ErrorForCode(code(resp)); {
		case err == nil:
			if a.topics[i], a.open = after, nil; !after.exists {
				a.life[i]++
			}
			a.count++
		case kerr.IsRetriable(err): // a new partition without a leader yet, a deletion under way
			a.open = nil
			pause(ctx, 20*time.Millisecond)
		default:
			a.wrong.add("%s of %s in state [%s] was answered with: %v", kmsg.NameForKey(req.Key()), a.topicName(i), a.topics[i], err)
			a.open = nil
			return
		}
	}
}

// next makes up a request for topic i, the state after it, and how to find its error
// code (and what else the reply tells) in the reply.
func (a *admin) next(i int) (kmsg.Request, topic, func(kmsg.Response) int16) {
	now := a.topics[i].clone()
	if !now.exists {
		return a.create(i)
	}
	p := a.rng.IntN(len(now.end))
	switch roll := a.rng.IntN(20); {
	case roll < 10:
		return a.produce(i, p)
	case roll < 13 && now.end[p] > now.start[p]:
		return a.deleteRecords(i, p)
	case roll < 15 && len(now.end) < 8:
		return a.grow(i)
	case roll < 17:
		return a.delete(i)
	default:
		return a.alter(i)
	}
}

func (a *admin) create(i int) (kmsg.Request, topic, func(kmsg.Response) int16) {
	n := 1 + a.rng.IntN(3)
	after := topic{exists: true, retention: 1e9 + int64(a.rng.IntN(1e6)), start: make([]int64, n), end: make([]int64, n)}
	return createRequest(a.topicName(i), n, after.retention), after, func(r kmsg.Response) int16 {
		t := r.(*kmsg.CreateTopicsResponse).Topics[0]
		a.open.uuid = t.TopicID
		return t.ErrorCode
	}
}

func (a *admin) produce(i, p int) (kmsg.Request, topic, func(kmsg.Response) int16) {
	after, n := a.topics[i].clone(), 1+a.rng.IntN(5)
	base := after.end[p]
	after.end[p] += int64(n)
	set := kafkawire.Batch(slices.Repeat([][]byte{[]byte("x")}, n), time.Now(), kafkawire.NoProducer)
	return produceRequest(a.topicName(i), p, int16(a.rng.IntN(2)*2-1), set), after, func(r kmsg.Response) int16 {
		got := r.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if got.ErrorCode == 0 && got.BaseOffset != base {
			a.wrong.add("%s/%d: the next offset was %d, but a batch got %d", a.topicName(i), p, base, got.BaseOffset)
		}
		return got.ErrorCode
	}
}

func (a *admin) deleteRecords(i, p int) (kmsg.Request, topic, func(kmsg.Response) int16) {
	after := a.topics[i].clone()
	after.start[p] += 1 + a.rng.Int64N(after.end[p]-after.start[p])
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = int32(p), after.start[p]
	tp := kmsg.NewDeleteRecordsRequestTopic()
	tp.Topic, tp.Partitions = a.topicName(i), []kmsg.DeleteRecordsRequestTopicPartition{part}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 30_000
	req.Topics = append(req.Topics, tp)
	return req, after, func(r kmsg.Response) int16 {
		return r.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode
	}
}

func (a *admin) grow(i int) (kmsg.Request, topic, func(kmsg.Response) int16) {
	after := a.topics[i].clone()
	for range 1 + a.rng.IntN(2) {
		after.start, after.end = append(after.start, 0), append(after.end, 0)
	}
	tp := kmsg.NewCreatePartitionsRequestTopic()
	tp.Topic, tp.Count = a.topicName(i), int32(len(after.end))
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis = 3, 30_000
	req.Topics = append(req.Topics, tp)
	return req, after, func(r kmsg.Response) int16 {
		return r.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode
	}
}

func (a *admin) delete(i int) (kmsg.Request, topic, func(kmsg.Response) int16) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 30_000, []string{a.topicName(i)}
	return req, topic{}, func(r kmsg.Response) int16 {
		return r.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode
	}
}

func (a *admin) alter(i int) (kmsg.Request, topic, func(kmsg.Response) int16) {
	after := a.topics[i].clone()
	after.retention = 1e9 + int64(a.rng.IntN(1e6))
	cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	cfg.Name, cfg.Value = "retention.ms", kmsg.StringPtr(fmt.Sprint(after.retention))
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeTopic, a.topicName(i)
	res.Configs = append(res.Configs, cfg)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	req.Resources = append(req.Resources, res)
	return req, after, func(r kmsg.Response) int16 {
		return r.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode
	}
}

func (a *admin) check(ctx context.Context, sys *system) findings {
	found := a.wrong
	a.wrong = nil
	for i, want := range a.topics {
		name := a.topicName(i)
		got, err := readTopic(ctx, sys.kafka, name)
		if err != nil {
			found.add("%s: reading it back: %v", name, err)
			continue
		}
		if !sys.oneStore {
			forgiveStarts(want, got)
			if a.open != nil && a.openAt == i {
				forgiveStarts(*a.open, got)
			}
		}
		switch {
		case want.like(got):
		case a.open != nil && a.openAt == i && a.open.like(got):
		case a.open != nil && a.openAt == i:
			found.add("%s: is [%s], was acknowledged as [%s]; unanswered: [%s]", name, got, want, *a.open)
		default:
			found.add("%s: is [%s], was acknowledged as [%s]", name, got, want)
		}
		if a.topics[i] = got; want.exists && !got.exists {
			a.life[i]++
		}
	}
	a.open = nil
	return found
}

// forgiveStarts: a real Kafka 4.4 forgets DeleteRecords when it is killed.
func forgiveStarts(want, got topic) {
	if got.exists && len(want.start) == len(got.start) {
		copy(got.start, want.start)
	}
}

// readTopic reads a topic's whole state.
func readTopic(ctx context.Context, addr, name string) (topic, error) {
	tp := kmsg.NewMetadataRequestTopic()
	tp.Topic = kmsg.StringPtr(name)
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 12, false
	req.Topics = append(req.Topics, tp)
	resp, err := asKafka[*kmsg.MetadataResponse](ctx, addr, req)
	if err != nil {
		return topic{}, err
	}
	got := resp.Topics[0]
	if got.ErrorCode == kerr.UnknownTopicOrPartition.Code {
		return topic{}, nil
	}
	if err := kerr.ErrorForCode(got.ErrorCode); err != nil {
		return topic{}, err
	}
	t := topic{exists: true, uuid: got.TopicID}
	if t.retention, err = readRetention(ctx, addr, name); err != nil {
		return t, err
	}
	if err := waitLed(ctx, addr, name, len(got.Partitions)); err != nil {
		return t, err
	}
	for p := range got.Partitions {
		start, err := listOffset(ctx, addr, name, p, -2)
		if err != nil {
			return t, err
		}
		end, err := listOffset(ctx, addr, name, p, -1)
		if err != nil {
			return t, err
		}
		t.start, t.end = append(t.start, start), append(t.end, end)
	}
	return t, nil
}

func readRetention(ctx context.Context, addr, name string) (int64, error) {
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeTopic, name, []string{"retention.ms"}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	req.Resources = append(req.Resources, res)
	resp, err := asKafka[*kmsg.DescribeConfigsResponse](ctx, addr, req)
	if err != nil {
		return 0, err
	}
	r := resp.Resources[0]
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		return 0, err
	}
	var ms int64 = -2
	for _, c := range r.Configs {
		if c.Name == "retention.ms" && c.Value != nil {
			_, err = fmt.Sscan(*c.Value, &ms)
		}
	}
	return ms, err
}
