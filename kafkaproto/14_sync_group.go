package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// SyncGroup v0-v5 (classic groups). Followers wait for the leader; a member that the leader left out gets an empty
// assignment. Protocol type and name must be given from v5 on, and are checked: INCONSISTENT_GROUP_PROTOCOL.

func (s *Server) syncGroup(c *call, r *kmsg.SyncGroupRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.SyncGroupResponse)
	if c.version >= 5 && (r.ProtocolType == nil || r.Protocol == nil) {
		resp.ErrorCode = inconsistentGroupProtocol
		return resp
	}
	req := bridge.SyncRequest{
		Group: r.Group, MemberID: r.MemberID, InstanceID: deref(r.InstanceID), Generation: r.Generation,
		ProtocolType: r.ProtocolType, Protocol: r.Protocol,
	}
	for _, a := range r.GroupAssignment {
		req.Assignments = append(req.Assignments, bridge.Assignment{
			MemberID: a.MemberID, Bytes: append([]byte(nil), a.MemberAssignment...),
		})
	}
	c.watch()
	reply := c.b.SyncGroup(c.ctx, &req)
	resp.ErrorCode, resp.MemberAssignment = codeOf(reply.Err), reply.Assignment
	resp.ProtocolType, resp.Protocol = nullable(reply.ProtocolType), nullable(reply.Protocol)
	return resp
}
