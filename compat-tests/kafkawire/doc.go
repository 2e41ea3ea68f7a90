// Package kafkawire speaks raw Kafka for programs that must know exactly which
// bytes were sent and which were answered: the load generators of bench and
// killnine. A real client retries, batches and hides; here one Send is one frame.
//
//	kmsg.Request ──Frame──► bytes ──► socket ──► Recv ──► kmsg.Response
//	records ──Batch──► the record set inside a Produce request
package kafkawire
