package kafkaproto

import "github.com/twmb/franz-go/pkg/kmsg"

// ListPartitionReassignments v0: none, ever, on one node.

func (s topicAPI) listPartitionReassignments(c *call, req *kmsg.ListPartitionReassignmentsRequest) kmsg.Response {
	return req.ResponseKind()
}
