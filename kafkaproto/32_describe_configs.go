package kafkaproto

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/bridge"
)

// DescribeConfigs v1-v4 of topics, brokers ("" is all brokers: what was set on them) and
// groups (type 32): Kafka 4.4's whole listing with defaults, sources, synonyms (v1+, when
// asked), types and documentation (v3+, when asked). Other resource types, broker loggers and client
// metrics among them, get INVALID_REQUEST each. bridge/config_*.go say which are acted on.

func (s configAPI) describeConfigs(c *call, req *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	for i := range req.Resources {
		asked := &req.Resources[i]
		line := kmsg.NewDescribeConfigsResponseResource()
		line.ResourceType, line.ResourceName = asked.ResourceType, asked.ResourceName
		r := bridge.Resource{Type: bridge.ResourceType(asked.ResourceType), Name: asked.ResourceName}
		configs, err := s.b.DescribeConfigs(r, asked.ConfigNames)
		line.ErrorCode, line.ErrorMessage = codeOf(err), messageOf(err)
		line.Configs = make([]kmsg.DescribeConfigsResponseResourceConfig, len(configs))
		for j := range configs {
			line.Configs[j] = describedConfig(&configs[j], req)
		}
		resp.Resources = append(resp.Resources, line)
	}
	return resp
}

func describedConfig(d *bridge.DescribedConfig, req *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly, out.IsSensitive = d.Name, d.Value, d.ReadOnly, d.Sensitive
	out.Source, out.ConfigType = kmsg.ConfigSource(d.Source), kmsg.ConfigType(d.Type)
	out.IsDefault = d.Source == bridge.FromDefault
	if req.IncludeSynonyms {
		for _, syn := range d.Synonyms {
			line := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			line.Name, line.Value, line.Source = syn.Name, syn.Value, kmsg.ConfigSource(syn.Source)
			out.ConfigSynonyms = append(out.ConfigSynonyms, line)
		}
	}
	if req.IncludeDocumentation {
		doc := d.Doc
		out.Documentation = &doc
	}
	return out
}
