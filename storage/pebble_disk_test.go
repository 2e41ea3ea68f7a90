package storage

import (
	"errors"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A table that is being written when the store latches goes on in memory: Pebble would retry or panic when its last
// write, sync or close fails, and it reads the table back.
func TestATableBeingWrittenAtTheLatchGoesOnInMemory(t *testing.T) {
	d := &diskFS{FS: vfs.NewMem(), latch: &latch{}, spare: vfs.NewMem(), closing: make(chan struct{})}
	f, err := d.Create("000001.sst", flushCategory)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) {
		t.Helper()
		if n, err := f.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("write: %d, %v", n, err)
		}
	}
	write("on disk, ")
	d.latch.set(errors.New("the log failed"))
	write("in memory")
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for name, fs := range map[string]vfs.FS{"what Pebble reads": d, "the disk": d.FS} {
		want := map[string]string{"what Pebble reads": "on disk, in memory", "the disk": "on disk, "}[name]
		g, err := fs.Open("000001.sst")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(g)
		if string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		g.Close()
	}
}
