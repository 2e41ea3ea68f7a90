package bridge

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"weir/engine"
)

// NodeID is this broker's id.
func (c *core) NodeID() int32 { return c.o.NodeID }

// ClusterID names the cluster: stable for the life of a data directory.
func (c *core) ClusterID() string { return c.o.ClusterID }

// clusterIDName is the settings record that holds a cluster ID made here: version 1, text.
var clusterIDName = []byte("cluster-id")

// nameCluster gives the cluster its ID when the options do not: 22 characters of base64, kept in storage.
func (c *core) nameCluster(ctx context.Context) error {
	if c.o.ClusterID != "" {
		return nil
	}
	err := c.eng.EachRecord(spaceSettings, func(name, value []byte) error {
		if string(name) == string(clusterIDName) && len(value) > 1 && value[0] == 1 {
			c.o.ClusterID = string(value[1:])
		}
		return nil
	})
	if err != nil || c.o.ClusterID != "" {
		return err
	}
	var id [16]byte
	rand.Read(id[:])
	c.o.ClusterID = base64.RawURLEncoding.EncodeToString(id[:])
	turn := c.eng.Begin(engine.Written)
	if err := turn.PutRecord(clusterIDName, spaceSettings, clusterIDName, append([]byte{1}, c.o.ClusterID...)); err != nil {
		return fmt.Errorf("bridge: name the cluster: %w", err)
	}
	if err := turn.Wait(ctx); err != nil {
		return fmt.Errorf("bridge: name the cluster: %w", err)
	}
	return nil
}
