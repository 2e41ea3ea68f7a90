package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// AlterConfigs v0-v2 (replaced by 44, still sent by older clients): what is not named goes
// back to its default. Resources as in 32.

func (s configAPI) alterConfigs(c *call, req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	for i := range req.Resources {
		asked := &req.Resources[i]
		var changes []bridge.ConfigChange
		for _, v := range asked.Configs {
			changes = append(changes, bridge.ConfigChange{Name: v.Name, Op: bridge.SetConfig, Value: v.Value})
		}
		r := bridge.Resource{Type: bridge.ResourceType(asked.ResourceType), Name: asked.ResourceName}
		err := s.b.AlterConfigs(c.ctx, r, changes, true, req.ValidateOnly)
		line := kmsg.NewAlterConfigsResponseResource()
		line.ResourceType, line.ResourceName = asked.ResourceType, asked.ResourceName
		line.ErrorCode, line.ErrorMessage = codeOf(err), messageOf(err)
		resp.Resources = append(resp.Resources, line)
	}
	return resp
}
