package kafkaproto

import "weir/bridge"

// groupErrors maps the groups half of bridge's sentinels.
var groupErrors = []errorCode{
	{bridge.ErrInvalidGroup, invalidGroupID},
	{bridge.ErrSessionTimeout, invalidSessionTimeout},
	{bridge.ErrMemberIDRequired, memberIDRequired},
	{bridge.ErrUnknownMember, unknownMemberID},
	{bridge.ErrIllegalGeneration, illegalGeneration},
	{bridge.ErrRebalanceInProgress, rebalanceInProgress},
	{bridge.ErrInconsistentProtocol, inconsistentGroupProtocol},
	{bridge.ErrFencedInstance, fencedInstanceID},
	{bridge.ErrGroupFull, groupMaxSizeReached},
	{bridge.ErrCoordinatorUnavailable, coordinatorNotAvailable},
	{bridge.ErrNonEmptyGroup, groupNotEmpty},
	{bridge.ErrGroupNotFound, groupIDNotFound},
	{bridge.ErrGroupSubscribed, groupSubscribedToTopic},
	{bridge.ErrCommitMetadata, offsetMetadataTooLarge},
}
