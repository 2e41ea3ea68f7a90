package kafkaproto

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// DeleteTopics v1-v6, by name or by ID (v6+). Durable when it is answered; groups, their
// positions and what is pending on the topic go with it, as with Redis's DEL. Both a name
// and an ID, or neither: INVALID_REQUEST.

func (s topicAPI) deleteTopics(c *call, req *kmsg.DeleteTopicsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	asked := req.Topics
	for i := range req.TopicNames {
		asked = append(asked, kmsg.DeleteTopicsRequestTopic{Topic: &req.TopicNames[i]})
	}
	for i := range asked {
		line := kmsg.NewDeleteTopicsResponseTopic()
		line.Topic, line.TopicID = asked[i].Topic, asked[i].TopicID
		name, byID := "", asked[i].TopicID != [16]byte{}
		if asked[i].Topic != nil {
			name = *asked[i].Topic
		}
		if byID == (asked[i].Topic != nil) {
			text := "Name a topic by its name or by its ID."
			line.ErrorCode, line.ErrorMessage = invalidRequest, &text
		} else {
			var t *bridge.Topic
			if t, line.ErrorCode = s.topicOf(name, asked[i].TopicID, byID); t != nil {
				err := s.b.DeleteTopic(c.ctx, t)
				if errors.Is(err, bridge.ErrUnknownTopic) && byID {
					err = bridge.ErrUnknownTopicID
				}
				line.ErrorCode, line.ErrorMessage = codeOf(err), messageOf(err)
				topic := t.Name
				line.Topic, line.TopicID = &topic, t.ID
			}
		}
		resp.Topics = append(resp.Topics, line)
	}
	return resp
}
