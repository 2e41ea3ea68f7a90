package kafkaproto

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// DescribeGroups v0-v6.
//
//   - A group that is not there: state Dead without an error up to v5, GROUP_ID_NOT_FOUND from v6 on.
//   - Metadata is shown of a Stable group only; an assignment as long as there is no newer one.
//   - Authorized operations (v3+): all that a group knows, when asked for, also of one that is not there; there are no ACLs yet.

// groupOperations is the bit field of READ (3), DELETE (6), DESCRIBE (8), ALTER_CONFIGS (11) and DESCRIBE_CONFIGS (10).
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11

func (s *Server) describeGroups(c *call, r *kmsg.DescribeGroupsRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.DescribeGroupsResponse)
	for _, name := range r.Groups {
		d, ok := c.b.DescribeGroup(name)
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group, out.State, out.ProtocolType, out.Protocol = name, d.State, d.ProtocolType, d.Protocol
		if r.IncludeAuthorizedOperations {
			out.AuthorizedOperations = groupOperations
		}
		if !ok && c.version >= 6 {
			out.AuthorizedOperations = math.MinInt32
			text := "Group " + name + " not found."
			out.ErrorCode, out.ErrorMessage = codeOf(bridge.ErrGroupNotFound), &text
		}
		for _, m := range d.Members {
			one := kmsg.NewDescribeGroupsResponseGroupMember()
			one.MemberID, one.InstanceID, one.ClientID, one.ClientHost = m.MemberID, nullable(m.InstanceID), m.ClientID, m.Host
			one.ProtocolMetadata, one.MemberAssignment = m.Metadata, m.Assignment
			out.Members = append(out.Members, one)
		}
		resp.Groups = append(resp.Groups, out)
	}
	return resp
}
