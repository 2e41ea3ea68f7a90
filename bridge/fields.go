package bridge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"
)

// Record <-> fields, dictionary 4.
//
// Both directions keep bytes as they are. Two inverses are not exact, and cannot be:
// a null header value is an empty field, and a record with neither key nor value nor
// header is the pair `value` "", which comes back as an empty value.

var (
	fieldKey    = []byte("key")
	fieldValue  = []byte("value")
	fieldHeader = []byte("header:")
	fieldEmpty  = []byte{}
)

// appendFields appends a record as Redis sees it: key and value where not null, then
// the headers in order.
func appendFields(dst [][]byte, r *Record) [][]byte {
	before := len(dst)
	if r.Key != nil {
		dst = append(dst, fieldKey, r.Key)
	}
	if r.Value != nil {
		dst = append(dst, fieldValue, r.Value)
	}
	for i := range r.Headers {
		h := &r.Headers[i]
		name := make([]byte, 0, len(fieldHeader)+len(h.Name))
		name = append(append(name, fieldHeader...), h.Name...)
		value := h.Value
		if value == nil {
			value = fieldEmpty
		}
		dst = append(dst, name, value)
	}
	if len(dst) == before {
		dst = append(dst, fieldValue, fieldEmpty)
	}
	return dst
}

// recordForm says whether the fields are a record written by its Redis names: only key,
// value and header:*, key and value at most once each.
func recordForm(fields [][]byte) bool {
	var keys, values int
	for i := 0; i+1 < len(fields); i += 2 {
		switch name := fields[i]; {
		case bytes.Equal(name, fieldKey):
			keys++
		case bytes.Equal(name, fieldValue):
			values++
		case !bytes.HasPrefix(name, fieldHeader):
			return false
		}
	}
	return keys <= 1 && values <= 1
}

// keyOf is the record key of an entry, by the same rule as toRecord; false for null.
func keyOf(fields [][]byte, keyField string) ([]byte, bool) {
	if recordForm(fields) {
		keyField = "key"
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if equalName(keyField, fields[i]) {
			return fields[i+1], true
		}
	}
	return nil, false
}

// toRecord fills the key, value and headers of a record from an entry's fields. The record
// aliases the fields; a JSON value is made anew. r.Headers' array is reused.
func (s *settings) toRecord(r *Record, fields [][]byte) {
	r.Key, r.Value, r.Headers = nil, nil, r.Headers[:0]
	if recordForm(fields) {
		for i := 0; i+1 < len(fields); i += 2 {
			switch name := fields[i]; {
			case bytes.Equal(name, fieldKey):
				r.Key = notNull(fields[i+1])
			case bytes.Equal(name, fieldValue):
				r.Value = notNull(fields[i+1])
			default:
				r.Headers = append(r.Headers, Header{string(name[len(fieldHeader):]), notNull(fields[i+1])})
			}
		}
		return
	}
	key := -1
	for i := 0; i+1 < len(fields); i += 2 {
		if equalName(s.keyField, fields[i]) {
			key = i
			r.Key = notNull(fields[i+1])
			break
		}
	}
	if s.headersFormat {
		// Lossless: every field is a header, the key's too.
		for i := 0; i+1 < len(fields); i += 2 {
			r.Headers = append(r.Headers, Header{string(fields[i]), notNull(fields[i+1])})
		}
		return
	}
	r.Value = jsonObject(fields, key)
}

// notNull makes sure that empty bytes are not taken for null.
func notNull(b []byte) []byte {
	if b == nil {
		return fieldEmpty
	}
	return b
}

// jsonObject writes the fields but the one at skip as a JSON object, in order, names
// that occur twice twice. A value that is not UTF-8 becomes {"base64": "..."}; a name
// that is not, which JSON cannot hold, is written as "base64:...".
func jsonObject(fields [][]byte, skip int) []byte {
	size := 2
	for _, f := range fields {
		size += len(f) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for i := 0; i+1 < len(fields); i += 2 {
		if i == skip {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if name := fields[i]; utf8.Valid(name) {
			out = appendJSONString(out, name)
		} else {
			out = append(out, `"base64:`...)
			out = append(base64.StdEncoding.AppendEncode(out, name), '"')
		}
		out = append(out, ':')
		if value := fields[i+1]; utf8.Valid(value) {
			out = appendJSONString(out, value)
		} else {
			out = append(out, `{"base64":"`...)
			out = append(base64.StdEncoding.AppendEncode(out, value), `"}`...)
		}
	}
	return append(out, '}')
}

// appendJSONString quotes UTF-8 bytes.
func appendJSONString(dst, s []byte) []byte {
	plain := true
	for _, c := range s {
		if c < 0x20 || c == '"' || c == '\\' || c == 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return append(append(append(dst, '"'), s...), '"')
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(string(s)); err != nil {
		panic("bridge: a string does not marshal: " + err.Error())
	}
	return append(dst, bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})...)
}
