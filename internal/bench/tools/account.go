package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// account is the kernel's count of the runs of programs, and their total time. The kernel
// counts only while this is enabled (ebpf.EnableStats, Linux 5.8).
type account struct {
	runs uint64
	time time.Duration
}

func (a account) less(b account) account { return account{a.runs - b.runs, a.time - b.time} }

// each formats the time and the runs for each of so many events.
func (a account) each(events int) string {
	return fmt.Sprintf("%d ns in %.2f runs", a.time.Nanoseconds()/int64(events),
		float64(a.runs)/float64(events))
}

var programID = regexp.MustCompile(`(?m)^prog_id:\s+(\d+)$`)

// accountOf returns the account of a process's programs: those of which it has a descriptor,
// or a descriptor of a link.
func accountOf(pid int) (sum account, err error) {
	dir := fmt.Sprintf("/proc/%d/fdinfo", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return sum, err
	}
	seen := map[string]bool{}
	for _, fd := range fds {
		info, _ := os.ReadFile(filepath.Join(dir, fd.Name())) // fails if it was closed by now
		m := programID.FindSubmatch(info)
		if m == nil || seen[string(m[1])] {
			continue
		}
		seen[string(m[1])] = true
		id, _ := strconv.Atoi(string(m[1])) // digits
		p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
		if err != nil {
			return sum, err
		}
		st, err := p.Stats()
		p.Close()
		if err != nil {
			return sum, err
		}
		sum.runs += st.RunCount
		sum.time += st.Runtime
	}
	if len(seen) == 0 {
		return sum, fmt.Errorf("process %d holds no programs", pid)
	}
	return sum, nil
}

// accounted makes one burst while the kernel counts, and returns the account of each
// process's programs.
func (l *load) accounted(running []*process) ([]account, error) {
	stop, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return nil, err
	}
	defer stop.Close()
	read := func() (all []account, err error) {
		for _, p := range running {
			a, err := accountOf(p.cmd.Process.Pid)
			if err != nil {
				return nil, err
			}
			all = append(all, a)
		}
		return all, nil
	}
	before, err := read()
	if err != nil {
		return nil, err
	}
	if _, err := l.burst(); err != nil {
		return nil, err
	}
	after, err := read()
	for i := range after {
		after[i] = after[i].less(before[i])
	}
	return after, err
}
