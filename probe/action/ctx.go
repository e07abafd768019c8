package action

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
)

// Program is a program that is written in Go: On says what its probes do. What is
// recorded is the ir.Program in it, which has the program's options too.
type Program struct{ *ir.Program }

// NewProgram returns an empty program.
func NewProgram(name string) *Program { return &Program{&ir.Program{Name: name}} }

// On adds an action: what the program does where target fires. build runs once,
// now: it records what the probe will do. It must not keep c.
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

// OnCall adds an action that runs at the entries and at the returns of functions
// as one session program: entry, and then ret with the same session cookie,
// unless the entry did Skip. Attach plans sessions where a program has nothing
// else; otherwise set probe.Options.Session.
func (p *Program) OnCall(target probe.Target, entry, ret func(c *Ctx)) {
	p.On(target, func(c *Ctx) {
		c.If(c.IsReturn(), func() { ret(c) }, func() { entry(c) })
	})
}

// Ctx records an action. Its methods stand for what happens when the probe
// fires, in the order in which they are called; a value that they return is
// read at that moment, once. A Ctx is used by one goroutine.
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

// Let computes a value now and keeps it, where it would otherwise be computed
// wherever it is used.
func (c *Ctx) Let(x any) Int { return c.read(lift(x)) }

// NewVar declares a variable of the action, with a first value.
func (c *Ctx) NewVar(x any) *LocalVar {
	v := c.newVar("v")
	e := lift(x)
	if e.Op == ir.OpConst && e.Type.Kind == ir.KindAuto {
		v.Type = ir.Int64Type()
	}
	c.Do(&ir.Stmt{Op: ir.StmtLet, Var: v, X: e})
	return &LocalVar{c, v}
}

// LocalVar is a variable of an action: unlike other values it can be set again,
// also in loops and branches.
type LocalVar struct {
	c *Ctx
	v *ir.Var
}

// Set changes the variable.
func (l *LocalVar) Set(x any) { l.c.Do(&ir.Stmt{Op: ir.StmtLet, Var: l.v, X: lift(x)}) }

// Int is the variable's value when it is used, not when Int is called.
func (l *LocalVar) Int() Int { return Int{l.c, ir.NewVar(l.v)} }

// Str is the variable's text.
func (l *LocalVar) Str() Str { return Str(l.Int()) }

// If does then if cond holds, and otherwise what the functions in els do.
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

// ReturnUnless ends the action unless cond holds: a filter.
func (c *Ctx) ReturnUnless(cond Bool) {
	c.Do(&ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpLNot, cond.Expr()), Body: []*ir.Stmt{{Op: ir.StmtReturn, Pos: callerPos()}}})
}

// Loop does body n times, with the index from 0, but not more than most times.
// Kernels before 5.17 walk every turn when they verify the program: keep most
// small there (it is refused above 4096; above 8 million elsewhere).
func (c *Ctx) Loop(n any, most int, body func(i Int)) {
	s := &ir.Stmt{Op: ir.StmtLoop, X: lift(n), Max: most, Var: c.newVar("i"), Pos: callerPos()}
	s.Body = c.block(func() { body(Int{c, ir.NewVar(s.Var)}) })
	c.Do(s)
}

// Break leaves the innermost loop.
func (c *Ctx) Break() { c.Do(&ir.Stmt{Op: ir.StmtBreak}) }

// Continue goes on with the next turn of the innermost loop.
func (c *Ctx) Continue() { c.Do(&ir.Stmt{Op: ir.StmtContinue}) }

// Signal sends a signal to the current process, or to the current thread alone.
func (c *Ctx) Signal(sig any, thread bool) {
	c.Do(&ir.Stmt{Op: ir.StmtSignal, X: lift(sig), Thread: thread})
}

// Exit asks the holder of the session to end, with a code: Session.ExitRequested and
// Session.ExitCode.
func (c *Ctx) Exit(code any) { c.Do(&ir.Stmt{Op: ir.StmtExit, X: lift(code)}) }

// Override makes the probed kernel function return x without running, where the
// kernel permits that (kprobe on functions marked for error injection,
// CONFIG_BPF_KPROBE_OVERRIDE; fmod_ret).
func (c *Ctx) Override(x any) { c.Do(&ir.Stmt{Op: ir.StmtOverride, X: lift(x)}) }

// IsReturn says whether the probe is at a function's return. In a session
// program (probe.Options.Session, which Attach sets where every action is of
// that kind), which sees entries and returns, that turns out when it fires.
func (c *Ctx) IsReturn() Bool { return Bool(c.Builtin("is_return")) }

// Skip has the probe left out at the return of this call. It is for the entry,
// in session programs (kprobes Linux 6.10, uprobes 6.13, fentry 7.0).
func (c *Ctx) Skip() { c.Do(&ir.Stmt{Op: ir.StmtSkip}) }

// SetSessionCookie keeps a number for the return of the same call, in session
// programs: what a Pair does elsewhere, without a map.
func (c *Ctx) SetSessionCookie(x any) { c.Do(&ir.Stmt{Op: ir.StmtCookie, X: lift(x)}) }

// SessionCookie is what the entry of the same call kept, 0 if nothing.
func (c *Ctx) SessionCookie() Int { return c.Builtin("session_cookie") }

// Builtin reads a builtin by name; Builtins lists them.
func (c *Ctx) Builtin(name string) Int {
	return c.read(&ir.Expr{Op: ir.OpBuiltin, Str: name, Pos: callerPos()})
}

// PID is the process id (thread group id) of the current task, in the pid
// namespace of the process that loads the program: in a container the number
// that ps shows there. A task outside of that namespace has its number in the
// initial one with bit 31 set, which no other has. Numbers in the records of
// tracepoints (Field) and in the kernel's structures are the initial namespace's:
// to meet them, read Member("tgid") or Member("pid") of the builtin curtask. Of a
// pointer to a task, TaskPID and TaskTID are numbers like these.
func (c *Ctx) PID() Int { return c.Builtin("pid") }

// TID is the thread id of the current task, in the namespace of PID.
func (c *Ctx) TID() Int { return c.Builtin("tid") }

// UID is the user id of the current task.
func (c *Ctx) UID() Int { return c.Builtin("uid") }

// CPU is the number of the CPU.
func (c *Ctx) CPU() Int { return c.Builtin("cpu") }

// Cgroup is the cgroup2 id of the current task.
func (c *Ctx) Cgroup() Int { return c.Builtin("cgroup") }

// Nsecs is CLOCK_MONOTONIC in nanoseconds.
func (c *Ctx) Nsecs() Int { return c.Builtin("nsecs") }

// PPID is the process id of the parent, in the namespace of PID; it needs BTF.
func (c *Ctx) PPID() Int { return c.Builtin("ppid") }

// Probe says which probe fired: the index of its site in the plan, plus one.
func (c *Ctx) Probe() Int { return c.Builtin("probe") }

// PComm is the name of the current process, which is that of its first thread;
// it needs BTF.
func (c *Ctx) PComm() Str { return Str(c.Builtin("pcomm")) }

// Comm is the name of the current thread.
func (c *Ctx) Comm() Str { return Str(c.Builtin("comm")) }

// CurTask is the current task, a pointer to struct task_struct where there is BTF.
func (c *Ctx) CurTask() Ptr { return Ptr(c.Builtin("curtask")) }

// Arg is argument number i of the probe.
func (c *Ctx) Arg(i int) Int { return c.read(&ir.Expr{Op: ir.OpArg, Int: int64(i), Pos: callerPos()}) }

// ArgNamed is an argument by name.
func (c *Ctx) ArgNamed(name string) Int {
	return c.read(&ir.Expr{Op: ir.OpArg, Str: name, Pos: callerPos()})
}

// Field is a field of a tracepoint's record, or of another context with names.
func (c *Ctx) Field(name string) Int {
	return c.read(&ir.Expr{Op: ir.OpField, Str: name, Pos: callerPos()})
}

// Ret is the return value, in return probes.
func (c *Ctx) Ret() Int { return c.read(&ir.Expr{Op: ir.OpRet, Pos: callerPos()}) }

// Reg is a register of the context by DWARF number (package stack has names).
func (c *Ctx) Reg(n int) Int { return c.read(&ir.Expr{Op: ir.OpReg, Int: int64(n), Pos: callerPos()}) }

// Kstack is the kernel stack: up to frames program counters.
func (c *Ctx) Kstack(frames int) Stack {
	return Stack{c.read(&ir.Expr{Op: ir.OpKstack, Int: int64(frames), Pos: callerPos()}).e}
}

// Ustack is the user stack, by frame pointers: up to frames program counters.
func (c *Ctx) Ustack(frames int) Stack {
	return Stack{c.read(&ir.Expr{Op: ir.OpUstack, Int: int64(frames), Pos: callerPos()}).e}
}

// UstackWalk is the user stack of programs built without frame pointers, which
// is most of them: up to frames program counters, found by the files' call frame
// information in the processes that were given to Loaded.AddProcess, and by
// frame pointers in others (Stats.Unwalked counts those). It takes 13 MiB of
// kernel memory, less with Program.WalkLimits, and a microsecond or more for
// every few frames.
//
// Kernels before 5.17 walk up to 127 frames, once in an action and in no loop,
// and need BTF.
func (c *Ctx) UstackWalk(frames int) Stack {
	return Stack{c.read(&ir.Expr{Op: ir.OpUstackWalk, Int: int64(frames), Pos: callerPos()}).e}
}

// While does body as long as cond, which is recorded anew for every turn, holds,
// but not more than most times.
func (c *Ctx) While(cond func() Bool, most int, body func()) {
	c.Loop(most, most, func(Int) {
		c.If(cond().Not(), c.Break)
		body()
	})
}

// Enum is the value of a kernel enumerator: "TCP_ESTABLISHED", or with its
// enum, which is found sooner, "enum hrtimer_mode.HRTIMER_MODE_REL".
func (c *Ctx) Enum(name string) Int {
	return Int{c, &ir.Expr{Op: ir.OpEnum, Str: name, Pos: callerPos()}}
}

// Sizeof is the size of a kernel type in bytes: "struct sock".
func (c *Ctx) Sizeof(typ string) Int {
	return Int{c, &ir.Expr{Op: ir.OpSizeof, Str: typ, Pos: callerPos()}}
}

// UserAddr is the address of a symbol of the file that the probe is in, in the
// process that it fires in. It is for uprobes and USDT probes; a pointer to 8
// bytes, which Load reads as something else.
func (c *Ctx) UserAddr(symbol string) Ptr {
	return Ptr{c, &ir.Expr{Op: ir.OpUaddr, Str: symbol, Pos: callerPos()}}
}

// Const is a constant.
func (c *Ctx) Const(v int64) Int { return Int{c, ir.NewConst(v)} }

// KernelAddr is the address of a kernel symbol, with its type where BTF has it
// (per-CPU variables). Attach looks it up; bpf.Resolve does so for who compiles by hand.
func (c *Ctx) KernelAddr(symbol string) Ptr {
	return Ptr{c, &ir.Expr{Op: ir.OpKaddr, Str: symbol, Pos: callerPos()}}
}
