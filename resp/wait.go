package resp

import (
	"context"
	"strconv"
	"sync/atomic"
)

// WAIT, WAITAOF, TIME.
//
// There are no replicas: WAIT for one or more waits for its timeout and answers 0, as Redis without replicas. WAITAOF's local
// half is an fsync of all that was committed so far, whatever appendfsync says.

func timeNow(c *call) {
	us := c.now.UnixMicro()
	c.Array(2)
	c.BulkString(strconv.FormatInt(us/1e6, 10))
	c.BulkString(strconv.FormatInt(us%1e6, 10))
}

// timeoutMS reads a timeout in ms; refusal is Redis's word when it is none.
func timeoutMS(word []byte) (ms int64, refusal string) {
	ms, ok := parseInt(word)
	switch {
	case !ok:
		return 0, errTimeoutInt
	case ms < 0:
		return 0, errTimeoutNeg
	case ms > maxTimeoutMS:
		return 0, "ERR timeout is out of range"
	}
	return ms, ""
}

// maxTimeoutMS keeps a deadline inside what a time.Duration holds: 292 years.
const maxTimeoutMS = int64(1<<63-1) / 1e6 / 2

// wait: WAIT numreplicas timeout.
func wait(c *call) {
	n, ok := parseInt(c.args[1])
	if !ok {
		c.Err(errNotInteger)
		return
	}
	ms, refusal := timeoutMS(c.args[2])
	if refusal != "" {
		c.Err(refusal)
		return
	}
	if n <= 0 {
		c.Int(0)
		return
	}
	c.park(&blocked{deadline: c.deadlineIn(ms), again: func(*call) bool { return false }, expired: func(c *call) { c.Int(0) }})
}

// waitAOF: WAITAOF numlocal numreplicas timeout. The fsync runs beside the loop; the connection waits like any blocked one.
func waitAOF(c *call) {
	local, ok := parseInt(c.args[1])
	if !ok {
		c.Err(errNotInteger)
		return
	}
	if local < 0 || local > 1 {
		c.Err(errOutOfRange + ", value must between 0 and 1")
		return
	}
	replicas, ok := parseInt(c.args[2])
	if !ok || replicas < 0 {
		c.Err(errOutOfRange + ", must be positive")
		return
	}
	ms, refusal := timeoutMS(c.args[3])
	if refusal != "" {
		c.Err(refusal)
		return
	}
	var synced atomic.Int32 // 1 done, -1 failed
	answer := func(c *call) {
		c.Array(2)
		c.Int(int64(max(synced.Load(), 0)))
		c.Int(0)
	}
	conn := c.conn
	c.park(&blocked{
		deadline: c.deadlineIn(ms),
		again: func(c *call) bool {
			if synced.Load() < 0 {
				c.Fail(c.srv.eng.Failed())
				return true
			}
			if int64(synced.Load()) < local || replicas > 0 {
				return false
			}
			answer(c)
			return true
		},
		expired: answer,
	})
	if local == 0 || conn.block == nil {
		return
	}
	conn.afterTurn(func() {
		if err := conn.srv.eng.Sync(context.Background()); err != nil {
			synced.Store(-1)
		} else {
			synced.Store(1)
		}
		conn.loop.notify(conn)
	})
}
