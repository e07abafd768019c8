package pmc

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/borescope/borescope/internal/cpus"
	"github.com/borescope/borescope/internal/perfring"
)

// refusal describes an event that the kernel did not open.
type refusal struct {
	err     error
	event   Event
	place   Place
	attr    perfring.Attr
	grouped bool
}

// Explain explains why the kernel refused an event that the caller opened itself, with
// attributes a at a place. It returns the error that Open would have returned. err is the
// kernel's errno, or wraps it.
func Explain(err error, e Event, at Place, a Attr) error {
	return explain(refusal{err: err, event: e, place: at, attr: a}, readFacts(nil))
}

// explain returns the error for the kernel's errno, with its cause. The conditions are those of
// perf_event_open (kernel/events/core.c) and of the PMU drivers that it calls, in the order in
// which they are checked.
func explain(r refusal, f facts) error {
	unsupported := func(format string, args ...any) error {
		return &UnsupportedError{
			Feature: "event " + r.event.String(), Hint: fmt.Sprintf(format, args...),
			Err: r.err,
		}
	}
	plain := func(format string, args ...any) error {
		return fmt.Errorf("event %s on %s: %s: %w", r.event, r.place, fmt.Sprintf(format, args...), r.err)
	}
	var errno syscall.Errno
	if !errors.As(r.err, &errno) {
		return fmt.Errorf("event %s: %w", r.event, r.err)
	}
	switch errno {
	case syscall.ENOSYS:
		return unsupported(
			"the kernel has no perf_event_open (CONFIG_PERF_EVENTS is not set, or a sandbox hides it)")
	case syscall.EACCES, syscall.EPERM:
		return unsupported("%s", explainDenied(errno, r, f))
	case syscall.ENOENT:
		return unsupported("%s", explainMissing(r, f))
	case syscall.EOPNOTSUPP:
		return unsupported("%s", explainNotSampling(r, f))
	case syscall.E2BIG:
		return unsupported("the event uses a field that this kernel does not know (config3 needs 6.3)")
	case syscall.ENOSPC:
		return unsupported("all hardware breakpoint slots are taken (x86 and arm64 have 4 to 16 per CPU); a debugger may hold some")
	case syscall.EBUSY:
		return unsupported("somebody else has the PMU for themselves (an exclusive event)")
	case syscall.EINVAL:
		return plain("%s", explainInvalid(r, f))
	case syscall.ESRCH:
		return plain("no such thread (it has ended)")
	case syscall.ENODEV:
		return plain("%s", explainNoDevice(r))
	case syscall.EMFILE, syscall.ENFILE:
		return plain("too many open files: one is needed for each event, thread and CPU (raise RLIMIT_NOFILE, ulimit -n)")
	case syscall.EBADF:
		return plain("%s", explainBadFile(r))
	case syscall.ENOMEM:
		return plain("the kernel has no memory for it")
	}
	return plain("refused")
}

// explainDenied follows perf_event_open's checks of perf_event_paranoid
// (include/linux/perf_event.h, perf_allow_kernel, _cpu, _tracepoint).
func explainDenied(errno syscall.Errno, r refusal, f facts) string {
	const lift = "lift it with CAP_PERFMON (5.8) or root, or kernel.perf_event_paranoid="
	if f.perfmon {
		if errno == syscall.EACCES && f.paranoid >= 3 {
			return "kernel.perf_event_paranoid is " + strconv.Itoa(f.paranoid) +
				", where Debian's kernels give events to CAP_SYS_ADMIN only: lower it to 2, or hold that"
		}
		if errno == syscall.EPERM {
			return "refused in spite of CAP_PERFMON: a seccomp filter (container), lockdown or a security module"
		}
		return "refused in spite of CAP_PERFMON: another user's process needs CAP_SYS_PTRACE; else a security module"
	}
	level := "unknown"
	if f.paranoid != unknownLevel {
		level = strconv.Itoa(f.paranoid)
	}
	at := "kernel.perf_event_paranoid is " + level
	switch {
	case f.paranoid >= 3:
		return at + " (Debian's level: no events without CAP_PERFMON); " + lift +
			"2 for one's own threads"
	case r.event.Type == perfring.EventTracepoint && f.paranoid > -1:
		return at + ": tracepoints need -1; " + lift + "-1"
	case (r.place.PID == -1 || r.place.Cgroup != nil) && f.paranoid > 0:
		return at + ": a whole CPU or a cgroup needs 0; " + lift + "0"
	case f.paranoid > 1 && r.attr.Flags&perfring.AttrExcludeKernel == 0:
		return at + ": counting in the kernel needs 1; count user space only (" + r.event.String() +
			":u), or " + lift + "1"
	case r.place.PID > 0:
		return at + ": another user's process needs CAP_SYS_PTRACE; " + lift + "does not help"
	case errno == syscall.EPERM:
		return "a seccomp filter (container) or lockdown refuses perf_event_open"
	}
	return at + "; a security module may refuse it"
}

func explainMissing(r refusal, f facts) string {
	if r.place.Cgroup != nil && (r.event.Type == perfring.EventSoftware || len(f.core) > 0) {
		return explainCgroup(f)
	}
	switch r.event.Type {
	case perfring.EventHardware, perfring.EventCache, perfring.EventRaw:
		if len(f.core) == 0 {
			return noPMU(f)
		}
		return fmt.Sprintf("the PMU %s has no such event%s", strings.Join(f.core, ", "),
			cpuHas(r.event, f))
	case perfring.EventSoftware:
		return "this kernel does not know the event (cgroup-switches needs 5.13)"
	case perfring.EventTracepoint:
		return "no tracepoint has this id"
	case perfring.EventBreakpoint:
		return "CONFIG_HAVE_HW_BREAKPOINT is not set"
	}
	if r.event.PMU != "" && len(f.pmus) > 0 {
		return fmt.Sprintf("the PMU %s does not count it (no PMU takes it, or it does not know the config 0x%x)", r.event.PMU, r.event.Config)
	}
	return fmt.Sprintf("no PMU has type %d; there are %s", r.event.Type, strings.Join(f.pmus, ", "))
}

// cpuHas returns what is known about virtual and emulated PMUs with few events, to be added to
// the cause.
func cpuHas(e Event, f facts) string {
	if f.arch == "arm64" && e.Type == perfring.EventHardware && e.Config == 1 {
		return " (QEMU counts instructions with -icount only)"
	}
	if f.hypervisor {
		return " (hypervisors often pass on a part of the CPU's events only)"
	}
	return ""
}

func noPMU(f facts) string {
	if f.hypervisor {
		return "no PMU in this virtual machine: the hypervisor hides the CPU's counters; software events (cpu-clock, task-clock, page-faults) work"
	}
	return "no PMU: the kernel has no driver for this CPU's counters, or they are switched off; software events work"
}

func explainCgroup(f facts) string {
	if f.cgroup2 == "" {
		return "the directory's hierarchy has no perf_event controller (or the PMU has no such event): with cgroup v1 give a directory of the perf_event hierarchy"
	}
	if !f.subtree {
		return "the cgroup has no perf_event state yet: write anything to " + f.cgroup2 +
			"/cgroup.subtree_control (for instance +pids), or mount cgroup v1's perf_event elsewhere first: one of the two hierarchies has the controller"
	}
	return "the perf_event controller is in the other hierarchy (cgroup v1's perf_event mount), or the cgroup is older than it"
}

func explainNotSampling(r refusal, f facts) string {
	switch {
	case r.attr.BranchSampleType != 0 || r.attr.SampleType&perfring.SampleBranchStack != 0:
		return "this PMU records no branches (LBR, BRBE): software events and most virtual machines can't"
	case r.attr.Flags.Precise() > 0:
		return fmt.Sprintf("precise level %d can't be had here (PEBS or IBS needed)",
			r.attr.Flags.Precise())
	case r.attr.Sample != 0:
		return "this PMU has no overflow interrupt, so it counts but can't sample; sample cpu-clock instead"
	case len(f.core) == 0 && r.event.Hardware():
		return noPMU(f)
	}
	return "the PMU can't do this"
}

func explainInvalid(r refusal, f facts) string {
	switch {
	case r.attr.Flags&perfring.AttrFreq != 0 && f.maxRate != 0 && r.attr.Sample > f.maxRate:
		return fmt.Sprintf("%d samples a second: the limit is kernel.perf_event_max_sample_rate = %d",
			r.attr.Sample, f.maxRate)
	case r.place.PID == -1 && r.place.CPU == -1:
		return "all tasks on any CPU: name the CPU, and open the event on each"
	case r.place.CPU < -1:
		return fmt.Sprintf("no such CPU: %d", r.place.CPU)
	case f.possible != nil && r.place.CPU >= 0 && !slices.Contains(f.possible, r.place.CPU):
		return fmt.Sprintf("no such CPU: %d; this machine can have %s", r.place.CPU,
			cpus.Format(f.possible))
	case r.event.Type == perfring.EventBreakpoint:
		return "a breakpoint that this CPU can't do: 1, 2, 4 or 8 aligned bytes; x86 watches w, rw or x (8 bytes)"
	case r.grouped:
		return "the group does not fit: more events than counters, or events of different PMUs; split it"
	case r.attr.Flags&perfring.AttrInherit != 0 && r.attr.SampleType&perfring.SampleReadGroup != 0 &&
		r.attr.ReadFormat&perfring.FormatGroup != 0:
		return "inherited events can't sample group reads before 6.12"
	case (r.event.restricted() || r.event.Exclude.Idle) && r.event.PMU != "" && !r.event.Hardware():
		return "the PMU " + r.event.PMU +
			" can't tell user space from the kernel: leave the modifiers out"
	case r.place.PID != -1 && r.event.PMU != "" && !r.event.Hardware():
		return "the PMU " + r.event.PMU +
			" counts for whole CPUs only: open it for CPUs (Scope.CPUs, AllCPUs)"
	}
	return "the kernel or the PMU does not take this combination (config, exclusion, sample type)"
}

func explainNoDevice(r refusal) string {
	if r.place.CPU >= 0 {
		return "the CPU is offline, or not one that the PMU is on"
	}
	return "the PMU is gone, or not for tasks"
}

func explainBadFile(r refusal) string {
	if r.place.Cgroup != nil {
		return "not a cgroup directory"
	}
	return "the group's leader is closed, or no perf event"
}
