package probe

import (
	"time"

	"github.com/borescope/borescope/pmc"
)

// Target names an event source, as plain data: what to attach to, not how.
// The set of kinds is closed; each is a struct of its own below. A Target
// prints in bpftrace's syntax, and ParseTarget reads that back.
//
// Names may hold the wildcards * ? [a-z] where bpftrace allows them; such a
// target stands for all that match, attached with one program where the kernel
// can.
type Target interface {
	// String is the target in bpftrace's syntax: "kprobe:vfs_read+4".
	String() string
	target()
}

// Kprobe fires when a kernel instruction is reached.
// "kprobe:vfs_read", "kprobe:ext4:ext4_sync_fs", "kprobe:vfs_read+4",
// "kprobe:0xffffffff81234567".
type Kprobe struct {
	Module  string // kernel module, "" for any
	Symbol  string // function; may hold wildcards; "" with Address
	Offset  uint64 // bytes from the function's start; an instruction boundary
	Address uint64 // raw kernel address, instead of Symbol
}

// Kretprobe fires when a kernel function returns. "kretprobe:vfs_read".
type Kretprobe struct {
	Module string // kernel module, "" for any
	Symbol string // function; may hold wildcards
	// MaxActive bounds the calls in flight that are seen, on kernels that
	// allocate return instances up front; 0 is the kernel's choice.
	MaxActive int
}

// Fentry fires at the entry of a kernel function, or of a BPF program, through
// a trampoline, with typed arguments. "fentry:vfs_read", "fentry:ext4:ext4_sync_fs",
// "fentry:bpf:123:name".
type Fentry struct {
	Module string // kernel module, "" for any
	Symbol string // function; may hold wildcards
	// BPF is the id of the BPF program whose function Symbol is; 0 for a kernel function.
	BPF uint32
}

// Fexit fires at the return of a function with its arguments and return value.
// "fexit:vfs_read", and otherwise as Fentry.
type Fexit struct {
	Module string // kernel module, "" for any
	Symbol string // function; may hold wildcards
	BPF    uint32 // id of the BPF program whose function Symbol is; 0 for a kernel function
}

// FmodRet may replace a function's return value, where the kernel permits it
// (ALLOW_ERROR_INJECTION and security_*). "fmod_ret:…".
type FmodRet struct {
	Module string // kernel module, "" for any
	Symbol string // function; may hold wildcards
}

// LSM fires at a security hook, and may refuse what is asked there.
// "lsm:file_open". The kernel needs "bpf" among its security modules (lsm= on
// its command line).
type LSM struct {
	Hook string // without "security_"; no wildcards, but List takes them
}

// Tracepoint fires at a static kernel tracepoint.
// "tracepoint:sched:sched_switch". Where a program returns 0 no perf event sees the
// hit, others' (perf stat's) neither.
type Tracepoint struct {
	Group string // a directory of tracefs' events; may hold wildcards
	Name  string // a tracepoint in it; may hold wildcards
	// Sleepable asks for a program that may sleep, and so may read user memory
	// that is not resident. Only the tracepoints of system calls take such (7.2).
	Sleepable bool
}

// RawTracepoint fires at a tracepoint before its record is built, with the
// tracepoint's own arguments; typed by BTF where the kernel has it (tp_btf).
// "rawtracepoint:sched_switch".
type RawTracepoint struct {
	Module string // kernel module, "" for any
	Name   string // without a group; may hold wildcards
	// Sleepable is as for a Tracepoint; sys_enter and sys_exit take it (7.2).
	Sleepable bool
}

// Uprobe fires when an instruction of a program or library is reached.
// "uprobe:/bin/bash:readline", "uprobe:libc:malloc", "uprobe:/bin/x:0x1234",
// "uprobe:/bin/x:main+4", "uprobe:/bin/x:cpp:ns::f(int)", "uprobe:/bin/x:main.c:42".
type Uprobe struct {
	// Path is the file: absolute, relative, a library's soname, or "" with PID
	// for that process's executable. It may hold wildcards. ARCHIVE!/FILE is a
	// file that is stored in a ZIP archive (Android's APK).
	Path string
	// Symbol is a function: ELF symbol, symbol@version, Go name, or demangled
	// C++ or Rust name where Lang says so. It may hold wildcards. Go functions
	// are probed behind the check of their stack's size, where they arrive once
	// for each call; their first instruction, where they arrive again when the
	// stack has grown, has an Address.
	Symbol string
	// Lang restricts Symbol to demangled names: "cpp", "rust", "go", or "".
	Lang string
	// Offset is added to Symbol. Without Symbol, Address counts.
	Offset uint64
	// Address is a virtual address in the file's own numbering, as nm and
	// objdump print it, where an instruction begins (else see Options.Unsafe);
	// used without Symbol.
	Address uint64
	// File, Line and, if it is not 0, Column name a source position (DWARF), used
	// without Symbol.
	File   string
	Line   int
	Column int
	// PID restricts the probe to one process (thread group); 0 is all.
	PID int
}

// Uretprobe fires when a user function returns. In Go programs it is attached
// to every return instruction, because return probes that replace the return
// address break goroutine stacks. "uretprobe:/bin/bash:readline".
type Uretprobe struct {
	Path   string // as a Uprobe's
	Symbol string // as a Uprobe's
	Lang   string // as a Uprobe's
	PID    int    // restricts the probe to one process; 0 is all
}

// USDT fires at a user statically defined tracepoint, at all of its sites.
// "usdt:/usr/bin/postgres:postgresql:query__start", "usdt:/path:name".
type USDT struct {
	Path     string // as a Uprobe's
	Provider string // "" is any; may hold wildcards
	Name     string // may hold wildcards
	PID      int    // restricts the probe to one process; 0 is all
}

// Perf fires when a performance event overflows or a timer expires. All
// sampling is this one kind; profile, interval, software, hardware and perf
// are its spellings: "profile:hz:99", "profile:us:100", "interval:s:1",
// "software:page-faults:100", "hardware:cache-misses:10000", "perf:EVENT:period:N",
// with "perf:EVENT:hz:N" where the event is in perf's own spelling.
type Perf struct {
	// Event is what is counted. The zero value is the best clock for
	// sampling where the CPU is busy: hardware cycles if there is a PMU, else cpu-clock.
	Event pmc.Event
	// Freq is samples per second and CPU; Period is events per sample. One of
	// them is set, except that Every alone makes a timer.
	Freq   uint64
	Period uint64
	// Every is the time between two firings of an interval timer, which fires
	// on one CPU only.
	Every time.Duration
	// PID restricts to one process; 0 is all. CPUs restricts to these CPUs; nil
	// is every online CPU.
	PID  int
	CPUs []int
	// Cgroup restricts to a cgroup, by its path under the cgroup mount; "" is all.
	Cgroup string
}

// Watchpoint fires when memory is read, written or executed.
// "watchpoint:0x10000:8:rw".
type Watchpoint struct {
	// Address is of the process PID, or of the kernel; a multiple of Length.
	Address uint64
	// Symbol is a kernel data symbol, instead of Address.
	Symbol string
	Length int    // 1, 2, 4 or 8 bytes
	Mode   string // any of "r", "w", "x" together
	PID    int    // 0: all processes (kernel addresses), else this process
}

// Iter runs once for each object that the kernel holds, when it is read.
// "iter:task", "iter:task_file", "iter:bpf_map".
type Iter struct {
	// Name is the kernel's, without "bpf_iter_"; no wildcards, but List takes them.
	Name string
	// PID restricts the task iterators to one process; 0 is all.
	PID int
}

// SocketFilter fires for every packet that an interface sends or receives: it is
// the filter of a packet socket that is bound to it. "socket:eth0".
type SocketFilter struct {
	Interface string // its name, in this process's network namespace
}

// Begin fires once, when all else is attached. "begin".
type Begin struct{}

// End fires once, before all else is detached. "end".
type End struct{}

// Set is several targets that share one action: "kprobe:a,kprobe:b".
type Set []Target

func (Kprobe) target()        {}
func (Kretprobe) target()     {}
func (Fentry) target()        {}
func (Fexit) target()         {}
func (FmodRet) target()       {}
func (LSM) target()           {}
func (Tracepoint) target()    {}
func (RawTracepoint) target() {}
func (Uprobe) target()        {}
func (Uretprobe) target()     {}
func (USDT) target()          {}
func (Perf) target()          {}
func (Watchpoint) target()    {}
func (Iter) target()          {}
func (SocketFilter) target()  {}
func (Begin) target()         {}
func (End) target()           {}
func (Set) target()           {}
