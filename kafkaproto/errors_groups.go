package kafkaproto

// groupErrors maps the groups half of bridge's sentinels.
var groupErrors = []errorCode{}
