package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// asideFS reads a file system and leaves it as it is: what is written to it is kept in memory. So a store is looked at on
// a disk that is full, is mounted for reading, or must not be touched before somebody has seen what is on it.
type asideFS struct {
	vfs.FS // only read
	mem    *vfs.MemFS

	mu   sync.Mutex
	gone map[string]bool // removed, were it not for us
}

func newAsideFS(below vfs.FS) *asideFS {
	return &asideFS{FS: below, mem: vfs.NewMem(), gone: map[string]bool{}}
}

// inMemory says whether a name is a file of ours, and hidden that there is nothing under it any more.
func (a *asideFS) inMemory(name string) bool {
	_, err := a.mem.Stat(name)
	return err == nil
}

func (a *asideFS) hidden(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.gone[name]
}

func (a *asideFS) hide(name string, hidden bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone[name] = hidden
}

func notThere(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

// room makes the directories of a file that is to be in memory.
func (a *asideFS) room(name string) error { return a.mem.MkdirAll(a.PathDir(name), 0o755) }

func (a *asideFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := a.room(name); err != nil {
		return nil, err
	}
	a.hide(name, true) // what is below
	return a.mem.Create(name, c)
}

func (a *asideFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	switch {
	case a.inMemory(name):
		return a.mem.Open(name, opts...)
	case a.hidden(name):
		return nil, notThere("open", name)
	}
	return a.FS.Open(name, opts...)
}

func (a *asideFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := a.fetch(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := a.room(name); err != nil {
		return nil, err
	}
	return a.mem.OpenReadWrite(name, c, opts...)
}

// fetch copies a file to memory, unless it is there.
func (a *asideFS) fetch(name string) error {
	if a.inMemory(name) {
		return nil
	}
	from, err := a.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := a.Create(name, "weir-aside")
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

func (a *asideFS) OpenDir(name string) (vfs.File, error) {
	if err := a.mem.MkdirAll(name, 0o755); err != nil {
		return nil, err
	}
	return a.mem.OpenDir(name)
}

func (a *asideFS) Remove(name string) error {
	if _, err := a.Stat(name); err != nil {
		return err
	}
	a.hide(name, true)
	if a.inMemory(name) {
		return a.mem.Remove(name)
	}
	return nil
}

// RemoveAll is for directories, of which a store has none within its own.
func (a *asideFS) RemoveAll(name string) error {
	a.hide(name, true)
	return a.mem.RemoveAll(name)
}

func (a *asideFS) Link(oldname, newname string) error {
	if _, err := a.Stat(newname); err == nil {
		return &os.LinkError{Op: "link", Old: oldname, New: newname, Err: fs.ErrExist}
	}
	if err := a.fetch(oldname); err != nil {
		return err
	}
	return a.mem.Link(oldname, newname)
}

func (a *asideFS) Rename(oldname, newname string) error {
	if err := a.fetch(oldname); err != nil {
		return err
	}
	a.hide(oldname, true)
	a.hide(newname, true)
	return a.mem.Rename(oldname, newname)
}

func (a *asideFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := a.Rename(oldname, newname); err != nil {
		return nil, err
	}
	return a.OpenReadWrite(newname, c)
}

func (a *asideFS) MkdirAll(dir string, perm os.FileMode) error {
	if _, err := a.Stat(dir); err == nil {
		return nil
	}
	return a.mem.MkdirAll(dir, perm)
}

// Lock keeps other processes out, where there is a lock file that can be written; where it cannot, nobody else writes
// either. None is made: a store that was opened has one, and what is no store is to stay as it is, too.
func (a *asideFS) Lock(name string) (io.Closer, error) {
	if _, err := a.FS.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), nil
	}
	l, err := a.FS.Lock(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) {
		return io.NopCloser(nil), nil
	}
	return l, err
}

func (a *asideFS) List(dir string) ([]string, error) {
	names, err := a.FS.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return a.hidden(a.PathJoin(dir, n)) })
	mine, merr := a.mem.List(dir)
	if merr != nil {
		return names, err
	}
	return append(names, mine...), nil
}

func (a *asideFS) Stat(name string) (vfs.FileInfo, error) {
	if a.inMemory(name) {
		return a.mem.Stat(name)
	}
	if a.hidden(name) {
		return nil, notThere("stat", name)
	}
	return a.FS.Stat(name)
}

func (a *asideFS) Unwrap() vfs.FS { return nil }
