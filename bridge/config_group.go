package bridge

import (
	"errors"
	"regexp"
	"sync"
)

// Group configurations (resource type 32), Kafka 4.4's. They are validated, stored and
// shown; none is acted on until share groups and the consumer protocol are served.

var groupList = sync.OnceValue(func() *configList { return newConfigList("group", groupDefs()) })

var isoDuration = regexp.MustCompile(`^by_duration:P(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?$`)

func shareReset(s string) error {
	if s != "latest" && s != "earliest" && !isoDuration.MatchString(s) {
		return errors.New("it must be latest, earliest or by_duration:<ISO duration>")
	}
	return nil
}

func groupDefs() []configDef {
	number := func(name, value, synonym string, low, high float64, doc string) configDef {
		return configDef{name: name, kind: ConfigInt, value: value, synonym: synonym, check: within(low, high), doc: doc}
	}
	const later = " Stored only until its kind of group is served."
	return []configDef{
		number("consumer.session.timeout.ms", "45000", "group.consumer.session.timeout.ms", 45000, 60000, "Silence after which a member of the consumer protocol is removed."+later),
		number("consumer.heartbeat.interval.ms", "5000", "group.consumer.heartbeat.interval.ms", 5000, 15000, "How often members of the consumer protocol report."+later),
		number("consumer.assignment.interval.ms", "1000", "group.consumer.assignment.interval.ms", 0, 15000, "How often assignments are made anew at most."+later),
		{name: "errors.deadletterqueue.copy.record.enable", kind: ConfigBool, value: "false", synonym: "errors.deadletterqueue.copy.record.enable", doc: "Whether dead letters carry the record." + later},
		{name: "errors.deadletterqueue.topic.name", kind: ConfigString, value: "", synonym: "errors.deadletterqueue.topic.name", doc: "Where a share group's dead letters go." + later},
		{name: "share.auto.offset.reset", kind: ConfigString, value: "latest", synonym: "share.auto.offset.reset", check: shareReset, doc: "Where a share group begins." + later},
		{name: "share.isolation.level", kind: ConfigString, value: "read_uncommitted", synonym: "share.isolation.level", check: oneOf("read_committed", "read_uncommitted"), doc: "What a share group sees of transactions." + later},
		{name: "share.renew.acknowledge.enable", kind: ConfigBool, value: "true", synonym: "share.renew.acknowledge.enable", doc: "Whether a share member may renew a lock." + later},
		number("share.session.timeout.ms", "45000", "group.share.session.timeout.ms", 45000, 60000, "Silence after which a share member is removed."+later),
		number("share.heartbeat.interval.ms", "5000", "group.share.heartbeat.interval.ms", 5000, 15000, "How often share members report."+later),
		number("share.assignment.interval.ms", "1000", "group.share.assignment.interval.ms", 0, 15000, "How often assignments are made anew at most."+later),
		number("share.delivery.count.limit", "5", "group.share.delivery.count.limit", 2, 10, "Deliveries after which a record is archived."+later),
		number("share.record.lock.duration.ms", "30000", "group.share.record.lock.duration.ms", 15000, 60000, "How long a share member holds a record."+later),
		number("share.partition.max.record.locks", "2000", "group.share.partition.max.record.locks", 100, 4000, "Most records of a partition that are held at once."+later),
		{name: "streams.assignor.name", kind: ConfigString, value: "sticky", synonym: "group.streams.assignors", doc: "How a streams group's tasks are spread." + later},
		{name: "streams.rack.aware.assignment.tags", kind: ConfigList, value: "", synonym: "group.streams.rack.aware.assignment.tags", doc: "Client tags that spread standby tasks." + later},
		number("streams.initial.rebalance.delay.ms", "3000", "group.streams.initial.rebalance.delay.ms", 0, 1<<31-1, "How long a new streams group waits for members."+later),
		number("streams.session.timeout.ms", "45000", "group.streams.session.timeout.ms", 45000, 60000, "Silence after which a streams member is removed."+later),
		number("streams.heartbeat.interval.ms", "5000", "group.streams.heartbeat.interval.ms", 5000, 15000, "How often streams members report."+later),
		number("streams.assignment.interval.ms", "1000", "group.streams.assignment.interval.ms", 0, 15000, "How often assignments are made anew at most."+later),
		number("streams.num.standby.replicas", "0", "group.streams.num.standby.replicas", 0, 2, "Standby tasks per task."+later),
	}
}
