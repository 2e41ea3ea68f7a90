package kafkaproto

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FindCoordinator v0-v6: one key, or several (v4+). This node coordinates everything.
//
//   - Types: 0 groups, 1 transactions, 2 share groups (v6+, keys "group:topicId:partition").
//   - An unknown type, or a key without the right form: INVALID_REQUEST.

const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

func (s *Server) findCoordinator(c *call, r *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if c.version < 4 {
		one := s.coordinatorOf(c, r.CoordinatorType, r.CoordinatorKey)
		resp.NodeID, resp.Host, resp.Port = one.NodeID, one.Host, one.Port
		resp.ErrorCode, resp.ErrorMessage = one.ErrorCode, one.ErrorMessage
		return resp
	}
	for _, key := range r.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, s.coordinatorOf(c, r.CoordinatorType, key))
	}
	return resp
}

func (s *Server) coordinatorOf(c *call, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key = key
	switch {
	case kind == groupCoordinator, kind == transactionCoordinator,
		kind == shareCoordinator && c.version >= 6 && sharePartitionKey(key):
	default:
		text := "no coordinator has this type of key"
		out.NodeID, out.Port = -1, -1
		out.ErrorCode, out.ErrorMessage = invalidRequest, &text
		return out
	}
	out.NodeID = s.b.NodeID()
	out.Host, out.Port = c.c.advertised()
	return out
}

// sharePartitionKey says whether a key has the form "group:topicId:partition"; the group may contain colons.
func sharePartitionKey(key string) bool {
	at := strings.LastIndexByte(key, ':')
	if at < 0 {
		return false
	}
	if p, err := strconv.ParseInt(key[at+1:], 10, 32); err != nil || p < 0 {
		return false
	}
	key = key[:at]
	if at = strings.LastIndexByte(key, ':'); at < 1 {
		return false
	}
	id, err := base64.RawURLEncoding.DecodeString(key[at+1:])
	return err == nil && len(id) == 16
}
