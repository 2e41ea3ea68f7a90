// Package server starts servers as subprocesses on loopback: weir itself and the
// real peers, Redis 8.2.3 and Apache Kafka, that it is measured and proved against.
//
//	Spec (argv, addresses, dir) ──Start──► Server (pid) ──Kill / Stop──► gone
//	      ▲      ▲      ▲                     │
//	    Weir   Redis  Kafka              Usage (CPU time, RSS of the process tree)
//
// A Spec can be started any number of times: the data directory and the ports are
// part of it, so that Start after Kill is a restart on the same data. Every child
// is in a process group of its own and dies with the program that started it.
package server
