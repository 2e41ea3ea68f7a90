package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"weir/compat-tests/server"
)

// redisConns is the number of connections of every Redis row.
const redisConns = 50

// preloaded is how many entries the reading rows find in the stream.
const preloaded = 200_000

// payload returns n random printable bytes, the same in every run.
func payload(n int) string {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(r.IntN(26))
	}
	return string(b)
}

// ask sends n commands on one connection, 500 in flight, and returns the last reply.
func ask(ctx context.Context, addr string, n int, cmd func(i int) []string) (string, error) {
	c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(2 * time.Minute))
	in, held, last := make([]byte, inBuffer), 0, ""
	var out []byte
	for sent := 0; sent < n; {
		some := min(500, n-sent)
		out = out[:0]
		for i := range some {
			out = command(out, cmd(sent+i)...)
		}
		if _, err := c.Write(out); err != nil {
			return "", err
		}
		sent += some
		for some > 0 {
			size, err := replyEnd(in[:held])
			if err != nil {
				return "", err
			}
			if size > 0 {
				last = string(in[:size])
				held = copy(in, in[size:held])
				some--
				continue
			}
			got, err := c.Read(in[held:])
			if err != nil {
				return "", err
			}
			held += got
		}
	}
	return last, nil
}

// forget removes the key of a turn and proves that the server still answers.
func forget(ctx context.Context, srv *server.Server, key string) error {
	_, err := ask(ctx, srv.Redis, 1, func(int) []string { return []string{"DEL", key} })
	return err
}

// xadd adds entries of 100 bytes to one stream.
func xadd(pipeline int) func(context.Context, *turn) (measure, error) {
	return func(ctx context.Context, t *turn) (measure, error) {
		const key = "bench:xadd"
		var one []byte
		for range pipeline {
			one = command(one, "XADD", key, "*", "f", payload(100))
		}
		var talkers []talker
		var pipes []*pipeTalker
		for range redisConns {
			p := &pipeTalker{pipelines: [][]byte{one}, n: pipeline}
			pipes = append(pipes, p)
			talkers = append(talkers, p)
		}
		m, err := redisTurn(t, talkers, func() float64 { return replies(pipes) })
		if err != nil {
			return m, err
		}
		return m, forget(ctx, t.srv, key)
	}
}

func redisTurn(t *turn, talkers []talker, counter func() float64) (measure, error) {
	l, err := newLoop(t.srv.Redis, talkers)
	if err != nil {
		return measure{}, err
	}
	defer l.close()
	return t.drive(l, counter)
}

func replies(pipes []*pipeTalker) float64 {
	sum := int64(0)
	for _, p := range pipes {
		sum += p.done
	}
	return float64(sum)
}

// fill puts the preloaded entries into key. IDs are i-0 from 1, so that readers can
// name them.
func fill(ctx context.Context, srv *server.Server, key string) error {
	value := payload(100)
	_, err := ask(ctx, srv.Redis, preloaded, func(i int) []string {
		return []string{"XADD", key, fmt.Sprintf("%d-0", i+1), "f", value}
	})
	return err
}

// readAndAck is 50 consumers of one group, each reading 10 and acknowledging them.
func readAndAck(pipeline int) func(context.Context, *turn) (measure, error) {
	return func(ctx context.Context, t *turn) (measure, error) {
		const key, group = "bench:group", "g"
		if err := fill(ctx, t.srv, key); err != nil {
			return measure{}, err
		}
		_, err := ask(ctx, t.srv.Redis, 1, func(int) []string { return []string{"XGROUP", "CREATE", key, group, "0"} })
		if err != nil {
			return measure{}, err
		}
		var talkers []talker
		var groups []*groupTalker
		for i := range redisConns {
			g := &groupTalker{key: key, group: group, n: pipeline, rewinder: i == 0}
			for range pipeline {
				g.reads = command(g.reads, "XREADGROUP", "GROUP", group, fmt.Sprintf("c%d", i),
					"COUNT", "10", "STREAMS", key, ">")
			}
			groups = append(groups, g)
			talkers = append(talkers, g)
		}
		m, err := redisTurn(t, talkers, func() float64 {
			sum := int64(0)
			for _, g := range groups {
				sum += g.done
			}
			return float64(sum)
		})
		if err != nil {
			return m, err
		}
		return m, forget(ctx, t.srv, key)
	}
}

// xrange reads 100 entries from random places of a stream.
func xrange(ctx context.Context, t *turn) (measure, error) {
	const key = "bench:range"
	if err := fill(ctx, t.srv, key); err != nil {
		return measure{}, err
	}
	r := rand.New(rand.NewPCG(2, 3))
	var talkers []talker
	var pipes []*pipeTalker
	for range redisConns {
		p := &pipeTalker{n: 1}
		for range 64 {
			from := fmt.Sprintf("%d-0", 1+r.IntN(preloaded-100))
			p.pipelines = append(p.pipelines, command(nil, "XRANGE", key, from, "+", "COUNT", "100"))
		}
		pipes = append(pipes, p)
		talkers = append(talkers, p)
	}
	m, err := redisTurn(t, talkers, func() float64 { return replies(pipes) })
	if err != nil {
		return m, err
	}
	return m, forget(ctx, t.srv, key)
}
