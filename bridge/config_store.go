package bridge

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weir/engine"
)

// configStore is what was set at run time on brokers and groups; topics keep theirs.
// mu guards the map; the maps in it are replaced, never changed.
//
// A record per resource, named "broker" (all brokers), "broker:<id>" or
// "group:<name>". Version 1: 1 configs, as a topic's record has them.
type configStore struct {
	mu         sync.RWMutex
	byResource map[string]map[string]string
}

// configs are what can be configured, and what is.
type configs struct {
	*core
	cat    *catalog
	stored configStore
}

const configRecordVersion = 1

const (
	allBrokers  = "broker"
	oneBroker   = "broker:"
	groupPrefix = "group:"
)

// of is what was set on a resource; not to be changed.
func (s *configStore) of(resource string) map[string]string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byResource[resource]
}

func (s *configStore) set(resource string, configs map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byResource == nil {
		s.byResource = make(map[string]map[string]string)
	}
	if len(configs) == 0 {
		delete(s.byResource, resource)
		return
	}
	s.byResource[resource] = configs
}

// loadSettings reads the records.
func (c *configs) loadSettings() error {
	return c.eng.EachRecord(spaceSettings, func(name, value []byte) error {
		resource := string(name)
		if resource != allBrokers && !strings.HasPrefix(resource, oneBroker) && !strings.HasPrefix(resource, groupPrefix) {
			return nil
		}
		configs, err := parseConfigRecord(value)
		if err != nil {
			return fmt.Errorf("bridge: settings of %q: %w", resource, err)
		}
		c.stored.set(resource, configs)
		return nil
	})
}

func appendConfigRecord(dst []byte, configs map[string]string) []byte {
	return appendConfigs(append(dst, configRecordVersion), configs)
}

func parseConfigRecord(value []byte) (map[string]string, error) {
	if len(value) == 0 || value[0] != configRecordVersion {
		return nil, errRecord
	}
	r := recordReader{b: value[1:]}
	configs := readConfigs(&r)
	if r.bad || len(r.b) != 0 {
		return nil, errRecord
	}
	return configs, nil
}

// putSettings writes a resource's record.
func (c *configs) putSettings(turn *engine.Turn, resource string, configs map[string]string) error {
	name := []byte(resource)
	if len(configs) == 0 {
		return turn.DeleteRecord(name, spaceSettings, name)
	}
	return turn.PutRecord(name, spaceSettings, name, appendConfigRecord(nil, configs))
}

// brokerSources are the broker's settings at run time, strongest first.
func (c *configs) brokerSources() []sourced {
	return []sourced{
		{c.stored.of(oneBroker + strconv.Itoa(int(c.o.NodeID))), FromBroker},
		{c.stored.of(allBrokers), FromDefaultBroker},
		{c.brokerStart(), FromStart},
	}
}

// sourced is a set of values and where they come from.
type sourced struct {
	values map[string]string
	source ConfigSource
}

// brokerValue is the strongest value of a broker configuration above its default.
func brokerValue(sources []sourced, name string) (string, bool) {
	for _, s := range sources {
		if v, ok := s.values[name]; ok {
			return v, true
		}
	}
	return "", false
}

// copyConfigs is a copy that may be changed.
func copyConfigs(m map[string]string) map[string]string {
	if m == nil {
		return make(map[string]string)
	}
	return maps.Clone(m)
}

// ConfiguredGroups lists the groups that have configurations of their own, in byte order.
func (c *configs) ConfiguredGroups() []string {
	c.stored.mu.RLock()
	defer c.stored.mu.RUnlock()
	var names []string
	for resource := range c.stored.byResource {
		if name, ok := strings.CutPrefix(resource, groupPrefix); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
