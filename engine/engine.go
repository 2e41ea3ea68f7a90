package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/storage"
)

// Options of an engine.
type Options struct {
	TailCache     int64        // bytes of newest blocks kept in memory; 256 MiB when 0
	LoadedStreams int          // streams kept in memory, about; 65,536 when 0
	NowMS         func() int64 // the clock, ms since 1970; time.Now when nil
}

const defaultTailCache = 256 << 20

// Engine is an open store. Safe for concurrent use.
type Engine struct {
	st            storage.Store
	o             Options
	shards        []*shard
	loadedStreams int // a shard's part
	hub           hub
	tail          tailBudget
	groups        groupIndex
	syncer        syncer
	open          atomic.Uint64 // bit per shard that has an open round (the first 64)
	apart         atomic.Bool   // the store commits one shard at a time
	failed        atomic.Pointer[error]
	closed        atomic.Bool
}

// Open reads what is needed from a store: the number of the next stream of each
// shard and the names of groups. Streams are loaded when they are first used. The
// engine does not close the store.
func Open(ctx context.Context, st storage.Store, o Options) (*Engine, error) {
	if o.TailCache == 0 {
		o.TailCache = defaultTailCache
	}
	if o.LoadedStreams == 0 {
		o.LoadedStreams = defaultLoadedStreams
	}
	if o.NowMS == nil {
		o.NowMS = func() int64 { return time.Now().UnixMilli() }
	}
	e := &Engine{st: st, o: o}
	e.hub.places = make(map[Place]*place)
	e.tail.cap = o.TailCache
	e.tail.kick = make(chan struct{}, 1)
	n := st.Layout().Shards
	e.loadedStreams = max(1, o.LoadedStreams/n)
	for i := range n {
		s, err := openShard(ctx, e, storage.ShardID(i))
		if err != nil {
			return nil, fmt.Errorf("engine: open shard %d: %w", i, err)
		}
		e.shards = append(e.shards, s)
	}
	e.syncer.start()
	e.tail.start(e)
	return e, nil
}

// Close commits what is open, makes everything durable and stops. Turns that are still open fail.
func (e *Engine) Close(ctx context.Context) error {
	if e.closed.Swap(true) {
		return nil
	}
	var err error
	if e.Failed() == nil {
		err = e.flush(ctx)
	}
	e.syncer.stop()
	e.tail.stop()
	return err
}

// flush commits every open round, those nobody waits for included, and fsyncs.
func (e *Engine) flush(ctx context.Context) error {
	for _, s := range e.shards {
		s.mu.Lock()
		s.sealIdleGroups()
		r := s.open // perhaps begun for them
		s.mu.Unlock()
		if r != nil {
			if err := e.commit(ctx, []*round{r}); err != nil {
				return err
			}
		}
	}
	e.syncer.drive()
	return e.st.SyncAll(ctx)
}

// Failed is the latched failure (ErrFailed wrapping its cause), nil while writes are accepted.
func (e *Engine) Failed() error {
	if p := e.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail latches. The first cause is kept.
func (e *Engine) fail(cause error) error {
	if errors.Is(cause, ErrFailed) {
		return cause
	}
	err := fmt.Errorf("%w: %w", ErrFailed, cause)
	e.failed.CompareAndSwap(nil, &err)
	return e.Failed()
}

// Sync makes all that was committed so far durable (appendfsync everysec; WAITAOF).
func (e *Engine) Sync(ctx context.Context) error {
	if err := e.Failed(); err != nil {
		return err
	}
	if err := e.st.SyncAll(ctx); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return e.fail(err)
	}
	return nil
}

// shardOf returns the shard of a stream; nil for numbers that no shard gave out.
func (e *Engine) shardOf(no StreamNo) *shard {
	if i := int(no.ShardOf()); i < len(e.shards) {
		return e.shards[i]
	}
	return nil
}

// shardOfKey returns the shard of a Redis key.
func (e *Engine) shardOfKey(key []byte) *shard {
	return e.shards[e.st.Layout().Shard(storage.Slot(key))]
}

// syncer makes rounds durable: whoever waits for one takes all that were committed since the last fsync, waits for one
// more, and publishes them. What nobody waits for any more its goroutine takes: the high watermark must move even when the
// client that asked for durable is gone.
type syncer struct {
	mu      sync.Mutex
	queue   []*round
	busy    chan struct{} // closed when the fsync under way has ended; nil when none is
	stopped bool
	kick    chan struct{}
	done    chan struct{}
	quit    chan struct{}
}

func (y *syncer) start() {
	y.kick, y.done, y.quit = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go y.loop()
}

// stop ends the goroutine; rounds that are not durable yet fail.
func (y *syncer) stop() {
	close(y.quit)
	<-y.done
	y.mu.Lock()
	q, busy := y.queue, y.busy
	y.queue, y.stopped = nil, true
	y.mu.Unlock()
	if busy != nil {
		<-busy
	}
	for _, r := range q {
		r.finishDurable(ErrClosed)
	}
}

func (y *syncer) add(r *round) {
	y.mu.Lock()
	stopped := y.stopped
	if !stopped {
		y.queue = append(y.queue, r)
	}
	y.mu.Unlock()
	if stopped {
		r.finishDurable(ErrClosed)
	}
}

// wake has the goroutine take what is queued and nobody is syncing, if there is any.
func (y *syncer) wake() {
	y.mu.Lock()
	idle := len(y.queue) > 0 && y.busy == nil
	y.mu.Unlock()
	if idle {
		select {
		case y.kick <- struct{}{}:
		default:
		}
	}
}

// underWay is closed when the fsync under way has ended; nil when none is.
func (y *syncer) underWay() <-chan struct{} {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.busy
}

// drive makes all that is queued durable, unless somebody does so already.
func (y *syncer) drive() {
	y.mu.Lock()
	if y.busy != nil || len(y.queue) == 0 {
		y.mu.Unlock()
		return
	}
	q, busy := y.queue, make(chan struct{})
	y.queue, y.busy = nil, busy
	y.mu.Unlock()
	for _, r := range q {
		// The first of them waits for an fsync that covers all; the rest return at once.
		r.finishDurable(r.shard.w.Durable(context.Background(), r.pos))
	}
	y.mu.Lock()
	y.busy = nil
	y.mu.Unlock()
	close(busy)
	y.wake() // for who was committed meanwhile
}

func (y *syncer) loop() {
	defer close(y.done)
	for {
		select {
		case <-y.kick:
			y.drive()
		case <-y.quit:
			return
		}
	}
}
