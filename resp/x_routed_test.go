package resp

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/datadriven"

	"weir/bridge"
	"weir/engine"
	"weir/storage"
)

// TestRouted plays testdata/routed/*.txt: keys of topics with several partitions, which Redis does not have. To the lines of
// TestTranscripts come, with a clock that stands still unless told:
//
//	topic name=orders partitions=3      makes (or grows) a topic
//	clock ms=1000                       the time
func TestRouted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "routed", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			var clock atomic.Int64
			clock.Store(1000)
			b := openBridgeAt(t, clock.Load)
			addr := serve(t, New(b, Options{Loops: 1}))
			st := newStage(t, addr)
			defer st.close()
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "topic":
					var name string
					var n int
					d.ScanArgs(t, "name", &name)
					d.ScanArgs(t, "partitions", &n)
					return makeTopic(b, name, int32(n))
				case "clock":
					var ms int
					d.ScanArgs(t, "ms", &ms)
					clock.Store(int64(ms))
					return ""
				}
				return st.play(t, d)
			})
		})
	}
}

// openBridgeAt is openBridge with a clock.
func openBridgeAt(t testing.TB, now func() int64) *bridge.Bridge {
	t.Helper()
	ctx := context.Background()
	st := storage.NewMem(16)
	eng, err := engine.Open(ctx, st, engine.Options{NowMS: now})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bridge.Open(ctx, eng, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close(ctx)
		eng.Close(ctx)
		st.Close(ctx)
	})
	return b
}

func makeTopic(b *bridge.Bridge, name string, n int32) string {
	ctx := context.Background()
	if _, ok := b.Topic(name); ok {
		if err := b.GrowTopic(ctx, name, n, nil, false); err != nil {
			return err.Error() + "\n"
		}
		return "grown to " + strconv.Itoa(int(n)) + "\n"
	}
	t, err := b.CreateTopic(ctx, bridge.NewTopic{Name: name, Partitions: n, Replication: bridge.Default}, false)
	if err != nil {
		return err.Error() + "\n"
	}
	return strconv.Itoa(len(t.Streams)) + " partitions\n"
}
