package ir

import (
	"sort"
)

// Builtin describes a builtin value.
type Builtin struct {
	// Name is the name that NewBuiltin takes.
	Name string
	// Type is the type of the value.
	Type Type
	// Since is the first kernel with native support; {0, 0} is 5.10 or older.
	Since Version
	// GPL is set if a program that uses the builtin needs a GPL-compatible licence. Reading
	// memory and stacks, perf buffers and overriding returns need one too. Counting, timing,
	// thread names and ring buffers do not.
	GPL bool
	// Doc is a description of one line.
	Doc string
}

// Version is a kernel version, major and minor.
type Version [2]int

// AtLeast reports whether v is o or later.
func (v Version) AtLeast(o Version) bool { return v[0] > o[0] || v[0] == o[0] && v[1] >= o[1] }

var u32, u64 = IntType(4, false), IntType(8, false)

var builtins = map[string]Builtin{
	"pid":     {Type: u32, Doc: "process id (thread group) of the current task, in the pid namespace of whoever loads the program; with bit 31 set, in the initial one"},
	"tid":     {Type: u32, Doc: "thread id of the current task, in the namespace of pid"},
	"pidtgid": {Type: u64, Doc: "process id in the upper half, thread id in the lower"},
	"uid":     {Type: u32, Doc: "user id of the current task, in the initial namespace"},
	"gid":     {Type: u32, Doc: "group id of the current task"},
	"comm":    {Type: StringType(16), Doc: "name of the current thread"},
	"cpu":     {Type: u32, Doc: "CPU number"},
	"numa":    {Type: u32, Doc: "NUMA node of the CPU"},
	"cgroup": {
		Type: u64.WithFormat(FormatCgroup),
		Doc:  "cgroup2 id of the current task",
	},
	"nsecs":      {Type: u64.WithFormat(FormatTime), Doc: "CLOCK_MONOTONIC, nanoseconds"},
	"nsecs_boot": {Type: u64.WithFormat(FormatBoot), Doc: "CLOCK_BOOTTIME, nanoseconds"},
	"nsecs_tai": {
		Type: u64.WithFormat(FormatTAI), Since: [2]int{6, 1},
		Doc: "CLOCK_TAI, nanoseconds",
	},
	"nsecs_sw_tai": {
		Type: u64.WithFormat(FormatTAI),
		Doc:  "CLOCK_TAI as it was ahead of CLOCK_MONOTONIC when the program was loaded, for kernels without nsecs_tai",
	},
	"elapsed": {Type: u64, Doc: "nanoseconds since the program was loaded"},
	"jiffies": {Type: u64, Doc: "the kernel's tick count"},
	"rand":    {Type: u32, Doc: "pseudo-random number"},
	"curtask": {
		Type: PtrType(nil, false), GPL: true,
		Doc: "the current task, ptr(struct task_struct)",
	},
	"ppid": {
		Type: u32, GPL: true,
		Doc: "process id of the parent, in the namespace of pid (needs BTF)",
	},
	"func": {
		Type: u64.WithFormat(FormatKsym), GPL: true, Since: [2]int{5, 15},
		Doc: "address of the probed function; before 5.15 only where a program has one site",
	},
	"probe": {
		Type: u64.WithFormat(FormatProbe), Since: [2]int{5, 15},
		Doc: "which probe fired: index of the site in the plan, plus one",
	},
	"cookie": {Type: u64, Since: [2]int{5, 15}, Doc: "the site's whole attach cookie"},
	"nspid":  {Type: u32, Doc: "process id of the current task in the pid namespace of whoever loaded the program, 0 outside of it"},
	"nstid": {
		Type: u32,
		Doc:  "thread id of the current task in that namespace, 0 outside of it",
	},
	"pcomm": {
		Type: StringType(16), GPL: true,
		Doc: "name of the current process: of its first thread (needs BTF)",
	},
	"compat": {
		Type: BoolType(), GPL: true,
		Doc: "whether the current task is in a system call of the 32-bit ABI (i386's on amd64, arm's on arm64), whose numbers are other calls' (needs BTF)",
	},
	"ncpus":    {Type: u32, Doc: "CPUs that there may be, online or not"},
	"usermode": {Type: BoolType(), Doc: "whether the event hit the process in its own code"},
	"probetype": {
		Type: StringType(24),
		Doc:  "kind of the probe, as its target prints: kprobe, tracepoint",
	},
	"is_return": {
		Type: BoolType(),
		Doc:  "whether the probe is at a function's return; in session programs (GPL there) as it turns out",
	},
	"session_cookie": {
		Type: u64, GPL: true, Since: [2]int{6, 10},
		Doc: "what the entry of this call kept for its return, in session programs",
	},
	"call_id": {Type: u64, Doc: "who is in a call: the goroutine in Go programs, else the thread, or the CPU where it idles"},
	"goframe": {Type: u64, Doc: "a call's place in its goroutine's stack, counted from the stack's top, which stays when the stack moves; 0 in what is no Go program"},
	"goid":    {Type: u64, GPL: true, Doc: "goroutine id, in probes on Go programs"},
	"ctx":     {Type: PtrType(nil, false), Doc: "the context's address"},
	"ip": {
		Type: u64.WithFormat(FormatUsym),
		Doc:  "instruction pointer of the context's registers",
	},
	"sp": {Type: u64, Doc: "stack pointer of the context's registers"},
}

// BuiltinNamed returns the builtin of that name; ok reports whether there is one.
func BuiltinNamed(name string) (b Builtin, ok bool) {
	b, ok = builtins[name]
	b.Name = name
	return b, ok
}

// Builtins returns the builtin values, ordered by name.
func Builtins() []Builtin {
	out := make([]Builtin, 0, len(builtins))
	for name, b := range builtins {
		b.Name = name
		out = append(out, b)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
