package feature

import "fmt"

// Feature is a feature that a kernel, machine or process may support. Its name is stable:
// recorded sets use it as the key.
type Feature uint8

// These are the features that a plan, a tool or a test may depend on. The comment of each
// states exactly what a nil result of Test shows.
const (
	invalid Feature = iota

	// BTF: the kernel describes its own types in /sys/kernel/btf/vmlinux.
	BTF
	// Tracepoint: perf events can be opened on tracepoints.
	Tracepoint
	// RawTracepoint: BPF_RAW_TRACEPOINT_OPEN takes programs.
	RawTracepoint
	// RawTracepointCookie: that call takes a cookie.
	RawTracepointCookie
	// Perf: software events can be sampled by a BPF program.
	Perf
	// HardwarePMU: a thread's cycles were counted in hardware.
	HardwarePMU
	// BranchStack: cycles can be sampled together with the last branches.
	BranchStack
	// Watchpoint: a hardware breakpoint on data was hit, and the hit counted.
	Watchpoint
	// Kprobe: the kprobe perf PMU takes a function, so kretprobes work too.
	Kprobe
	// KprobeMulti: one link attaches to many kernel functions.
	KprobeMulti
	// KprobeSession: one program runs at the entry and the return of a function.
	KprobeSession
	// Uprobe: there is a uprobe perf PMU.
	Uprobe
	// UprobeRefCtr: it raises a USDT semaphore while attached.
	UprobeRefCtr
	// UprobeMulti: one link attaches to many places of a file.
	UprobeMulti
	// UprobeSession: one program runs at the entry and the return.
	UprobeSession
	// SleepableUprobe: programs for user probes may sleep.
	SleepableUprobe
	// SleepableTracepoint: programs for the tracepoints of system calls may sleep.
	SleepableTracepoint
	// PerfLink: a bpf_link owns the program's attachment to a perf event.
	PerfLink
	// Fentry: a tracing program was attached to a function's entry.
	Fentry
	// Fexit: a tracing program was attached to a function's exit.
	Fexit
	// TPBTF: a tracing program was attached to a typed raw tracepoint.
	TPBTF
	// Fsession: one tracing program was attached to a function's entry and exit.
	Fsession
	// TracingMulti: one link attaches a tracing program to many functions.
	TracingMulti
	// Iter: BPF iterators over tasks load.
	Iter
	// LSM: a program attaches to a security hook and the hooks are in use.
	LSM
	// SyscallProg: programs of the syscall type load.
	SyscallProg
	// TestRunRawTP: a raw tracepoint program can be run by BPF_PROG_TEST_RUN.
	TestRunRawTP
	// Token: a user namespace may be given BPF tokens.
	Token
	// Ringbuf: BPF ring buffers.
	Ringbuf
	// BatchOps: batched update and lookup of hash maps.
	BatchOps
	// BatchPerCPUArray: the same for per-CPU arrays.
	BatchPerCPUArray
	// AttachCookie: bpf_get_attach_cookie in kprobe programs.
	AttachCookie
	// GetFuncIP: bpf_get_func_ip in kprobe programs.
	GetFuncIP
	// BPFLoop: bpf_loop.
	BPFLoop
	// ForEachMapElem: bpf_for_each_map_elem.
	ForEachMapElem
	// TaskBTF: bpf_get_current_task_btf.
	TaskBTF
	// TaskPtRegs: bpf_task_pt_regs.
	TaskPtRegs
	// FindVMA: bpf_find_vma.
	FindVMA
	// Strncmp: bpf_strncmp.
	Strncmp
	// SnprintfBTF: bpf_snprintf_btf.
	SnprintfBTF
	// PerCPUMapLookup: bpf_map_lookup_percpu_elem.
	PerCPUMapLookup
	// KtimeTAI: bpf_ktime_get_tai_ns.
	KtimeTAI
	// BranchSnapshot: bpf_get_branch_snapshot.
	BranchSnapshot

	count
)

// spec is what is known about a feature without testing it.
type spec struct {
	name  string
	since string // first mainline kernel, as in UnsupportedError.Since
	// config lists the options that the feature requires.
	config []string
}

// specs contains every feature's name, first kernel and options. Kernels are those of the
// mainline commits. Options are those in Kconfig or in the #ifdef around the implementation.
var specs = [count]spec{
	BTF:                 {"btf", "5.4", []string{"DEBUG_INFO_BTF"}},
	Tracepoint:          {"tracepoint", "4.7", []string{"PERF_EVENTS", "EVENT_TRACING"}},
	RawTracepoint:       {"rawtracepoint", "4.17", []string{"BPF_EVENTS"}},
	RawTracepointCookie: {"rawtracepoint-cookie", "6.10", []string{"BPF_EVENTS"}},
	Perf:                {"perf", "4.9", []string{"PERF_EVENTS", "BPF_EVENTS"}},
	HardwarePMU:         {"hardware-pmu", "", []string{"PERF_EVENTS"}},
	BranchStack:         {"branch-stack", "", []string{"PERF_EVENTS"}},
	Watchpoint:          {"watchpoint", "2.6.33", []string{"HAVE_HW_BREAKPOINT"}},
	Kprobe:              {"kprobe", "4.17", []string{"KPROBES", "KPROBE_EVENTS"}},
	KprobeMulti:         {"kprobe-multi", "5.18", []string{"KPROBES", "FPROBE"}},
	KprobeSession:       {"kprobe-session", "6.10", []string{"KPROBES", "FPROBE"}},
	Uprobe:              {"uprobe", "4.17", []string{"UPROBE_EVENTS"}},
	UprobeRefCtr:        {"uprobe-refctr", "4.20", []string{"UPROBE_EVENTS"}},
	UprobeMulti:         {"uprobe-multi", "6.6", []string{"UPROBES"}},
	UprobeSession:       {"uprobe-session", "6.13", []string{"UPROBES"}},
	SleepableUprobe:     {"sleepable-uprobe", "6.0", nil},
	// 6.18 does not have it; versions between these two were not checked
	SleepableTracepoint: {"sleepable-tracepoint", "7.2", nil},
	PerfLink:            {"perf-link", "5.15", []string{"PERF_EVENTS"}},
	Fentry:              {"fentry", "5.5", tracingConfig},
	Fexit:               {"fexit", "5.5", tracingConfig},
	TPBTF:               {"tp-btf", "5.5", []string{"DEBUG_INFO_BTF", "BPF_EVENTS"}},
	Fsession:            {"fsession", "7.0", tracingConfig},
	// of all architectures, only amd64 has it
	TracingMulti:     {"tracing-multi", "7.2", tracingConfig},
	Iter:             {"iter", "5.8", []string{"DEBUG_INFO_BTF"}},
	LSM:              {"lsm", "5.7", append([]string{"BPF_LSM"}, tracingConfig...)},
	SyscallProg:      {"syscall-prog", "5.14", nil},
	TestRunRawTP:     {"test-run-rawtp", "5.10", []string{"BPF_EVENTS"}},
	Token:            {"token", "6.9", nil},
	Ringbuf:          {"ringbuf", "5.8", nil},
	BatchOps:         {"batch-ops", "5.6", nil},
	BatchPerCPUArray: {"batch-percpu-array", "5.13", nil},
	AttachCookie:     {"attach-cookie", "5.15", nil},
	GetFuncIP:        {"get-func-ip", "5.15", nil},
	BPFLoop:          {"bpf-loop", "5.17", nil},
	ForEachMapElem:   {"for-each-map-elem", "5.13", nil},
	TaskBTF:          {"task-btf", "5.11", nil},
	TaskPtRegs:       {"task-pt-regs", "5.15", nil},
	FindVMA:          {"find-vma", "5.17", nil},
	Strncmp:          {"strncmp", "5.17", nil},
	SnprintfBTF:      {"snprintf-btf", "5.10", nil},
	PerCPUMapLookup:  {"percpu-map-lookup", "5.19", nil},
	KtimeTAI:         {"ktime-tai", "6.1", nil},
	BranchSnapshot:   {"branch-snapshot", "5.16", nil},
}

// tracingConfig lists the options that BPF trampolines on kernel functions need.
var tracingConfig = []string{
	"DEBUG_INFO_BTF", "BPF_JIT", "DYNAMIC_FTRACE_WITH_DIRECT_CALLS",
}

// String returns the feature's name, "kprobe-multi".
func (f Feature) String() string {
	if !f.valid() {
		return fmt.Sprintf("feature(%d)", uint8(f))
	}
	return specs[f].name
}

// Since returns the first mainline kernel that has the feature, "5.18", or "" if no kernel
// version is enough.
func (f Feature) Since() string {
	if !f.valid() {
		return ""
	}
	return specs[f].since
}

func (f Feature) valid() bool { return f > invalid && f < count }

// All returns every feature, in the order of their constants.
func All() []Feature {
	fs := make([]Feature, 0, count-1)
	for f := invalid + 1; f < count; f++ {
		fs = append(fs, f)
	}
	return fs
}

// Parse is the inverse of String.
func Parse(name string) (Feature, error) {
	for f := invalid + 1; f < count; f++ {
		if specs[f].name == name {
			return f, nil
		}
	}
	return invalid, fmt.Errorf("unknown feature %q: names are such as %s", name, KprobeMulti)
}

// UnknownError is the error if a probe could not find out whether a feature is supported, most
// often because of missing privileges. It is never cached and does not match
// errors.ErrUnsupported. Err decides what else it matches (os.ErrPermission).
type UnknownError struct {
	// Feature is the name of the feature.
	Feature string
	// Hint is the reason why the probe was not conclusive: "needs CAP_BPF and CAP_PERFMON".
	Hint string
	// Err is the error of the system.
	Err error
}

// Error returns "FEATURE: could not tell: HINT: ERR", without the parts that are empty.
func (e *UnknownError) Error() string {
	s := e.Feature + ": could not tell"
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the error of the system.
func (e *UnknownError) Unwrap() error { return e.Err }
