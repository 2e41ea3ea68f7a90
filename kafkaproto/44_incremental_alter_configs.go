package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// IncrementalAlterConfigs v0-v1 (KIP-339): SET, DELETE, APPEND and SUBTRACT; each resource all
// or nothing, durable when it is answered. Resources as in 32. An unknown name or a bad value:
// INVALID_CONFIG; a configuration that Kafka fixes at start, a null value, a name twice, or
// a resource twice: INVALID_REQUEST.

var errResourceTwice = error(&bridge.Refusal{Kind: bridge.ErrInvalidRequest, Text: "The request names this resource twice."})

func (s configAPI) incrementalAlterConfigs(c *call, req *kmsg.IncrementalAlterConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	times := timesNamed(req.Resources, func(r *kmsg.IncrementalAlterConfigsRequestResource) bridge.Resource {
		return bridge.Resource{Type: bridge.ResourceType(r.ResourceType), Name: r.ResourceName}
	})
	for i := range req.Resources {
		asked := &req.Resources[i]
		var changes []bridge.ConfigChange
		for _, v := range asked.Configs {
			changes = append(changes, bridge.ConfigChange{Name: v.Name, Op: bridge.AlterOp(v.Op), Value: v.Value})
		}
		r := bridge.Resource{Type: bridge.ResourceType(asked.ResourceType), Name: asked.ResourceName}
		err := errResourceTwice
		if times[r] == 1 {
			err = s.b.AlterConfigs(c.ctx, r, changes, false, req.ValidateOnly)
		}
		line := kmsg.NewIncrementalAlterConfigsResponseResource()
		line.ResourceType, line.ResourceName = asked.ResourceType, asked.ResourceName
		line.ErrorCode, line.ErrorMessage = codeOf(err), messageOf(err)
		resp.Resources = append(resp.Resources, line)
	}
	return resp
}
