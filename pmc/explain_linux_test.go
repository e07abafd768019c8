package pmc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/testenv"
)

// TestExplain: every cause has its own words, and the kernel's answer stays inside.
func TestExplain(t *testing.T) {
	user := facts{paranoid: 2, maxRate: 100000, core: []string{"cpu"}, pmus: []string{"cpu", "msr"}}
	with := func(f func(*facts)) facts {
		g := user
		f(&g)
		return g
	}
	vm := with(func(f *facts) { f.core, f.hypervisor = nil, true })
	msr := Event{PMU: "msr", Type: 13, Name: "msr/tsc/"}
	self, other, cpu := onThread(0), onThread(77), onCPU(0)
	freq := perfring.Attr{Sample: 1 << 20, Flags: perfring.AttrFreq}
	cgroup := Place{PID: -1, Cgroup: os.Stdin}
	tracepoint := Event{Type: perfring.EventTracepoint, Name: "sched:sched_switch"}
	for _, tt := range []struct {
		name        string
		errno       unix.Errno
		event       Event
		at          Place
		attr        perfring.Attr
		f           facts
		want        string
		unsupported bool
	}{
		{"no-pmu-vm", unix.ENOENT, Cycles(), self, perfring.Attr{}, vm, "no PMU in this virtual machine", true},
		{"no-pmu", unix.ENOENT, Cycles(), self, perfring.Attr{}, with(func(f *facts) { f.core = nil }), "no driver for this CPU's counters", true},
		{"no-such-event", unix.ENOENT, cache(6, 1, 1), self, perfring.Attr{}, user, "PMU cpu has no such event", true},
		{"no-such-event-vm", unix.ENOENT, CacheMisses(), self, perfring.Attr{}, with(func(f *facts) { f.hypervisor = true }), "hypervisors often pass on a part", true},
		{"no-such-type", unix.ENOENT, Event{Type: 99}, self, perfring.Attr{}, user, "no PMU has type 99; there are cpu, msr", true},
		{"qemu-instructions", unix.ENOENT, Instructions(), self, perfring.Attr{}, with(func(f *facts) { f.arch = "arm64" }), "-icount", true},
		{"paranoid-kernel", unix.EACCES, Cycles(), self, perfring.Attr{}, user, "counting in the kernel needs 1; count user space only (cycles:u)", true},
		{"paranoid-cpu", unix.EACCES, CPUClock(), cpu, perfring.Attr{}, user, "a whole CPU or a cgroup needs 0", true},
		{"paranoid-tracepoint", unix.EACCES, tracepoint, self, perfring.Attr{}, user, "tracepoints need -1", true},
		{"paranoid-debian", unix.EACCES, Cycles(), self, perfring.Attr{}, with(func(f *facts) { f.paranoid = 3 }), "Debian's level", true},
		{"other-user", unix.EACCES, Cycles(), other, perfring.Attr{Flags: perfring.AttrExcludeKernel}, user, "CAP_SYS_PTRACE", true},
		{"seccomp", unix.EPERM, Cycles(), self, perfring.Attr{}, with(func(f *facts) { f.perfmon = true }), "seccomp", true},
		{"security-module", unix.EACCES, Cycles(), self, perfring.Attr{}, with(func(f *facts) { f.perfmon = true }), "security module", true},
		{"debian", unix.EACCES, Cycles(), self, perfring.Attr{}, with(func(f *facts) { f.perfmon, f.paranoid = true, 3 }), "CAP_SYS_ADMIN", true},
		{"rate", unix.EINVAL, Cycles(), self, freq, user, "perf_event_max_sample_rate = 100000", false},
		{"no-place", unix.EINVAL, Cycles(), Place{-1, -1, nil}, perfring.Attr{}, user, "name the CPU", false},
		{"no-such-cpu", unix.EINVAL, CPUClock(), onCPU(9), perfring.Attr{}, with(func(f *facts) { f.possible = []int{0, 1, 2, 3} }), "no such CPU: 9; this machine can have 0-3", false},
		{"breakpoint", unix.EINVAL, Breakpoint(1, 3, BPRead), self, perfring.Attr{}, user, "1, 2, 4 or 8 aligned bytes", false},
		{"msr-user", unix.EINVAL, userMode(msr), self, perfring.Attr{}, user, "leave the modifiers out", false},
		{"uncore-thread", unix.EINVAL, Event{PMU: "uncore_imc_0", Type: 20}, self, perfring.Attr{}, user, "whole CPUs only", false},
		{"gone", unix.ESRCH, Cycles(), other, perfring.Attr{}, user, "no such thread", false},
		{"offline", unix.ENODEV, Cycles(), cpu, perfring.Attr{}, user, "CPU is offline, or not one that the PMU is on", false},
		{"slots", unix.ENOSPC, Breakpoint(8, 8, BPWrite), self, perfring.Attr{}, user, "breakpoint slots", true},
		{"files", unix.EMFILE, Cycles(), self, perfring.Attr{}, user, "RLIMIT_NOFILE", false},
		{"config3", unix.E2BIG, Event{Type: 4, Config3: 1}, self, perfring.Attr{}, user, "config3 needs 6.3", true},
		{"exclusive", unix.EBUSY, Cycles(), self, perfring.Attr{}, user, "exclusive", true},
		{"no-interrupt", unix.EOPNOTSUPP, Cycles(), self, perfring.Attr{Sample: 1000}, user, "no overflow interrupt", true},
		{"branches", unix.EOPNOTSUPP, Cycles(), self, perfring.Attr{SampleType: perfring.SampleBranchStack}, user, "records no branches", true},
		{"precise", unix.EOPNOTSUPP, Cycles(), self, perfring.Attr{Flags: perfring.AttrFlags(0).WithPrecise(3)}, user, "precise level 3", true},
		{"cgroup2-quirk", unix.ENOENT, CPUClock(), cgroup, perfring.Attr{}, with(func(f *facts) { f.cgroup2 = "/cg" }), "/cg/cgroup.subtree_control", true},
		{"cgroup-v1", unix.ENOENT, CPUClock(), cgroup, perfring.Attr{}, user, "with cgroup v1 give a directory of the perf_event hierarchy", true},
		{"not-cgroup", unix.EBADF, CPUClock(), cgroup, perfring.Attr{}, user, "not a cgroup directory", false},
		{"no-perf", unix.ENOSYS, Cycles(), self, perfring.Attr{}, user, "CONFIG_PERF_EVENTS", true},
	} {
		err := explain(refusal{err: tt.errno, event: tt.event, place: tt.at, attr: tt.attr}, tt.f)
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v\nwant … %s …", tt.name, err, tt.want)
		}
		if !errors.Is(err, tt.errno) || errors.Is(err, errors.ErrUnsupported) != tt.unsupported {
			t.Errorf("%s: wraps %v, unsupported %v", tt.name, errors.Is(err, tt.errno), errors.Is(err, errors.ErrUnsupported))
		}
	}
	err := explain(refusal{err: unix.EINVAL, event: Cycles(), place: self, grouped: true}, user)
	if !strings.Contains(err.Error(), "the group does not fit") {
		t.Errorf("group: %v", err)
	}
}

func userMode(e Event) Event {
	e.Exclude = Exclude{Kernel: true, HV: true}
	return e
}

// TestFacts: what explanations depend on, read from a host's files.
func TestFacts(t *testing.T) {
	root := fstest.MapFS{
		"proc/sys/kernel/perf_event_paranoid":             {Data: []byte("-1\n")},
		"proc/sys/kernel/perf_event_max_sample_rate":      {Data: []byte("5000\n")},
		"proc/sys/kernel/nmi_watchdog":                    {Data: []byte("1\n")},
		"proc/self/status":                                {Data: []byte("Name:\tx\nCapEff:\t0000004000000000\nSeccomp:\t0\n")},
		"proc/cpuinfo":                                    {Data: []byte("flags\t: fpu hypervisor\n")},
		"proc/self/mounts":                                {Data: []byte("cgroup2 /cg cgroup2 rw 0 0\n")},
		"cg/cgroup.subtree_control":                       {Data: []byte("pids\n")},
		"sys/bus/event_source/devices/cpu/type":           {Data: []byte("4\n")},
		"sys/bus/event_source/devices/uncore_imc_0/type":  {Data: []byte("20\n")},
		"sys/bus/event_source/devices/armv8_pmuv3_0/type": {Data: []byte("8\n")},
	}
	f := readFacts(root)
	if f.paranoid != -1 || f.maxRate != 5000 || !f.watchdog || !f.perfmon || !f.hypervisor || f.cgroup2 != "/cg" || !f.subtree ||
		len(f.core) != 2 || len(f.pmus) != 3 {
		t.Errorf("%+v", f)
	}
	if f := readFacts(fstest.MapFS{}); f.paranoid != unknownLevel || f.perfmon || f.hypervisor {
		t.Errorf("of an empty host: %+v", f)
	}
}

// TestRefusals: the machine's own refusals are explained.
func TestRefusals(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, tt := range []struct {
		name  string
		event Event
		at    Place
		o     *openOptions
		want  string
	}{
		{"rate", CPUClock(), onThread(0), &openOptions{sampling: &SamplingSpec{Freq: 1 << 30}}, "perf_event_max_sample_rate"},
		{"gone", CPUClock(), onThread(1 << 22), nil, "no such thread"},
		{"no-place", CPUClock(), Place{PID: -1, CPU: -1}, nil, "name the CPU"},
		{"no-such-cpu", CPUClock(), onCPU(1 << 14), nil, "event cpu-clock on CPU 16384: no such CPU: 16384; this machine can have 0"},
		{"branches", CPUClock(), onThread(0), &openOptions{sampling: &SamplingSpec{Period: 1000, Branches: 9}}, "records no branches"},
		{"type", Event{Type: 4096}, onThread(0), nil, "no PMU has type 4096"},
		{"both", CPUClock(), onThread(0), &openOptions{sampling: &SamplingSpec{Freq: 1, Period: 1}}, "both a period and a frequency"},
		{"zero", Event{}, onThread(0), nil, "not an event"},
	} {
		h, err := openEvent(tt.event, tt.at, tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want … %s …", tt.name, err, tt.want)
		}
		h.close()
	}
}

// TestBreakpointSlots: opening more than the CPU has says so.
func TestBreakpointSlots(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Watchpoint)
	lockThread(t)
	for i := range 64 {
		h, err := openEvent(Breakpoint(0x10000+uint64(i)*8, 8, BPWrite), onThread(0), nil)
		if err == nil {
			defer h.close()
			continue
		}
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "breakpoint slots are taken") || i < 2 {
			t.Errorf("breakpoint %d: %v", i, err)
		}
		return
	}
	t.Error("64 breakpoints at once")
}

// TestUnprivileged: a user without privileges is told which level is in the way.
func TestUnprivileged(t *testing.T) {
	testenv.Need(t, testenv.Root)
	level := readFacts(nil).paranoid
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pmc")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/try", b, 0o755)); err != nil {
		t.Fatal(err)
	}
	try := func(event, scope string) string {
		cmd := testenv.Command(t, dir+"/try")
		cmd.Dir = "/"
		cmd.Env = []string{"PMC_TRY=" + event, "PMC_SCOPE=" + scope}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", event, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	says := fmt.Sprintf("kernel.perf_event_paranoid is %d", level)
	if got := try("cpu-clock", "cpu"); level > 0 && !strings.Contains(got, says) {
		t.Errorf("a whole CPU: %s", got)
	}
	if got := try("task-clock", "self"); level > 1 && !strings.Contains(got, says) {
		t.Errorf("counting in the kernel: %s", got)
	}
	if got := try("task-clock:u", "self"); level <= 2 && got != "<nil>" {
		t.Errorf("one's own thread: %s", got)
	}
}

// TestMissingTracefs names the mount that is missing.
func TestMissingTracefs(t *testing.T) {
	_, err := Tracepoint("sched", "sched_switch", noHost)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "mount -t tracefs") {
		t.Error(err)
	}
}

// TestMissingTracepoint offers the nearest names, without "file does not exist".
func TestMissingTracepoint(t *testing.T) {
	root := &Options{Root: fstest.MapFS{
		"sys/kernel/tracing/events/sched/sched_switch/id": {Data: []byte("316\n")},
		"sys/kernel/tracing/events/sched/sched_wakeup/id": {Data: []byte("318\n")},
		"sys/kernel/tracing/events/irq/softirq_entry/id":  {Data: []byte("120\n")},
		"sys/kernel/tracing/events/header_page":           {Data: []byte("x")},
	}}
	for in, want := range map[string]string{
		"sched:sched_swich":  `event "sched:sched_swich": column 1: no tracepoint "sched_swich" in group sched; did you mean "sched_switch"?`,
		"sched:nothing_near": `event "sched:nothing_near": column 1: no tracepoint "nothing_near" in group sched`,
		"shed:sched_switch":  `event "shed:sched_switch": column 1: no tracepoint group "shed"; did you mean "sched"?`,
		"zzzzzz:x":           `event "zzzzzz:x": column 1: no tracepoint group "zzzzzz"`,
		"sched:x*":           `event "sched:x*": column 1: no tracepoint matches "sched:x*"`,
	} {
		_, err := ParseEvent(in, root)
		if err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v\nwant %s, which matches fs.ErrNotExist", in, err, want)
		}
	}
}

// TestSilentSampler: what would never give a record is refused.
func TestSilentSampler(t *testing.T) {
	for _, tt := range []struct {
		event Event
		spec  SamplingSpec
		want  bool
	}{
		{CPUClock(), SamplingSpec{IP: true}, true},
		{CPUClock(), SamplingSpec{Freq: 99}, false},
		{CPUClock(), SamplingSpec{Period: 1000}, false},
		{CPUClock(), SamplingSpec{Comm: true}, false},
		{Event{Name: "cpu/event=1,period=9/", Period: 9}, SamplingSpec{}, false},
		{Dummy(), SamplingSpec{}, false},
		{generic(perfring.EventSoftware, 10), SamplingSpec{}, false},
	} {
		s, err := OpenSampler(tt.event, Scope{Thread: -5}, tt.spec, nil)
		s.Close()
		if got := err != nil && strings.Contains(err.Error(), "needs a period or a frequency"); got != tt.want {
			t.Errorf("%s %+v: %v", tt.event, tt.spec, err)
		}
	}
}

// TestBreakpointsThatNeverFire: they are refused, however they are asked for.
func TestBreakpointsThatNeverFire(t *testing.T) {
	if !testenv.DeafBreakpoints(t) {
		return
	}
	const cause = "never delivers"
	e, err := ParseEvent(fmt.Sprintf("mem:%p/8:w:u", &watched), nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := openEvent(e, onThread(0), nil)
	h.close()
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), cause) {
		t.Errorf("opened: %v", err)
	}
	for _, a := range Probe(nil).Features {
		if a.What == "breakpoints" && (a.OK || !strings.Contains(a.Reason, cause)) {
			t.Errorf("probed: %+v", a)
		}
	}
}
