package kafkaproto

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// ListGroups v0-v5: filters by state (v4+) and by type (v5+), without regard to case. All groups are shown as classic, those
// that Redis made included.

func (s *Server) listGroups(c *call, r *kmsg.ListGroupsRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.ListGroupsResponse)
	has := func(filter []string, value string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
	}
	for _, g := range c.b.ListGroups() {
		if !has(r.StatesFilter, g.State) || !has(r.TypesFilter, bridge.GroupType) {
			continue
		}
		out := kmsg.NewListGroupsResponseGroup()
		out.Group, out.ProtocolType, out.GroupState, out.GroupType = g.Name, g.ProtocolType, g.State, bridge.GroupType
		resp.Groups = append(resp.Groups, out)
	}
	return resp
}
