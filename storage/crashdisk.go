package storage

import (
	"bytes"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// CrashDisk is a disk in memory that can be copied as a crash would leave it: for
// the crash tests of rooms above, which may not know Pebble.
type CrashDisk struct{ fs *vfs.MemFS }

// NewCrashDisk returns an empty disk.
func NewCrashDisk() *CrashDisk { return &CrashDisk{vfs.NewCrashableMem()} }

// Open opens the disk's one store, making it when there is none.
func (d *CrashDisk) Open(o Options) (Store, error) {
	o.fs = unbent{d.fs}
	return OpenPebble("/data", o)
}

// AfterKill is the disk as the death of the process would leave it at this moment:
// everything that was handed to the operating system is there.
func (d *CrashDisk) AfterKill() *CrashDisk {
	return &CrashDisk{d.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(0, 7)),
	})}
}

// AfterPowerLoss is the disk as a loss of power would leave it: what was not
// fsynced is there or not, block by block, as the seed has it.
func (d *CrashDisk) AfterPowerLoss(seed uint64, unsyncedPercent int) *CrashDisk {
	return &CrashDisk{d.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: unsyncedPercent, RNG: rand.New(rand.NewPCG(seed, 7)),
	})}
}

// unbent has files that leave alone what they are given to write, as those of an operating system do, and as the log
// needs it for the blocks of its callers. Pebble's own in memory bend it when they are built with -race.
type unbent struct{ vfs.FS }

func (u unbent) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := u.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return unbentFile{f}, nil
}

type unbentFile struct{ vfs.File }

func (f unbentFile) Write(p []byte) (int, error) { return f.File.Write(bytes.Clone(p)) }
