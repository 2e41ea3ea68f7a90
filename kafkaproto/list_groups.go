package kafkaproto

// groupRows are the requests about groups and their offsets. Write handlers as
//
//	func (s *Server) heartbeat(c *call, r *kmsg.HeartbeatRequest) kmsg.Response
//
// and rows as
//
//	{key: 12, name: "Heartbeat", min: 0, max: 4, flexible: 4, limit: smallFrame, handle: typed(s.heartbeat)}
//
// with r.ResponseKind() as the reply's type (its version is set already).
func groupRows(s *Server) []row {
	return []row{}
}
