package bridge

import "slices"

// roster is the members of a group in the order in which they joined, and what follows from them alone.
type roster []*member

// patience is the group's rebalance timeout: its slowest member's.
func (r roster) patience() int64 {
	var longest int64
	for _, m := range r {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// ownership reads the assignments of the consumer protocol; other protocols' (Connect's) are opaque.
func (r roster) ownership(protocolType string) map[TopicPartition]string {
	owned := make(map[TopicPartition]string)
	if protocolType != consumerProtocol {
		return owned
	}
	for _, m := range r {
		for _, tp := range assignedPartitions(m.assignment) {
			if _, taken := owned[tp]; !taken {
				owned[tp] = m.consumer()
			}
		}
	}
	return owned
}

// everyoneOffers says whether all members know a protocol.
func (r roster) everyoneOffers(protocol string) bool {
	for _, m := range r {
		if !slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol }) {
			return false
		}
	}
	return true
}

// vote chooses the protocol: of those that all members offer, each member votes for the one
// it prefers; among equals the first member's preference decides.
func (r roster) vote() string {
	votes := map[string]int{}
	for _, m := range r {
		for _, p := range m.protocols {
			if r.everyoneOffers(p.Name) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	if len(r) > 0 {
		for _, p := range r[0].protocols {
			if votes[p.Name] > 0 && (best == "" || votes[p.Name] > votes[best]) {
				best = p.Name
			}
		}
	}
	return best
}

// subscriptions are the topics that the members consume; false when that cannot be known: members of another
// protocol than the consumers'.
func (r roster) subscriptions(protocolType string) ([]string, bool) {
	if len(r) == 0 {
		return nil, true
	}
	if protocolType != consumerProtocol {
		return nil, false
	}
	var topics []string
	for _, m := range r {
		for _, p := range m.protocols {
			topics = append(topics, subscribedTopics(p.Metadata)...)
		}
	}
	return topics, true
}
