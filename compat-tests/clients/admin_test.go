package clients

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTopicsFromBirthToDeath(t *testing.T) {
	ctx, adm, tp := within(t), admin(t), name(t)
	dry, err := adm.ValidateCreateTopics(ctx, 3, 1, nil, tp)
	if err != nil || dry.Error() != nil {
		t.Fatal(err, dry.Error())
	}
	// kadm keeps what it has heard of a topic for a moment, so the first question is another client's.
	if topics, _ := admin(t).ListTopics(ctx, tp); topics[tp].Err == nil {
		t.Error("validate_only created the topic")
	}
	made, err := adm.CreateTopic(ctx, 3, -1, map[string]*string{"retention.ms": ptr("60000")}, tp)
	if err != nil || made.NumPartitions != 3 || made.ReplicationFactor != 1 {
		t.Fatalf("created %+v, %v", made, err)
	}
	if r := made.Configs["retention.ms"]; r.MaybeValue() != "60000" || r.Source != kmsg.ConfigSourceDynamicTopicConfig {
		t.Errorf("the reply's config: %+v", r)
	}
	if _, err := adm.CreateTopic(ctx, 3, 1, nil, tp); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("created twice: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 3, 3, nil, name(t)); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("three replicas on one broker: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 0, 1, nil, name(t)); !errors.Is(err, kerr.InvalidPartitions) {
		t.Errorf("no partitions: %v", err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, map[string]*string{"no.such": ptr("1")}, name(t)); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("an unknown config: %v", err)
	}
	before, _ := adm.ListTopics(ctx, tp)
	if d := before[tp]; len(d.Partitions) != 3 || d.ID != made.ID || d.Partitions[0].Leader != 1 {
		t.Errorf("listed %+v", d)
	}
	if _, err := adm.DeleteTopic(ctx, tp); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.DeleteTopic(ctx, tp); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("deleted twice: %v", err)
	}
	again, err := adm.CreateTopic(ctx, 1, 1, nil, tp)
	if err != nil || again.ID == made.ID {
		t.Errorf("created anew with the old id %v: %v", again.ID, err)
	}
}

// Deleting and creating again never mixes data, and a client that knows the old id is told.
func TestCreatedAgainStartsEmpty(t *testing.T) {
	ctx, adm, tp := within(t), admin(t), topic(t, 1, nil)
	cl := kafka(t)
	produce(t, cl, &kgo.Record{Topic: tp, Value: []byte("old")})
	if _, err := adm.DeleteTopic(ctx, tp); err != nil {
		t.Fatal(err)
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, tp); err != nil {
		t.Fatal(err)
	}
	produce(t, kafka(t), &kgo.Record{Topic: tp, Value: []byte("new")})
	if r := consume(t, from(t, tp, map[int32]int64{0: 0}), 1)[0]; string(r.Value) != "new" || r.Offset != 0 {
		t.Errorf("offset %d holds %q", r.Offset, r.Value)
	}
}

// C38: the full listing, APPEND and SUBTRACT, a refusal, and the next request still works.
func TestConfigs(t *testing.T) {
	ctx, adm, tp := within(t), admin(t), topic(t, 1, nil)
	read := func() map[string]*kadm.Config {
		rcs, err := adm.DescribeTopicConfigs(ctx, tp)
		if err != nil || rcs[0].Err != nil {
			t.Fatal(err, rcs)
		}
		m := map[string]*kadm.Config{}
		for _, c := range rcs[0].Configs {
			m[c.Key] = &c
		}
		return m
	}
	defaults := read()
	for key, want := range map[string]string{"cleanup.policy": "delete", "compression.type": "producer", "max.message.bytes": "1048588", "message.timestamp.type": "CreateTime", "retention.ms": "604800000", "segment.bytes": "1073741824", "min.insync.replicas": "1", "min.compaction.lag.ms": "0"} {
		if c := defaults[key]; c.MaybeValue() != want || c.Source == kmsg.ConfigSourceDynamicTopicConfig || c.Sensitive {
			t.Errorf("%s = %q from %v, want %q", key, c.MaybeValue(), c.Source, want)
		}
	}
	alter := func(op kadm.IncrementalOp, key, value string) error {
		rs, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: op, Name: key, Value: &value}}, tp)
		if err != nil {
			return err
		}
		return rs[0].Err
	}
	if err := alter(kadm.AppendConfig, "cleanup.policy", "compact"); err != nil {
		t.Fatal(err)
	}
	if c := read()["cleanup.policy"]; c.MaybeValue() != "delete,compact" || c.Source != kmsg.ConfigSourceDynamicTopicConfig {
		t.Errorf("after APPEND: %q from %v", c.MaybeValue(), c.Source)
	}
	if err := alter(kadm.SubtractConfig, "cleanup.policy", "delete"); err != nil {
		t.Fatal(err)
	}
	if c := read()["cleanup.policy"]; c.MaybeValue() != "compact" {
		t.Errorf("after SUBTRACT: %q", c.MaybeValue())
	}
	if err := alter(kadm.AppendConfig, "retention.ms", "5"); !errors.Is(err, kerr.InvalidConfig) && !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("APPEND to what is no list: %v", err)
	}
	if err := alter(kadm.SetConfig, "retention.ms", "x"); !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("retention.ms=x: %v", err)
	}
	if err := alter(kadm.SetConfig, "retention.ms", "7000"); err != nil || read()["retention.ms"].MaybeValue() != "7000" {
		t.Errorf("the next request: %v, %q", err, read()["retention.ms"].MaybeValue())
	}
	if err := alter(kadm.DeleteConfig, "retention.ms", ""); err != nil || read()["retention.ms"].MaybeValue() != "604800000" {
		t.Errorf("back to the default: %v, %q", err, read()["retention.ms"].MaybeValue())
	}
	brokers, err := adm.DescribeBrokerConfigs(ctx, 1)
	if err != nil || brokers[0].Err != nil || len(brokers[0].Configs) < 20 {
		t.Errorf("broker configs: %v, %d entries", err, len(brokers[0].Configs))
	}
}

// C39: new partitions are there at once, live consumers get them; no shrinking.
func TestPartitionsGrow(t *testing.T) {
	ctx, adm, tp := within(t), admin(t), topic(t, 1, nil)
	reader := kafka(t, kgo.ConsumeTopics(tp), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMaxAge(time.Second))
	writer := kafka(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produce(t, writer, &kgo.Record{Topic: tp, Value: []byte("p0")})
	consume(t, reader, 1)
	res, err := adm.UpdatePartitions(ctx, 4, tp)
	if err != nil || res.Error() != nil || len(res) != 1 {
		t.Fatal(err, res)
	}
	if topics, _ := adm.ListTopics(ctx, tp); len(topics[tp].Partitions) != 4 {
		t.Errorf("%d partitions listed", len(topics[tp].Partitions))
	}
	produce(t, kafka(t, kgo.RecordPartitioner(kgo.ManualPartitioner())), &kgo.Record{Topic: tp, Partition: 3, Value: []byte("p3")})
	if r := consume(t, reader, 1)[0]; r.Partition != 3 || r.Offset != 0 {
		t.Errorf("the live consumer got partition %d offset %d", r.Partition, r.Offset)
	}
	for _, to := range []int{2, 4} {
		res, err := adm.UpdatePartitions(ctx, to, tp)
		if err != nil || !errors.Is(res[tp].Err, kerr.InvalidPartitions) {
			t.Errorf("to %d: %v, %v", to, err, res[tp].Err)
		}
	}
}

func TestRecordsAreDeletedFromTheHead(t *testing.T) {
	ctx, adm, tp := within(t), admin(t), topic(t, 1, nil)
	cl := kafka(t)
	for i := range 10 {
		produce(t, cl, &kgo.Record{Topic: tp, Value: fmt.Appendf(nil, "%d", i)})
	}
	cut := func(at int64) (kadm.DeleteRecordsResponse, error) {
		var os kadm.Offsets
		os.Add(kadm.Offset{Topic: tp, At: at})
		res, err := adm.DeleteRecords(ctx, os)
		if err != nil {
			return kadm.DeleteRecordsResponse{}, err
		}
		r, _ := res.Lookup(tp, 0)
		return r, r.Err
	}
	if r, err := cut(4); err != nil || r.LowWatermark != 4 {
		t.Fatalf("to 4: %+v, %v", r, err)
	}
	if r, err := cut(2); err != nil || r.LowWatermark != 4 {
		t.Errorf("to 2, below the start: %+v, %v", r, err)
	}
	if _, err := cut(99); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("beyond the end: %v", err)
	}
	starts, _ := adm.ListStartOffsets(ctx, tp)
	if o, _ := starts.Lookup(tp, 0); o.Offset != 4 {
		t.Errorf("the log starts at %d", o.Offset)
	}
	reader := kafka(t, kgo.ConsumeTopics(tp), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if r := consume(t, reader, 6)[0]; r.Offset != 4 {
		t.Errorf("reading from the start begins at %d", r.Offset)
	}
	if r, err := cut(-1); err != nil || r.LowWatermark != 10 {
		t.Errorf("to the end: %+v, %v", r, err)
	}
}

func TestGroupsFromBirthToDeath(t *testing.T) {
	ctx, adm, tp, group := within(t), admin(t), topic(t, 2, nil), name(t)
	produce(t, kafka(t), &kgo.Record{Topic: tp, Value: []byte("v")})
	reader := kafka(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("reader"))
	rs := consume(t, reader, 1)
	if err := reader.CommitRecords(ctx, rs...); err != nil {
		t.Fatal(err)
	}
	described, err := adm.DescribeGroups(ctx, group)
	if err != nil {
		t.Fatal(err)
	}
	g := described[group]
	if g.State != "Stable" || g.ProtocolType != "consumer" || len(g.Members) != 1 || g.Coordinator.NodeID != 1 {
		t.Fatalf("described: %+v", g)
	}
	if m := g.Members[0]; m.ClientID != "reader" || m.ClientHost != "/127.0.0.1" {
		t.Errorf("the member: %+v", m)
	}
	if a, ok := g.Members[0].Assigned.AsConsumer(); !ok || len(a.Topics) != 1 || len(a.Topics[0].Partitions) != 2 {
		t.Errorf("its assignment: %+v", a)
	}
	if res, _ := adm.DeleteGroups(ctx, group); !errors.Is(res[group].Err, kerr.NonEmptyGroup) {
		t.Errorf("deleting a live group: %v", res[group].Err)
	}
	reader.Close()
	eventually(t, "the group is empty", func() bool {
		listed, err := adm.ListGroups(ctx, "Empty")
		return err == nil && slices.Contains(listed.Groups(), group)
	})
	del, err := adm.DeleteOffsets(ctx, group, kadm.TopicsSet{tp: {0: {}}})
	if err != nil || del.Error() != nil {
		t.Errorf("deleting offsets: %v, %v", err, del.Error())
	}
	if res, err := adm.DeleteGroups(ctx, group); err != nil || res[group].Err != nil {
		t.Errorf("deleting: %v, %v", err, res[group].Err)
	}
	if res, _ := adm.DeleteGroups(ctx, group); !errors.Is(res[group].Err, kerr.GroupIDNotFound) {
		t.Errorf("deleting again: %v", res[group].Err)
	}
}

func TestTheClusterIsOneBroker(t *testing.T) {
	ctx, adm := within(t), admin(t)
	meta, err := adm.BrokerMetadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(meta.Brokers) != 1 || meta.Brokers[0].NodeID != 1 || meta.Controller != 1 || len(meta.Cluster) != 22 {
		t.Errorf("cluster %q, controller %d, brokers %+v", meta.Cluster, meta.Controller, meta.Brokers)
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	resp, err := req.RequestWith(ctx, kafka(t))
	if err != nil {
		t.Fatal(err)
	}
	if resp.ClusterID != meta.Cluster || resp.ControllerID != 1 || len(resp.Brokers) != 1 || resp.ClusterAuthorizedOperations != -2147483648 {
		t.Errorf("DescribeCluster: %+v", resp)
	}
	versions, err := adm.ApiVersions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		if lowest, ok := v.KeyMinVersion(0); !ok || lowest != 0 {
			t.Errorf("Produce is advertised from %d, old librdkafka needs 0", lowest)
		}
	}
}
