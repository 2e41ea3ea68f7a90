package kafkaproto

// dataErrors maps the data half of bridge's sentinels.
var dataErrors = []errorCode{}
