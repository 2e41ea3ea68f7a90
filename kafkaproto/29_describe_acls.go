package kafkaproto

import "github.com/twmb/franz-go/pkg/kmsg"

// DescribeAcls v1-v3: SECURITY_DISABLED, what Kafka says without an authorizer. Tools ask for
// it at once and show everything when they hear it.

const securityDisabled code = 54

func (s topicAPI) describeACLs(c *call, req *kmsg.DescribeACLsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeACLsResponse)
	text := "No Authorizer is configured."
	resp.ErrorCode, resp.ErrorMessage = securityDisabled, &text
	return resp
}
