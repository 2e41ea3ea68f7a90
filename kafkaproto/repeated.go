package kafkaproto

// What a request names twice. Kafka keeps what it is asked in maps, so that the place of something is where it was first
// named and its value what was said of it last:
//
//	Produce, DeleteRecords   the last batch or offset of a partition counts, the others never happen
//	Fetch                    the last offset counts; topics may come in pieces, and the order is the order of reading
//	ListOffsets              INVALID_REQUEST, once for a partition
//	Metadata                 once each
//	DescribeLogDirs          once each
//	CreateTopics, CreatePartitions, DeleteTopics   INVALID_REQUEST, once each, and nothing is done to it
//	AlterConfigs, IncrementalAlterConfigs          INVALID_REQUEST, each time it is named, and nothing is changed
//	DeleteGroups             once each
//	OffsetCommit, OffsetFetch, OffsetDelete, OffsetForLeaderEpoch, DescribeConfigs, DescribeGroups,
//	ElectLeaders, FindCoordinator                  as often as it is named, one after the other

// topicKey is what a topic goes by in a request: its name, or its id.
type topicKey struct {
	name string
	id   [16]byte
}

// place is a partition of a request.
type place struct {
	topicKey
	partition int32
}

// topicShape says how a request's topics of type T hold partitions of type P.
type topicShape[T, P any] struct {
	key        func(*T) topicKey
	partitions func(*T) *[]P
	partition  func(*P) int32
}

// repeats says whether a topic, or a partition of a topic, is there twice. It allocates only for long requests.
func (s topicShape[T, P]) repeats(topics []T) bool {
	if anyTwice(len(topics), func(i int) topicKey { return s.key(&topics[i]) }) {
		return true
	}
	for i := range topics {
		list := *s.partitions(&topics[i])
		if anyTwice(len(list), func(j int) int32 { return s.partition(&list[j]) }) {
			return true
		}
	}
	return false
}

// once merges topics so that each topic and each partition is there once, where it was first, as it was last. twice are the
// partitions that were there more often; nil when there are none. The topics that are given stay as they are.
func (s topicShape[T, P]) once(topics []T) (each []T, twice map[place]bool) {
	if !s.repeats(topics) {
		return topics, nil
	}
	twice = make(map[place]bool)
	topicAt, partitionAt := make(map[topicKey]int), make(map[place]int)
	for i := range topics {
		key := s.key(&topics[i])
		at, known := topicAt[key]
		if !known {
			at = len(each)
			topicAt[key] = at
			each = append(each, topics[i])
			*s.partitions(&each[at]) = nil
		}
		kept := s.partitions(&each[at])
		for _, p := range *s.partitions(&topics[i]) {
			where := place{key, s.partition(&p)}
			if j, known := partitionAt[where]; known {
				twice[where], (*kept)[j] = true, p
				continue
			}
			partitionAt[where] = len(*kept)
			*kept = append(*kept, p)
		}
	}
	return each, twice
}

// missingFirst orders the topics of a reply that mirrors a request as Kafka does once something in it is missing: each topic
// once, what is missing before the rest.
func (s topicShape[T, P]) missingFirst(topics []T, missing func(*P) bool) []T {
	var some bool
	for i := range topics {
		for j := range *s.partitions(&topics[i]) {
			some = some || missing(&(*s.partitions(&topics[i]))[j])
		}
	}
	if !some {
		return topics
	}
	var merged []T
	at := make(map[topicKey]int)
	for _, first := range []bool{true, false} {
		for i := range topics {
			key := s.key(&topics[i])
			for _, p := range *s.partitions(&topics[i]) {
				if missing(&p) != first {
					continue
				}
				n, known := at[key]
				if !known {
					n = len(merged)
					at[key] = n
					merged = append(merged, topics[i])
					*s.partitions(&merged[n]) = nil
				}
				kept := s.partitions(&merged[n])
				*kept = append(*kept, p)
			}
		}
	}
	return merged
}

// fewKeys is how many keys are compared each with each, which needs no memory.
const fewKeys = 16

// anyTwice says whether two of n keys are the same.
func anyTwice[K comparable](n int, key func(int) K) bool {
	if n <= fewKeys {
		for i := 1; i < n; i++ {
			k := key(i)
			for j := range i {
				if key(j) == k {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[K]struct{}, n)
	for i := range n {
		seen[key(i)] = struct{}{}
	}
	return len(seen) < n
}

// timesNamed counts keys.
func timesNamed[T any, K comparable](list []T, key func(*T) K) map[K]int {
	times := make(map[K]int, len(list))
	for i := range list {
		times[key(&list[i])]++
	}
	return times
}
