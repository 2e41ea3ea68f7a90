// Command bench measures weir against the real Redis 8.2.3 and the real Apache
// Kafka 4.4.0 on this machine, in one run, and prints ratios.
//
//	pairing            one fresh weir + one fresh peer, same durability
//	  row              one kind of load
//	    round 1..n     weir, peer, weir, peer, ...        turns: never at once
//	      turn         prepare │ warm │ measure │ settle  (CPU counted from measure on)
//	  memory           RSS idle and after the load, start to first answer
//
// The load comes from one thread with one epoll instance (loop.go) that writes
// requests encoded beforehand and looks at as little of each reply as it must, so
// that on a small machine the server gets the processor. README.md says how to
// run it, what each number means, and what each change to weir gave.
package main
