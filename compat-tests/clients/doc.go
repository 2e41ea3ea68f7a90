// Package clients holds tests that drive a running server with the Go clients that
// teams use: franz-go (kgo, kadm) for Kafka, go-redis v9 for Redis.
//
//	KAFKA=host:port ──► records_test, groups_test, admin_test     any Kafka broker
//	REDIS=host:port ──► streams_test, workers_test                any Redis >= 8.2
//	both            ──► both_*_test                               weir only: one log, two protocols
//
// A test whose address is not given is skipped, so the package is quiet in a plain
// `go test ./...`. Each test makes topics and keys of its own, named after the run,
// so that the package can be run again and again on a server that holds data. The
// tests of the first two rows are proved on Apache Kafka and redis-server before
// they are asked of weir.
package clients
