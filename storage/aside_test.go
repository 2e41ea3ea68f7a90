package storage

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readOnlyFS fails whatever would change it.
type readOnlyFS struct{ vfs.FS }

var errReadOnly = &fs.PathError{Op: "write", Path: "there", Err: fs.ErrPermission}

func (readOnlyFS) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, errReadOnly }
func (readOnlyFS) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errReadOnly
}
func (readOnlyFS) Remove(string) error                { return errReadOnly }
func (readOnlyFS) RemoveAll(string) error             { return errReadOnly }
func (readOnlyFS) Link(string, string) error          { return errReadOnly }
func (readOnlyFS) Rename(string, string) error        { return errReadOnly }
func (readOnlyFS) MkdirAll(string, os.FileMode) error { return errReadOnly }
func (readOnlyFS) Lock(string) (io.Closer, error)     { return nil, errReadOnly }
func (readOnlyFS) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errReadOnly
}

// content is what stands in a directory.
func content(t *testing.T, fsys vfs.FS, dir string) string {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string][32]byte{}
	for _, n := range names {
		f, err := fsys.Open(fsys.PathJoin(dir, n))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		sums[n] = sha256.Sum256(data)
	}
	return fmt.Sprint(sums)
}

// A store that a kill has left, on a disk that cannot be written: it is read as it would be after an opening, moves and
// flushes included, and stays what it is.
func TestAStoreIsReadAside(t *testing.T) {
	m := newModelRun(t, rand.Uint64())
	for range 300 {
		m.step()
	}
	disk := m.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: newRand(m.rng)})
	before := content(t, disk, "data")
	for range 2 {
		s, err := OpenPebble("data", Options{fs: &linkAlone{FS: readOnlyFS{disk}}, MemtableBytes: 64 << 10, segment: 12 << 10, Aside: true})
		if err != nil {
			t.Fatal(err)
		}
		ps := s.(*pebbleStore)
		for i := range m.shards {
			v, err := ps.shards[i].View()
			if err != nil {
				t.Fatal(err)
			}
			m.compare(v, i, m.shards[i].states[m.shards[i].at])
			v.Close()
		}
		put(t, lead(t, s, 1), 1, "forgotten", "with the rest")
		if err := errors.Join(ps.space.collect(), ps.db.Flush(), s.Close(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	if content(t, disk, "data") != before {
		t.Error("the directory has changed")
	}
	m.closeViews()
	m.must(m.s.Close(ctx))
	if _, err := OpenPebble("none", Options{fs: &linkAlone{FS: readOnlyFS{vfs.NewMem()}}, Aside: true}); err == nil {
		t.Error("a store that is not there was read")
	}
}

// What is no store, or a copy without its lock, gets no lock file.
func TestALookMakesNoLockFile(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenPebble(dir, Options{Aside: true}); err == nil {
		t.Error("an empty directory is a store")
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}
}
