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
	// mostBuffers bounds what is kept: 128 x 128 KiB.
	mostBuffers = 128
)

// get returns an empty buffer, nil when none is kept.
func (p *buffers) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		return nil
	}
	b := p.free[n-1]
	p.free[n-1] = nil
	p.free = p.free[:n-1]
	return b
}

// put keeps a buffer, unless it is huge or enough are kept.
func (p *buffers) put(b []byte) {
	if cap(b) > 2*restChunk {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < mostBuffers {
		p.free = append(p.free, b[:0])
	}
}
