package kafkaproto

import "github.com/twmb/franz-go/pkg/kmsg"

// InitProducerId v0-v5: an ID that was never given before, epoch 0.
//
//   - Only one of producer ID and epoch (v3+), or an empty transactional ID: INVALID_REQUEST.
//   - A transaction timeout beyond 15 minutes: INVALID_TRANSACTION_TIMEOUT.
//
// Left out: transactional IDs. Until transactions are served they get
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client treats as final.

// longestTransaction is transaction.max.timeout.ms.
const longestTransaction = 900_000

func (s recordAPI) initProducerID(c *call, req *kmsg.InitProducerIDRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	switch {
	case c.version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		resp.ErrorCode = invalidRequest
	case req.TransactionalID == nil:
		id, err := s.b.NextProducerID(c.ctx)
		if resp.ErrorCode = codeOf(err); err == nil {
			resp.ProducerID, resp.ProducerEpoch = id, 0
		}
	case *req.TransactionalID == "":
		resp.ErrorCode = invalidRequest
	case req.TransactionTimeoutMillis <= 0 || req.TransactionTimeoutMillis > longestTransaction:
		resp.ErrorCode = invalidTransactionTimeout
	default:
		resp.ErrorCode = transactionalNotAuthorized
		s.o.Logger.Warn("kafka: transactions are not served yet", "transactional.id", *req.TransactionalID, "client", c.clientID)
	}
	return resp
}
