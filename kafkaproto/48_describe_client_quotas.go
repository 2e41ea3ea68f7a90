package kafkaproto

import "github.com/twmb/franz-go/pkg/kmsg"

// DescribeClientQuotas v0-v1: there are no quotas, so every filter finds none.

func (s configAPI) describeClientQuotas(c *call, req *kmsg.DescribeClientQuotasRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	resp.Entries = []kmsg.DescribeClientQuotasResponseEntry{} // null would mean an error
	return resp
}
