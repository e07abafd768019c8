package pmc

import (
	"io/fs"
	"runtime"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/cpus"
)

// facts are the facts that an explanation depends on. They are read only if there is something
// to explain.
type facts struct {
	paranoid   int // kernel.perf_event_paranoid; unknownLevel if it can't be read
	perfmon    bool
	core       []string // the CPUs' own PMUs
	pmus       []string
	hypervisor bool
	maxRate    uint64
	watchdog   bool
	cgroup2    string // the mount point of cgroup2, "" if it is not mounted
	subtree    bool   // a controller is enabled in its root's cgroup.subtree_control
	arch       string
	possible   []int // the possible CPUs; nil if they can't be read
}

const unknownLevel = -100

const (
	capSysAdmin = 21
	capPerfmon  = 38
)

func readFacts(root fs.FS) facts {
	fsys := rootOf(&Options{Root: root})
	f := facts{paranoid: unknownLevel, arch: runtime.GOARCH, core: corePMUs(fsys)}
	f.pmus, _ = pmuNames(fsys)
	number := func(name string) (uint64, bool) {
		b, err := readSmall(fsys, name)
		if err != nil {
			return 0, false
		}
		v, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		return uint64(v), err == nil
	}
	if v, ok := number("proc/sys/kernel/perf_event_paranoid"); ok {
		f.paranoid = int(int64(v))
	}
	f.maxRate, _ = number("proc/sys/kernel/perf_event_max_sample_rate")
	dog, _ := number("proc/sys/kernel/nmi_watchdog")
	f.watchdog = dog == 1
	if b, err := readSmall(fsys, "proc/self/status"); err == nil {
		f.perfmon = effectiveCap(string(b), capPerfmon) || effectiveCap(string(b), capSysAdmin)
	}
	f.hypervisor = hypervisor(fsys)
	f.possible, _ = cpus.Possible(fsys)
	f.cgroup2, f.subtree = cgroup2State(fsys)
	return f
}

// effectiveCap reports whether the text of /proc/PID/status has a capability.
func effectiveCap(status string, bit uint) bool {
	_, rest, ok := strings.Cut(status, "CapEff:")
	if !ok {
		return false
	}
	hex, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
	return err == nil && mask>>bit&1 == 1
}

// hypervisor reports whether the CPU's flags include hypervisor: it is a virtual CPU.
func hypervisor(fsys fs.FS) bool {
	if _, err := fs.Stat(fsys, "sys/hypervisor/type"); err == nil {
		return true
	}
	f, err := fsys.Open("proc/cpuinfo")
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 8<<10) // the first CPU's entry
	n, _ := f.Read(head)
	return strings.Contains(string(head[:n]), " hypervisor")
}

// cgroup2State returns the mount point of cgroup2, and reports whether a controller is enabled
// below its root.
func cgroup2State(fsys fs.FS) (mount string, subtree bool) {
	b, err := readSmall(fsys, "proc/self/mounts")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[2] == "cgroup2" {
			b, _ := readSmall(fsys, strings.TrimPrefix(fields[1], "/")+"/cgroup.subtree_control")
			return fields[1], len(strings.TrimSpace(string(b))) > 0
		}
	}
	return "", false
}
