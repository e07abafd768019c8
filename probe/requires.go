package probe

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/tracefs"
	"github.com/borescope/borescope/probe/internal/caps"
)

// Requirement is something that attaching needs.
type Requirement struct {
	// Kind is "capability", "mount", "sysctl" or "feature".
	Kind string `json:"kind"`
	// Name is what is needed: "CAP_BPF", "/sys/kernel/tracing", a sysctl with
	// its value, a kernel feature.
	Name string `json:"name"`
	// For says what it is needed for, in a few words.
	For string `json:"for"`
	// Missing says what is wrong and how to fix it; empty if the requirement is met.
	Missing string `json:"missing,omitempty"`
}

// Met reports whether the requirement is met.
func (r Requirement) Met() bool { return r.Missing == "" }

// String returns one line: "capability CAP_BPF (loading programs): MISSING".
func (r Requirement) String() string {
	s := r.Kind + " " + r.Name + " (" + r.For + "): "
	if r.Met() {
		return s + "ok"
	}
	return s + r.Missing
}

// Requires returns the capabilities, mounts, sysctls and kernel features that attaching to
// the targets needs, and which of them this process or machine lacks. It attaches nothing.
//
// Capabilities are needed until everything is attached; they may be dropped before events
// are read. Root in the initial user namespace has them all. In another user namespace, a
// BPF file system that gives tokens is needed (Linux 6.9). Multi links, raw tracepoints and
// trampolines work there, but the kprobes, tracepoints and perf events of perf_event_open
// do not.
func Requires(env *Env, targets []Target) []Requirement {
	if env == nil {
		env = NewEnv(nil)
	}
	q := &requirer{env: env}
	q.held, q.known = caps.Held(env)
	q.capability("CAP_BPF", "loading programs and making maps")
	if caps.Namespaced(env) {
		q.token()
	}
	for _, t := range targets {
		if t != nil {
			t.requires(q)
		}
	}
	if v, ok := feature.ParseVersion(env.Release()); ok && v.Before(feature.Version{5, 11}) {
		q.capability("CAP_SYS_RESOURCE",
			"raising RLIMIT_MEMLOCK, which maps are accounted to before Linux 5.11")
	}
	return q.list
}

type requirer struct {
	env   *Env
	held  uint64
	known bool
	list  []Requirement
}

func (q *requirer) add(r Requirement) {
	if !slices.ContainsFunc(q.list, func(o Requirement) bool {
		return o.Kind == r.Kind && o.Name == r.Name
	}) {
		q.list = append(q.list, r)
	}
}

func (q *requirer) capability(name, what string) {
	r := Requirement{Kind: "capability", Name: name, For: what}
	has := func(n string) bool { return q.held&(1<<caps.Names[n]) != 0 }
	// CAP_SYS_ADMIN includes the capabilities that were split off from it (5.8).
	admin := (name == "CAP_BPF" || name == "CAP_PERFMON" || name == "CAP_SYSLOG") &&
		has("CAP_SYS_ADMIN")
	if q.known && !has(name) && !admin {
		r.Missing = "not held: run as root, or grant it (setcap, AmbientCapabilities=, securityContext.capabilities)"
	}
	q.add(r)
}

// token adds what makes the capabilities of a user namespace effective.
func (q *requirer) token() {
	r := Requirement{
		Kind: "mount", Name: "bpf",
		For: "BPF tokens, which let a user namespace load programs",
	}
	if q.env.Supports(feature.RawTracepoint) != nil {
		r.Missing = "no BPF file system of this user namespace gives tokens: let it be mounted with delegate_cmds, delegate_maps, " +
			"delegate_progs and delegate_attachs (Linux 6.9), or run in the initial namespace"
	}
	q.add(r)
}

func (q *requirer) feature(f feature.Feature, what string) {
	r := Requirement{Kind: "feature", Name: f.String(), For: what}
	if err := q.env.Supports(f); errors.Is(err, errors.ErrUnsupported) {
		r.Missing = feature.Reason(err)
	}
	q.add(r)
}

func (q *requirer) mount() {
	r := Requirement{
		Kind: "mount", Name: "/sys/kernel/tracing",
		For: "tracepoints' numbers and formats, and the list of traceable functions",
	}
	dir, err := tracefs.Need(q.env.Root(), q.env.Live())
	if err != nil {
		r.Missing = feature.Reason(err)
	} else {
		defer dir.Close()
	}
	if err == nil && dir.Own() || errors.Is(err, fs.ErrNotExist) {
		q.capability("CAP_SYS_ADMIN", "a tracefs of one's own (Linux 5.2), while none is mounted")
	}
	q.add(r)
	q.capability("CAP_DAC_READ_SEARCH",
		"reading tracefs, which is the superuser's unless it is mounted with another mode")
}

const perfmon = "tracing programs and perf events"

// perf adds what perf_event_open needs.
func (q *requirer) perf() {
	q.capability("CAP_PERFMON", perfmon)
	if n := caps.Paranoid(q.env); n > 2 {
		q.capability("CAP_SYS_ADMIN", "perf events while kernel.perf_event_paranoid is "+strconv.Itoa(n)+
			", a level of Debian's and Android's kernels; at 2 CAP_PERFMON is enough")
	}
}

// run adds what programs need that are run once.
func (q *requirer) run() {
	if !has(q.env, feature.SyscallProg) {
		q.capability("CAP_PERFMON", "raw tracepoint programs, which stand in for syscall programs")
	}
}

func (q *requirer) kernel(f feature.Feature, symbol string) {
	q.perf()
	q.feature(f, "the target's kind")
	if glob.IsPattern(symbol) {
		q.mount()
		q.capability("CAP_SYSLOG", "addresses in /proc/kallsyms, which multi links are given")
	}
}

func (q *requirer) user(pid int) {
	q.perf()
	q.feature(feature.Uprobe, "the target's kind")
	if !mayHave(q.env, feature.UprobeMulti) {
		q.capability("CAP_SYS_ADMIN", "uprobes by perf events; some kernels are content with CAP_PERFMON")
	}
	if pid != 0 {
		q.capability("CAP_SYS_PTRACE",
			"looking into another user's process: /proc/PID/root, exe and maps")
	}
}

// mayHave reports whether the kernel has a feature or, if the process may not even ask,
// has a version that has it.
func mayHave(e *Env, f feature.Feature) bool {
	err := e.Supports(f)
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return err == nil
	}
	have, ok := feature.ParseVersion(e.Release())
	since, known := feature.ParseVersion(f.Since())
	return ok && known && !have.Before(since)
}
