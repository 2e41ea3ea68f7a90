package resp

import (
	"slices"
	"strings"
	"testing"

	"weir/engine"
)

// More is pending on a topic of several partitions than is listed at a time: what is shown and claimed comes by ID, or as the
// IDs were given, each entry once.
func TestRoutedClaimsOfMany(t *testing.T) {
	b := openBridge(t)
	c := dial(t, serve(t, New(b, Options{Loops: 1})))
	makeTopic(b, "t", 3)
	const n = 3000
	var all []engine.ID
	for i := range n {
		c.send("XADD", "t", "*", "key", itoa(int64(i%17)), "v", itoa(int64(i)))
	}
	for range n {
		id, ok := parseID([]byte(c.read().text), 0)
		if !ok {
			t.Fatal("XADD")
		}
		all = append(all, id)
	}
	slices.SortFunc(all, engine.ID.Compare)
	want := make([]string, n)
	for i, id := range all {
		want[i] = id.String()
	}
	same := func(what string, got, want []string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d IDs, want %d, or another order", what, len(got), len(want))
		}
	}
	c.do("XGROUP", "CREATE", "t", "g", "0")
	c.do("XREADGROUP", "GROUP", "g", "a", "STREAMS", "t", ">")
	for _, count := range []int{1, 1024, 2500, n} {
		v := c.do("XREADGROUP", "GROUP", "g", "a", "COUNT", itoa(int64(count)), "STREAMS", "t", "0")
		same("history", idsOf(v.elems[0].elems[1]), want[:count])
	}
	same("history", idsOf(c.do("XREADGROUP", "GROUP", "g", "a", "STREAMS", "t", "0").elems[0].elems[1]), want)

	v := c.do("XAUTOCLAIM", "t", "g", "b", "0", "-", "COUNT", "1500")
	same("XAUTOCLAIM", idsOf(v.elems[1]), want[:1500])
	if next := v.elems[0].text; next != want[1500] {
		t.Errorf("next %s, want %s", next, want[1500])
	}
	v = c.do("XAUTOCLAIM", "t", "g", "b", "0", v.elems[0].text, "COUNT", "1000000", "JUSTID")
	same("XAUTOCLAIM JUSTID", idsOf(v.elems[1]), want[1500:])

	backward := slices.Clone(want)
	slices.Reverse(backward)
	words := append([]string{"XCLAIM", "t", "g", "d", "0"}, append(backward, want[3], want[3])...)
	same("XCLAIM", idsOf(c.do(words...)), append(backward, want[3], want[3]))
	same("XCLAIM JUSTID", idsOf(c.do(append(words, "JUSTID")...)), append(backward, want[3], want[3]))

	c.do("XDEL", "t", want[10], want[2000])
	left := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return id == want[10] || id == want[2000] })
	v = c.do("XAUTOCLAIM", "t", "g", "e", "0", "-", "COUNT", "1000000")
	same("XAUTOCLAIM", idsOf(v.elems[1]), left)
	same("deleted", idsOf(v.elems[2]), []string{want[10], want[2000]})
}

// idsOf are the IDs of a reply of entries, or of IDs.
func idsOf(v value) []string {
	var ids []string
	for _, e := range v.elems {
		if strings.Contains(e.text, "-") {
			ids = append(ids, e.text)
			continue
		}
		ids = append(ids, e.elems[0].text)
	}
	return ids
}
