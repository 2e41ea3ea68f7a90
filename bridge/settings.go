package bridge

import (
	"slices"
	"strconv"
	"strings"
)

// settings are what weir acts on of a topic's configurations.
type settings struct {
	keyField       string // weir.key.field
	headersFormat  bool   // weir.value.format=headers
	maxMessage     int    // max.message.bytes
	compact        bool   // cleanup.policy has compact
	deletes        bool   // cleanup.policy has delete
	logAppendTime  bool   // message.timestamp.type=LogAppendTime
	retentionMS    int64  // -1: for ever
	retentionBytes int64  // -1: no limit
	maxBefore      int64  // message.timestamp.before.max.ms
	maxAfter       int64  // message.timestamp.after.max.ms
}

// settingsOf parses a topic's configurations over the broker's defaults. They were validated when they were set.
func (c *configs) settingsOf(configs map[string]string) settings {
	sources := c.brokerSources()
	text := func(name string) string {
		d := topicList().byName[name]
		if v, ok := configs[name]; ok {
			return strings.TrimSpace(v)
		}
		if v, ok := brokerValue(sources, d.synonym); ok && d.synonym != "" {
			return strings.TrimSpace(v)
		}
		return d.value
	}
	number := func(name string) int64 {
		v, _ := strconv.ParseInt(text(name), 10, 64)
		return v
	}
	policy := splitList(text("cleanup.policy"))
	return settings{
		keyField:       text("weir.key.field"),
		headersFormat:  text("weir.value.format") == "headers",
		maxMessage:     int(number("max.message.bytes")),
		compact:        slices.Contains(policy, "compact"),
		deletes:        slices.Contains(policy, "delete"),
		logAppendTime:  text("message.timestamp.type") == "LogAppendTime",
		retentionMS:    number("retention.ms"),
		retentionBytes: number("retention.bytes"),
		maxBefore:      number("message.timestamp.before.max.ms"),
		maxAfter:       number("message.timestamp.after.max.ms"),
	}
}
