package bridge

import "weir/engine"

// Spaces of the bridge's records in storage (engine.Turn.PutRecord). Written on disk:
// never renumber. storage/FORMAT.md, "Records of the bridge", draws the values.
const (
	spaceTopics      engine.RecordSpace = 1 // name: topic
	spaceGroups      engine.RecordSpace = 2 // name: group; coordinators' state
	spaceSettings    engine.RecordSpace = 3 // name: resource, "broker", "broker:1", "group:<name>"
	spaceProducerIDs engine.RecordSpace = 4 // name: "next"
)
