package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// Heartbeat v0-v4 (classic groups). A group that is not there: UNKNOWN_MEMBER_ID.

func (s *Server) heartbeat(c *call, r *kmsg.HeartbeatRequest) kmsg.Response {
	err := c.b.Heartbeat(&bridge.HeartbeatRequest{
		Group: r.Group, MemberID: r.MemberID, InstanceID: deref(r.InstanceID), Generation: r.Generation,
	})
	resp := r.ResponseKind().(*kmsg.HeartbeatResponse)
	resp.ErrorCode = codeOf(err)
	return resp
}
