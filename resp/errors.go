package resp

import (
	"errors"
	"fmt"
	"strings"

	"weir/bridge"
	"weir/engine"
)

// Error texts, Redis's own to the letter (8.2 where versions differ). Those of single stream commands are in x_*.go.
const (
	errSyntax        = "ERR syntax error"
	errNotInteger    = "ERR value is not an integer or out of range"
	errNoKey         = "ERR no such key"
	errTimeoutInt    = "ERR timeout is not an integer or out of range"
	errTimeoutNeg    = "ERR timeout is negative"
	errNoAuth        = "NOAUTH Authentication required."
	errWrongPass     = "WRONGPASS invalid username-password pair or user is disabled."
	errNoPassword    = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errNoProto       = "NOPROTO unsupported protocol version"
	errProtoInt      = "ERR Protocol version is not an integer or out of range"
	errHelloAuth     = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errDBIndex       = "ERR DB index is out of range"
	errMaxClients    = "ERR max number of clients reached"
	errUnblocked     = "UNBLOCKED client unblocked via CLIENT UNBLOCK"
	errClientName    = "ERR Client names cannot contain spaces, newlines or special characters."
	errNoSuchClient  = "ERR No such client"
	errGetKeysNone   = "ERR The command has no key arguments"
	errGetKeysCmd    = "ERR Invalid command specified"
	errGetKeysArity  = "ERR Invalid number of arguments specified for command"
	errGetKeysArgs   = "ERR Invalid arguments specified for command"
	errOutOfRange    = "ERR value is out of range"
	errInternal      = "ERR internal error"
	errShadowed      = "ERR the key would shadow, or is shadowed by, a partition of a topic"
	errPartitionKey  = "ERR the key names one partition; this command acts on whole topics only"
	errNoStreamThere = "ERR no such key"
)

// errArity is the arity error of a row.
func errArity(row *command) string {
	return "ERR wrong number of arguments for '" + row.name + "' command"
}

// cut limits how much of what a client sent is sent back in an error.
func cut(b []byte, most int) []byte { return b[:min(len(b), most)] }

// errUnknownCommand quotes the command and the beginnings of its arguments, 128 bytes of each at most.
func errUnknownCommand(args [][]byte) string {
	var s strings.Builder
	fmt.Fprintf(&s, "ERR unknown command '%s', with args beginning with: ", cut(args[0], 128))
	quoted := 0
	for _, a := range args[1:] {
		if quoted >= 128 {
			break
		}
		part := cut(a, 128-quoted)
		s.WriteByte('\'')
		s.Write(part)
		s.WriteString("' ")
		quoted += len(part) + 3
	}
	return s.String()
}

// errUnknownSubcommand is what a container says to a word that it does not know.
func errUnknownSubcommand(container *command, word []byte) string {
	return fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", cut(word, 128), strings.ToUpper(container.name))
}

// errMisconf is what every write gets once the store has stopped accepting them.
func errMisconf(err error) string {
	reason := strings.TrimPrefix(err.Error(), engine.ErrFailed.Error()+": ")
	return "MISCONF Errors writing to the disk: " + reason + ". Commands that may modify the data set are refused until the server is restarted."
}

// errorText gives an error of the engine or the bridge Redis's words. Errors that depend on the command (NOGROUP names the
// key) are worded by the command; what arrives here unknown is logged by nobody and told as it is, because its text holds no
// secrets and an operator needs it.
func errorText(err error) string {
	switch {
	case errors.Is(err, engine.ErrFailed):
		return errMisconf(err)
	case errors.Is(err, engine.ErrNoStream):
		return errNoStreamThere
	case errors.Is(err, engine.ErrGroupExists):
		return "BUSYGROUP Consumer Group name already exists"
	case errors.Is(err, engine.ErrIDTooSmall):
		return "ERR The ID specified in XADD is equal or smaller than the target stream top item"
	case errors.Is(err, engine.ErrIDZero):
		return "ERR The ID specified in XADD must be greater than 0-0"
	case errors.Is(err, engine.ErrIDExhausted):
		return "ERR The stream has exhausted the last possible ID, unable to add more items"
	case errors.Is(err, engine.ErrSetIDTop):
		return "ERR The ID specified in XSETID is smaller than the target stream top item"
	case errors.Is(err, engine.ErrSetIDAdded):
		return "ERR The entries_added specified in XSETID is smaller than the target stream length"
	case errors.Is(err, engine.ErrSetIDDeleted):
		return "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
	case errors.Is(err, bridge.ErrShadowed):
		return errShadowed
	case errors.Is(err, bridge.ErrPartitionKey):
		return errPartitionKey
	case errors.Is(err, bridge.ErrTopicBusy):
		return "ERR the topic is being changed, try again"
	case errors.Is(err, engine.ErrClosed):
		return "ERR the server is shutting down"
	}
	return "ERR " + err.Error()
}
