//go:build !linux

package kafkaproto

import (
	"errors"
	"net"
)

// lanes are none: there is no epoll here, and connections keep their sockets.
type lanes struct{ s *Server }

func (p *lanes) lend(*conn) *loan { return nil }
func (p *lanes) poke()            {}
func (p *lanes) stop()            {}

func attach(int) (net.Conn, error)         { return nil, errors.ErrUnsupported }
func writeSocket(int, []byte) (int, error) { return 0, errors.ErrUnsupported }
