package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// LeaveGroup v0-v5 (classic groups).
//
//   - v0-v2: one member; its error is the reply's.
//   - v3+: several, each with its own error; an empty member id with an instance id removes a static member. v5+: a
//     reason, which is logged.

func (s *Server) leaveGroup(c *call, r *kmsg.LeaveGroupRequest) kmsg.Response {
	req := bridge.LeaveRequest{Group: r.Group}
	if c.version < 3 {
		req.Members = []bridge.LeavingMember{{MemberID: r.MemberID}}
	}
	for _, m := range r.Members {
		req.Members = append(req.Members, bridge.LeavingMember{
			MemberID: m.MemberID, InstanceID: deref(m.InstanceID), Reason: deref(m.Reason),
		})
	}
	errs, err := c.b.LeaveGroup(&req)
	resp := r.ResponseKind().(*kmsg.LeaveGroupResponse)
	resp.ErrorCode = codeOf(err)
	if err != nil {
		return resp
	}
	if c.version < 3 {
		resp.ErrorCode = codeOf(errs[0])
		return resp
	}
	for i, m := range r.Members {
		one := kmsg.NewLeaveGroupResponseMember()
		one.MemberID, one.InstanceID, one.ErrorCode = m.MemberID, m.InstanceID, codeOf(errs[i])
		resp.Members = append(resp.Members, one)
	}
	return resp
}
