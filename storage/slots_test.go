package storage

import "testing"

// The values are those that `CLUSTER KEYSLOT` of a real redis-server gives.
func TestSlotIsRedisClusters(t *testing.T) {
	for key, want := range map[string]uint16{
		"123456789": 12739, "foo": 12182, "": 0, "{user1000}.following": 3443, "user1000": 3443,
		"foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "{bar": 4015, "foo{bar}{zap}": 5061,
	} {
		if got := Slot([]byte(key)); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}
