package bridge

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// longestName is Kafka's limit of a topic name, in bytes.
const longestName = 249

// mostPartitions is what generated IDs have room for: a seq is congruent to its
// partition modulo 4096.
const mostPartitions = 4096

// Visible says whether Kafka clients see the topic under its name (dictionary 2).
func (t *Topic) Visible() bool { return visibleName(t.Name) }

func visibleName(name string) bool {
	return name != "" && len(name) <= longestName && name != "." && name != ".." && utf8.ValidString(name)
}

// checkNewName is Kafka's rule for topics that its clients create.
func checkNewName(name string) error {
	refuse := func(text string) error { return &Refusal{ErrInvalidTopic, text} }
	switch {
	case name == "":
		return refuse("a topic name must not be empty")
	case name == "." || name == "..":
		return refuse(`a topic cannot be called "." or ".."`)
	case len(name) > longestName:
		return refuse(fmt.Sprintf("a topic name has at most %d characters, this one has %d", longestName, len(name)))
	}
	for i := 0; i < len(name); i++ {
		if c := name[i]; !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return refuse(fmt.Sprintf("topic name %q has a character other than ASCII letters, digits, '.', '_' and '-'", name))
		}
	}
	return nil
}

// collisionForm is equal for names that Kafka's metric names cannot tell apart.
func collisionForm(name string) string { return strings.ReplaceAll(name, ".", "_") }

// partitionKey is the Redis key of a partition: `T#p`.
func partitionKey(topic string, p int32) string {
	return topic + "#" + strconv.Itoa(int(p))
}

// splitPartitionKey takes `T#p` apart; false when the key has no such form. p is
// written without leading zeros.
func splitPartitionKey(key []byte) (topic []byte, p int32, ok bool) {
	at := -1
	// Partition numbers have at most four digits, so '#' is one of the last five bytes.
	for i := len(key) - 1; i >= 0 && i >= len(key)-5; i-- {
		if key[i] == '#' {
			at = i
			break
		}
		if key[i] < '0' || key[i] > '9' {
			return nil, 0, false
		}
	}
	digits := len(key) - at - 1
	if at < 1 || digits == 0 || digits > 1 && key[at+1] == '0' {
		return nil, 0, false
	}
	for _, c := range key[at+1:] {
		p = p*10 + int32(c-'0')
	}
	return key[:at], p, true
}

// LegalName says whether Kafka would let a topic have this name.
func LegalName(name string) bool { return checkNewName(name) == nil }
