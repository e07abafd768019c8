package probe

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/usdt"
)

// Plan says how targets will be attached: which programs must be loaded, with
// which types and attach types, where each is put, and where each argument of
// each probe is found. It is plain data; nothing in it holds a descriptor.
//
// The kernel fixes much of an attachment when a program is loaded, and USDT
// operands are needed when it is compiled, so the plan stands between: a
// compiler reads it, and Attach carries it out.
type Plan struct {
	// Arch is the architecture the plan is for, as GOARCH spells it.
	Arch string
	// Kernel is the release it is for: "6.1.0-56-cloud-amd64".
	Kernel string
	// Programs are the programs to load, in the order of the targets.
	Programs []Program
	// Missing are targets, or matches of a wildcard, that cannot be attached
	// and that the caller's policy lets pass.
	Missing []Missing
	// Files are the files that Resolve read the places of user probes from, by
	// Site.Path. Attach puts the probes into these files, whatever their paths lead
	// to by then, and refuses what has been replaced or changed. A path that is
	// not there, as in plans recorded before this was, is not compared.
	Files map[string]userfile.FileID
	// Filter is for which tasks the programs run, nil for all: Options.Filter.
	Filter *TaskFilter

	// BTF is the kernel's type information (Env.BTF), which compilers resolve
	// field paths and named types against; nil where there is none. It is not
	// part of the plan's printed or recorded form. Resolve fills it in if the
	// environment has read it by then; it does not read it for this alone.
	BTF *btf.Spec
	// Cache is where the environment has the kernel's types, for who loads the
	// programs (ebpf.CollectionOptions.Cache) to read no second time: 10–20 ms a
	// collection whose programs are attached by BTF. Like BTF it is neither printed
	// nor recorded; nil of a plan for another machine.
	Cache *btf.Cache
	// Symbols are addresses of the symbols that an action names, for the caller
	// to fill in before Compile (Env looks them up, bpf.Resolve does it
	// for a program); nil is none.
	Symbols map[string]uint64
}

// Missing is a target that a plan leaves out (Plan.Missing) or that the kernel
// refused (Link.Missing), and why.
type Missing struct {
	Target Target // what is missing: of a wildcard, the match
	Err    error  // why; never nil
}

// Program is one BPF program of a plan.
type Program struct {
	// Name is unique in the plan and a valid BPF object name (at most 15
	// bytes): the name under which Attach looks for the loaded program.
	Name string
	// Group is the index of the target, in the list given to Resolve, whose
	// action the program runs. Several programs may share it: one for each
	// distinct set of argument locations, or each program type of a Set.
	Group int

	// Type, AttachType, AttachTo and Flags go into ebpf.ProgramSpec as they are.
	// Flags are those of BPF_PROG_LOAD (BPF_F_SLEEPABLE).
	Type       ebpf.ProgramType
	AttachType ebpf.AttachType
	AttachTo   string
	Flags      uint32
	// AttachTarget is the id of the BPF program whose function AttachTo is, 0
	// for a kernel function. Whoever loads the program opens it by this id and
	// sets ebpf.ProgramSpec.AttachTarget.
	AttachTarget uint32

	// Context is what the program's argument (R1) points to.
	Context Context
	// Args are the arguments that every site of this program offers, by
	// position: arg0, arg1, …. For USDT they are typed by the first spec; the
	// locations are in Specs.
	Args []Arg
	// Fields are named context fields: those of a tracepoint's record, of the
	// perf event, of an iterator's context.
	Fields []Arg
	// Ret is the return value of a return probe, nil elsewhere.
	Ret *Arg
	// Specs are the distinct argument sets of a USDT program's sites. A site's
	// cookie says which one holds; with one spec there is nothing to choose.
	Specs [][]Arg
	// UserRegs is set where Context's registers are those of user space
	// (uprobes, USDT), so that pointers read from them are user pointers.
	UserRegs bool
	// Returns is set where the program runs at the return of a function,
	// whatever the attachment: kretprobe, fexit, a uprobe on a RET instruction.
	Returns bool
	// Go describes a target in a Go program, nil elsewhere.
	Go *GoTarget

	// Method is how the sites are attached.
	Method Method
	// Sites are the places.
	Sites []Site
	// FallbackReason says, for a person, why this way was chosen when it is not the first
	// choice: "kprobe.multi: CONFIG_FPROBE is not set". Empty otherwise.
	FallbackReason string
}

// Session reports whether the program sees both the entries and the returns of its
// functions (Options.Session).
func (p *Program) Session() bool { return isSession(p.AttachType) }

// Sleepable reports whether the program may sleep (BPF_F_SLEEPABLE), as where
// copying user memory may read it from disk first.
func (p *Program) Sleepable() bool { return p.Flags&flagSleepable != 0 }

// Preemptible tells whether a task may preempt another in the program and run it on
// the same CPU: where the kernel neither turns preemption off nor leaves the second
// run out, in user probes and in programs of tracepoints that may sleep (uprobe_prog_run
// and bpf_prog_run_array_uprobe, kernel/trace/bpf_trace.c). Such a program can't build
// values in per-CPU maps. Since Linux 6.13 (arm64: 6.17) it has no stack of its own
// either, on kernels that preempt, if it takes 64 bytes of stack or more and calls no
// other program with bpf_tail_call: the kernel gives it one for each CPU. Programs of
// packages action and collect call one where no run gets to.
func (p *Program) Preemptible() bool {
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
	// Target is the target this site came from: of a wildcard or a Set, the
	// one match, so that its String names the probe.
	Target Target
	// Cookie is what bpf_get_attach_cookie returns there, 0 where the kernel
	// or the method has no cookies.
	Cookie Cookie

	// Symbol, Module and Address are the kernel function; Address includes Offset.
	Symbol  string
	Module  string
	Address uint64
	// Offset is, in the kernel, from Symbol's start; in a file, the file
	// offset of the instruction.
	Offset uint64
	// Boundary is set for user probes where the file shows that an instruction
	// begins at Offset: its symbols, unwind table, or Go's function table say where
	// a function does, and the instructions up to there can be told. It may be
	// false only where Options.Unsafe was given, and in plans recorded before it
	// was there.
	Boundary bool
	// Path is the file of a user probe, as this process can open it.
	Path string
	// RefCtrOffset is the file offset of a USDT semaphore, 0 for none.
	RefCtrOffset uint64
	// PID restricts a user probe to a process, 0 is all.
	PID int
	// CPU is the CPU of a perf event, -1 for any.
	CPU int
}

// Cookie is the value a site is attached with. Only a plan allots cookies:
// the site's index in all of the plan's sites, counted through Programs, plus
// one, in the low 32 bits; the index in Program.Specs in the next 16; the upper
// 16 are the caller's (Options.Tag).
type Cookie uint64

// Site returns the site's index over all programs of the plan, -1 for a zero cookie.
func (c Cookie) Site() int { return int(uint32(c)) - 1 }

// Spec returns the index of the site's argument set in Program.Specs.
func (c Cookie) Spec() int { return int(c>>32) & 0xffff }

// Tag returns the caller's 16 bits.
func (c Cookie) Tag() uint16 { return uint16(c >> 48) }

// MakeCookie packs a cookie.
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

// Arg is an argument, a field or a return value of a probe: name, type and
// where it is found.
type Arg struct {
	// Name is the parameter's name, or argN where it is not known.
	Name string
	// Type is its type, also where it came from DWARF, a tracepoint's format
	// file or a USDT note; nil where nothing is known (an untyped register).
	Type btf.Type
	// Loc says where the value is. A location with a Reason cannot be read.
	Loc Location
}

// Location says where a value is when the probe fires.
type Location struct {
	// Kind says which of the other fields count; LocationNone has a Reason.
	Kind LocationKind
	// Reg is the DWARF register number (LocationReg), as in stack.Regs.
	Reg int
	// Offset is, by kind: bytes from the context's start (LocationContext,
	// LocationDataLoc, LocationRelLoc), bytes from the stack pointer
	// (LocationStack), the value itself (LocationConst), the argument's number
	// (LocationFuncArg).
	Offset int64
	// Size is how many bytes the value has where it lies.
	Size int
	// Operand is a USDT argument's operand (LocationUSDT).
	Operand *usdt.Arg
	// User is set where a pointer held by the value points into user memory.
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
	LocationDataLoc              // a __data_loc of a tracepoint record: u32 at Offset, low 16 bits offset, high 16 length
	LocationRelLoc               // a __rel_loc: the same, relative to the end of the u32
	LocationUSDT                 // Operand
	LocationConst                // the constant Offset
	LocationFuncArg              // what bpf_get_func_arg has by the number Offset
	LocationFuncRet              // what bpf_get_func_ret has, when the function returns
)

// GoTarget is what a probe needs to know of the Go program it is in.
type GoTarget struct {
	// Version is the toolchain, "go1.26.8".
	Version string
	// GReg is the DWARF number of the register that holds the current g:
	// r14 on amd64, x28 on arm64 (ABIInternal).
	GReg int
	// GoidOffset is the offset of g.goid, 0 where this version's is not known:
	// programs that ask for the goroutine's id are then refused.
	GoidOffset int64
}

// returnProbe tells a probe that hijacks the return address from one that sits
// on return instructions.
func (p *Program) returnProbe() bool { return p.Returns && p.Go == nil }
