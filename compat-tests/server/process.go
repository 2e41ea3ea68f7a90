package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A Server is one running subprocess.
type Server struct {
	Spec
	// Ready is how long it took from exec to the first good answer.
	Ready time.Duration

	cmd  *exec.Cmd
	gone chan struct{} // closed once the process has been waited for
	log  string
}

// startLimit bounds a start: a cold JVM with a format step needs seconds, a hung
// server must not hang the run.
const startLimit = 60 * time.Second

// Launch runs the spec and does not wait for an answer. What the process prints
// goes to the file DIR.NAME.log beside its data directory, appended over restarts.
func (s Spec) Launch() (*Server, error) {
	logName := s.Dir + "." + s.Name + ".log"
	logFile, err := os.OpenFile(logName, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	srv := &Server{Spec: s, gone: make(chan struct{}), log: logName}
	srv.cmd = exec.Command(s.Argv[0], s.Argv[1:]...)
	srv.cmd.Env = append(os.Environ(), s.Env...)
	srv.cmd.Stdout, srv.cmd.Stderr = logFile, logFile
	srv.cmd.Dir = filepath.Dir(s.Dir)
	srv.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := srv.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Name, err)
	}
	go func() {
		srv.cmd.Wait()
		close(srv.gone)
	}()
	return srv, nil
}

// Start runs the spec and waits until it answers.
func (s Spec) Start(ctx context.Context) (*Server, error) {
	began := time.Now()
	srv, err := s.Launch()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err = s.ready(ctx)
		if err == nil {
			srv.Ready = time.Since(began)
			return srv, nil
		}
		select {
		case <-srv.gone:
			return nil, fmt.Errorf("%s ended while starting: %s\n%s", s.Name, srv.cmd.ProcessState, srv.LogTail())
		case <-ctx.Done():
			srv.Kill()
			return nil, fmt.Errorf("%s did not answer in %s (%w)\n%s", s.Name, startLimit, err, srv.LogTail())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// PID is the process id of the server itself.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Exited tells whether the process has ended, for whatever reason.
func (s *Server) Exited() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// Kill sends SIGKILL to the server and to what it started, and returns when the
// server is gone, so that its lock and its ports are free again.
func (s *Server) Kill() {
	syscall.Kill(-s.PID(), syscall.SIGKILL)
	<-s.gone
}

// Stop asks with SIGTERM and kills after the limit; it reports a server that had
// to be killed.
func (s *Server) Stop(limit time.Duration) error {
	syscall.Kill(s.PID(), syscall.SIGTERM)
	select {
	case <-s.gone:
		return nil
	case <-time.After(limit):
		s.Kill()
		return errors.New(s.Name + " did not stop on SIGTERM in " + limit.String())
	}
}

// LogTail returns the last 4 KiB of what the process printed.
func (s *Server) LogTail() string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return ""
	}
	return string(text[max(0, len(text)-4096):])
}
