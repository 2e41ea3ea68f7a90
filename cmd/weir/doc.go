// Command weir is one process that speaks Kafka's protocol and the Redis stream
// commands on the same data.
//
//	config.go ─► serve.go ─┬─ storage.OpenPebble ─► engine.Open ─► bridge.Open
//	(flags, WEIR_*, file)  ├─ kafkaproto.Server on --kafka
//	                       ├─ resp.Server on --redis
//	                       └─ admin.go: /healthz /readyz /metrics on --admin
//
// Subcommands, configuration and wiring live here, and nothing else.
package main
