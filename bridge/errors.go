package bridge

import "errors"

// Sentinels of the data half. Words for Redis and codes for Kafka are given at the
// edges; a refusal's own text goes to Kafka clients as the error message.
var (
	ErrShadowed           = errors.New("bridge: the name would shadow, or is shadowed by, another key")
	ErrPartitionKey       = errors.New("bridge: the key names one partition of a topic")
	ErrTopicBusy          = errors.New("bridge: the topic is being changed, try again")
	ErrUnknownTopic       = errors.New("bridge: no such topic or partition")
	ErrUnknownTopicID     = errors.New("bridge: no topic has this ID")
	ErrTopicExists        = errors.New("bridge: topic exists")
	ErrInvalidTopic       = errors.New("bridge: invalid topic name")
	ErrInvalidPartitions  = errors.New("bridge: invalid number of partitions")
	ErrInvalidReplication = errors.New("bridge: invalid replication factor")
	ErrInvalidAssignment  = errors.New("bridge: invalid replica assignment")
	ErrInvalidConfig      = errors.New("bridge: invalid configuration")
	ErrInvalidRequest     = errors.New("bridge: invalid request")
	ErrTransactions       = errors.New("bridge: transactions are not served yet")
)

// Refusal is one of the sentinels with the reason in words.
type Refusal struct {
	Kind error
	Text string
}

// Error is the text alone: Kafka clients show it to people.
func (r *Refusal) Error() string { return r.Text }

// Unwrap gives the sentinel.
func (r *Refusal) Unwrap() error { return r.Kind }
