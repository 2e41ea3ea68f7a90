package bridge

// NodeID is this broker's id.
func (b *Bridge) NodeID() int32 { return b.o.NodeID }

// ClusterID names the cluster: stable for the life of a data directory.
func (b *Bridge) ClusterID() string { return b.o.ClusterID }
