package resp

import "sync"

// buffers keeps the reply buffers of connections that have nothing to write, so that ten thousand idle clients hold none and a
// busy one need not grow a new one for each long reply.
type buffers struct {
	mu   sync.Mutex
	free [][]byte
}

const (
	// smallReply is how much buffer a connection keeps for itself.
	smallReply = 4 << 10
	// longReply is what a connection with long replies begins with: evaluated output may pass restChunk by one reply.
	longReply = restChunk + restChunk/2
	// mostBuffers of at most largestBuffer are kept: 16 MiB.
	mostBuffers   = 64
	largestBuffer = 4 * restChunk
)

// get returns an empty buffer for long replies.
func (p *buffers) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		return make([]byte, 0, longReply)
	}
	b := p.free[n-1]
	p.free[n-1] = nil
	p.free = p.free[:n-1]
	return b
}

// put keeps a buffer, unless it is huge or enough are kept.
func (p *buffers) put(b []byte) {
	if cap(b) > largestBuffer {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < mostBuffers {
		p.free = append(p.free, b[:0])
	}
}
