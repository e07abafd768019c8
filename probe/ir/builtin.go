package ir

import (
	"sort"

	"github.com/cilium/ebpf/asm"
)

// Builtin describes a builtin value.
type Builtin struct {
	// Name is what NewBuiltin and Ctx.Builtin take.
	Name string
	// Type is the type of the value.
	Type Type
	// Since is the first kernel that has it natively, {0, 0} for 5.10 or older.
	Since Version
	// GPL says that a program that uses it needs a GPL-compatible licence.
	GPL bool
	// Doc is one line for people.
	Doc string

	Helper asm.BuiltinFunc
	// Shift and width pick the value out of the helper's result.
	Shift, Width int
}

// Version is a kernel version, major and minor.
type Version [2]int

// AtLeast says whether v is o or later.
func (v Version) AtLeast(o Version) bool { return v[0] > o[0] || v[0] == o[0] && v[1] >= o[1] }

var U32, U64 = IntType(4, false), IntType(8, false)

var BuiltinsMoved = map[string]Builtin{
	"pid":     {Type: U32, Helper: asm.FnGetCurrentPidTgid, Shift: 32, Doc: "process id (thread group) of the current task, in the pid namespace of whoever loads the program; with bit 31 set, in the initial one"},
	"tid":     {Type: U32, Helper: asm.FnGetCurrentPidTgid, Width: 32, Doc: "thread id of the current task, in the namespace of pid"},
	"pidtgid": {Type: U64, Helper: asm.FnGetCurrentPidTgid, Doc: "process id in the upper half, thread id in the lower"},
	"uid":     {Type: U32, Helper: asm.FnGetCurrentUidGid, Width: 32, Doc: "user id of the current task, in the initial namespace"},
	"gid":     {Type: U32, Helper: asm.FnGetCurrentUidGid, Shift: 32, Doc: "group id of the current task"},
	"comm":    {Type: StringType(16), Helper: asm.FnGetCurrentComm, Doc: "name of the current thread"},
	"cpu":     {Type: U32, Helper: asm.FnGetSmpProcessorId, Doc: "CPU number"},
	"numa":    {Type: U32, Helper: asm.FnGetNumaNodeId, Doc: "NUMA node of the CPU"},
	"cgroup": {
		Type: U64.WithFormat(FormatCgroup), Helper: asm.FnGetCurrentCgroupId,
		Doc: "cgroup2 id of the current task",
	},
	"nsecs":      {Type: U64.WithFormat(FormatTime), Helper: asm.FnKtimeGetNs, Doc: "CLOCK_MONOTONIC, nanoseconds"},
	"nsecs_boot": {Type: U64.WithFormat(FormatBoot), Helper: asm.FnKtimeGetBootNs, Doc: "CLOCK_BOOTTIME, nanoseconds"},
	"nsecs_tai": {
		Type: U64.WithFormat(FormatTAI), Helper: asm.FnKtimeGetTaiNs, Since: [2]int{6, 1},
		Doc: "CLOCK_TAI, nanoseconds",
	},
	"nsecs_sw_tai": {
		Type: U64.WithFormat(FormatTAI), Helper: asm.FnKtimeGetNs,
		Doc: "CLOCK_TAI as it was ahead of CLOCK_MONOTONIC when the program was loaded, for kernels without nsecs_tai",
	},
	"elapsed":        {Type: U64, Helper: asm.FnKtimeGetNs, Doc: "nanoseconds since the program was loaded"},
	"jiffies":        {Type: U64, Helper: asm.FnJiffies64, Doc: "the kernel's tick count"},
	"rand":           {Type: U32, Helper: asm.FnGetPrandomU32, Doc: "pseudo-random number"},
	"curtask":        {Type: PtrType(nil, false), Helper: asm.FnGetCurrentTask, GPL: true, Doc: "the current task, ptr(struct task_struct)"},
	"ppid":           {Type: U32, Helper: asm.FnGetCurrentTask, GPL: true, Doc: "process id of the parent, in the namespace of pid (needs BTF)"},
	"func":           {Type: U64.WithFormat(FormatKsym), Helper: asm.FnGetFuncIp, GPL: true, Since: [2]int{5, 15}, Doc: "address of the probed function; before 5.15 only where a program has one site"},
	"probe":          {Type: U64.WithFormat(FormatProbe), Helper: asm.FnGetAttachCookie, Since: [2]int{5, 15}, Doc: "which probe fired: index of the site in the plan, plus one"},
	"cookie":         {Type: U64, Helper: asm.FnGetAttachCookie, Since: [2]int{5, 15}, Doc: "the site's whole attach cookie"},
	"nspid":          {Type: U32, Helper: asm.FnGetNsCurrentPidTgid, Doc: "process id of the current task in the pid namespace of whoever loaded the program, 0 outside of it"},
	"nstid":          {Type: U32, Helper: asm.FnGetNsCurrentPidTgid, Doc: "thread id of the current task in that namespace, 0 outside of it"},
	"pcomm":          {Type: StringType(16), GPL: true, Doc: "name of the current process: of its first thread (needs BTF)"},
	"ncpus":          {Type: U32, Doc: "CPUs that there may be, online or not"},
	"usermode":       {Type: BoolType(), Doc: "whether the event hit the process in its own code"},
	"probetype":      {Type: StringType(24), Doc: "kind of the probe, as its target prints: kprobe, tracepoint"},
	"is_return":      {Type: BoolType(), Doc: "whether the probe is at a function's return; in session programs (GPL there) as it turns out"},
	"session_cookie": {Type: U64, GPL: true, Since: [2]int{6, 10}, Doc: "what the entry of this call kept for its return, in session programs"},
	"call_id":        {Type: U64, Doc: "who is in a call: the goroutine in Go programs, else the thread, or the CPU where it idles"},
	"goframe":        {Type: U64, Doc: "a call's place in its goroutine's stack, counted from the stack's top, which stays when the stack moves; 0 in what is no Go program"},
	"goid":           {Type: U64, GPL: true, Doc: "goroutine id, in probes on Go programs"},
	"ctx":            {Type: PtrType(nil, false), Doc: "the context's address"},
	"ip":             {Type: U64.WithFormat(FormatUsym), Doc: "instruction pointer of the context's registers"},
	"sp":             {Type: U64, Doc: "stack pointer of the context's registers"},
}

// Builtins lists the builtin values by name.
func Builtins() []Builtin {
	out := make([]Builtin, 0, len(BuiltinsMoved))
	for name, b := range BuiltinsMoved {
		b.Name = name
		out = append(out, b)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// GPLOnly lists the builtins that need a GPL-compatible licence. Reading memory
// and stacks, perf buffers and overriding returns need one too; counting,
// timing, thread names and ring buffers do not.
func GPLOnly() []string {
	var out []string
	for _, b := range Builtins() {
		if b.GPL {
			out = append(out, b.Name)
		}
	}
	return out
}

// GplHelpers are the helpers that the kernel lets only programs with a
// GPL-compatible licence call (gpl_only in struct bpf_func_proto).
var GplHelpers = map[asm.BuiltinFunc]bool{
	asm.FnProbeReadKernel: true, asm.FnProbeReadKernelStr: true, asm.FnProbeReadUser: true, asm.FnProbeReadUserStr: true,
	asm.FnGetStack: true, asm.FnGetCurrentTask: true, asm.FnGetCurrentTaskBtf: true, asm.FnGetFuncIp: true, asm.FnPerfEventOutput: true,
	asm.FnSkbOutput:      true,
	asm.FnOverrideReturn: true,
}

// GplCompatible says whether the kernel takes a licence as compatible with the
// GPL (license_is_gpl_compatible, include/linux/license.h).
func GplCompatible(license string) bool {
	switch license {
	case "GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL":
		return true
	}
	return false
}
