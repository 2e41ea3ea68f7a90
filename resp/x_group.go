package resp

// XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD n]
// XGROUP SETID key group id|$ [ENTRIESREAD n]
// XGROUP DESTROY key group
// XGROUP CREATECONSUMER key group consumer
// XGROUP DELCONSUMER key group consumer
// XGROUP HELP
//
// Options are read before the key is looked at, the ID after it. CREATE takes no - or +, SETID does. Without ENTRIESREAD
// the group's counter is unknown; values beyond entries-added are capped (8.x). SETID leaves what is pending alone and wakes nobody.
// DELCONSUMER answers how many entries the consumer held, which are then neither pending nor delivered again.
//
// Nothing is left out.

import (
	"errors"
	"strings"

	"weir/bridge"
	"weir/engine"
)

const (
	errGroupNoKey = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically."
	errGroupRead  = "ERR value for ENTRIESREAD must be positive or -1"
)

// errSubSyntax is what a subcommand says that was given words it does not take.
func errSubSyntax(c *call) string {
	container, _, _ := strings.Cut(c.row.name, "|")
	return "ERR unknown subcommand or wrong number of arguments for '" + string(cut(c.args[1], 128)) + "'. Try " +
		strings.ToUpper(container) + " HELP."
}

// errNoSuchGroup is XGROUP's and XINFO's NOGROUP.
func errNoSuchGroup(group string, key []byte) string {
	return "NOGROUP No such consumer group '" + group + "' for key name '" + string(key) + "'"
}

// groupOptions reads the words after the ID of CREATE and SETID; it answers the error's text.
func groupOptions(c *call, create bool) (mkStream bool, entriesRead int64, text string) {
	entriesRead = -1
	for i := 5; i < len(c.args); i++ {
		switch {
		case create && foldEqual(c.args[i], "mkstream"):
			mkStream = true
		case i+1 < len(c.args) && foldEqual(c.args[i], "entriesread"):
			i++
			n, ok := signed(c.args[i])
			if !ok {
				return false, 0, errNotInteger
			}
			if n < -1 {
				return false, 0, errGroupRead
			}
			entriesRead = n
		default:
			return false, 0, errSubSyntax(c)
		}
	}
	return mkStream, entriesRead, ""
}

func xgroupCreate(c *call) {
	mkStream, entriesRead, text := groupOptions(c, true)
	if text != "" {
		c.Err(text)
		return
	}
	route, ok := c.bridge().Resolve(c.args[2])
	if !ok && !mkStream {
		c.Err(errGroupNoKey)
		return
	}
	at := engine.GroupStart{EntriesRead: entriesRead}
	if len(c.args) > 8 {
		c.Err(errSubSyntax(c))
		return
	}
	if at.Last = string(c.args[4]) == "$"; !at.Last {
		if at.ID, text = orInvalidID(parseID(c.args[4], 0)); text != "" {
			c.Err(text)
			return
		}
	}
	if !ok {
		var err error
		if route, err = c.bridge().CreateKey(c.turn, c.args[2]); err != nil {
			c.Fail(err)
			return
		}
	}
	if err := route.Group(c.bridge(), c.turn, string(c.args[3])).Create(at); err != nil {
		c.Fail(err)
		return
	}
	c.changed(1)
	c.OK()
}

// groupOfKey finds the group that a subcommand names. False: the error is replied. The group itself may be missing.
func groupOfKey(c *call) (bridge.RouteGroup, string, bool) {
	route, ok := c.bridge().Resolve(c.args[2])
	if !ok {
		c.Err(errGroupNoKey)
		return bridge.RouteGroup{}, "", false
	}
	name := string(c.args[3])
	return route.Group(c.bridge(), c.turn, name), name, true
}

// failGroup replies the error of a verb on the group that args name.
func failGroup(c *call, name string, err error) {
	if errors.Is(err, engine.ErrNoGroup) {
		c.Err(errNoSuchGroup(name, c.args[2]))
		return
	}
	c.Fail(err)
}

func xgroupSetID(c *call) {
	_, entriesRead, text := groupOptions(c, false)
	if text != "" {
		c.Err(text)
		return
	}
	group, name, ok := groupOfKey(c)
	if !ok {
		return
	}
	there, err := group.Exists()
	if err != nil {
		c.Fail(err)
		return
	}
	at := engine.GroupStart{EntriesRead: entriesRead}
	switch {
	case !there:
		c.Err(errNoSuchGroup(name, c.args[2]))
		return
	case len(c.args) != 5 && len(c.args) != 7:
		c.Err(errSubSyntax(c))
		return
	}
	if at.Last = string(c.args[4]) == "$"; !at.Last {
		if at.ID, text = orInvalidID(parseLooseID(c.args[4], 0)); text != "" {
			c.Err(text)
			return
		}
	}
	if err := group.SetID(at); err != nil {
		failGroup(c, name, err)
		return
	}
	c.changed(1)
	c.OK()
}

func xgroupDestroy(c *call) {
	group, _, ok := groupOfKey(c)
	if !ok {
		return
	}
	done, err := group.Destroy()
	if err != nil {
		c.Fail(err)
		return
	}
	replyOneIf(c, done)
}

func xgroupCreateConsumer(c *call) {
	group, name, ok := groupOfKey(c)
	if !ok {
		return
	}
	made, err := group.ConsumerCreate(string(c.args[4]))
	if err != nil {
		failGroup(c, name, err)
		return
	}
	replyOneIf(c, made)
}

func xgroupDelConsumer(c *call) {
	group, name, ok := groupOfKey(c)
	if !ok {
		return
	}
	n, err := group.ConsumerDelete(string(c.args[4]))
	if err != nil {
		failGroup(c, name, err)
		return
	}
	c.changed(1)
	c.Int(n)
}

// replyOneIf replies the integer 1, for something changed, or 0.
func replyOneIf(c *call, yes bool) {
	if yes {
		c.changed(1)
		c.Int(1)
		return
	}
	c.Int(0)
}

func xgroupHelp(c *call) {
	replyHelp(c, []string{
		"XGROUP <subcommand> [<arg> ...]. Subcommands:",
		"CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <n>]",
		"    Make a group that delivers what comes after the ID; MKSTREAM makes the stream too.",
		"SETID <key> <group> <id|$> [ENTRIESREAD <n>]",
		"    Deliver from after the ID on.",
		"DESTROY <key> <group>",
		"    Remove the group and all that it holds.",
		"CREATECONSUMER <key> <group> <consumer>",
		"    Make a consumer.",
		"DELCONSUMER <key> <group> <consumer>",
		"    Remove the consumer and all that it holds.",
		"HELP",
		"    This text.",
	})
}

// replyHelp replies lines as simple strings.
func replyHelp(c *call, lines []string) {
	c.Array(len(lines))
	for _, l := range lines {
		c.Simple(l)
	}
}
