package kafkaproto

import (
	"weir/bridge"
	"weir/kafkaproto/batch"
)

// dataErrors maps the data half of bridge's sentinels, and the wire's own.
var dataErrors = []errorCode{
	{bridge.ErrNoStream, unknownTopicOrPartition},
	{bridge.ErrUnknownTopic, unknownTopicOrPartition},
	{bridge.ErrUnknownTopicID, unknownTopicID},
	{bridge.ErrTopicExists, topicAlreadyExists},
	{bridge.ErrInvalidTopic, invalidTopic},
	{bridge.ErrShadowed, invalidTopic},
	{bridge.ErrInvalidPartitions, invalidPartitions},
	{bridge.ErrInvalidReplication, invalidReplicationFactor},
	{bridge.ErrInvalidAssignment, invalidReplicaAssignment},
	{bridge.ErrInvalidConfig, invalidConfig},
	{bridge.ErrInvalidRequest, invalidRequest},
	{bridge.ErrTopicBusy, requestTimedOut},
	{bridge.ErrOffsetOutside, offsetOutOfRange},
	{bridge.ErrFailed, kafkaStorageError},
	// Kafka 4 answers a batch older than the window like a gap (case C05).
	{bridge.ErrSequenceGap, outOfOrderSequence},
	{bridge.ErrEpochOld, invalidProducerEpoch},
	{batch.ErrCorrupt, corruptMessage},
	{batch.ErrCodec, unsupportedCompression},
	{batch.ErrTimestamp, invalidTimestamp},
	{batch.ErrInvalid, invalidRecord},
	{errOneBatch, invalidRecord},
	{errTooLarge, messageTooLarge},
	{errZstdVersion, unsupportedCompression},
	{errTransaction, invalidTxnState},
}
