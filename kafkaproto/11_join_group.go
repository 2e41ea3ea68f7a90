package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// JoinGroup v0-v9 (classic groups).
//
//   - v0 has no rebalance timeout: it is the session timeout.
//   - v4+: a new member is sent back once with its id (MEMBER_ID_REQUIRED, KIP-394).
//   - v5+: static members (KIP-345). v8+: a reason, which is logged. v9+: skip_assignment (KIP-814).
//
// The reply waits for the rebalance. A client that leaves meanwhile stays a member until its session ends.

func (s *Server) joinGroup(c *call, r *kmsg.JoinGroupRequest) kmsg.Response {
	req := bridge.JoinRequest{
		Group: r.Group, MemberID: r.MemberID, InstanceID: deref(r.InstanceID), ClientID: c.clientID, Host: c.host(),
		ProtocolType: r.ProtocolType, SessionTimeout: r.SessionTimeoutMillis, RebalanceTimeout: r.RebalanceTimeoutMillis,
		Reason: deref(r.Reason), RequireID: c.version >= 4, SkipAssignment: c.version >= 9,
	}
	if c.version == 0 {
		req.RebalanceTimeout = r.SessionTimeoutMillis
	}
	for _, p := range r.Protocols {
		req.Protocols = append(req.Protocols, bridge.Protocol{Name: p.Name, Metadata: append([]byte(nil), p.Metadata...)})
	}
	c.watch()
	reply := c.b.JoinGroup(c.ctx, &req)
	resp := r.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation = codeOf(reply.Err), reply.Generation
	resp.ProtocolType, resp.Protocol = nullable(reply.ProtocolType), nullable(reply.Protocol)
	resp.LeaderID, resp.MemberID, resp.SkipAssignment = reply.Leader, reply.MemberID, reply.SkipAssignment
	for _, m := range reply.Members {
		one := kmsg.NewJoinGroupResponseMember()
		one.MemberID, one.InstanceID, one.ProtocolMetadata = m.ID, nullable(m.InstanceID), m.Metadata
		resp.Members = append(resp.Members, one)
	}
	return resp
}
