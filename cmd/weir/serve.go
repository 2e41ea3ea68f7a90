package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"weir/bridge"
	"weir/engine"
	"weir/kafkaproto"
	"weir/kafkaproto/batch"
	"weir/resp"
	"weir/storage"
)

// node is one running process.
type node struct {
	log    *slog.Logger
	conf   *serveConfig
	store  storage.Store
	eng    *engine.Engine
	bridge *bridge.Bridge
	kafka  *kafkaproto.Server
	redis  *resp.Server
	meters *meters
	ready  atomic.Bool
}

// serve runs until ctx ends (SIGTERM, SIGINT) or a listener fails, then stops in
// order: no new clients, clients answered, everything durable, the lock given back.
func serve(ctx context.Context, c *serveConfig) error {
	n := &node{log: c.logger(), conf: c, meters: newMeters()}
	listeners, err := n.listen()
	if err != nil {
		return err
	}
	defer listeners.close()
	if err := n.open(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n.start(ctx, cancel, listeners)
	n.ready.Store(true)
	n.log.Info("weir serves", "version", buildVersion(), "data", c.Data, "kafka", addr(listeners.kafka), "redis", addr(listeners.redis), "admin", addr(listeners.admin))
	<-ctx.Done()
	n.ready.Store(false)
	err = context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	n.log.Info("weir stops")
	return errors.Join(err, n.stop(context.WithoutCancel(ctx)))
}

// listening holds the sockets; all are bound before the data directory is touched, so that a port in use is the first
// thing a newcomer hears of.
type listening struct{ kafka, redis, admin net.Listener }

func (l *listening) close() {
	for _, ln := range []net.Listener{l.kafka, l.redis, l.admin} {
		if ln != nil {
			ln.Close()
		}
	}
}

func addr(ln net.Listener) string {
	if ln == nil {
		return "none"
	}
	return ln.Addr().String()
}

func (n *node) listen() (*listening, error) {
	l := &listening{}
	for _, x := range []struct {
		flag, addr string
		ln         *net.Listener
	}{{"kafka", n.conf.Kafka, &l.kafka}, {"redis", n.conf.Redis, &l.redis}, {"admin", n.conf.Admin, &l.admin}} {
		if x.addr == "" {
			continue
		}
		ln, err := net.Listen("tcp", x.addr)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("--%s %s: %w", x.flag, x.addr, err)
		}
		*x.ln = ln
	}
	return l, nil
}

// open opens the store, the engine and the bridge.
func (n *node) open(ctx context.Context) error {
	c := n.conf
	store, err := openStore(c.Data, storage.Options{
		Shards: c.Shards, Logger: n.log, CacheBytes: int64(c.BlockCache), MemtableBytes: int64(c.Memtable),
		OnCommit: n.meters.commit, OnSync: n.meters.fsync,
	})
	if err != nil {
		return err
	}
	n.store = store
	if n.eng, err = engine.Open(ctx, store, engine.Options{TailCache: int64(c.TailCache), LoadedStreams: int(c.LoadedStreams)}); err != nil {
		return errors.Join(err, store.Close(ctx))
	}
	n.bridge, err = bridge.Open(ctx, n.eng, bridge.Options{
		NumPartitions: c.NumPartitions, AutoCreate: c.AutoCreateTopics, ClampReplication: c.ClampReplication,
		InitialRebalanceDelay: c.InitialRebalanceDelay, MinSessionTimeout: c.MinSessionTimeout, MaxSessionTimeout: c.MaxSessionTimeout,
		RetentionCheck: c.RetentionCheck, Codec: batch.Codec{}, Logger: n.log,
	})
	if err != nil {
		return errors.Join(err, n.eng.Close(ctx), store.Close(ctx))
	}
	return nil
}

// openStore opens a data directory, with words for what goes wrong most.
func openStore(dir string, o storage.Options) (storage.Store, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	store, err := storage.OpenPebble(dir, o)
	if errors.Is(err, storage.ErrLocked) {
		abs, _ := filepath.Abs(dir)
		return nil, fmt.Errorf("another process uses the data directory %s: stop it, or give this one its own --data: %w", abs, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--data %s: %w", dir, err)
	}
	return store, nil
}

// start serves on all listeners; the first that fails ends ctx.
func (n *node) start(ctx context.Context, cancel context.CancelCauseFunc, l *listening) {
	c := n.conf
	host, port, _ := c.advertised()
	n.kafka = kafkaproto.New(n.bridge, kafkaproto.Options{
		AdvertisedHost: host, AdvertisedPort: port, MaxFrame: int(c.KafkaMaxFrame), MaxConnections: c.KafkaMaxConns,
		IdleTimeout: c.KafkaIdleTimeout, Logger: n.log,
	})
	fsync, _ := resp.ParseFsync(c.Appendfsync)
	n.redis = resp.New(n.bridge, resp.Options{
		Loops: c.RedisLoops, MaxClients: c.RedisMaxClients, Limits: resp.Limits{Bulk: int(c.RedisMaxBulk)},
		RequirePass: c.Requirepass, AppendFsync: fsync, WriteTimeout: c.RedisWriteTimeout,
		Version: buildVersion(), Logger: n.log,
	})
	run := func(ln net.Listener, serve func(net.Listener) error) {
		if ln == nil {
			return
		}
		go func() {
			if err := serve(ln); err != nil && !errors.Is(err, resp.ErrServerClosed) && !errors.Is(err, http.ErrServerClosed) {
				cancel(err)
			}
		}()
	}
	run(l.kafka, n.kafka.Serve)
	run(l.redis, n.redis.Serve)
	run(l.admin, n.admin().Serve)
	go n.syncEachSecond(ctx)
}

// syncEachSecond is appendfsync everysec: what was only written becomes durable. It also covers acks=1 produce.
func (n *node) syncEachSecond(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if n.redis.AppendFsync() == resp.Never {
				continue
			}
			if err := n.eng.Sync(ctx); err != nil && ctx.Err() == nil {
				n.log.Error("cannot sync; no more writes are accepted", "error", err)
				return
			}
		}
	}
}

func (n *node) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.conf.ShutdownTimeout)
	defer cancel()
	// Clients that do not leave in time are cut off; that is no failure of the stop.
	for _, shutdown := range []func(context.Context) error{n.kafka.Shutdown, n.redis.Shutdown} {
		if err := shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			n.log.Warn("stopping", "error", err)
		}
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return errors.Join(n.bridge.Close(ctx), n.eng.Close(ctx), n.store.Close(ctx))
}
