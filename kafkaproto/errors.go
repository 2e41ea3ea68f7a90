package kafkaproto

import "errors"

// code is a Kafka error code; the names are Kafka's.
type code = int16

// Kafka's error codes, as far as weir answers them.
const (
	unknownServerError         code = -1
	none                       code = 0
	offsetOutOfRange           code = 1
	corruptMessage             code = 2
	unknownTopicOrPartition    code = 3
	invalidFetchSize           code = 4
	leaderNotAvailable         code = 5
	notLeaderOrFollower        code = 6
	requestTimedOut            code = 7
	messageTooLarge            code = 10
	offsetMetadataTooLarge     code = 12
	coordinatorLoadInProgress  code = 14
	coordinatorNotAvailable    code = 15
	notCoordinator             code = 16
	invalidTopic               code = 17
	recordListTooLarge         code = 18
	invalidRequiredAcks        code = 21
	illegalGeneration          code = 22
	inconsistentGroupProtocol  code = 23
	invalidGroupID             code = 24
	unknownMemberID            code = 25
	invalidSessionTimeout      code = 26
	rebalanceInProgress        code = 27
	invalidCommitOffsetSize    code = 28
	invalidTimestamp           code = 32
	unsupportedVersion         code = 35
	topicAlreadyExists         code = 36
	invalidPartitions          code = 37
	invalidReplicationFactor   code = 38
	invalidReplicaAssignment   code = 39
	invalidConfig              code = 40
	notController              code = 41
	invalidRequest             code = 42
	unsupportedForMessage      code = 43
	policyViolation            code = 44
	outOfOrderSequence         code = 45
	duplicateSequence          code = 46
	invalidProducerEpoch       code = 47
	invalidTxnState            code = 48
	invalidProducerIDMapping   code = 49
	invalidTransactionTimeout  code = 50
	kafkaStorageError          code = 56
	unknownProducerID          code = 59
	groupNotEmpty              code = 68
	groupIDNotFound            code = 69
	fetchSessionIDNotFound     code = 70
	invalidFetchSessionEpoch   code = 71
	fencedLeaderEpoch          code = 74
	unknownLeaderEpoch         code = 75
	unsupportedCompression     code = 76
	memberIDRequired           code = 79
	groupMaxSizeReached        code = 81
	fencedInstanceID           code = 82
	groupSubscribedToTopic     code = 86
	invalidRecord              code = 87
	producerFenced             code = 90
	duplicateResource          code = 92
	unknownTopicID             code = 100
	inconsistentTopicID        code = 103
	fetchSessionTopicIDError   code = 106
	invalidRegularExpression   code = 128
	rebootstrapRequired        code = 129
	transactionalNotAuthorized code = 53
)

// errorCode is a line of the table from bridge's sentinels to codes.
type errorCode struct {
	err  error
	code code
}

// codeOf gives the code of an error from below: the first line that errors.Is finds.
func codeOf(err error) code {
	if err == nil {
		return none
	}
	for _, table := range [][]errorCode{dataErrors, groupErrors} {
		for _, line := range table {
			if errors.Is(err, line.err) {
				return line.code
			}
		}
	}
	return unknownServerError
}

// messageOf is the text beside a code, nil when there is no error.
func messageOf(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}
