package kafkaproto

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// DeleteGroups v0-v3: groups without members go with all their offsets. NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.

func (s *Server) deleteGroups(c *call, r *kmsg.DeleteGroupsRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.DeleteGroupsResponse)
	for i, name := range r.Groups {
		if slices.Contains(r.Groups[:i], name) {
			continue // named twice, answered once
		}
		out := kmsg.NewDeleteGroupsResponseGroup()
		err := c.b.DeleteGroup(name)
		out.Group, out.ErrorCode, out.ErrorMessage = name, codeOf(err), messageOf(err)
		if errors.Is(err, bridge.ErrGroupNotFound) {
			text := "Group " + name + " not found."
			out.ErrorMessage = &text
		}
		resp.Groups = append(resp.Groups, out)
	}
	return resp
}
