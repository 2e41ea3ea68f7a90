package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"weir/compat-tests/server"
)

var notInNames = regexp.MustCompile(`[^A-Za-z0-9=]+`)

// profileName is where the profile of a row goes.
func profileName(dir, pairing, row string) string {
	return filepath.Join(dir, notInNames.ReplaceAllString(pairing+" "+row, "-")+".pprof")
}

// profile asks a weir that was started with --pprof for a CPU profile of the next d
// and writes it to file. The returned function waits for it.
func profile(srv *server.Server, file string, d time.Duration) (wait func() error) {
	done := make(chan error, 1)
	go func() {
		url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", srv.Admin, int(math.Ceil(d.Seconds())))
		resp, err := http.Get(url)
		if err != nil {
			done <- err
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			done <- fmt.Errorf("%s answers %s", url, resp.Status)
			return
		}
		out, err := os.Create(file)
		if err != nil {
			done <- err
			return
		}
		_, err = io.Copy(out, resp.Body)
		if e := out.Close(); err == nil {
			err = e
		}
		done <- err
	}()
	return func() error { return <-done }
}
