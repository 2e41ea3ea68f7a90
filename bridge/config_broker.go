package bridge

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Broker configurations: config_broker.txt lists Kafka 4.4's with their types and
// defaults, one per line:
//
//	name <tab> type <tab> w(ritable) or r(ead-only), s(ensitive) <tab> default, absent when null
//
// Acted on: those that stand in for a topic's configuration (config_topic.go says which are
// acted on there), and what brokerStart names, which is given by the options of the process. The
// others are shown with Kafka's defaults because tools read them; those that Kafka lets
// one change at run time are validated by type and stored.

//go:embed config_broker.txt
var brokerLines string

var brokerList = sync.OnceValue(func() *configList {
	kinds := map[string]ConfigType{
		"bool": ConfigBool, "string": ConfigString, "int": ConfigInt, "short": ConfigShort, "long": ConfigLong,
		"double": ConfigDouble, "list": ConfigList, "class": ConfigClass, "password": ConfigPassword,
	}
	var defs []configDef
	for line := range strings.Lines(brokerLines) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
		d := configDef{name: f[0], kind: kinds[f[1]], synonym: f[0], readOnly: f[2][0] == 'r', sensitive: strings.HasSuffix(f[2], "s"), null: len(f) < 4}
		d.doc = "A broker setting of Kafka that weir shows with its default and does not act on."
		if !d.null {
			d.value = f[3]
		}
		defs = append(defs, d)
	}
	l := newConfigList("broker", defs)
	// A broker's value that stands in for a topic's obeys the topic's rules.
	for i := range topicList().defs {
		t := &topicList().defs[i]
		if d := l.byName[t.synonym]; d != nil {
			d.check, d.doc = t.check, "The default of the topic configuration "+t.name+". "+t.doc
		}
	}
	return l
})

// brokerStart are the values that the process was started with.
func (c *configs) brokerStart() map[string]string {
	o := &c.o
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	node := strconv.Itoa(int(o.NodeID))
	m := map[string]string{
		"node.id":                          node,
		"broker.id":                        node,
		"process.roles":                    "broker,controller",
		"num.partitions":                   strconv.Itoa(int(o.NumPartitions)),
		"default.replication.factor":       "1",
		"auto.create.topics.enable":        strconv.FormatBool(o.AutoCreate),
		"group.initial.rebalance.delay.ms": ms(o.InitialRebalanceDelay),
		"group.min.session.timeout.ms":     ms(o.MinSessionTimeout),
		"group.max.session.timeout.ms":     ms(o.MaxSessionTimeout),
		"offsets.retention.minutes":        "-1",
		"log.retention.check.interval.ms":  ms(max(o.RetentionCheck, 0)),
	}
	if o.MaxGroupSize > 0 {
		m["group.max.size"] = strconv.Itoa(o.MaxGroupSize)
	}
	return m
}
