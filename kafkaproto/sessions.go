package kafkaproto

import "sync"

// sessionCache keeps fetch sessions (KIP-227).
type sessionCache struct {
	mu  sync.Mutex
	max int
}

func newSessionCache(limit int) *sessionCache { return &sessionCache{max: limit} }

func (s *sessionCache) len() int { return 0 }
