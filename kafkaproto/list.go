package kafkaproto

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// row is one request of the list: everything there is to know about it besides its
// handler's code.
type row struct {
	key  int16
	name string
	// min and max are the versions that are served. fromZero: ApiVersions says 0
	// instead of min (Produce, KAFKA-18659).
	min, max int16
	fromZero bool
	// flexible is the first version with tagged fields; noFlexible when none has.
	flexible int16
	// limit is the largest frame in bytes; 0 leaves the server's cap.
	limit int
	// pipelined requests may be evaluated while replies of earlier ones still wait
	// for their commit. The others wait until all earlier replies were written.
	pipelined bool
	handle    handler

	counts *counts // set by newList
}

// counts are a row's metrics, per request key.
type counts struct {
	requests atomic.Int64 // evaluated
	refused  atomic.Int64 // unsupported version, or a body that does not decode
	failed   atomic.Int64 // answered by closing the connection
	bytesIn  atomic.Int64 // frames, length prefix included
	bytesOut atomic.Int64
	nanos    atomic.Int64 // from decoded to evaluated (and waited for, where the handler waits)
}

const noFlexible = 1 << 14

// handler evaluates one request. It may block (call.watch first); the connection's
// later requests wait for it, as in Kafka.
type handler func(*call) reply

// typed makes a handler from a function over kmsg's type of the request. The function
// returns the body of the reply; nil closes the connection.
func typed[R kmsg.Request](fn func(*call, R) kmsg.Response) handler {
	return func(c *call) reply {
		body := fn(c, c.req.(R))
		if body == nil {
			return reply{closes: true}
		}
		return reply{body: body}
	}
}

// newList builds the list. It is a function because a package-level table whose
// handlers range over it (ApiVersions) is an initialization cycle in Go.
func newList(s *Server) map[int16]*row {
	list := make(map[int16]*row)
	for _, rows := range [][]row{dataRows(s), groupRows(s)} {
		for i := range rows {
			r := &rows[i]
			r.counts = new(counts)
			if _, double := list[r.key]; double {
				panic("kafkaproto: two rows for " + r.name)
			}
			list[r.key] = r
		}
	}
	return list
}

// The handlers, by what they are about. They are the server, sorted.
type (
	recordAPI struct{ *Server }
	topicAPI  struct{ *Server }
	configAPI struct{ *Server }
)

// dataRows are the requests about topics, records and configurations.
func dataRows(s *Server) []row {
	records, topics, configs := recordAPI{s}, topicAPI{s}, configAPI{s}
	return []row{
		{key: produceKey, name: "Produce", min: 3, max: 13, fromZero: true, flexible: 9, pipelined: true, handle: records.produce},
		{key: fetchKey, name: "Fetch", min: 4, max: 18, flexible: 12, limit: smallFrame, handle: records.fetch},
		{key: 2, name: "ListOffsets", min: 1, max: 11, flexible: 6, limit: smallFrame, handle: typed(records.listOffsets)},
		{key: 3, name: "Metadata", min: 0, max: 13, flexible: 9, limit: smallFrame, handle: typed(topics.metadata)},
		{key: apiVersionsKey, name: "ApiVersions", min: 0, max: 5, flexible: 3, limit: smallFrame, handle: s.apiVersions},
		{key: 19, name: "CreateTopics", min: 2, max: 7, flexible: 5, limit: smallFrame, handle: typed(topics.createTopics)},
		{key: 20, name: "DeleteTopics", min: 1, max: 6, flexible: 4, limit: smallFrame, handle: typed(topics.deleteTopics)},
		{key: 21, name: "DeleteRecords", min: 0, max: 2, flexible: 2, limit: smallFrame, handle: typed(records.deleteRecords)},
		{key: 22, name: "InitProducerId", min: 0, max: 5, flexible: 2, limit: smallFrame, handle: typed(records.initProducerID)},
		{key: 23, name: "OffsetForLeaderEpoch", min: 2, max: 4, flexible: 4, limit: smallFrame, handle: typed(records.offsetForLeaderEpoch)},
		{key: 29, name: "DescribeACLs", min: 1, max: 3, flexible: 2, limit: smallFrame, handle: typed(topics.describeACLs)},
		{key: 32, name: "DescribeConfigs", min: 1, max: 4, flexible: 4, limit: smallFrame, handle: typed(configs.describeConfigs)},
		{key: 33, name: "AlterConfigs", min: 0, max: 2, flexible: 2, limit: smallFrame, handle: typed(configs.alterConfigs)},
		{key: 35, name: "DescribeLogDirs", min: 1, max: 5, flexible: 2, limit: smallFrame, handle: typed(topics.describeLogDirs)},
		{key: 37, name: "CreatePartitions", min: 0, max: 3, flexible: 2, limit: smallFrame, handle: typed(topics.createPartitions)},
		{key: 43, name: "ElectLeaders", min: 0, max: 2, flexible: 2, limit: smallFrame, handle: typed(topics.electLeaders)},
		{key: 44, name: "IncrementalAlterConfigs", min: 0, max: 1, flexible: 1, limit: smallFrame, handle: typed(configs.incrementalAlterConfigs)},
		{key: 46, name: "ListPartitionReassignments", min: 0, max: 0, flexible: 0, limit: smallFrame, handle: typed(topics.listPartitionReassignments)},
		{key: 48, name: "DescribeClientQuotas", min: 0, max: 1, flexible: 1, limit: smallFrame, handle: typed(configs.describeClientQuotas)},
		{key: 60, name: "DescribeCluster", min: 0, max: 2, flexible: 0, limit: smallFrame, handle: typed(topics.describeCluster)},
		{key: 74, name: "ListConfigResources", min: 0, max: 1, flexible: 0, limit: smallFrame, handle: typed(configs.listConfigResources)},
		{key: 75, name: "DescribeTopicPartitions", min: 0, max: 0, flexible: 0, limit: smallFrame, handle: typed(topics.describeTopicPartitions)},
	}
}

// smallFrame is the limit of requests that carry names and numbers only.
const smallFrame = 8 << 20
