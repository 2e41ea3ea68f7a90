package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"weir/compat-tests/respwire"
)

// checkLimit bounds every question of a check: a server that hangs is a failure,
// not a run without end.
const checkLimit = 60 * time.Second

// snapshot reads a key's whole state with one command, and checks that the server
// agrees with itself: a group's PEL is the sum of its consumers', counts match.
func snapshot(ctx context.Context, addr, key string) (*stream, error) {
	c, err := respwire.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(checkLimit))
	v, err := c.Do("XINFO", "STREAM", key, "FULL", "COUNT", "0")
	if err != nil {
		return nil, err
	}
	if e, ok := v.(respwire.Error); ok {
		if strings.HasPrefix(string(e), "ERR no such key") {
			return &stream{}, nil
		}
		return nil, e
	}
	s, err := parseStream(v)
	if err != nil {
		return nil, fmt.Errorf("XINFO STREAM %s FULL: %w", key, err)
	}
	n, err := c.Do("XLEN", key)
	if err != nil {
		return nil, err
	}
	if n != int64(len(s.entries)) {
		return nil, fmt.Errorf("XLEN %s is %v, XINFO lists %d entries", key, n, len(s.entries))
	}
	return s, nil
}

var errShape = errors.New("a reply of another shape than Redis's")

// pairs turns a flat list of names and values into a map.
func pairs(v any) map[string]any {
	list, _ := v.([]any)
	out := map[string]any{}
	for i := 0; i+1 < len(list); i += 2 {
		name, _ := list[i].(string)
		out[name] = list[i+1]
	}
	return out
}

func parseStream(v any) (s *stream, err error) {
	defer func() { // a failed type assertion below
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errShape, r)
		}
	}()
	m := pairs(v)
	s = &stream{exists: true, groups: map[string]*group{}}
	s.last = parseID(m["last-generated-id"].(string))
	s.maxDeleted = parseID(m["max-deleted-entry-id"].(string))
	s.added = m["entries-added"].(int64)
	for _, e := range m["entries"].([]any) {
		e := e.([]any)
		s.entries = append(s.entries, entry{parseID(e[0].(string)), e[1].([]any)[1].(string)})
	}
	if n := m["length"].(int64); n != int64(len(s.entries)) {
		return nil, fmt.Errorf("length is %d, but %d entries are listed", n, len(s.entries))
	}
	for _, v := range m["groups"].([]any) {
		if err := s.parseGroup(pairs(v)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *stream) parseGroup(m map[string]any) error {
	name := m["name"].(string)
	g := &group{parseID(m["last-delivered-id"].(string)), map[id]pending{}, map[string]bool{}}
	s.groups[name] = g
	for _, row := range m["pending"].([]any) {
		row := row.([]any)
		g.pel[parseID(row[0].(string))] = pending{row[1].(string), row[3].(int64)}
	}
	if n := m["pel-count"].(int64); n != int64(len(g.pel)) {
		return fmt.Errorf("group %s: pel-count is %d, but %d are listed", name, n, len(g.pel))
	}
	owned := 0
	for _, v := range m["consumers"].([]any) {
		c := pairs(v)
		consumer := c["name"].(string)
		g.consumers[consumer] = true
		for _, row := range c["pending"].([]any) {
			row := row.([]any)
			i := parseID(row[0].(string))
			if p, ok := g.pel[i]; !ok || p.consumer != consumer || p.count != row[2].(int64) {
				return fmt.Errorf("group %s: %s is pending with %s, but the group's list says %+v", name, i, consumer, p)
			}
			owned++
		}
	}
	if owned != len(g.pel) {
		return fmt.Errorf("group %s: %d pending, but its consumers own %d", name, len(g.pel), owned)
	}
	return nil
}
