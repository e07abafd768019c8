package pmc

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/borescope/borescope/internal/cpus"
)

// Scope is the set of tasks and CPUs whose events are counted. The zero Scope is the calling
// thread. Otherwise one of the fields is set, but CPUs may also restrict AllCPUs and Cgroup.
type Scope struct {
	// Thread is one thread's id.
	Thread int
	// Process is a process's id: all its current threads and, with CountOptions.Inherit,
	// all later ones.
	Process int
	// AllCPUs counts everything that runs on the online CPUs.
	AllCPUs bool
	// CPUs counts everything that runs on these CPUs.
	CPUs []int
	// Cgroup counts the tasks of a cgroup and of those below it, on all CPUs or on those in
	// CPUs. The path is absolute ("/sys/fs/cgroup/system.slice") or relative to the mount
	// of the hierarchy that counts events: cgroup v1's perf_event if it is mounted, else
	// cgroup2.
	Cgroup string
}

// wide reports whether the scope is CPUs, not threads.
func (s Scope) wide() bool { return s.AllCPUs || len(s.CPUs) > 0 || s.Cgroup != "" }

func (s Scope) check() error {
	n := 0
	for _, set := range []bool{s.Thread != 0, s.Process != 0, s.wide()} {
		if set {
			n++
		}
	}
	if n > 1 {
		return errors.New("scope: more than one of thread, process and CPUs")
	}
	if s.Thread < 0 || s.Process < 0 {
		return fmt.Errorf("scope: no such thread: %d", min(s.Thread, s.Process))
	}
	return nil
}

// places returns the threads or CPUs of the scope. fsys contains the host's files.
func (s Scope) places(fsys fs.FS) ([]Place, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if !s.wide() {
		return s.threads(fsys)
	}
	list := slices.Compact(slices.Sorted(slices.Values(s.CPUs)))
	if len(list) == 0 {
		var err error
		if list, err = cpus.Online(fsys); err != nil {
			return nil, err
		}
	}
	out := make([]Place, len(list))
	for i, c := range list {
		out[i] = onCPU(c)
	}
	return out, nil
}

func (s Scope) threads(fsys fs.FS) ([]Place, error) {
	if s.Process == 0 {
		return []Place{onThread(s.Thread)}, nil
	}
	entries, err := fs.ReadDir(fsys, fmt.Sprintf("proc/%d/task", s.Process))
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", s.Process, err)
	}
	var out []Place
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, onThread(tid))
		}
	}
	slices.SortFunc(out, func(a, b Place) int { return a.PID - b.PID })
	return out, nil
}

// pmuCPUs returns the CPUs that a PMU's events can be opened on, nil for all: "cpus" of a core
// PMU on a machine with several kinds, "cpumask" of a PMU outside the cores, for which one CPU
// of each package reads for all. shared is true for the latter.
func pmuCPUs(fsys fs.FS, pmu string) (list []int, shared bool) {
	if pmu == "" {
		return nil, false
	}
	p := sysfsPMU{fsys: fsys, name: pmu}
	if text, err := p.read("cpumask"); err == nil {
		list, err = cpus.Parse(text)
		return list, err == nil && len(list) > 0
	}
	if text, err := p.read("cpus"); err == nil {
		list, _ = cpus.Parse(text)
	}
	return list, false
}
