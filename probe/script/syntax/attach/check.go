package attach

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// Check checks the attach points that Parse has parsed, as far as that needs no machine:
// missing names, units of time, events, and modes of watchpoints. The error is a
// [syntax.Errors].
func Check(f *syntax.File, o *Options) error {
	c := &checker{arch: runtime.GOARCH, tests: map[string]syntax.Loc{}}
	if o != nil && o.Arch != "" {
		c.arch = o.Arch
	}
	for n := range syntax.All(f) {
		if a, ok := n.(*syntax.AttachPoint); ok {
			c.check(a)
		}
	}
	return c.errs.Err()
}

type checker struct {
	arch  string
	errs  syntax.Errors
	tests map[string]syntax.Loc // the first test and bench by provider and name
}

func (c *checker) fail(a *syntax.AttachPoint, msg string) *syntax.Error {
	e := &syntax.Error{Loc: a.Loc, Msg: msg}
	if len(c.errs) < mostErrors {
		c.errs = append(c.errs, e)
	}
	return e
}

// want adds an error unless ok is true.
func (c *checker) want(ok bool, a *syntax.AttachPoint, msg string) {
	if !ok {
		c.fail(a, msg)
	}
}

func (c *checker) check(a *syntax.AttachPoint) {
	switch a.Provider {
	case "kprobe", "kretprobe":
		c.want(a.Func != "" || a.Address != 0, a,
			"kprobes should be attached to a function or an address")
	case "uretprobe":
		c.want(a.Offset == 0, a, "uretprobes can not be attached to a function offset")
		c.uprobe(a)
	case "uprobe":
		c.uprobe(a)
	case "usdt":
		c.want(a.Func != "", a, "usdt probe must have a target function or wildcard")
	case "tracepoint":
		c.want(a.Target != "" && a.Func != "", a, "tracepoint probe must have a target")
	case "rawtracepoint":
		c.want(a.Func != "", a, "rawtracepoint should be attached to a function")
	case "fentry", "fexit":
		c.want(a.Func != "", a, "fentry/fexit should specify a function")
	case "iter":
		c.want(a.Func != "", a, "iter should specify a iterator's name")
	case "profile", "interval":
		c.timer(a)
	case "software", "hardware":
		c.event(a)
	case "watchpoint":
		c.watchpoint(a)
	case "self":
		if a.Target != "signal" {
			c.fail(a, a.Target+" is not a supported trigger")
		} else if a.Func != "SIGUSR1" {
			c.fail(a, a.Func+" is not a supported signal")
		}
	case "test", "bench":
		c.named(a)
	}
}

func (c *checker) uprobe(a *syntax.AttachPoint) {
	if a.Lang != "" && a.Lang != "cpp" {
		c.fail(a, "unsupported language type: "+a.Lang)
	}
}

func (c *checker) timer(a *syntax.AttachPoint) {
	switch {
	case a.Target == "":
		c.fail(a, a.Provider+" probe must have unit of time")
	case !slices.Contains([]string{"s", "ms", "us", "hz"}, a.Target):
		c.fail(a, a.Target+" is not an accepted unit of time")
	case a.Freq == 0:
		c.fail(a, a.Provider+" frequency should be a positive integer")
	}
}

// events returns bpftrace's names of software or hardware events.
func events(provider string) []string {
	if provider == "software" {
		return []string{
			"alignment-faults", "bpf-output", "context-switches", "cs", "cpu-clock", "cpu",
			"cpu-migrations", "dummy", "emulation-faults", "major-faults", "minor-faults",
			"page-faults", "faults", "task-clock",
		}
	}
	return []string{
		"backend-stalls", "branch-instructions", "branches", "branch-misses", "bus-cycles",
		"cache-misses", "cache-references", "cpu-cycles", "cycles", "frontend-stalls",
		"instructions", "ref-cycles",
	}
}

func (c *checker) event(a *syntax.AttachPoint) {
	switch {
	case a.Target == "":
		c.fail(a, fmt.Sprintf("%s probe must have a %[1]s event name", a.Provider))
	case wildcard(a.Target):
		c.fail(a, fmt.Sprintf("wildcards are not allowed for %s probe type", a.Provider))
	case !a.Wild && !slices.Contains(events(a.Provider), a.Target):
		c.fail(a, fmt.Sprintf("%s is not a %s probe", a.Target, a.Provider))
	}
}

// watchpointModes returns the modes that bpftrace allows for watchpoints on an architecture:
// those of arch_build_bp_info in the kernel's arch/*/kernel/hw_breakpoint.c.
func watchpointModes(arch string) []string {
	switch arch {
	case "amd64", "386":
		return []string{"rw", "w", "x"}
	case "arm64", "arm":
		return []string{"r", "rw", "w", "x"}
	case "ppc64le", "ppc64":
		return []string{"r", "rw", "w"}
	}
	return nil
}

func (c *checker) watchpoint(a *syntax.AttachPoint) {
	c.want(a.Address != 0, a, "watchpoint must be attached to a non-zero address")
	c.want(slices.Contains([]uint64{1, 2, 4, 8}, a.Len), a,
		"watchpoint length must be one of (1,2,4,8)")
	c.want(a.Mode != "" && strings.Trim(a.Mode, "rwx") == "", a,
		"watchpoint mode must be combination of (r,w,x)")
	mode := []byte(a.Mode)
	slices.Sort(mode)
	if len(slices.Compact(slices.Clone(mode))) != len(mode) {
		c.fail(a, "watchpoint modes may not be duplicated")
	}
	modes := watchpointModes(c.arch)
	if len(modes) == 0 {
		c.fail(a, "watchpoints not supported")
	} else if !slices.Contains(modes, string(mode)) {
		e := c.fail(a, "invalid watchpoint mode: "+string(mode))
		e.Hints = []string{"supported modes: " + strings.Join(modes, ",")}
	}
}

// named checks the name of a test or a bench, which must be unique.
func (c *checker) named(a *syntax.AttachPoint) {
	c.want(a.Target != "", a, a.Provider+" probes must have a name")
	key := a.Provider + ":" + a.Target
	if first, ok := c.tests[key]; ok {
		e := c.fail(a, fmt.Sprintf("%q was used as the name for more than one %s probe", a.Target,
			strings.ToUpper(a.Provider)))
		e.Notes = []syntax.Note{{Loc: first, Msg: "this is the other instance"}}
		return
	}
	c.tests[key] = a.Loc
}
