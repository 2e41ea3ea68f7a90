package main

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// admin is the server behind --admin:
//
//	/healthz  200 while the process lives and the store accepts writes, else 503 with the reason
//	/readyz   200 while clients are served, else 503
//	/metrics  Prometheus
//	/debug/pprof/  profiles, with --pprof
func (n *node) admin() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, n.eng.Failed()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := n.eng.Failed()
		if err == nil && !n.ready.Load() {
			err = fmt.Errorf("not serving")
		}
		answer(w, err)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.meters.register(n), promhttp.HandlerOpts{}))
	if n.conf.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
