package kafkaproto

import (
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// Metadata v0-v13.
//
//   - All topics: null, or an empty list in v0. Only topics that Kafka clients can name are listed.
//   - Each topic once, however often it is named.
//   - By ID (v12+; in v10 and v11 there are IDs, and who uses them gets INVALID_REQUEST for all): UNKNOWN_TOPIC_ID.
//     If any topic is asked for by ID, those that have a name only are not told of.
//   - By name: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION
//     for names that nothing can have; before v4 every request for a missing name may create it,
//     from v4 on if it says so, and only if auto.create.topics.enable is on.
//   - One broker, which is leader, replica and controller of everything, with the address
//     that is advertised.
//   - Authorized operations, when asked for: all, until there are ACLs.

const (
	// allTopicOperations are read, write, create, delete, alter, describe, describe
	// configs and alter configs, as bits by Kafka's numbers; the cluster's likewise.
	allTopicOperations   = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	allClusterOperations = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
)

func (s topicAPI) metadata(c *call, req *kmsg.MetadataRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	if c.version < 12 && anyByID(req.Topics) {
		refuseMetadata(req, resp)
		return resp
	}
	host, port := c.c.advertised()
	broker := kmsg.NewMetadataResponseBroker()
	broker.NodeID, broker.Host, broker.Port = s.b.NodeID(), host, port
	resp.Brokers = append(resp.Brokers, broker)
	cluster := s.b.ClusterID()
	resp.ClusterID, resp.ControllerID = &cluster, s.b.NodeID()
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = allClusterOperations
	}
	var told []*bridge.Topic
	if req.Topics == nil || c.version == 0 && len(req.Topics) == 0 {
		for _, t := range s.b.Topics() {
			if t.Visible() {
				resp.Topics = append(resp.Topics, s.topicMetadata(t, req.IncludeTopicAuthorizedOperations))
				told = append(told, t)
			}
		}
	}
	create := c.version < 4 || req.AllowAutoTopicCreation
	for _, asked := range metadataAsked(req.Topics) {
		line, t := s.namedMetadata(c, asked, create, req.IncludeTopicAuthorizedOperations)
		resp.Topics = append(resp.Topics, line)
		if t != nil {
			told = append(told, t)
		}
	}
	if err := s.b.Settle(c.ctx, told); err != nil {
		for i := range resp.Topics {
			resp.Topics[i].ErrorCode = codeOf(err)
		}
	}
	return resp
}

// anyByID says whether a topic is asked for by its ID, or by nothing.
func anyByID(topics []kmsg.MetadataRequestTopic) bool {
	for i := range topics {
		if topics[i].Topic == nil || topics[i].TopicID != ([16]byte{}) {
			return true
		}
	}
	return false
}

// refuseMetadata answers INVALID_REQUEST for all topics.
func refuseMetadata(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	resp.ControllerID = -1
	for i := range req.Topics {
		line := kmsg.NewMetadataResponseTopic()
		name := deref(req.Topics[i].Topic)
		line.ErrorCode, line.Topic, line.TopicID = invalidRequest, &name, req.Topics[i].TopicID
		resp.Topics = append(resp.Topics, line)
	}
}

// metadataAsked are the topics to tell of, each once: by ID if any is asked for by ID, else by name.
func metadataAsked(topics []kmsg.MetadataRequestTopic) []*kmsg.MetadataRequestTopic {
	byID := anyByID(topics)
	seen := make(map[topicKey]bool, len(topics))
	var asked []*kmsg.MetadataRequestTopic
	for i := range topics {
		one := &topics[i]
		if byID && one.Topic != nil {
			if one.TopicID == ([16]byte{}) {
				continue
			}
			one = &kmsg.MetadataRequestTopic{TopicID: one.TopicID}
		}
		if key := (topicKey{deref(one.Topic), one.TopicID}); !seen[key] {
			seen[key] = true
			asked = append(asked, one)
		}
	}
	return asked
}

// namedMetadata answers for one topic that was named; the topic is nil when there is none.
func (s topicAPI) namedMetadata(c *call, asked *kmsg.MetadataRequestTopic, create, operations bool) (kmsg.MetadataResponseTopic, *bridge.Topic) {
	line := kmsg.NewMetadataResponseTopic()
	if asked.Topic == nil {
		line.TopicID = asked.TopicID
		t, missing := s.topicOf("", asked.TopicID, true)
		if missing != none {
			line.ErrorCode = missing
			return line, nil
		}
		return s.topicMetadata(t, operations), t
	}
	name := *asked.Topic
	t, missing := s.topicOf(name, [16]byte{}, false)
	if missing != none && create && s.b.AutoCreates() {
		var err error
		if t, err = s.b.AutoCreate(c.ctx, name); t != nil {
			missing = none
		} else if missing = codeOf(err); missing == invalidConfig {
			missing = unknownTopicOrPartition
		}
	} else if missing != none && !bridge.LegalName(name) {
		missing = invalidTopic
	}
	if missing != none {
		line.ErrorCode, line.Topic = missing, &name
		return line, nil
	}
	return s.topicMetadata(t, operations), t
}

// topicMetadata describes a topic.
func (s topicAPI) topicMetadata(t *bridge.Topic, operations bool) kmsg.MetadataResponseTopic {
	line := kmsg.NewMetadataResponseTopic()
	name := t.Name
	line.Topic, line.TopicID = &name, t.ID
	if operations {
		line.AuthorizedOperations = allTopicOperations
	}
	node := []int32{s.b.NodeID()}
	line.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Streams))
	for p := range t.Streams {
		line.Partitions[p] = kmsg.MetadataResponseTopicPartition{
			Partition: int32(p), Leader: node[0], LeaderEpoch: bridge.LeaderEpoch, Replicas: node, ISR: node,
		}
	}
	return line
}

// advertised is the address that clients are told.
func (c *conn) advertised() (host string, port int32) {
	host, port = c.s.o.AdvertisedHost, c.s.o.AdvertisedPort
	if host != "" && port != 0 {
		return host, port
	}
	h, p, err := net.SplitHostPort(c.nc.LocalAddr().String())
	if err != nil {
		return host, port
	}
	if host == "" {
		host = h
	}
	if port == 0 {
		n, _ := strconv.ParseInt(p, 10, 32)
		port = int32(n)
	}
	return host, port
}
