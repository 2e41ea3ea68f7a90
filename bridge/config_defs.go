package bridge

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ConfigType is Kafka's number of a configuration's type.
type ConfigType int8

// The types, as DescribeConfigs writes them.
const (
	ConfigBool     ConfigType = 1
	ConfigString   ConfigType = 2
	ConfigInt      ConfigType = 3
	ConfigShort    ConfigType = 4
	ConfigLong     ConfigType = 5
	ConfigDouble   ConfigType = 6
	ConfigList     ConfigType = 7
	ConfigClass    ConfigType = 8
	ConfigPassword ConfigType = 9
)

// ConfigSource is Kafka's number of where a value comes from.
type ConfigSource int8

// The sources, strongest first.
const (
	FromTopic         ConfigSource = 1
	FromBroker        ConfigSource = 2 // set on this broker
	FromDefaultBroker ConfigSource = 3 // set on all brokers
	FromStart         ConfigSource = 4 // an option of the process
	FromDefault       ConfigSource = 5
	FromGroup         ConfigSource = 8
)

// configDef is one configuration: the one list that describing, validating and acting read.
type configDef struct {
	name  string
	kind  ConfigType
	value string // the default
	null  bool   // there is no default
	// synonym is the broker's configuration that stands in for a topic's or group's.
	synonym   string
	readOnly  bool
	sensitive bool
	check     func(string) error // beyond the type; nil: none
	doc       string
}

// configList is a resource type's configurations, in order of the name.
type configList struct {
	of     string // the resource type in the words of a refusal
	defs   []configDef
	byName map[string]*configDef
}

func newConfigList(of string, defs []configDef) *configList {
	slices.SortFunc(defs, func(a, b configDef) int { return strings.Compare(a.name, b.name) })
	l := &configList{of: of, defs: defs, byName: make(map[string]*configDef, len(defs))}
	for i := range defs {
		l.byName[defs[i].name] = &defs[i]
	}
	return l
}

func invalidConfig(format string, a ...any) error {
	return &Refusal{ErrInvalidConfig, fmt.Sprintf(format, a...)}
}

// parse validates a value of the configuration.
func (d *configDef) parse(value string) error {
	bad := func(want string) error {
		return invalidConfig("Invalid value %s for configuration %s: %s", value, d.name, want)
	}
	trimmed := strings.TrimSpace(value)
	switch d.kind {
	case ConfigBool:
		if !strings.EqualFold(trimmed, "true") && !strings.EqualFold(trimmed, "false") {
			return bad("Expected value to be either true or false")
		}
	case ConfigInt:
		if _, err := strconv.ParseInt(trimmed, 10, 32); err != nil {
			return bad("Not a number of type INT")
		}
	case ConfigShort:
		if _, err := strconv.ParseInt(trimmed, 10, 16); err != nil {
			return bad("Not a number of type SHORT")
		}
	case ConfigLong:
		if _, err := strconv.ParseInt(trimmed, 10, 64); err != nil {
			return bad("Not a number of type LONG")
		}
	case ConfigDouble:
		if v, err := strconv.ParseFloat(trimmed, 64); err != nil || math.IsNaN(v) {
			return bad("Not a number of type DOUBLE")
		}
	}
	if d.check != nil {
		if err := d.check(trimmed); err != nil {
			return bad(err.Error())
		}
	}
	return nil
}

// within checks a number that the type has accepted.
func within(low, high float64) func(string) error {
	return func(s string) error {
		switch v, _ := strconv.ParseFloat(s, 64); {
		case v < low:
			return fmt.Errorf("Value must be at least %s", plainNumber(low))
		case v > high:
			return fmt.Errorf("Value must be no more than %s", plainNumber(high))
		}
		return nil
	}
}

func atLeast(low float64) func(string) error { return within(low, math.Inf(1)) }

func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// oneOf wants one of some words.
func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("String must be one of: %s", strings.Join(words, ", "))
		}
		return nil
	}
}

// listOf wants a comma-separated list of some words, at least one.
func listOf(words ...string) func(string) error {
	return func(s string) error {
		for _, word := range splitList(s) {
			if !slices.Contains(words, word) {
				return fmt.Errorf("String must be one of: %s", strings.Join(words, ", "))
			}
		}
		return nil
	}
}

// splitList takes a list value apart; an empty value is no elements.
func splitList(s string) []string {
	if s = strings.TrimSpace(s); s == "" {
		return nil
	}
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
