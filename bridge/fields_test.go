package bridge

import (
	"fmt"
	"strings"
	"testing"
)

// told writes fields down: name=value, quoted.
func told(fields [][]byte) string {
	var b strings.Builder
	for i := 0; i+1 < len(fields); i += 2 {
		fmt.Fprintf(&b, "%q=%q ", fields[i], fields[i+1])
	}
	return strings.TrimSpace(b.String())
}

func toldRecord(r *Record) string {
	text := func(p []byte) string {
		if p == nil {
			return "null"
		}
		return fmt.Sprintf("%q", p)
	}
	s := text(r.Key) + " -> " + text(r.Value)
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %q=%s", h.Name, text(h.Value))
	}
	return s
}

// pairs makes fields of name, value, name, value.
func pairs(s ...string) [][]byte {
	var out [][]byte
	for _, f := range s {
		out = append(out, []byte(f))
	}
	return out
}

func TestARecordIsTheseFields(t *testing.T) {
	empty := []byte{}
	for _, c := range []struct {
		r    Record
		want string
	}{
		{Record{Key: []byte("k"), Value: []byte("v")}, `"key"="k" "value"="v"`},
		{Record{Value: []byte("v")}, `"value"="v"`},
		{Record{Key: []byte("k")}, `"key"="k"`},
		{Record{Key: empty, Value: empty}, `"key"="" "value"=""`},
		{Record{}, `"value"=""`},
		{Record{Headers: []Header{{"h", nil}}}, `"header:h"=""`},
		{Record{Value: []byte("v"), Headers: []Header{{"b", []byte("1")}, {"a", []byte("2")}, {"b", []byte("3")}, {"", empty}}},
			`"value"="v" "header:b"="1" "header:a"="2" "header:b"="3" "header:"=""`},
		{Record{Key: []byte{0xff, 0}}, `"key"="\xff\x00"`},
	} {
		if got := told(appendFields(nil, &c.r)); got != c.want {
			t.Errorf("%s is %s, not %s", toldRecord(&c.r), got, c.want)
		}
	}
}

func TestFieldsAreThisRecord(t *testing.T) {
	plain := settings{keyField: "key"}
	byUser := settings{keyField: "user"}
	headers := settings{keyField: "key", headersFormat: true}
	for _, c := range []struct {
		s      settings
		fields [][]byte
		want   string
	}{
		// The inverse of what a record becomes.
		{plain, pairs("key", "k", "value", "v"), `"k" -> "v"`},
		{plain, pairs("value", "v", "key", "k"), `"k" -> "v"`},
		{plain, pairs("key", "k"), `"k" -> null`},
		{plain, pairs("value", ""), `null -> ""`},
		{plain, pairs("header:a", "1", "header:a", "2", "header:", "3"), `null -> null "a"="1" "a"="2" ""="3"`},
		{byUser, pairs("key", "k", "header:user", "u"), `"k" -> null "user"="u"`},
		// Anything else is a JSON object.
		{plain, pairs("temp", "21", "unit", "C"), `null -> "{\"temp\":\"21\",\"unit\":\"C\"}"`},
		{plain, pairs("key", "k", "temp", "21"), `"k" -> "{\"temp\":\"21\"}"`},
		{plain, pairs("key", "k", "value", "v", "x", "y"), `"k" -> "{\"value\":\"v\",\"x\":\"y\"}"`},
		{plain, pairs("key", "1", "key", "2"), `"1" -> "{\"key\":\"2\"}"`},
		{plain, pairs("value", "1", "value", "2"), `null -> "{\"value\":\"1\",\"value\":\"2\"}"`},
		{byUser, pairs("user", "u", "a", "b"), `"u" -> "{\"a\":\"b\"}"`},
		{byUser, pairs("a", "b"), `null -> "{\"a\":\"b\"}"`},
		{byUser, pairs("user", "u"), `"u" -> "{}"`},
		{plain, pairs("a", "\xff\xfe"), `null -> "{\"a\":{\"base64\":\"//4=\"}}"`},
		{plain, pairs("\xff", "b"), `null -> "{\"base64:/w==\":\"b\"}"`},
		{plain, pairs("a\"\n", "<\x00>\\é"), `null -> "{\"a\\\"\\n\":\"<\\u0000>\\\\é\"}"`},
		{plain, pairs("", ""), `null -> "{\"\":\"\"}"`},
		{plain, pairs("header", "x"), `null -> "{\"header\":\"x\"}"`},
		// Or a header each.
		{headers, pairs("key", "k", "temp", "21", "temp", ""), `"k" -> null "key"="k" "temp"="21" "temp"=""`},
		{headers, pairs("key", "k", "value", "v"), `"k" -> "v"`},
	} {
		var r Record
		c.s.toRecord(&r, c.fields)
		if got := toldRecord(&r); got != c.want {
			t.Errorf("%s is %s, not %s", told(c.fields), got, c.want)
		}
		key, ok := keyOf(c.fields, c.s.keyField)
		if ok != (r.Key != nil) || string(key) != string(r.Key) {
			t.Errorf("%s is routed by %q %v", told(c.fields), key, ok)
		}
	}
}

func FuzzFieldsAndBack(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), "h", []byte("x"), true, true)
	f.Fuzz(func(t *testing.T, key, value []byte, name string, header []byte, hasKey, hasValue bool) {
		r := Record{Key: notNull(key), Value: notNull(value), Headers: []Header{{name, notNull(header)}}}
		if !hasKey {
			r.Key = nil
		}
		if !hasValue {
			r.Value = nil
		}
		var back Record
		s := settings{keyField: "key"}
		s.toRecord(&back, appendFields(nil, &r))
		if a, b := toldRecord(&r), toldRecord(&back); a != b {
			t.Fatalf("%s came back as %s", a, b)
		}
	})
}

func TestMurmur2IsKafkas(t *testing.T) {
	// From Kafka's own UtilsTest: facts, the function's values.
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%s) = %d, not %d", key, got, want)
		}
	}
}

func TestPartitionKeysAreTakenApart(t *testing.T) {
	for key, want := range map[string]string{
		"t#0": "t 0", "t#12": "t 12", "a#b#3": "a#b 3", "t#4095": "t 4095", "#1": "", "t#": "", "t#01": "", "t#x": "", "t": "", "": "", "t#-1": "", "t#99999": "", "t#00": "",
	} {
		name, p, ok := splitPartitionKey([]byte(key))
		got := ""
		if ok {
			got = fmt.Sprintf("%s %d", name, p)
		}
		if got != want {
			t.Errorf("%q is %q, not %q", key, got, want)
		}
	}
}
