package server

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userHz is the unit of utime and stime in /proc/PID/stat on every Linux of today.
const userHz = 100

// procStat is what is used of /proc/PID/stat.
type procStat struct {
	ppid int
	cpu  time.Duration // utime + stime of the process, and of its ended children
}

func readStat(pid int) (procStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	// The name in parentheses may hold spaces; the fields after it may not.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var st procStat
	st.ppid, _ = strconv.Atoi(fields[1])
	for _, f := range fields[11:15] { // utime stime cutime cstime
		ticks, _ := strconv.ParseInt(f, 10, 64)
		st.cpu += time.Duration(ticks) * (time.Second / userHz)
	}
	return st, nil
}

// tree returns pid and its living descendants.
func tree(pid int) []int {
	entries, _ := os.ReadDir("/proc")
	children := map[int][]int{}
	for _, e := range entries {
		p, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if st, err := readStat(p); err == nil {
			children[st.ppid] = append(children[st.ppid], p)
		}
	}
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// CPU returns the processor time that the server and its children have used so
// far, to the hundredth of a second that the kernel counts in.
func (s *Server) CPU() time.Duration {
	var sum time.Duration
	for _, pid := range tree(s.PID()) {
		if st, err := readStat(pid); err == nil {
			sum += st.cpu
		}
	}
	return sum
}

// RSS returns the resident memory of the server and its children in bytes.
func (s *Server) RSS() int64 {
	var sum int64
	for _, pid := range tree(s.PID()) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		if f := strings.Fields(string(text)); len(f) > 1 {
			pages, _ := strconv.ParseInt(f[1], 10, 64)
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum
}
