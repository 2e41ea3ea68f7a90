package bridge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"weir/engine"
)

// AlterOp is what IncrementalAlterConfigs does to one configuration (KIP-339).
type AlterOp int8

// Kafka's numbers of the operations.
const (
	SetConfig      AlterOp = 0
	DeleteConfig   AlterOp = 1
	AppendConfig   AlterOp = 2 // to a list
	SubtractConfig AlterOp = 3 // from a list
)

// ConfigChange is one step of an alteration.
type ConfigChange struct {
	Name  string
	Op    AlterOp
	Value *string
}

// AlterConfigs changes a resource's configurations, durably; all or nothing. With validateOnly nothing is changed. With replace, whatever is not set by
// changes goes back to its default (the old AlterConfigs).
func (c *configs) AlterConfigs(ctx context.Context, r Resource, changes []ConfigChange, replace, validateOnly bool) error {
	release, err := c.cat.change(ctx)
	if err != nil {
		return err
	}
	defer release()
	list, resource, topic, current, err := c.alterable(r)
	if err != nil {
		return err
	}
	next := copyConfigs(current)
	if replace {
		clear(next)
	}
	seen := make(map[string]bool, len(changes))
	for i := range changes {
		if seen[changes[i].Name] {
			return &Refusal{ErrInvalidRequest, "Error due to duplicate config keys"}
		}
		seen[changes[i].Name] = true
		if err := list.apply(next, &changes[i]); err != nil {
			return err
		}
	}
	if validateOnly || maps.Equal(current, next) {
		return nil
	}
	turn := c.eng.Begin(engine.Durable)
	if r.Type == TopicResource {
		return c.cat.republish(ctx, turn, topic, c.cat.with(topic, topic.Streams, next))
	}
	if err := c.putSettings(turn, resource, next); err != nil {
		return err
	}
	if err := turn.Wait(ctx); err != nil {
		return err
	}
	c.stored.set(resource, next)
	if r.Type == BrokerResource {
		c.refreshSettings()
	}
	return nil
}

// alterable finds a resource's list, its record's name or its topic, and what is set on it.
func (c *configs) alterable(r Resource) (*configList, string, *Topic, map[string]string, error) {
	switch r.Type {
	case TopicResource:
		t, ok := c.cat.Topic(r.Name)
		if !ok || !t.Visible() {
			if !LegalName(r.Name) {
				return nil, "", nil, nil, checkNewName(r.Name)
			}
			return nil, "", nil, nil, &Refusal{ErrUnknownTopic, fmt.Sprintf("The topic '%s' does not exist.", r.Name)}
		}
		return topicList(), "", t, t.Configs, nil
	case BrokerResource:
		resource := allBrokers
		if r.Name != "" {
			if err := c.checkBroker(r.Name); err != nil {
				return nil, "", nil, nil, err
			}
			resource = oneBroker + r.Name
		}
		return brokerList(), resource, nil, c.stored.of(resource), nil
	case GroupResource:
		if r.Name == "" {
			return nil, "", nil, nil, &Refusal{ErrInvalidRequest, "A group's name must not be empty."}
		}
		resource := groupPrefix + r.Name
		return groupList(), resource, nil, c.stored.of(resource), nil
	}
	return nil, "", nil, nil, unknownResource(r.Type)
}

// apply makes one step.
func (l *configList) apply(m map[string]string, c *ConfigChange) error {
	d := l.byName[c.Name]
	if d == nil {
		return invalidConfig("Unknown %s config name: %s", l.of, c.Name)
	}
	if d.readOnly {
		return &Refusal{ErrInvalidRequest, fmt.Sprintf("Cannot update these configs dynamically: Set(%s)", c.Name)}
	}
	if c.Op == DeleteConfig {
		delete(m, c.Name)
		return nil
	}
	if c.Op < SetConfig || c.Op > SubtractConfig {
		return &Refusal{ErrInvalidRequest, fmt.Sprintf("Unknown operation %d", c.Op)}
	}
	if c.Value == nil {
		return &Refusal{ErrInvalidRequest, fmt.Sprintf("Null value not supported for : %s", c.Name)}
	}
	value := *c.Value
	if c.Op != SetConfig {
		if d.kind != ConfigList {
			word := "append"
			if c.Op == SubtractConfig {
				word = "subtract"
			}
			return invalidConfig("Can't %s to key %s because its type is not LIST.", word, c.Name)
		}
		have, ok := m[c.Name]
		if !ok {
			have = d.value
		}
		value = alterList(splitList(have), splitList(value), c.Op)
	}
	if err := d.parse(value); err != nil {
		return err
	}
	if d.kind == ConfigList && c.Name == "cleanup.policy" && len(splitList(value)) == 0 {
		// Kafka 4 keeps everything for ever then; so does weir: neither retention nor compaction.
		value = ""
	}
	m[c.Name] = value
	return nil
}

// alterList adds the elements that are not there, or takes away those that are.
func alterList(have, given []string, op AlterOp) string {
	if op == SubtractConfig {
		have = slices.DeleteFunc(have, func(s string) bool { return slices.Contains(given, s) })
	} else {
		for _, s := range given {
			if !slices.Contains(have, s) {
				have = append(have, s)
			}
		}
	}
	return strings.Join(have, ",")
}

// topicConfigs validates the configurations of a new topic.
func (c *configs) topicConfigs(values []ConfigValue) (map[string]string, error) {
	m := make(map[string]string, len(values))
	for _, v := range values {
		if v.Value == nil {
			return nil, invalidConfig("Null value not supported for topic configs: %s", v.Name)
		}
		if err := topicList().apply(m, &ConfigChange{Name: v.Name, Value: v.Value}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// refreshSettings parses all topics' settings anew after a broker's default changed. The right to change is held.
func (c *configs) refreshSettings() {
	cat := c.cat
	cat.mu.Lock()
	defer cat.mu.Unlock()
	for _, t := range slices.Collect(maps.Values(cat.byName)) {
		cat.put(cat.with(t, t.Streams, t.Configs))
	}
}
