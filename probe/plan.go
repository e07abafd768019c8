package probe

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/usdt"
)

// Plan says how targets will be attached: the programs to load with their types and
// attach types, the sites of each, and where each argument of each probe is found. It is
// plain data and holds no descriptor.
//
// The kernel fixes much of an attachment when a program is loaded, and compilers need
// USDT operands. The plan therefore comes before both: a compiler reads it, and Attach
// carries it out.
type Plan struct {
	// Arch is the architecture that the plan is for, as GOARCH spells it.
	Arch string
	// Kernel is the release that the plan is for: "6.1.0-56-cloud-amd64".
	Kernel string
	// Programs are the programs to load, in the order of the targets.
	Programs []ProgramPlan
	// Missing are targets, or matches of a wildcard, that cannot be attached and that the
	// caller's policy allows to be missing.
	Missing []Missing
	// Files are the files in which Resolve found the sites of user probes, by Site.Path.
	// Attach puts the probes into these files, even if the paths lead elsewhere by then,
	// and refuses files that were replaced or changed. A path without an entry, as in plans
	// recorded by older versions, is not compared.
	Files map[string]FileID
	// Filter says for which tasks the programs run, nil for all: Options.Filter.
	Filter *TaskFilter

	// BTF is the kernel's type information (Env.BTF), against which compilers resolve
	// field paths and named types; nil if there is none. It is neither printed nor
	// recorded. Resolve sets it if the environment has read it by then; Resolve does not
	// read it for this purpose alone.
	BTF *btf.Spec
	// Cache holds the kernel's types that the environment has read. A loader that sets
	// ebpf.CollectionOptions.Cache to it does not read them again, which takes 10–20 ms for
	// a collection with programs attached by BTF. Like BTF it is neither printed nor
	// recorded; it is nil in a plan for another machine.
	Cache *btf.Cache
	// Symbols are addresses of the symbols that an action names. The caller sets them
	// before Compile (Env looks them up, bpf.Resolve does so for a program); nil is none.
	Symbols map[string]uint64
}

// Missing is a target that a plan leaves out (Plan.Missing) or that the kernel
// refused (Link.Missing), and why.
type Missing struct {
	Target Target // the target, or the match of a wildcard
	Err    error  // why; never nil
}

// TargetError is the error for a target that cannot be attached, because of what it is on this machine
// or because the kernel refuses it.
type TargetError struct {
	Op     string // resolve or attach
	Target Target // the target, or the match of a wildcard
	Err    error  // why; never nil
}

// Error returns "attach kprobe:f: no kernel function f".
func (e *TargetError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Target, e.Err) }

// Unwrap returns Err.
func (e *TargetError) Unwrap() error { return e.Err }

// ProgramPlan is one BPF program of a plan.
type ProgramPlan struct {
	// Name is unique in the plan and a valid BPF object name (at most 15 bytes). Attach
	// looks for the loaded program by this name.
	Name string
	// Group is the index of the target, in the list given to Resolve, whose action the
	// program runs. Several programs may have the same Group: one for each distinct set of
	// argument locations, or for each program type of a Set.
	Group int

	// Type, AttachType, AttachTo and Flags are copied to ebpf.ProgramSpec unchanged.
	// Flags are those of BPF_PROG_LOAD (BPF_F_SLEEPABLE).
	Type       ebpf.ProgramType
	AttachType ebpf.AttachType
	AttachTo   string
	Flags      uint32
	// AttachTarget is the id of the BPF program that has the function AttachTo, 0 for a
	// kernel function. The loader opens the program by this id and sets
	// ebpf.ProgramSpec.AttachTarget.
	AttachTarget uint32

	// Context is what the program's argument (R1) points to.
	Context Context
	// Args are the arguments that every site of this program offers, by position: arg0,
	// arg1, …. For USDT their types are those of the first spec; the locations are in
	// Specs.
	Args []Arg
	// Fields are named context fields, of a tracepoint's record, of the perf event, or of
	// an iterator's context. Those of a user function are the members of arguments and
	// returned values that are structures: "p.x", "retval.x".
	Fields []Arg
	// Ret is the return value of a return probe or, at its returns, of a kprobe session; nil
	// elsewhere.
	Ret *Arg
	// Specs are the distinct argument sets of a USDT program's sites. A site's cookie says
	// which one is its own; with a single spec the cookie is not needed.
	Specs [][]Arg
	// UserRegs is set if Context's registers are those of user space (uprobes, USDT), so
	// that pointers read from them are user pointers.
	UserRegs bool
	// Returns is set if the program runs at the return of a function, by any method:
	// kretprobe, fexit, a uprobe on a RET instruction.
	Returns bool
	// Go describes the Go program that the sites are in, nil elsewhere.
	Go *GoTarget

	// Method is how the sites are attached.
	Method Method
	// Sites are the places where the program is attached.
	Sites []Site
	// FallbackReason says, for a person, why Method is not the first choice:
	// "kprobe.multi: CONFIG_FPROBE is not set". It is empty if Method is the first choice.
	FallbackReason string
}

// EntryReturn reports whether the program sees both the entries and the returns of its
// functions (Options.EntryReturn).
func (p *ProgramPlan) EntryReturn() bool { return isSession(p.AttachType) }

// Sleepable reports whether the program may sleep (BPF_F_SLEEPABLE), for example while
// user memory that it copies is read from disk.
func (p *ProgramPlan) Sleepable() bool { return p.Flags&flagSleepable != 0 }

// Preemptible reports whether a task may preempt another in the program and run it on the
// same CPU. This is so where the kernel neither disables preemption nor skips the second
// run: in user probes and in sleepable programs of tracepoints (uprobe_prog_run and
// bpf_prog_run_array_uprobe, kernel/trace/bpf_trace.c). Such a program can't build values
// in per-CPU maps. Since Linux 6.13 (arm64: 6.17), on preemptible kernels, it does not
// have its own stack either if it takes 64 bytes of stack or more and calls no other
// program with bpf_tail_call: the kernel gives it one for each CPU. Programs of packages
// action and collect contain such a call, on a path that no run reaches.
func (p *ProgramPlan) Preemptible() bool {
	switch p.Type {
	case ebpf.Kprobe:
		return p.UserRegs
	case ebpf.TracePoint, ebpf.RawTracepoint:
		return p.Sleepable()
	}
	return false
}

// Site is one place where a program is attached.
type Site struct {
	// Target is the target that this site came from. For a wildcard or a Set it is the one
	// match, so that its String names the probe.
	Target Target
	// Cookie is what bpf_get_attach_cookie returns there, 0 if the kernel or the method
	// has no cookies.
	Cookie Cookie

	// Symbol, Module and Address name the kernel function; Address includes Offset.
	Symbol  string
	Module  string
	Address uint64
	// Offset is in bytes: from Symbol's start in the kernel; in a file, the file offset of
	// the instruction.
	Offset uint64
	// Boundary is set for user probes if the file shows that an instruction begins at
	// Offset: its symbols, unwind table or Go function table give the start of a function,
	// and the instructions from there to Offset can be decoded. It is false only with
	// Options.Unsafe, and in plans recorded before the field existed.
	Boundary bool
	// Path is the file of a user probe, by a path that this process can open.
	Path string
	// RefCtrOffset is the file offset of a USDT semaphore, 0 for none.
	RefCtrOffset uint64
	// PID restricts a user probe to a process; 0 is all.
	PID int
	// CPU is the CPU of a perf event, -1 for any.
	CPU int
}

// Cookie is the value that a site is attached with. Only a plan assigns cookies. The low
// 32 bits are the site's index in all of the plan's sites, counted through Programs, plus
// one. The next 16 are the index in ProgramPlan.Specs; the upper 16 are the caller's
// (Options.Tag).
type Cookie uint64

// Site returns the site's index over all programs of the plan, -1 for a zero cookie.
func (c Cookie) Site() int { return int(uint32(c)) - 1 }

// Spec returns the index of the site's argument set in ProgramPlan.Specs.
func (c Cookie) Spec() int { return int(c>>32) & 0xffff }

// Tag returns the caller's 16 bits.
func (c Cookie) Tag() uint16 { return uint16(c >> 48) }

// MakeCookie returns the cookie of a site and spec by their indices, with a tag.
func MakeCookie(site, spec int, tag uint16) Cookie {
	return Cookie(uint32(site+1)) | Cookie(spec&0xffff)<<32 | Cookie(tag)<<48
}

// Context is the kind of context a program is given.
type Context uint8

// The contexts, with the kernel's type.
const (
	ContextNone    Context = iota
	ContextPtRegs          // struct pt_regs (bpf_user_pt_regs_t): kprobe, uprobe, USDT
	ContextPerf            // struct bpf_perf_event_data: regs, sample_period, addr
	ContextRecord          // a tracepoint's record, by its format file
	ContextRawArgs         // u64 args[]: raw tracepoint
	ContextTramp           // u64 args[], typed by BTF: fentry, fexit, tp_btf, LSM
	ContextIter            // struct bpf_iter__NAME
	ContextSocket          // struct __sk_buff
	ContextSyscall         // the caller's own struct (BPF_PROG_TYPE_SYSCALL)
)

// Method is how a program's sites are attached.
type Method uint8

// The methods.
const (
	MethodNone          Method = iota
	MethodPerfLink             // perf_event_open and a bpf_link (5.15+)
	MethodPerfIoctl            // perf_event_open and PERF_EVENT_IOC_SET_BPF
	MethodKprobeMulti          // one link for all sites (5.18+, CONFIG_FPROBE)
	MethodUprobeMulti          // one link for all sites of one file (6.6+)
	MethodTracing              // trampoline link: fentry, fexit, fmod_ret, tp_btf, LSM
	MethodRawTracepoint        // raw tracepoint link
	MethodTracefs              // a tracefs event, the last resort
	MethodIter                 // an iterator link
	MethodRun                  // run once by BPF_PROG_TEST_RUN: begin, end
	MethodSocket               // SO_ATTACH_BPF
	MethodTracingMulti         // one trampoline link for all sites (7.2)
)

// Arg is an argument, a field or a return value of a probe: its name, its type and
// where it is found.
type Arg struct {
	// Name is the parameter's name, or argN where it is not known.
	Name string
	// Type is its type, from BTF, DWARF, a tracepoint's format file or a USDT note; nil if
	// nothing is known (an untyped register).
	Type btf.Type
	// Loc says where the value is. A location with a Reason cannot be read.
	Loc Location
}

// Location says where a value is when the probe fires.
type Location struct {
	// Kind says which of the other fields count; LocationNone has a Reason.
	Kind LocationKind
	// Reg is the DWARF register number (LocationReg, LocationSum), as in stack.Regs.
	Reg int
	// Offset is, by kind: bytes from the context's start (LocationContext,
	// LocationDataLoc, LocationRelLoc), bytes from the stack pointer
	// (LocationStack), bytes from the register's lowest one, a multiple of Size
	// (LocationReg: not 0 for a member of a structure that is passed in registers), what is
	// added to the register (LocationSum), the value itself (LocationConst), the argument's
	// number (LocationFuncArg).
	Offset int64
	// Size is the number of bytes of the value at its location.
	Size int
	// Operand is a USDT argument's operand (LocationUSDT).
	Operand *usdt.Arg
	// User is set if a pointer held by the value points into user memory.
	User bool
	// Reason says why the value cannot be read: "struct by value". Empty if it can.
	Reason string
}

// LocationKind is a kind of location.
type LocationKind uint8

// The kinds.
const (
	LocationNone    LocationKind = iota
	LocationReg                  // a register of the pt_regs that the context points to (or holds)
	LocationStack                // memory at the stack pointer + Offset
	LocationContext              // the context itself, at Offset
	// a __data_loc of a tracepoint record: u32 at Offset, low 16 bits offset, high 16 length
	LocationDataLoc
	LocationRelLoc  // a __rel_loc: the same, relative to the end of the u32
	LocationUSDT    // Operand
	LocationConst   // the constant Offset
	LocationFuncArg // the argument of number Offset, by bpf_get_func_arg
	LocationFuncRet // the return value, by bpf_get_func_ret
	LocationSum     // the register Reg plus Offset: a parameter that the compiler has replaced
)

// GoTarget describes the Go program that a probe is in.
type GoTarget struct {
	// Version is the toolchain's version, "go1.26.8".
	Version string
	// GReg is the DWARF number of the register that holds the current g:
	// r14 on amd64, x28 on arm64 (ABIInternal).
	GReg int
	// GoidOffset is the offset of g.goid in bytes, 0 if it is not known for this version:
	// programs that read the goroutine's id are then refused.
	GoidOffset int64
}

// returnProbe reports whether the probe hijacks the return address; it does not if it is
// on return instructions.
func (p *ProgramPlan) returnProbe() bool { return p.Returns && p.Go == nil }
