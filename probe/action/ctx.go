package action

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
)

// Program is a program written in Go: On records what its probes do. The recording is the
// embedded ir.Program, which holds the program's options too.
type Program struct{ *ir.Program }

// NewProgram returns an empty program.
func NewProgram(name string) *Program { return &Program{&ir.Program{Name: name}} }

// On adds an action: what the program does where target fires. It calls build once, before it
// returns, to record the action. build must not keep c.
func (p *Program) On(target probe.Target, build func(c *Ctx)) {
	c := &Ctx{p: p.Program}
	c.list = &c.root
	if build == nil || target == nil {
		c.errorf("on %v: a target and a function that records what happens there are needed", target)
		return
	}
	build(c)
	c.done = true
	p.Actions = append(p.Actions, ir.Action{Target: target, Body: c.root, Pos: callerPos()})
}

// OnCall adds an action that runs at the entries and at the returns of functions as one
// program: entry first, then ret with the same call cookie, unless entry called Skip.
// Attach plans it so for a program that has no other actions; otherwise set
// probe.Options.EntryReturn. The kernel calls such programs sessions.
func (p *Program) OnCall(target probe.Target, entry, ret func(c *Ctx)) {
	p.On(target, func(c *Ctx) {
		c.If(c.IsReturn(), func() { ret(c) }, func() { entry(c) })
	})
}

// Ctx records an action. Its methods stand for what happens when the probe fires, in the
// order of the calls. A value that a method returns is read at that point, once. A Ctx is
// used by one goroutine.
type Ctx struct {
	p    *ir.Program
	root []*ir.Stmt
	list *[]*ir.Stmt
	vars int
	done bool // the function that records the action has returned
}

// errorf remembers a mistake of the caller, which Compile reports.
func (c *Ctx) errorf(format string, args ...any) {
	c.p.Errs = append(c.p.Errs, &ir.Error{Pos: callerPos(), Err: fmt.Errorf(format, args...)})
}

// callerPos is the position in the code that uses this package.
func callerPos() ir.Pos {
	var pcs [12]uintptr
	n := runtime.Callers(3, pcs[:])
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "probe/action.") || strings.HasSuffix(f.File, "_test.go") {
			return ir.Pos{File: f.File[strings.LastIndexByte(f.File, '/')+1:], Line: f.Line}
		}
		if !more {
			return ir.Pos{}
		}
	}
}

// Do appends a statement of the IR.
func (c *Ctx) Do(s *ir.Stmt) {
	if c.done {
		c.errorf("%s: the function that was given to On has returned: what it recorded is complete", s.Op)
		return
	}
	if s.Pos == (ir.Pos{}) {
		s.Pos = callerPos()
	}
	*c.list = append(*c.list, s)
}

// read reads e now, into a temporary.
func (c *Ctx) read(e *ir.Expr) Int {
	if c == nil {
		return Int{nil, e}
	}
	v := c.newVar("t")
	switch e.Op { // types that are known before the plan is
	case ir.OpStr, ir.OpBuf, ir.OpPath:
		v.Type = e.Type
	case ir.OpKstack, ir.OpUstack, ir.OpUstackWalk:
		n := e.Int
		if n == 0 {
			n = ir.DefaultFrames
		}
		v.Type = ir.BytesType(int(n) * 8).WithFormat(ir.FormatUstack)
		if e.Op == ir.OpKstack {
			v.Type.Format = ir.FormatKstack
		}
	}
	c.Do(&ir.Stmt{Op: ir.StmtLet, Var: v, X: e})
	return Int{c, ir.NewVar(v)}
}

func (c *Ctx) newVar(prefix string) *ir.Var {
	c.vars++
	return &ir.Var{Name: fmt.Sprintf("%s%d", prefix, c.vars)}
}

// block records what body does into a list of its own.
func (c *Ctx) block(body func()) []*ir.Stmt {
	if body == nil {
		return nil
	}
	was := c.list
	var list []*ir.Stmt
	c.list = &list
	body()
	c.list = was
	return list
}

// Let computes a value now and keeps it. Without Let it would be computed at every use.
func (c *Ctx) Let(x any) Int { return c.read(lift(x)) }

// NewVar declares a variable of the action with an initial value.
func (c *Ctx) NewVar(x any) *LocalVar {
	v := c.newVar("v")
	e := lift(x)
	if e.Op == ir.OpConst && e.Type.Kind == ir.KindAuto {
		v.Type = ir.Int64Type()
	}
	c.Do(&ir.Stmt{Op: ir.StmtLet, Var: v, X: e})
	return &LocalVar{c, v}
}

// LocalVar is a variable of an action. Unlike other values it can be set again, also in loops
// and branches.
type LocalVar struct {
	c *Ctx
	v *ir.Var
}

// Set changes the variable.
func (l *LocalVar) Set(x any) { l.c.Do(&ir.Stmt{Op: ir.StmtLet, Var: l.v, X: lift(x)}) }

// Int returns the variable's value at the point of use, not at the call of Int.
func (l *LocalVar) Int() Int { return Int{l.c, ir.NewVar(l.v)} }

// Str returns the variable's text.
func (l *LocalVar) Str() Str { return Str(l.Int()) }

// If runs then if cond holds, and the functions in els otherwise.
func (c *Ctx) If(cond Bool, then func(), els ...func()) {
	s := &ir.Stmt{Op: ir.StmtIf, X: cond.Expr(), Pos: callerPos()}
	s.Body = c.block(then)
	for _, e := range els {
		s.Else = append(s.Else, c.block(e)...)
	}
	c.Do(s)
}

// Return ends the action.
func (c *Ctx) Return() { c.Do(&ir.Stmt{Op: ir.StmtReturn}) }

// ReturnUnless ends the action unless cond holds. It is how filters are written.
func (c *Ctx) ReturnUnless(cond Bool) {
	c.Do(&ir.Stmt{
		Op: ir.StmtIf, X: ir.NewExpr(ir.OpLNot, cond.Expr()),
		Body: []*ir.Stmt{{Op: ir.StmtReturn, Pos: callerPos()}},
	})
}

// Loop runs body n times, but not more than most times, with an index that starts at 0.
// Kernels before 5.17 verify every iteration, so keep most small there: Loop fails above 4096
// on such kernels, and above 8 million on others.
func (c *Ctx) Loop(n any, most int, body func(i Int)) {
	s := &ir.Stmt{Op: ir.StmtLoop, X: lift(n), Max: most, Var: c.newVar("i"), Pos: callerPos()}
	s.Body = c.block(func() { body(Int{c, ir.NewVar(s.Var)}) })
	c.Do(s)
}

// Break leaves the innermost loop.
func (c *Ctx) Break() { c.Do(&ir.Stmt{Op: ir.StmtBreak}) }

// Continue starts the next iteration of the innermost loop.
func (c *Ctx) Continue() { c.Do(&ir.Stmt{Op: ir.StmtContinue}) }

// Signal sends a signal to the current process, or only to the current thread if thread is
// set.
func (c *Ctx) Signal(sig any, thread bool) {
	c.Do(&ir.Stmt{Op: ir.StmtSignal, X: lift(sig), Thread: thread})
}

// Exit asks the owner of the session to end with an exit code: see Session.ExitRequested and
// Session.ExitCode.
func (c *Ctx) Exit(code any) { c.Do(&ir.Stmt{Op: ir.StmtExit, X: lift(code)}) }

// Override makes the probed kernel function return x without running. The kernel must permit
// that: for kprobes on functions marked for error injection (CONFIG_BPF_KPROBE_OVERRIDE), and
// for fmod_ret.
func (c *Ctx) Override(x any) { c.Do(&ir.Stmt{Op: ir.StmtOverride, X: lift(x)}) }

// IsReturn reports whether the probe is at a function's return. A program of
// OnCall runs at both, so there the answer is known only when the probe fires. Attach plans
// the actions that ask for it so (probe.Options.EntryReturnTargets).
func (c *Ctx) IsReturn() Bool { return Bool(c.Builtin("is_return")) }

// Skip suppresses the probe at the return of this call. It is for the entry in
// programs of OnCall (kprobes Linux 6.10, uprobes 6.13, fentry 7.0).
func (c *Ctx) Skip() { c.Do(&ir.Stmt{Op: ir.StmtSkip}) }

// SetCallCookie keeps a number for the return of the same call, in programs of OnCall. It
// does what a Pair does elsewhere, without a map (bpf_session_cookie).
func (c *Ctx) SetCallCookie(x any) { c.Do(&ir.Stmt{Op: ir.StmtCookie, X: lift(x)}) }

// CallCookie returns what the entry of the same call kept, or 0.
func (c *Ctx) CallCookie() Int { return c.Builtin("session_cookie") }

// Builtin reads a builtin by name; ir.Builtins lists them.
func (c *Ctx) Builtin(name string) Int {
	return c.read(&ir.Expr{Op: ir.OpBuiltin, Str: name, Pos: callerPos()})
}

// PID returns the process id (thread group id) of the current task, in the pid namespace of
// the process that loads the program: in a container, the number that ps shows there. A task
// outside of that namespace has its number in the initial namespace with bit 31 set, so that
// it is distinct. Numbers in the records of tracepoints (Field) and in the kernel's
// structures are those of the initial namespace. To compare with them, read Member("tgid") or
// Member("pid") of CurTask. For a pointer to another task, TaskPID and TaskTID return numbers
// like PID.
func (c *Ctx) PID() Int { return c.Builtin("pid") }

// TID returns the thread id of the current task, in the same namespace as PID.
func (c *Ctx) TID() Int { return c.Builtin("tid") }

// UID returns the user id of the current task.
func (c *Ctx) UID() Int { return c.Builtin("uid") }

// CPU returns the number of the CPU that the program runs on.
func (c *Ctx) CPU() Int { return c.Builtin("cpu") }

// Cgroup returns the cgroup2 id of the current task.
func (c *Ctx) Cgroup() Int { return c.Builtin("cgroup") }

// Nsecs returns CLOCK_MONOTONIC in nanoseconds.
func (c *Ctx) Nsecs() Int { return c.Builtin("nsecs") }

// PPID returns the process id of the parent, in the same namespace as PID. It needs BTF.
func (c *Ctx) PPID() Int { return c.Builtin("ppid") }

// Probe returns the number of the probe that fired: the index of its site in the plan, plus
// one.
func (c *Ctx) Probe() Int { return c.Builtin("probe") }

// PComm returns the name of the current process, which is that of its first thread. It needs
// BTF.
func (c *Ctx) PComm() Str { return Str(c.Builtin("pcomm")) }

// Compat reports whether the current task is in a system call of the 32-bit ABI: i386's on
// amd64, where 64-bit programs make such calls with int 0x80, and arm's on arm64. Its number,
// the field id of the tracepoints of group raw_syscalls, is in a table of its own
// (sysnames.Compat), and what it points to has the layout of 32-bit programs. The tracepoints
// of group syscalls do not fire for such calls. Compat needs BTF, and holds until the call
// has returned; an exec returns as what it has executed.
func (c *Ctx) Compat() Bool { return Bool(c.Builtin("compat")) }

// Comm returns the name of the current thread.
func (c *Ctx) Comm() Str { return Str(c.Builtin("comm")) }

// CurTask returns the current task: with BTF, a pointer to struct task_struct.
func (c *Ctx) CurTask() Ptr { return Ptr(c.Builtin("curtask")) }

// Arg returns argument number i of the probe, counted from 0.
func (c *Ctx) Arg(i int) Int {
	return c.read(&ir.Expr{Op: ir.OpArg, Int: int64(i), Pos: callerPos()})
}

// ArgNamed returns the argument of that name.
func (c *Ctx) ArgNamed(name string) Int {
	return c.read(&ir.Expr{Op: ir.OpArg, Str: name, Pos: callerPos()})
}

// Field returns a field of a tracepoint's record, or of another context that has names.
func (c *Ctx) Field(name string) Int {
	return c.read(&ir.Expr{Op: ir.OpField, Str: name, Pos: callerPos()})
}

// Ret returns the return value, in return probes.
func (c *Ctx) Ret() Int { return c.read(&ir.Expr{Op: ir.OpRet, Pos: callerPos()}) }

// Reg returns a register of the context by its DWARF number (package stack has names).
func (c *Ctx) Reg(n int) Int {
	return c.read(&ir.Expr{Op: ir.OpReg, Int: int64(n), Pos: callerPos()})
}

// Kstack returns the kernel stack: up to frames program counters.
func (c *Ctx) Kstack(frames int) Stack {
	return Stack{c.read(&ir.Expr{Op: ir.OpKstack, Int: int64(frames), Pos: callerPos()}).e}
}

// Ustack returns the user stack, walked by frame pointers: up to frames program counters. Addresses mean
// nothing without the time: a process may execute another program, and load another library where one was.
// Keep Nsecs with the stack and name it by that (symbol.Process.During; tool.Run.UserNamesAt); a map with
// stacks as keys counts those of all times of a process together.
func (c *Ctx) Ustack(frames int) Stack {
	return Stack{c.read(&ir.Expr{Op: ir.OpUstack, Int: int64(frames), Pos: callerPos()}).e}
}

// UstackWalk returns the user stack of programs built without frame pointers, which are most
// programs: up to frames program counters. It walks by the call frame information of the
// files in processes that were given to Loaded.AddProcess, and by frame pointers in other
// processes (Stats.Unwalked counts those stacks). It takes 14 MiB of kernel memory, less with
// Program.WalkLimits, and a microsecond or more for every few frames.
//
// Kernels before 5.17 need BTF for it. They walk up to 127 frames, once in an action, and not
// in a loop.
func (c *Ctx) UstackWalk(frames int) Stack {
	return Stack{c.read(&ir.Expr{Op: ir.OpUstackWalk, Int: int64(frames), Pos: callerPos()}).e}
}

// While runs body as long as cond holds, but not more than most times. cond is recorded once
// and computed anew in every iteration.
func (c *Ctx) While(cond func() Bool, most int, body func()) {
	c.Loop(most, most, func(Int) {
		c.If(cond().Not(), c.Break)
		body()
	})
}

// Enum returns the value of a kernel enumerator: "TCP_ESTABLISHED". A name with its enum is
// found faster: "enum hrtimer_mode.HRTIMER_MODE_REL".
func (c *Ctx) Enum(name string) Int {
	return Int{c, &ir.Expr{Op: ir.OpEnum, Str: name, Pos: callerPos()}}
}

// Sizeof returns the size in bytes of a kernel type: "struct sock".
func (c *Ctx) Sizeof(typ string) Int {
	return Int{c, &ir.Expr{Op: ir.OpSizeof, Str: typ, Pos: callerPos()}}
}

// UserAddr returns the address of a symbol of the probed file, in the process in which the
// probe fires. It is for uprobes and USDT probes. The result is a pointer to 8 bytes; Load
// reads it as another type.
func (c *Ctx) UserAddr(symbol string) Ptr {
	return Ptr{c, &ir.Expr{Op: ir.OpUaddr, Str: symbol, Pos: callerPos()}}
}

// Const returns a constant.
func (c *Ctx) Const(v int64) Int { return Int{c, ir.NewConst(v)} }

// KernelAddr returns the address of a kernel symbol, with its type if BTF has it (per-CPU
// variables). Attach looks the symbol up. A program that is compiled by hand needs a plan
// made by bpf.Resolve.
func (c *Ctx) KernelAddr(symbol string) Ptr {
	return Ptr{c, &ir.Expr{Op: ir.OpKaddr, Str: symbol, Pos: callerPos()}}
}
