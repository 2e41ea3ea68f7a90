package kafkaproto

// groupRows are the requests about groups and their offsets.
func groupRows(s *Server) []row {
	return []row{
		{key: 8, name: "OffsetCommit", min: 2, max: 10, flexible: 8, limit: smallFrame, handle: typed(s.offsetCommit)},
		{key: 9, name: "OffsetFetch", min: 1, max: 10, flexible: 6, limit: smallFrame, handle: typed(s.offsetFetch)},
		{key: 10, name: "FindCoordinator", min: 0, max: 6, flexible: 3, limit: tinyFrame, handle: typed(s.findCoordinator)},
		{key: 11, name: "JoinGroup", min: 0, max: 9, flexible: 6, limit: smallFrame, handle: typed(s.joinGroup)},
		{key: 12, name: "Heartbeat", min: 0, max: 4, flexible: 4, limit: tinyFrame, handle: typed(s.heartbeat)},
		{key: 13, name: "LeaveGroup", min: 0, max: 5, flexible: 4, limit: tinyFrame, handle: typed(s.leaveGroup)},
		{key: 14, name: "SyncGroup", min: 0, max: 5, flexible: 4, limit: smallFrame, handle: typed(s.syncGroup)},
		{key: 15, name: "DescribeGroups", min: 0, max: 6, flexible: 5, limit: tinyFrame, handle: typed(s.describeGroups)},
		{key: 16, name: "ListGroups", min: 0, max: 5, flexible: 3, limit: tinyFrame, handle: typed(s.listGroups)},
		{key: 42, name: "DeleteGroups", min: 0, max: 3, flexible: 2, limit: tinyFrame, handle: typed(s.deleteGroups)},
		{key: 47, name: "OffsetDelete", min: 0, max: 0, flexible: noFlexible, limit: smallFrame, handle: typed(s.offsetDelete)},
	}
}

// tinyFrame is the limit of requests that are short, but whose replies are much longer than they are.
const tinyFrame = 1 << 20
