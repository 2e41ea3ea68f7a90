package resp

// nameCache gives the few group and consumer names that a connection uses over and over as strings, without allocating
// each time. Arguments are overwritten after the call, engine names are kept: so they cannot simply share memory.
type nameCache struct {
	known [4]string
	next  uint8
}

// longestCachedName keeps a connection that sends huge names from holding on to them.
const longestCachedName = 256

func (n *nameCache) get(b []byte) string {
	for _, s := range n.known {
		if s == string(b) {
			return s
		}
	}
	s := string(b)
	if len(s) <= longestCachedName {
		n.known[n.next] = s
		n.next = (n.next + 1) % uint8(len(n.known))
	}
	return s
}
