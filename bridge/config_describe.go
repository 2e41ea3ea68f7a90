package bridge

import (
	"fmt"
	"slices"
	"strconv"
)

// ResourceType is Kafka's number of what a configuration belongs to.
type ResourceType int8

// The resource types that have configurations here.
const (
	TopicResource  ResourceType = 2
	BrokerResource ResourceType = 4
	GroupResource  ResourceType = 32
)

// Resource names what configurations belong to. A broker's name is its id, or "" for all brokers.
type Resource struct {
	Type ResourceType
	Name string
}

// DescribedConfig is one configuration as DescribeConfigs tells it. A nil Value is null: none, or secret.
type DescribedConfig struct {
	Name      string
	Value     *string
	Type      ConfigType
	Source    ConfigSource
	ReadOnly  bool
	Sensitive bool
	Synonyms  []ConfigSynonym // strongest first, the value's own source included
	Doc       string
}

// ConfigSynonym is a value that stands, or would stand, for a configuration.
type ConfigSynonym struct {
	Name   string
	Value  *string
	Source ConfigSource
}

// DescribeConfigs lists a resource's configurations in order of the name: those in names, or all when there are none
// (nil or empty, as in Kafka).
func (c *configs) DescribeConfigs(r Resource, names []string) ([]DescribedConfig, error) {
	var all []DescribedConfig
	switch r.Type {
	case TopicResource:
		t, ok := c.cat.Topic(r.Name)
		if !ok || !t.Visible() {
			if !LegalName(r.Name) {
				return nil, checkNewName(r.Name)
			}
			return nil, &Refusal{ErrUnknownTopic, "This server does not host this topic-partition."}
		}
		all = c.DescribeTopic(t)
	case BrokerResource:
		if r.Name == "" {
			all = c.describeAllBrokers()
			break
		}
		if err := c.checkBroker(r.Name); err != nil {
			return nil, err
		}
		all = describe(brokerList(), nil, c.brokerSources())
	case GroupResource:
		if r.Name == "" {
			return nil, &Refusal{ErrInvalidRequest, "A group's name must not be empty."}
		}
		all = describe(groupList(), []sourced{{c.stored.of(groupPrefix + r.Name), FromGroup}}, c.brokerSources())
	default:
		return nil, unknownResource(r.Type)
	}
	if len(names) == 0 {
		return all, nil
	}
	return slices.DeleteFunc(all, func(d DescribedConfig) bool { return !slices.Contains(names, d.Name) }), nil
}

func unknownResource(t ResourceType) error {
	return &Refusal{ErrInvalidRequest, fmt.Sprintf("Resources of type %d have no configurations here.", t)}
}

// checkBroker refuses other brokers' ids.
func (c *configs) checkBroker(name string) error {
	if id, err := strconv.ParseInt(name, 10, 32); err != nil || int32(id) != c.o.NodeID {
		return &Refusal{ErrInvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d or empty string, but received %s", c.o.NodeID, name)}
	}
	return nil
}

// DescribeTopic lists a topic's configurations.
func (c *configs) DescribeTopic(t *Topic) []DescribedConfig {
	return describe(topicList(), []sourced{{t.Configs, FromTopic}}, c.brokerSources())
}

// describeAllBrokers lists what was set on all brokers, and nothing else, as Kafka does.
func (c *configs) describeAllBrokers() []DescribedConfig {
	set := c.stored.of(allBrokers)
	all := describe(brokerList(), nil, []sourced{{set, FromDefaultBroker}})
	all = slices.DeleteFunc(all, func(d DescribedConfig) bool { _, ok := set[d.Name]; return !ok })
	for i := range all {
		all[i].Synonyms = all[i].Synonyms[:1]
	}
	return all
}

// describe lists configurations: own values by their names, the broker's by their synonyms, then defaults.
func describe(l *configList, own, broker []sourced) []DescribedConfig {
	out := make([]DescribedConfig, len(l.defs))
	for i := range l.defs {
		d := &l.defs[i]
		c := &out[i]
		*c = DescribedConfig{Name: d.name, Type: d.kind, ReadOnly: d.readOnly, Sensitive: d.sensitive, Doc: d.doc, Source: FromDefault}
		add := func(name string, v string, source ConfigSource) {
			s := ConfigSynonym{Name: name, Source: source}
			if !d.sensitive {
				s.Value = &v
			}
			c.Synonyms = append(c.Synonyms, s)
		}
		for _, s := range own {
			if v, ok := s.values[d.name]; ok {
				add(d.name, v, s.source)
			}
		}
		if d.synonym != "" {
			for _, s := range broker {
				if v, ok := s.values[d.synonym]; ok {
					add(d.synonym, v, s.source)
				}
			}
		}
		if len(c.Synonyms) > 0 {
			c.Value, c.Source = c.Synonyms[0].Value, c.Synonyms[0].Source
		} else if !d.null && !d.sensitive {
			c.Value = &d.value
		}
		// A topic's default that has no broker configuration of its own has no synonym.
		if bd := brokerList().byName[d.synonym]; d.synonym != "" && !d.null && (bd == nil || !bd.null) {
			add(d.synonym, d.value, FromDefault)
		}
	}
	return out
}
