package resp

// The stream commands, one row each. Refused as unknown for now: XNACK, XDELEX, XACKDEL, XCFGSET, XIDMPRECORD.

// streamRows are the rows of the stream commands.
func streamRows() []*command {
	return []*command{
		{name: "xadd", arity: -5, flags: write | denyOOM | fast, cats: catStream, since: "5.0.0", group: "stream", run: xadd,
			keys: firstKey(1, "RW", "update"), tips: []string{"nondeterministic_output"},
			summary: "Adds an entry to the end of a stream, which is created if there is none."},
		{name: "xlen", arity: 2, flags: readonly | fast, cats: catStream, since: "5.0.0", group: "stream", run: xlen,
			keys: firstKey(1, "RO"), summary: "Counts the entries of a stream."},
		{name: "xrange", arity: -4, flags: readonly, cats: catStream, since: "5.0.0", group: "stream", run: xrange,
			keys: firstKey(1, "RO", "access"), summary: "Reads the entries between two IDs, oldest first."},
		{name: "xrevrange", arity: -4, flags: readonly, cats: catStream, since: "5.0.0", group: "stream", run: xrevrange,
			keys: firstKey(1, "RO", "access"), summary: "Reads the entries between two IDs, newest first."},
		{name: "xread", arity: -4, flags: readonly | blocking, cats: catStream, since: "5.0.0", group: "stream", run: xread,
			keys:    []keySpec{{flags: []string{"RO", "access"}, keyword: "STREAMS", from: 1, last: -1, step: 1, limit: 2}},
			summary: "Reads the entries after given IDs from several streams, and may wait for them."},
		{name: "xreadgroup", arity: -7, flags: write | blocking, cats: catStream, since: "5.0.0", group: "stream", run: xread,
			keys:    []keySpec{{flags: []string{"RO", "access"}, keyword: "STREAMS", from: 4, last: -1, step: 1, limit: 2}},
			summary: "Delivers new entries to a consumer of a group, or shows those that it holds, and may wait."},
		{name: "xdel", arity: -3, flags: write | fast, cats: catStream, since: "5.0.0", group: "stream", run: xdel,
			keys: firstKey(1, "RW", "delete"), summary: "Deletes entries by ID."},
		{name: "xtrim", arity: -4, flags: write, cats: catStream, since: "5.0.0", group: "stream", run: xtrim,
			keys: firstKey(1, "RW", "delete"), tips: []string{"nondeterministic_output"},
			summary: "Removes the oldest entries of a stream."},
		xgroupRow(),
		{name: "xack", arity: -4, flags: write | fast, cats: catStream, since: "5.0.0", group: "stream", run: xack,
			keys: firstKey(1, "RW", "update"), summary: "Takes entries off what a group holds as pending."},
		{name: "xpending", arity: -3, flags: readonly, cats: catStream, since: "5.0.0", group: "stream", run: xpending,
			keys: firstKey(1, "RO", "access"), tips: []string{"nondeterministic_output"},
			summary: "Shows what was delivered to the consumers of a group and is not acknowledged."},
		{name: "xclaim", arity: -6, flags: write | fast, cats: catStream, since: "5.0.0", group: "stream", run: xclaim,
			keys: firstKey(1, "RW", "update"), tips: []string{"nondeterministic_output"},
			summary: "Moves pending entries to another consumer of the group."},
		{name: "xautoclaim", arity: -6, flags: write | fast, cats: catStream, since: "6.2.0", group: "stream", run: xautoclaim,
			keys: firstKey(1, "RW", "delete"), tips: []string{"nondeterministic_output"},
			summary: "Finds pending entries that nobody worked on for a while and moves them to another consumer."},
		xinfoRow(),
		{name: "xsetid", arity: -3, flags: write | denyOOM | fast, cats: catStream, since: "5.0.0", group: "stream", run: xsetid,
			keys: firstKey(1, "RW", "update"), summary: "Sets a stream's last ID and counters."},
	}
}

func xgroupRow() *command {
	sub := func(name string, arity int, f flags, keyFlag, since, summary string, run func(*call)) *command {
		return &command{name: "xgroup|" + name, arity: arity, flags: write | f, cats: catStream, since: since, group: "stream",
			keys: firstKey(2, "RW", keyFlag), summary: summary, run: run}
	}
	return &command{name: "xgroup", arity: -2, since: "5.0.0", group: "stream", summary: "Makes, moves and removes groups and consumers.",
		subs: []*command{
			sub("create", -5, denyOOM, "insert", "5.0.0", "Makes a group.", xgroupCreate),
			sub("setid", -5, 0, "update", "5.0.0", "Moves a group's last delivered ID.", xgroupSetID),
			sub("destroy", 4, 0, "delete", "5.0.0", "Removes a group and all that it holds.", xgroupDestroy),
			sub("createconsumer", 5, denyOOM, "insert", "6.2.0", "Makes a consumer.", xgroupCreateConsumer),
			sub("delconsumer", 5, 0, "delete", "5.0.0", "Removes a consumer and all that it holds.", xgroupDelConsumer),
			{name: "xgroup|help", arity: 2, flags: loading | stale, cats: catStream, since: "5.0.0", group: "stream",
				summary: "Explains the subcommands.", run: xgroupHelp},
		}}
}

func xinfoRow() *command {
	sub := func(name string, arity int, summary string, run func(*call), tips ...string) *command {
		return &command{name: "xinfo|" + name, arity: arity, flags: readonly, cats: catStream, since: "5.0.0", group: "stream",
			keys: firstKey(2, "RO", "access"), summary: summary, run: run, tips: tips}
	}
	return &command{name: "xinfo", arity: -2, since: "5.0.0", group: "stream", summary: "Shows streams, groups and consumers.",
		subs: []*command{
			sub("stream", -3, "Shows a stream.", xinfoStream),
			sub("groups", 3, "Lists the groups of a stream.", xinfoGroups),
			sub("consumers", 4, "Lists the consumers of a group.", xinfoConsumers, "nondeterministic_output"),
			{name: "xinfo|help", arity: 2, flags: loading | stale, cats: catStream, since: "5.0.0", group: "stream",
				summary: "Explains the subcommands.", run: xinfoHelp},
		}}
}
