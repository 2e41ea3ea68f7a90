//go:build !linux

package resp

import "net"

type sock struct{}

// newRunner serves a listener with a goroutine for each connection: there is no epoll here.
func (s *Server) newRunner(ln net.Listener) (runner, error) {
	return &threads{srv: s, ln: ln, all: map[*thread]struct{}{}}, nil
}
