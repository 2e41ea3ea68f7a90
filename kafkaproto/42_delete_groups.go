package kafkaproto

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// DeleteGroups v0-v3: groups without members go with all their offsets. NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND.

func (s *Server) deleteGroups(c *call, r *kmsg.DeleteGroupsRequest) kmsg.Response {
	resp := r.ResponseKind().(*kmsg.DeleteGroupsResponse)
	done := make(map[string]bool, len(r.Groups))
	for _, name := range r.Groups {
		if done[name] {
			continue // named twice, answered once
		}
		done[name] = true
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
