package bridge

import (
	"context"
	"errors"
	"slices"
	"strings"

	"weir/engine"
)

// Groups as tools see them. A group is the union of a coordinator (members) and the groups of that name on streams
// (offsets), either of which may be missing: a group that Redis made, or one that only commits
// offsets, is an Empty group without a protocol type, as Kafka shows its own "simple" groups.

// GroupListing is one group of ListGroups. All are classic; a group that Redis made has no type of its own (dictionary
// 5), and tools that filter by type look for consumers' groups under classic.
type GroupListing struct {
	Name         string
	ProtocolType string
	State        string
}

// GroupType is the type that is shown of every group.
const GroupType = "classic"

// ListGroups lists all groups in byte order of the name.
func (b *Bridge) ListGroups() []GroupListing {
	byName := map[string]GroupListing{}
	for _, name := range b.eng.GroupNames() {
		byName[name] = GroupListing{Name: name, State: groupEmpty.String()}
	}
	gs := b.groups
	gs.mu.RLock()
	all := make([]*group, 0, len(gs.byName))
	for _, g := range gs.byName {
		all = append(all, g)
	}
	gs.mu.RUnlock()
	for _, g := range all {
		g.mu.Lock()
		c := g.machine
		if c.state != groupDead {
			byName[c.name] = GroupListing{c.name, c.protocolType, c.state.String()}
		}
		g.mu.Unlock()
	}
	out := make([]GroupListing, 0, len(byName))
	for _, l := range byName {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b GroupListing) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// GroupDescription is one group with its members.
type GroupDescription struct {
	GroupListing
	Protocol string // "" unless Stable
	Members  []MemberDescription
}

// MemberDescription is a member. Metadata is nil unless the group is Stable; Assignment is the last one told.
type MemberDescription struct {
	MemberID, InstanceID, ClientID, Host string
	Metadata, Assignment                 []byte
}

// DescribeGroup describes a group; false, with the state Dead, when there is none.
func (b *Bridge) DescribeGroup(name string) (GroupDescription, bool) {
	d := GroupDescription{GroupListing: GroupListing{Name: name, State: groupDead.String()}}
	g := b.groups.find(name, false)
	if g == nil {
		ok := len(b.eng.GroupStreams(name)) > 0
		if ok {
			d.State = groupEmpty.String()
		}
		return d, ok
	}
	defer g.mu.Unlock()
	c := g.machine
	d.State, d.ProtocolType = c.state.String(), c.protocolType
	stable := c.state == groupStable
	if stable {
		d.Protocol = c.protocol
	}
	for _, m := range c.order {
		one := MemberDescription{MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, Host: m.host, Assignment: m.assignment}
		if stable {
			one.Metadata = m.metadata(c.protocol)
		}
		d.Members = append(d.Members, one)
	}
	return d, true
}

// DeleteGroup removes a group without members: its record and all its offsets, with what is pending, consumers of Redis
// included. ErrNonEmptyGroup, ErrGroupNotFound, ErrCoordinatorUnavailable.
func (b *Bridge) DeleteGroup(name string) error {
	erase := func(turn *engine.Turn) (bool, error) {
		any := false
		for _, no := range b.eng.GroupStreams(name) {
			ok, err := turn.Group(no, name).Destroy()
			if ignoreGone(err) != nil {
				return any, err
			}
			any = any || ok
		}
		return any, nil
	}
	err := b.groups.input(name, false, func(_ int64, g *group, turn *engine.Turn) error {
		if err := g.machine.kill(); err != nil {
			return err
		}
		b.groups.forget(g)
		if err := turn.DeleteRecord([]byte(name), spaceGroups, []byte(name)); err != nil {
			return err
		}
		_, err := erase(turn)
		return err
	})
	if errors.Is(err, ErrGroupNotFound) {
		turn := b.eng.Begin(engine.Written)
		found, ferr := erase(turn)
		if err = turn.Wait(context.Background()); err == nil {
			err = ferr
		}
		if err == nil && !found {
			return ErrGroupNotFound
		}
	}
	return unknownGroup(err)
}
