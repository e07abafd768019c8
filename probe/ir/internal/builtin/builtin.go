// Package builtin is the table of the builtin values of programs. Package ir shows the part that
// is about their use. The checker, the optimiser, the code generator and the loader read the rest.
//
// A value that one helper returns is a row of this table and nothing else. One that is put together
// from other expressions has a function in check's lowerings, and one that needs instructions of
// its own has a function in codegen's generated.
package builtin

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf/asm"
)

// Row describes a builtin.
type Row struct {
	// Name is the name that ir.NewBuiltin takes.
	Name string
	// Doc is a description of one line.
	Doc string
	// Value tells the type, and how the value is printed.
	Value Value
	// Since is the first kernel with native support, major and minor; {0, 0} is 5.10 or older.
	Since [2]int
	// GPL is set if a program that uses the builtin needs a GPL-compatible licence.
	GPL bool

	// Helper returns the value, or one that the generator continues with; 0 is none.
	Helper asm.BuiltinFunc
	// Part selects the value from Helper's result.
	Part Part
	// Context is set if Helper, or the builtin's own instructions, take the context.
	Context bool
	// Clock is set if the value changes while a probe runs: reading it must not be moved.
	Clock bool
	// Kernel are the members of the kernel's structs that the value is read from, on all
	// architectures. A Member without a name is the type alone.
	Kernel []Member
	// TaskIDs is set if the value is a number of another task than the current one.
	TaskIDs bool
	// Session is set if the value exists only in programs that are both entry and return of
	// their functions.
	Session bool
	// Site is set if the value tells which of a program's sites fired.
	Site bool
}

// Member is a member of a struct of the kernel's.
type Member struct{ Type, Name string }

// Value is a kind of values: a type, and a format in which it is printed.
type Value uint8

// These are the kinds of values; package ir has their types.
const (
	Uint32 Value = iota
	Uint64
	Bool
	Comm          // text of TASK_COMM_LEN
	Kind          // text that any kind of target fits in
	Address       // pointer of no type
	KernelAddress // 64 bits, printed as a symbol
	UserAddress
	Cgroup
	Time // nanoseconds of CLOCK_MONOTONIC
	BootTime
	TAITime
	Site
)

// Part is a part of a helper's result of 64 bits.
type Part uint8

// These are the parts.
const (
	Whole Part = iota
	Low        // the lower 32 bits
	High       // the upper 32 bits
)

var rows = []Row{
	{
		Name: "pid", Value: Uint32, Helper: asm.FnGetCurrentPidTgid, Part: High,
		Doc: "process id (thread group) of the current task, in the pid namespace of whoever loads the program; with bit 31 set, in the initial one",
	},
	{
		Name: "tid", Value: Uint32, Helper: asm.FnGetCurrentPidTgid, Part: Low,
		Doc: "thread id of the current task, in the namespace of pid",
	},
	{
		Name: "pidtgid", Value: Uint64, Helper: asm.FnGetCurrentPidTgid,
		Doc: "process id in the upper half, thread id in the lower",
	},
	{
		Name: "uid", Value: Uint32, Helper: asm.FnGetCurrentUidGid, Part: Low,
		Doc: "user id of the current task, in the initial namespace",
	},
	{
		Name: "gid", Value: Uint32, Helper: asm.FnGetCurrentUidGid, Part: High,
		Doc: "group id of the current task",
	},
	{
		Name: "comm", Value: Comm, Helper: asm.FnGetCurrentComm,
		Doc: "name of the current thread",
	},
	{Name: "cpu", Value: Uint32, Helper: asm.FnGetSmpProcessorId, Doc: "CPU number"},
	{Name: "numa", Value: Uint32, Helper: asm.FnGetNumaNodeId, Doc: "NUMA node of the CPU"},
	{
		Name: "cgroup", Value: Cgroup, Helper: asm.FnGetCurrentCgroupId,
		Doc: "cgroup2 id of the current task",
	},
	{
		Name: "nsecs", Value: Time, Helper: asm.FnKtimeGetNs, Clock: true,
		Doc: "CLOCK_MONOTONIC, nanoseconds",
	},
	{
		Name: "nsecs_boot", Value: BootTime, Helper: asm.FnKtimeGetBootNs, Clock: true,
		Doc: "CLOCK_BOOTTIME, nanoseconds",
	},
	{
		Name: "nsecs_tai", Value: TAITime, Since: [2]int{6, 1}, Helper: asm.FnKtimeGetTaiNs, Clock: true,
		Doc: "CLOCK_TAI, nanoseconds",
	},
	{
		Name: "nsecs_sw_tai", Value: TAITime, Helper: asm.FnKtimeGetNs, Clock: true,
		Doc: "CLOCK_TAI as it was ahead of CLOCK_MONOTONIC when the program was loaded, for kernels without nsecs_tai",
	},
	{
		Name: "elapsed", Value: Uint64, Helper: asm.FnKtimeGetNs, Clock: true,
		Doc: "nanoseconds since the program was loaded",
	},
	{
		Name: "jiffies", Value: Uint64, Helper: asm.FnJiffies64, Clock: true,
		Doc: "the kernel's tick count",
	},
	{
		Name: "rand", Value: Uint32, Helper: asm.FnGetPrandomU32, Clock: true,
		Doc: "pseudo-random number",
	},
	{
		Name: "curtask", Value: Address, GPL: true, Helper: asm.FnGetCurrentTask,
		Kernel: []Member{{"task_struct", ""}},
		Doc:    "the current task, ptr(struct task_struct)",
	},
	{
		Name: "ppid", Value: Uint32, GPL: true, TaskIDs: true,
		Kernel: []Member{{"task_struct", "real_parent"}},
		Doc:    "process id of the parent, in the namespace of pid (needs BTF)",
	},
	{
		Name: "func", Value: KernelAddress, GPL: true, Since: [2]int{5, 15},
		Helper: asm.FnGetFuncIp, Context: true,
		Doc: "address of the probed function; before 5.15 only where a program has one site, and in uretprobes since 6.6",
	},
	{
		Name: "probe", Value: Site, Since: [2]int{5, 15},
		Helper: asm.FnGetAttachCookie, Context: true, Site: true,
		Doc: "which probe fired: index of the site in the plan, plus one",
	},
	{
		Name: "cookie", Value: Uint64, Since: [2]int{5, 15},
		Helper: asm.FnGetAttachCookie, Context: true, Site: true,
		Doc: "the site's whole attach cookie",
	},
	{
		Name: "nspid", Value: Uint32,
		Doc: "process id of the current task in the pid namespace of whoever loaded the program, 0 outside of it",
	},
	{
		Name: "nstid", Value: Uint32,
		Doc: "thread id of the current task in that namespace, 0 outside of it",
	},
	{
		Name: "pcomm", Value: Comm, GPL: true,
		Kernel: []Member{{"task_struct", "group_leader"}, {"task_struct", "comm"}},
		Doc:    "name of the current process: of its first thread (needs BTF)",
	},
	{
		Name: "compat", Value: Bool, GPL: true,
		Kernel: []Member{
			{"task_struct", "thread_info"}, {"thread_info", "status"}, {"thread_info", "flags"},
		},
		Doc: "whether the current task is in a system call of the 32-bit ABI (i386's on amd64, arm's on arm64), whose numbers are other calls' (needs BTF)",
	},
	{Name: "ncpus", Value: Uint32, Doc: "CPUs that there may be, online or not"},
	{Name: "usermode", Value: Bool, Doc: "whether the event hit the process in its own code"},
	{
		Name: "probetype", Value: Kind,
		Doc: "kind of the probe, as its target prints: kprobe, tracepoint",
	},
	{
		Name: "is_return", Value: Bool, Context: true, Session: true,
		Doc: "whether the probe is at a function's return; in session programs (GPL there) as it turns out",
	},
	{
		Name: "session_cookie", Value: Uint64, GPL: true, Since: [2]int{6, 10}, Context: true, Session: true,
		Doc: "what the entry of this call kept for its return, in session programs",
	},
	{
		Name: "call_id", Value: Uint64,
		Doc: "who is in a call: the goroutine in Go programs, else the thread, or the CPU where it idles",
	},
	{
		Name: "goframe", Value: Uint64,
		Doc: "a call's place in its goroutine's stack, counted from the stack's top, which stays when the stack moves; 0 in what is no Go program",
	},
	{Name: "goid", Value: Uint64, GPL: true, Doc: "goroutine id, in probes on Go programs"},
	{Name: "ctx", Value: Address, Context: true, Doc: "the context's address"},
	{Name: "ip", Value: UserAddress, Doc: "instruction pointer of the context's registers"},
	{Name: "sp", Value: Uint64, Doc: "stack pointer of the context's registers"},
}

func init() {
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
}

// Rows returns the table, ordered by name. The caller must not change it.
func Rows() []Row { return rows }

// Named returns the row of a name, the zero Row if there is none.
func Named(name string) Row {
	i, ok := slices.BinarySearchFunc(rows, name, func(r Row, name string) int {
		return strings.Compare(r.Name, name)
	})
	if !ok {
		return Row{}
	}
	return rows[i]
}
