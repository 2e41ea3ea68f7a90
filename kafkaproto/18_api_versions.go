package kafkaproto

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions v0-v5.
//
//   - A version that is not served gets a version-0 body with UNSUPPORTED_VERSION and
//     the whole list (KIP-511); the reply's header never has tagged fields.
//   - v3+: the client's software name and version must look like names, else
//     INVALID_REQUEST.
//   - v5 (KIP-1242): the client may say which cluster and node it believes to talk to;
//     only one of the two is INVALID_REQUEST, a mismatch REBOOTSTRAP_REQUIRED.
//   - Produce is advertised from 0 although 0-2 are refused (KAFKA-18659).
//
// Features. Kafka 4.4 finalizes group.version 1, share.version 2, transaction.version
// 2, streams.version 1 and metadata.version 33. A client that sees group.version uses
// the new consumer protocol, one that sees transaction.version 2 leaves out
// AddPartitionsToTxn: so each feature is advertised only while the keys behind it are in
// the list. metadata.version and kraft.version describe a controller quorum, which
// there is none of; no client needs them.

const apiVersionsKey = 18

// rows are the list in order of the key.
func (s *Server) rows() []*row {
	rows := make([]*row, 0, len(s.list))
	for _, r := range s.list {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.key, b.key) })
	return rows
}

func (s *Server) apiKeys() []kmsg.ApiVersionsResponseApiKey {
	rows := s.rows()
	keys := make([]kmsg.ApiVersionsResponseApiKey, len(rows))
	for i, r := range rows {
		keys[i] = kmsg.ApiVersionsResponseApiKey{ApiKey: r.key, MinVersion: r.advertised(), MaxVersion: r.max}
	}
	return keys
}

// advertised is the lowest version that ApiVersions names.
func (r *row) advertised() int16 {
	if r.fromZero {
		return 0
	}
	return r.min
}

// feature is a Kafka feature and the request whose presence makes it true.
type feature struct {
	name string
	key  int16
	max  int16
}

var features = []feature{
	{name: "group.version", key: 68, max: 1},
	{name: "share.version", key: 78, max: 2},
	{name: "transaction.version", key: 26, max: 2},
}

func (s *Server) apiVersions(c *call) reply {
	req := c.req.(*kmsg.ApiVersionsRequest)
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	switch {
	case c.version >= 3 && (!softwareName(req.ClientSoftwareName) || !softwareName(req.ClientSoftwareVersion)):
		resp.ErrorCode = invalidRequest
		return reply{body: resp}
	case c.version >= 5:
		if resp.ErrorCode = s.addressed(req); resp.ErrorCode != none {
			return reply{body: resp}
		}
	}
	resp.ApiKeys = s.apiKeys()
	resp.FinalizedFeaturesEpoch = 0
	for _, f := range features {
		if s.list[f.key] == nil {
			continue
		}
		resp.SupportedFeatures = append(resp.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{
			Name: f.name, MinVersion: 0, MaxVersion: f.max,
		})
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{
			Name: f.name, MinVersionLevel: f.max, MaxVersionLevel: f.max,
		})
	}
	return reply{body: resp}
}

// apiVersionsUnsupported answers a version that is not served.
func (s *Server) apiVersionsUnsupported() reply {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	resp.ErrorCode = unsupportedVersion
	resp.ApiKeys = s.apiKeys()
	return reply{body: resp}
}

// addressed checks that a client which says whom it talks to talks to us (KIP-1242).
func (s *Server) addressed(req *kmsg.ApiVersionsRequest) code {
	cluster, node := req.ClusterID, req.NodeID
	switch {
	case cluster == nil && node == -1:
		return none
	case cluster == nil || node == -1:
		return invalidRequest
	case *cluster != s.b.ClusterID() || node != s.b.NodeID():
		return rebootstrapRequired
	}
	return none
}

// softwareName is Kafka's rule for client software names and versions: letters, digits,
// "-" and "." with a letter or digit at both ends.
func softwareName(s string) bool {
	if s == "" {
		return false
	}
	plain := func(b byte) bool {
		return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9'
	}
	if !plain(s[0]) || !plain(s[len(s)-1]) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return r > 127 || !plain(byte(r)) && r != '-' && r != '.'
	}) < 0
}
