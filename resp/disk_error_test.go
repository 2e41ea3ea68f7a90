package resp

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"weir/storage"
)

// brokenDisk is a store in memory whose commits fail once broken is set, and which then stays latched as a real one does.
type brokenDisk struct {
	storage.Store
	broken *atomic.Bool
}

var errDisk = errors.New("no space left on device")

func (d brokenDisk) Shard(id storage.ShardID) (storage.Shard, error) {
	sh, err := d.Store.Shard(id)
	return brokenShard{sh, d}, err
}

func (d brokenDisk) CommitTogether(ctx context.Context, b []storage.Batch) ([]storage.Pos, error) {
	if d.broken.Load() {
		return nil, errors.Join(storage.ErrLatched, errDisk)
	}
	return d.Store.CommitTogether(ctx, b)
}

func (d brokenDisk) Failed() error {
	if d.broken.Load() {
		return errors.Join(storage.ErrLatched, errDisk)
	}
	return d.Store.Failed()
}

type brokenShard struct {
	storage.Shard
	disk brokenDisk
}

func (s brokenShard) Lead(ctx context.Context) (storage.Writer, error) {
	w, err := s.Shard.Lead(ctx)
	return brokenWriter{w, s.disk}, err
}

type brokenWriter struct {
	storage.Writer
	disk brokenDisk
}

func (w brokenWriter) Commit(ctx context.Context, b storage.Batch) (storage.Pos, error) {
	if err := w.disk.Failed(); err != nil {
		return storage.Pos{}, err
	}
	return w.Writer.Commit(ctx, b)
}

// TestADiskErrorIsToldInRedisWords: the pipeline whose commit fails is answered with MISCONF throughout, a reader that it would have
// woken gets nothing of it, later writes are refused and reads go on with what was acknowledged.
func TestADiskErrorIsToldInRedisWords(t *testing.T) {
	for name, o := range map[string]Options{"epoll": {}, "portable": {Portable: true}, "always": {AppendFsync: Always}} {
		t.Run(name, func(t *testing.T) {
			disk := brokenDisk{storage.NewMem(16), new(atomic.Bool)}
			s := New(bridgeOn(t, disk), o)
			addr := serve(t, s)
			k, waits := dial(t, addr), dial(t, addr)
			k.want("XADD s 1-0 f v", `"1-0"`)
			waits.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
			s.waitBlocked(t, 1)
			disk.broken.Store(true)
			k.write(bytes.Join([][]byte{multibulk("PING"), multibulk("XADD", "s", "2-0", "f", "v"), multibulk("XLEN", "s")}, nil))
			for range 3 {
				if v := k.read(); v.kind != '-' || !strings.HasPrefix(v.text, "MISCONF Errors writing to the disk") {
					t.Errorf("the failing pipeline was answered %v", v)
				}
			}
			if v := k.do("XADD", "s", "3-0", "f", "v"); !strings.HasPrefix(v.text, "MISCONF ") {
				t.Errorf("a later write: %v", v)
			}
			k.want("PING", "+PONG")
			k.want("XRANGE s - + COUNT 1", `[["1-0", ["f", "v"]]]`)
			if text := k.do("INFO", "persistence").text; !strings.Contains(text, "aof_last_write_status:err") {
				t.Error("INFO does not tell of the failure")
			}
			waits.send("PING")
			if v := waits.settled(t, s); v != nil && v.kind != '-' {
				t.Errorf("the waiting reader was told %v", *v)
			}
		})
	}
}

// settled is what a waiting client was told by now, nil while it waits.
func (c *client) settled(t *testing.T, s *Server) *value {
	if s.stats.blocked.Load() == 1 {
		return nil
	}
	v := c.read()
	return &v
}
