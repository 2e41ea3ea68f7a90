package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// AlterConfigs v0-v2 (replaced by 44, still sent by older clients): what is not named goes
// back to its default. Resources as in 32. A resource that is named twice: INVALID_REQUEST, where Kafka 4.4 never answers.

func (s configAPI) alterConfigs(c *call, req *kmsg.AlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	times := timesNamed(req.Resources, func(r *kmsg.AlterConfigsRequestResource) bridge.Resource {
		return bridge.Resource{Type: bridge.ResourceType(r.ResourceType), Name: r.ResourceName}
	})
	for i := range req.Resources {
		asked := &req.Resources[i]
		var changes []bridge.ConfigChange
		for _, v := range asked.Configs {
			changes = append(changes, bridge.ConfigChange{Name: v.Name, Op: bridge.SetConfig, Value: v.Value})
		}
		r := bridge.Resource{Type: bridge.ResourceType(asked.ResourceType), Name: asked.ResourceName}
		err := errResourceTwice
		if times[r] == 1 {
			err = s.b.AlterConfigs(c.ctx, r, changes, true, req.ValidateOnly)
		}
		line := kmsg.NewAlterConfigsResponseResource()
		line.ResourceType, line.ResourceName = asked.ResourceType, asked.ResourceName
		line.ErrorCode, line.ErrorMessage = codeOf(err), messageOf(err)
		resp.Resources = append(resp.Resources, line)
	}
	return resp
}
