package kafkaproto

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// DeleteTopics v1-v6, by name or by ID (v6+). Durable when it is answered; groups, their
// positions and what is pending on the topic go with it, as with Redis's DEL. Both a name
// and an ID, or neither: INVALID_REQUEST. So is a topic that is named twice, or by name and by ID, which is
// told once and not deleted.

func (s topicAPI) deleteTopics(c *call, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := req.Topics
	for i := range req.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	at := make(map[topicKey]int, len(asked))
	lines := make([]topicToDelete, 0, len(asked))
	for i := range asked {
		d := s.topicToDelete(&asked[i])
		if first, again := at[d.key]; again && d.key != (topicKey{}) {
			lines[first].repeat(&d)
			continue
		}
		at[d.key] = len(lines)
		lines = append(lines, d)
	}
	for i := range lines {
		d := &lines[i]
		if d.topic != nil && !d.twice {
			s.deleteTopic(c, d)
		}
		resp.Topics = append(resp.Topics, d.line)
	}
	return resp
}

// topicToDelete is what a request wants deleted.
type topicToDelete struct {
	key   topicKey      // the topic's id if there is such a topic, else what the request says; zero: that says nothing
	topic *bridge.Topic // nil: line says why not
	byID  bool
	twice bool // and then line says so
	line  kmsg.DeleteTopicsResponseTopic
}

// repeat takes note that a topic is named again.
func (d *topicToDelete) repeat(again *topicToDelete) {
	text := "The request names this topic more than once."
	d.twice, d.line.ErrorCode, d.line.ErrorMessage = true, invalidRequest, &text
	if d.topic != nil && d.byID != again.byID {
		name := d.topic.Name
		d.line.Topic, d.line.TopicID = &name, d.topic.ID
	}
}

// topicToDelete finds what one line of a request means.
func (s topicAPI) topicToDelete(asked *kmsg.DeleteTopicsRequestTopic) topicToDelete {
	d := topicToDelete{byID: asked.TopicID != [16]byte{}, line: kmsg.NewDeleteTopicsResponseTopic()}
	d.line.Topic, d.line.TopicID = asked.Topic, asked.TopicID
	if d.byID == (asked.Topic != nil) {
		text := "Name a topic by its name or by its ID."
		d.line.ErrorCode, d.line.ErrorMessage = invalidRequest, &text
		return d
	}
	d.key = topicKey{deref(asked.Topic), asked.TopicID}
	if d.topic, d.line.ErrorCode = s.topicOf(d.key.name, d.key.id, d.byID); d.topic != nil {
		d.key = topicKey{id: d.topic.ID}
	}
	return d
}

// deleteTopic deletes one topic, and says so in its line.
func (s topicAPI) deleteTopic(c *call, d *topicToDelete) {
	err := s.b.DeleteTopic(c.ctx, d.topic)
	if errors.Is(err, bridge.ErrUnknownTopic) && d.byID {
		err = bridge.ErrUnknownTopicID
	}
	name := d.topic.Name
	d.line.Topic, d.line.TopicID = &name, d.topic.ID
	d.line.ErrorCode, d.line.ErrorMessage = codeOf(err), messageOf(err)
}
