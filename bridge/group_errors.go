package bridge

import "errors"

// What groups refuse. kafkaproto alone knows the codes.
var (
	ErrInvalidGroup           = errors.New("the group id is not valid")
	ErrSessionTimeout         = errors.New("the session timeout is outside the allowed range")
	ErrMemberIDRequired       = errors.New("join again with the member id given")
	ErrUnknownMember          = errors.New("the group has no such member")
	ErrIllegalGeneration      = errors.New("the generation is not the group's")
	ErrRebalanceInProgress    = errors.New("the group is rebalancing: join again")
	ErrInconsistentProtocol   = errors.New("the group's members offer no protocol like this")
	ErrFencedInstance         = errors.New("another member has this group instance id now")
	ErrGroupFull              = errors.New("the group has its greatest size")
	ErrGroupBytes             = errors.New("the members' metadata and assignments are too large together")
	ErrCoordinatorUnavailable = errors.New("the coordinator cannot serve the group now")
	ErrNonEmptyGroup          = errors.New("the group is not empty")
	ErrGroupNotFound          = errors.New("there is no such group")
	ErrGroupSubscribed        = errors.New("the group is subscribed to the topic")
	ErrCommitMetadata         = errors.New("the metadata of the commit is too long")
)
