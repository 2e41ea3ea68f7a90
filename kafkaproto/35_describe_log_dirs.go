package kafkaproto

import "github.com/twmb/franz-go/pkg/kmsg"

// DescribeLogDirs v1-v5: one directory, called "weir", with each partition's approximate size on
// disk. TotalBytes and UsableBytes are -1 (unknown): weir does not measure the volume.

func (s topicAPI) describeLogDirs(c *call, req *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	dir := kmsg.NewDescribeLogDirsResponseDir()
	dir.Dir = "weir"
	dir.TotalBytes, dir.UsableBytes = -1, -1
	asked := make(map[string][]int32)
	for i := range req.Topics {
		t := &req.Topics[i] // a topic may be named twice, with other partitions
		asked[t.Topic] = append(asked[t.Topic], t.Partitions...)
	}
	for _, t := range s.b.Topics() {
		wanted, named := asked[t.Name]
		if !t.Visible() || req.Topics != nil && !named {
			continue
		}
		line := kmsg.NewDescribeLogDirsResponseDirTopic()
		line.Topic = t.Name
		for p, no := range t.Streams {
			if named && !contains(wanted, int32(p)) {
				continue
			}
			size, err := s.b.SizeOf(no)
			if err != nil {
				continue // deleted meanwhile
			}
			part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			part.Partition, part.Size = int32(p), size
			line.Partitions = append(line.Partitions, part)
		}
		dir.Topics = append(dir.Topics, line)
	}
	resp.Dirs = append(resp.Dirs, dir)
	return resp
}

func contains(list []int32, p int32) bool {
	for _, v := range list {
		if v == p {
			return true
		}
	}
	return false
}
