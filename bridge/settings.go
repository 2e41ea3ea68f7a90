package bridge

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

// settingsOf parses a topic's configurations over the broker's defaults.
func (b *Bridge) settingsOf(configs map[string]string) settings {
	s := settings{keyField: "key", maxMessage: 1048588, deletes: true, retentionMS: 604800000, retentionBytes: -1}
	if v, ok := configs["weir.key.field"]; ok {
		s.keyField = v
	}
	s.headersFormat = configs["weir.value.format"] == "headers"
	return s
}
