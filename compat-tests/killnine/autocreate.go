package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/kafkawire"
)

// An autoCreator names topics that do not exist in Metadata requests, as a producer
// does before its first record, and produces one record to each. A topic whose ID
// was answered is there from then on, with that ID.
type autoCreator struct {
	serial  int
	made    []autoTopic
	open    *autoTopic // asked for, not answered
	checked int        // made[:checked] were compared before and are sampled only
	wrong   findings
}

type autoTopic struct {
	name    string
	uuid    [16]byte
	records int64 // answered
	open    int64 // sent
}

func (a *autoCreator) name() string { return "auto-created topics" }

func (a *autoCreator) answers() int64 { return int64(len(a.made)) * 2 }

func (a *autoCreator) load(ctx context.Context, sys *system) {
	c, err := kafkawire.Dial(ctx, sys.kafka)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for ctx.Err() == nil {
		a.serial++
		t := &autoTopic{name: fmt.Sprintf("kn-auto-%d", a.serial)}
		a.open = t
		for t.uuid == [16]byte{} {
			got, err := askMetadata(c, t.name, true)
			if err != nil {
				return
			}
			switch err := kerr.ErrorForCode(got.ErrorCode); {
			case err == nil:
				t.uuid = got.TopicID
			case kerr.IsRetriable(err):
				pause(ctx, 10*time.Millisecond)
			default:
				a.wrong.add("%s: Metadata with auto-creation answered: %v", t.name, err)
				return
			}
		}
		for t.records == 0 {
			t.open = 1
			set := kafkawire.Batch([][]byte{[]byte(t.name)}, time.Now(), kafkawire.NoProducer)
			resp, err := c.Do(produceRequest(t.name, 0, 1, set))
			if err != nil {
				a.made = append(a.made, *t)
				return
			}
			switch _, err := answerOf(resp); {
			case err == nil:
				t.records = 1
			case kerr.IsRetriable(err):
				pause(ctx, 10*time.Millisecond)
			default:
				a.wrong.add("%s: the first record was answered with: %v", t.name, err)
				return
			}
		}
		a.made, a.open = append(a.made, *t), nil
		pause(ctx, 10*time.Millisecond)
	}
}

// askMetadata asks for one topic.
func askMetadata(c *kafkawire.Conn, name string, create bool) (kmsg.MetadataResponseTopic, error) {
	tp := kmsg.NewMetadataRequestTopic()
	tp.Topic = kmsg.StringPtr(name)
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 12, create
	req.Topics = append(req.Topics, tp)
	resp, err := doKafka[*kmsg.MetadataResponse](c, req)
	if err != nil {
		return kmsg.MetadataResponseTopic{}, err
	}
	return resp.Topics[0], nil
}

func (a *autoCreator) check(ctx context.Context, sys *system) findings {
	found := a.wrong
	a.wrong, a.open = nil, nil
	c, err := dialKafka(ctx, sys.kafka)
	if err != nil {
		return append(found, err.Error())
	}
	defer c.Close()
	for i, t := range a.made {
		if i < a.checked && i%8 != a.serial%8 {
			continue
		}
		got, err := askMetadata(c, t.name, false)
		if err != nil {
			found.add("%v", err)
			return found
		}
		if got.ErrorCode == kerr.UnknownTopicOrPartition.Code {
			found.add("%s was created and is lost", t.name)
			continue
		}
		if got.TopicID != t.uuid {
			found.add("%s was created with ID %x and now has %x", t.name, t.uuid, got.TopicID)
		}
		if err := waitLed(ctx, sys.kafka, t.name, 1); err != nil {
			found.add("%v", err)
			continue
		}
		end, err := listOffset(ctx, sys.kafka, t.name, 0, -1)
		if err != nil || end < t.records || end > max(t.open, t.records) {
			found.add("%s: its log ends at %d (%v), %d records were acknowledged", t.name, end, err, t.records)
		}
		a.made[i].records = end
	}
	a.checked = len(a.made)
	return found
}
