package storage

// The file system under Pebble: tables, MANIFEST, markers, OPTIONS, directories. The log is not among
// them (pebble_log.go), but is fsynced before the first table of a flush is begun.
//
// After the first failed write nothing more reaches the disk (the latch). Pebble
// panics, or exits, or retries for ever when its MANIFEST fails, and none of
// the three may happen in a server that still answers reads. So from that moment
// every write, sync, rename and removal of MANIFEST and directories pretends
// to have worked, while the disk stays as the failure left it; commits are refused
// by the store, and a reopening finds all that was there. Tables are different, since
// Pebble reads them back. One that is being written goes on in memory (spare), with what
// it has on disk copied there: at an error Pebble would try the flush again without end.
// A flush that begins later is written to memory from the start: commits under way may be
// waiting for it, and there are never more memtables than
// MemTableStopWritesThreshold. A compaction is parked until Close when it begins its
// next table, so that no more than one table of each grows in memory.
//
// All this holds while Pebble opens, too: it flushes then, tries a flush that fails again without end, and the
// opening would hang in it. Who opens looks at the latch.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// latch keeps the first failure of a store.
type latch struct {
	first atomic.Pointer[error]
	told  func(error) // called once, with the failure; set before use
}

// set latches err; the first one wins.
func (l *latch) set(err error) {
	if l.first.CompareAndSwap(nil, &err) && l.told != nil {
		l.told(err)
	}
}

// err is nil while the store is sound, else wraps ErrLatched and the cause.
func (l *latch) err() error {
	if p := l.first.Load(); p != nil {
		return fmt.Errorf("%w: %w", ErrLatched, *p)
	}
	return nil
}

func (l *latch) on() bool { return l.first.Load() != nil }

// diskFS wraps a file system as described above.
type diskFS struct {
	vfs.FS
	latch   *latch
	closing chan struct{} // closed when the store is
	spare   *vfs.MemFS    // tables flushed after the latch
	// beforeFlush makes the log durable.
	beforeFlush func() error
}

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst")
}

// frozen reports whether the disk is to stay as it is.
func (d *diskFS) frozen() bool { return d.latch.on() }

// failed latches a failure and reports whether the caller must pretend that nothing happened.
func (d *diskFS) failed(op, name string, err error) (pretend bool) {
	d.latch.set(fmt.Errorf("%s %s: %w", op, d.PathBase(name), err))
	return !isTable(name)
}

// spareFile makes a table in memory.
func (d *diskFS) spareFile(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.spare.MkdirAll(d.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	return d.spare.Create(name, c)
}

// How Pebble announces its files.
const (
	flushCategory      vfs.DiskWriteCategory = "pebble-memtable-flush"
	compactionCategory vfs.DiskWriteCategory = "pebble-compaction"
)

// createFrozen is create on a frozen disk.
func (d *diskFS) createFrozen(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	switch {
	case !isTable(name):
		return sinkFile{name: name}, nil
	case c == flushCategory:
		return d.spareFile(name, c)
	case c == compactionCategory:
		<-d.closing
	}
	return nil, d.latch.err()
}

// spared reports whether a table is in memory.
func (d *diskFS) spared(name string) bool {
	if !d.frozen() || !isTable(name) {
		return false
	}
	_, err := d.spare.Stat(name)
	return err == nil
}

// beforeMarker makes names durable before one of the files is created, or removed, by whose names Pebble knows its
// MANIFEST. It fsyncs the directory only when both are done, and without them takes the store for a new one: not every
// file system keeps the order of names. A failure latches.
func (d *diskFS) beforeMarker(name string) {
	if !strings.HasPrefix(d.PathBase(name), "marker.") || d.frozen() {
		return
	}
	if err := syncDir(d.FS, d.PathDir(name)); err != nil {
		d.failed("sync", d.PathDir(name), err)
	}
}

// create is what Create, ReuseForWrite and OpenReadWrite have in common.
func (d *diskFS) create(op, name string, c vfs.DiskWriteCategory, open func() (vfs.File, error)) (vfs.File, error) {
	if c == flushCategory && d.beforeFlush != nil {
		// What the tables of this flush refer to was logged before the flush began. A failure has latched.
		_ = d.beforeFlush()
	}
	d.beforeMarker(name)
	if d.frozen() {
		return d.createFrozen(name, c)
	}
	f, err := open()
	if err != nil {
		if d.failed(op, name, err) {
			return sinkFile{name: name}, nil
		}
		return nil, err
	}
	return &diskFile{File: f, disk: d, name: name, category: c}, nil
}

func (d *diskFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.create("create", name, c, func() (vfs.File, error) { return d.FS.Create(name, c) })
}

func (d *diskFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return d.create("reuse", newname, c, func() (vfs.File, error) { return d.FS.ReuseForWrite(oldname, newname, c) })
}

func (d *diskFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return d.create("open", name, c, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, c, o...) })
}

func (d *diskFS) Stat(name string) (vfs.FileInfo, error) {
	if d.spared(name) {
		return d.spare.Stat(name)
	}
	return d.FS.Stat(name)
}

func (d *diskFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if d.spared(name) {
		return d.spare.Open(name, o...)
	}
	f, err := d.FS.Open(name, o...)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, name: name}, nil
}

func (d *diskFS) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, name: name}, nil
}

// List latches a failure and shows an empty directory: an opening of Pebble that ends with an error, late, takes the
// tables' cache away from a compaction that it has begun, which panics. From an empty directory, on a frozen disk, it
// makes a new database that nobody will see.
func (d *diskFS) List(dir string) ([]string, error) {
	names, err := d.FS.List(dir)
	if err != nil {
		d.failed("list", dir, err)
		return nil, nil
	}
	return names, nil
}

// change runs a renaming or a removal.
func (d *diskFS) change(op, name string, f func() error) error {
	if d.frozen() {
		return nil
	}
	if err := f(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		if d.failed(op, name, err) {
			return nil
		}
		return err
	} else if err != nil {
		return err
	}
	return nil
}

func (d *diskFS) Rename(oldname, newname string) error {
	return d.change("rename", newname, func() error { return d.FS.Rename(oldname, newname) })
}

// Link of a table may fail, on a file system that has no links: Pebble copies then.
func (d *diskFS) Link(oldname, newname string) error {
	if isTable(newname) {
		if d.frozen() {
			return d.latch.err()
		}
		return d.FS.Link(oldname, newname)
	}
	return d.change("link", newname, func() error { return d.FS.Link(oldname, newname) })
}

func (d *diskFS) Remove(name string) error {
	d.beforeMarker(name)
	return d.change("remove", name, func() error { return d.FS.Remove(name) })
}

func (d *diskFS) RemoveAll(name string) error {
	return d.change("remove", name, func() error { return d.FS.RemoveAll(name) })
}

func (d *diskFS) Unwrap() vfs.FS { return d.FS }

// diskFile is an open file: every failure latches. Pebble uses one from one
// goroutine at a time.
type diskFile struct {
	vfs.File
	disk     *diskFS
	name     string
	category vfs.DiskWriteCategory
	written  int64    // bytes that Write has put on disk
	spare    vfs.File // of a table: where it goes on after the latch
}

// divert makes a table go on in memory, with what is on disk of it.
func (f *diskFile) divert() error {
	if f.spare != nil {
		return nil
	}
	src, err := f.disk.FS.Open(f.name)
	if err != nil {
		return err
	}
	defer src.Close()
	spare, err := f.disk.spareFile(f.name, f.category)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(spare, src, f.written); err != nil {
		return errors.Join(err, spare.Close())
	}
	f.spare = spare
	return nil
}

// done turns the outcome of a change into what Pebble may see, which is never a failure: it is latched. What a table
// holds by then can be read back, so that is true of tables too.
func (f *diskFile) done(op string, err error) error {
	if err != nil {
		f.disk.failed(op, f.name, err)
	}
	return nil
}

func (f *diskFile) Write(p []byte) (int, error) {
	if !f.disk.frozen() {
		n, err := f.File.Write(p)
		if err == nil {
			f.written += int64(n)
			return n, nil
		}
		if f.disk.failed("write", f.name, err) {
			return len(p), nil
		}
	}
	if !isTable(f.name) {
		return len(p), nil
	}
	if err := f.divert(); err != nil {
		return 0, errors.Join(f.disk.latch.err(), err)
	}
	return f.spare.Write(p)
}

// WriteAt is for files that are no tables.
func (f *diskFile) WriteAt(p []byte, off int64) (int, error) {
	if f.disk.frozen() {
		return len(p), nil
	}
	_, err := f.File.WriteAt(p, off)
	return len(p), f.done("write", err)
}

func (f *diskFile) Sync() error {
	if f.disk.frozen() {
		return nil
	}
	return f.done("sync", f.File.Sync())
}

func (f *diskFile) SyncData() error {
	if f.disk.frozen() {
		return nil
	}
	return f.done("sync", f.File.SyncData())
}

func (f *diskFile) SyncTo(length int64) (bool, error) {
	if f.disk.frozen() {
		return false, nil
	}
	full, err := f.File.SyncTo(length)
	return full && err == nil, f.done("sync", err)
}

func (f *diskFile) Close() error {
	if f.spare != nil {
		return errors.Join(f.spare.Close(), f.done("close", f.File.Close()))
	}
	return f.done("close", f.File.Close())
}

// Read errors latch too (a disk that cannot be read is not to be written), and are
// always returned: there is nothing to pretend.
func (f *diskFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if err != nil && err != io.EOF {
		f.disk.failed("read", f.name, err)
	}
	return n, err
}

func (f *diskFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if err != nil && err != io.EOF {
		f.disk.failed("read", f.name, err)
	}
	return n, err
}

// sinkFile swallows what a latched store would have written.
type sinkFile struct{ name string }

func (s sinkFile) Write(p []byte) (int, error)            { return len(p), nil }
func (s sinkFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (s sinkFile) Read([]byte) (int, error)               { return 0, io.EOF }
func (s sinkFile) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (s sinkFile) Close() error                           { return nil }
func (s sinkFile) Preallocate(int64, int64) error         { return nil }
func (s sinkFile) Stat() (vfs.FileInfo, error)            { return sinkInfo(s), nil }
func (s sinkFile) Sync() error                            { return nil }
func (s sinkFile) SyncTo(int64) (bool, error)             { return false, nil }
func (s sinkFile) SyncData() error                        { return nil }
func (s sinkFile) Prefetch(int64, int64) error            { return nil }
func (s sinkFile) Fd() uintptr                            { return vfs.InvalidFd }

type sinkInfo struct{ name string }

func (i sinkInfo) Name() string           { return i.name }
func (i sinkInfo) Size() int64            { return 0 }
func (i sinkInfo) Mode() os.FileMode      { return 0 }
func (i sinkInfo) ModTime() time.Time     { return time.Time{} }
func (i sinkInfo) IsDir() bool            { return false }
func (i sinkInfo) Sys() any               { return nil }
func (i sinkInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
