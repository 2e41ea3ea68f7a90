package kafkaproto

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// row is one request of the list: everything there is to know about it besides its
// handler's code.
type row struct {
	key  int16
	name string
	// min and max are the versions that are served. fromZero: ApiVersions says 0
	// instead of min (Produce, KAFKA-18659).
	min, max int16
	fromZero bool
	// flexible is the first version with tagged fields; noFlexible when none has.
	flexible int16
	// limit is the largest frame in bytes; 0 leaves the server's cap.
	limit int
	// pipelined requests may be evaluated while replies of earlier ones still wait
	// for their commit. The others wait until all earlier replies were written.
	pipelined bool
	handle    handler

	counts counts
}

// counts are a row's metrics, per request key.
type counts struct {
	requests atomic.Int64 // evaluated
	refused  atomic.Int64 // unsupported version, or a body that does not decode
	failed   atomic.Int64 // answered by closing the connection
	bytesIn  atomic.Int64 // frames, length prefix included
	bytesOut atomic.Int64
	nanos    atomic.Int64 // from decoded to evaluated (and waited for, where the handler waits)
}

const noFlexible = 1 << 14

// handler evaluates one request. It may block (call.watch first); the connection's
// later requests wait for it, as in Kafka.
type handler func(*call) reply

// typed makes a handler from a function over kmsg's type of the request. The function
// returns the body of the reply; nil closes the connection.
func typed[R kmsg.Request](fn func(*call, R) kmsg.Response) handler {
	return func(c *call) reply {
		body := fn(c, c.req.(R))
		if body == nil {
			return reply{closes: true}
		}
		return reply{body: body}
	}
}

// newList builds the list. It is a function because a package-level table whose
// handlers range over it (ApiVersions) is an initialization cycle in Go.
func newList(s *Server) map[int16]*row {
	list := make(map[int16]*row)
	for _, rows := range [][]row{dataRows(s), groupRows(s)} {
		for i := range rows {
			r := &rows[i]
			if _, double := list[r.key]; double {
				panic("kafkaproto: two rows for " + r.name)
			}
			list[r.key] = r
		}
	}
	return list
}

// dataRows are the requests about topics, records and configurations.
func dataRows(s *Server) []row {
	return []row{
		{key: 18, name: "ApiVersions", min: 0, max: 5, flexible: 3, limit: smallFrame, handle: s.apiVersions},
	}
}

// smallFrame is the limit of requests that carry names and numbers only.
const smallFrame = 8 << 20
