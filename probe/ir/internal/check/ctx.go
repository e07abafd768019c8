package check

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/note"
	"github.com/borescope/borescope/stack"
)

const (
	CtxLoad    note.CtxKind = iota // a scalar of size bytes at the offset
	ctxMem                         // bytes at the offset
	CtxAddr                        // the context's address plus the offset
	CtxDataLoc                     // the address that a __data_loc at the offset gives
	CtxRelLoc                      // the same, relative to the end of the __rel_loc
)

// context types a leaf that the plan describes.
func (c *Checker) context(e *ir.Expr) (*ir.Expr, error) {
	switch e.Op {
	case ir.OpReg:
		if e.Type.Kind == ir.KindAuto {
			return c.register(int(e.Int), ir.Uint64Type())
		}
		return c.register(int(e.Int), e.Type)
	case ir.OpKaddr:
		return c.kernelAddr(e)
	case ir.OpUaddr:
		return c.userAddr(e)
	case ir.OpRet:
		if c.Pp.Ret == nil && c.Pp.Session() {
			return c.register(c.specialReg("ret"), ir.Uint64Type())
		}
		if c.Pp.Ret == nil {
			return nil, errors.New("this probe has no return value")
		}
		return c.located(*c.Pp.Ret)
	case ir.OpField:
		return c.named(c.Pp.Fields, e.Str, "field")
	}
	if e.Str != "" {
		return c.named(c.Pp.Args, e.Str, "argument")
	}
	if e.Int < 0 || e.Int >= int64(len(c.Pp.Args)) {
		return nil, fmt.Errorf("argument %d: the probe has %d", e.Int, len(c.Pp.Args))
	}
	return c.argument(int(e.Int))
}

func (c *Checker) named(args []probe.Arg, name, what string) (*ir.Expr, error) {
	names := make([]string, 0, len(args))
	for i, a := range args {
		if a.Name != name {
			names = append(names, a.Name)
			continue
		}
		if what == "argument" {
			return c.argument(i)
		}
		return c.located(a)
	}
	return nil, fmt.Errorf("%s has no %s %q%s", c.targetName(), what, name, near.Hint(name, names))
}

// targetName is what the program is attached to, for messages.
func (c *Checker) targetName() string {
	if len(c.Pp.Sites) > 0 && c.Pp.Sites[0].Target != nil {
		return c.Pp.Sites[0].Target.String()
	}
	if t := c.Prog.Actions[c.Pp.Group].Target; t != nil {
		return t.String()
	}
	return c.Pp.Name
}

// argument is argument number i. Where a USDT program's sites differ, the
// cookie chooses among the argument sets.
func (c *Checker) argument(i int) (*ir.Expr, error) {
	first, err := c.located(c.Pp.Args[i])
	if err != nil || len(c.Pp.Specs) < 2 {
		return first, err
	}
	cookie, err := c.cookie(&ir.Expr{Op: ir.OpBuiltin, Str: "cookie", Type: ir.Uint64Type()})
	if err != nil {
		return nil, err
	}
	spec := &ir.Expr{Op: ir.OpAnd, Type: ir.Uint64Type(), Args: []*ir.Expr{
		{Op: ir.OpShr, Type: ir.Uint64Type(), Args: []*ir.Expr{cookie, constOf(ir.Uint64Type(), 32)}}, constOf(ir.Uint64Type(), 0xffff),
	}}
	out := first
	for n := len(c.Pp.Specs) - 1; n > 0; n-- {
		if i >= len(c.Pp.Specs[n]) {
			return nil, fmt.Errorf("argument %d: some sites have %d", i, len(c.Pp.Specs[n]))
		}
		a := c.Pp.Specs[n][i]
		a.Type = c.Pp.Args[i].Type
		x, err := c.located(a)
		if err != nil {
			return nil, err
		}
		if x, err = convert(x, first.Type); err != nil {
			return nil, err
		}
		is := &ir.Expr{Op: ir.OpEq, Type: ir.BoolType(), Args: []*ir.Expr{spec, constOf(ir.Uint64Type(), uint64(n))}}
		out = &ir.Expr{Op: ir.OpCond, Type: first.Type, Args: []*ir.Expr{is, x, out}}
	}
	return out, nil
}

// located is an argument by its type and location.
func (c *Checker) located(a probe.Arg) (*ir.Expr, error) {
	if a.Loc.Reason != "" {
		return nil, fmt.Errorf("argument %s cannot be read: %s", a.Name, a.Loc.Reason)
	}
	t := ir.Uint64Type()
	if a.Type != nil {
		var err error
		if t, err = FromBTF(a.Type, a.Loc.User); err != nil {
			return nil, fmt.Errorf("argument %s: %w", a.Name, err)
		}
	}
	switch a.Loc.Kind {
	case probe.LocationReg:
		return c.register(a.Loc.Reg, t)
	case probe.LocationStack:
		return c.onStack(a, t)
	case probe.LocationContext:
		return c.inContext(a, t)
	case probe.LocationDataLoc, probe.LocationRelLoc:
		return c.dynamic(a)
	case probe.LocationConst:
		return constOf(t, uint64(a.Loc.Offset)), nil
	case probe.LocationUSDT:
		return c.operand(a, t)
	}
	return nil, fmt.Errorf("argument %s: no location", a.Name)
}

// PtRegs are the offsets of DWARF registers in the registers that a program
// sees: struct pt_regs on amd64 (arch/x86/include/asm/ptrace.h), struct
// user_pt_regs on arm64 (arch/arm64/include/uapi/asm/ptrace.h).
func PtRegs(arch string, reg int) (off int, ok bool) {
	if arch == "arm64" {
		return reg * 8, reg >= 0 && reg <= stack.ARM64PC
	}
	offsets := [...]int{
		stack.AMD64RAX: 80, stack.AMD64RDX: 96, stack.AMD64RCX: 88, stack.AMD64RBX: 40,
		stack.AMD64RSI: 104, stack.AMD64RDI: 112, stack.AMD64RBP: 32, stack.AMD64RSP: 152,
		stack.AMD64R8: 72, stack.AMD64R9: 64, stack.AMD64R10: 56, stack.AMD64R11: 48,
		stack.AMD64R12: 24, stack.AMD64R13: 16, stack.AMD64R14: 8, stack.AMD64R15: 0,
		stack.AMD64RIP: 128,
	}
	if arch != "amd64" || reg < 0 || reg >= len(offsets) {
		return 0, false
	}
	return offsets[reg], true
}

// register is a register of the context, as a value of type t: its low bytes.
func (c *Checker) register(reg int, t ir.Type) (*ir.Expr, error) {
	if c.Pp.Context != probe.ContextPtRegs && c.Pp.Context != probe.ContextPerf {
		return nil, fmt.Errorf("%s gives no registers", c.targetName())
	}
	off, ok := PtRegs(c.Plan.Arch, reg)
	if !ok {
		return nil, fmt.Errorf("no register %d on %s", reg, c.Plan.Arch)
	}
	if !t.Scalar() {
		if t.Size > 8 {
			return nil, fmt.Errorf("%s does not fit a register", t)
		}
		t = ir.Uint64Type()
	}
	return &ir.Expr{Op: ir.OpCtx, Type: t, Ctx: note.CtxLoc{Kind: CtxLoad, Off: off, Size: 8}}, nil
}

// specialReg is the DWARF number of the instruction or stack pointer, or of the
// register that holds a returned value.
func (c *Checker) specialReg(name string) int {
	switch {
	case c.Plan.Arch == "arm64" && name == "ret":
		return 0 // x0
	case name == "ret":
		return stack.AMD64RAX
	case c.Plan.Arch == "arm64" && name == "ip":
		return stack.ARM64PC
	case c.Plan.Arch == "arm64":
		return stack.ARM64SP
	case name == "ip":
		return stack.AMD64RIP
	}
	return stack.AMD64RSP
}

// userMode says whether registers are those of user space: by the privilege
// level in cs on amd64, by the exception level in pstate on arm64. Events
// without registers, and kprobes, are in the kernel.
func (c *Checker) userMode() (*ir.Expr, error) {
	if c.Pp.Context != probe.ContextPerf {
		return constOf(ir.BoolType(), eval.B2u(c.Pp.UserRegs)), nil
	}
	loc, mask, user := note.CtxLoc{Kind: CtxLoad, Off: 136, Size: 8}, uint64(3), uint64(3)
	if c.Plan.Arch == "arm64" {
		loc.Off, mask, user = 264, 0xf, 0
	}
	reg := &ir.Expr{Op: ir.OpCtx, Type: ir.Uint64Type(), Ctx: loc}
	level := &ir.Expr{Op: ir.OpAnd, Type: ir.Uint64Type(), Args: []*ir.Expr{reg, constOf(ir.Uint64Type(), mask)}}
	return &ir.Expr{Op: ir.OpEq, Type: ir.BoolType(), Args: []*ir.Expr{level, constOf(ir.Uint64Type(), user)}}, nil
}

// onStack is an argument in memory at the stack pointer.
func (c *Checker) onStack(a probe.Arg, t ir.Type) (*ir.Expr, error) {
	sp, err := c.register(c.specialReg("sp"), ir.PtrType(nil, c.Pp.UserRegs))
	if err != nil {
		return nil, err
	}
	if !t.Scalar() {
		return nil, fmt.Errorf("argument %s: %s on the stack", a.Name, t)
	}
	return &ir.Expr{Op: ir.OpLoad, Type: t, Args: []*ir.Expr{sp}, Int: a.Loc.Offset}, nil
}

// inContext is a value in the context itself.
func (c *Checker) inContext(a probe.Arg, t ir.Type) (*ir.Expr, error) {
	loc := note.CtxLoc{Off: int(a.Loc.Offset), Size: a.Loc.Size}
	if loc.Off < 0 || loc.Off > 1<<15-64 {
		return nil, fmt.Errorf("argument %s: offset %d", a.Name, loc.Off)
	}
	if t.Scalar() {
		if loc.Size == 0 {
			loc.Size = t.Size
		}
		if loc.Size != 1 && loc.Size != 2 && loc.Size != 4 && loc.Size != 8 {
			return nil, fmt.Errorf("argument %s: %s in %d bytes", a.Name, t, loc.Size)
		}
		return &ir.Expr{Op: ir.OpCtx, Type: t, Ctx: loc}, nil
	}
	if c.Pp.Context == probe.ContextRawArgs || c.Pp.Context == probe.ContextTramp {
		return nil, fmt.Errorf("argument %s: %s by value", a.Name, t)
	}
	if t.Size == 0 || t.Size > ir.MaxMemory {
		return nil, fmt.Errorf("argument %s: %s of %d bytes", a.Name, t, t.Size)
	}
	loc.Kind = CtxAddr
	elem := a.Type
	addr := &ir.Expr{Op: ir.OpCtx, Type: ir.PtrType(elem, false), Ctx: loc}
	if t.Kind == ir.KindString {
		return &ir.Expr{Op: ir.OpStr, Type: t, Args: []*ir.Expr{addr}}, nil
	}
	return &ir.Expr{Op: ir.OpBuf, Type: t, Args: []*ir.Expr{addr}}, nil
}

// dynamic is an array of a tracepoint's record whose place the record gives:
// a pointer to its first element, in kernel memory.
func (c *Checker) dynamic(a probe.Arg) (*ir.Expr, error) {
	t := ir.PtrType(charBTF(), false)
	if a.Type != nil {
		if arr, ok := arrayOf(a.Type); ok {
			t.Elem = arr
		}
	}
	loc := note.CtxLoc{Kind: CtxDataLoc, Off: int(a.Loc.Offset)}
	if a.Loc.Kind == probe.LocationRelLoc {
		loc.Kind = CtxRelLoc
	}
	return &ir.Expr{Op: ir.OpCtx, Type: t, Ctx: loc}, nil
}

// goid is the goroutine's id: the current g is in a register of its own.
func (c *Checker) goid() (*ir.Expr, error) {
	g := c.Pp.Go
	if g == nil {
		return nil, fmt.Errorf("%s is no Go program", c.targetName())
	}
	if g.GoidOffset == 0 {
		return nil, fmt.Errorf("%s is of Go %q: where that keeps a goroutine's id is not known", c.targetName(), g.Version)
	}
	ptr, err := c.register(g.GReg, ir.PtrType(nil, true))
	if err != nil {
		return nil, err
	}
	return &ir.Expr{Op: ir.OpLoad, Type: ir.Uint64Type(), Args: []*ir.Expr{ptr}, Int: g.GoidOffset}, nil
}

// stackHi is the offset of stack.hi in the runtime's g, whose first field is
// struct stack { lo, hi uintptr } (runtime/runtime2.go).
const stackHi = 8

// goFrame tells the calls of a goroutine apart: how far the stack pointer is
// from the stack's top.
func (c *Checker) goFrame() (*ir.Expr, error) {
	g := c.Pp.Go
	if g == nil {
		return constOf(ir.Uint64Type(), 0), nil
	}
	ptr, err := c.register(g.GReg, ir.PtrType(nil, true))
	if err != nil {
		return nil, err
	}
	sp, err := c.register(c.specialReg("sp"), ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	top := &ir.Expr{Op: ir.OpLoad, Type: ir.Uint64Type(), Args: []*ir.Expr{ptr}, Int: stackHi}
	return &ir.Expr{Op: ir.OpSub, Type: ir.Uint64Type(), Args: []*ir.Expr{top, sp}}, nil
}

// callID is who makes a call. The idle threads of all CPUs have the id 0; they
// are told apart by the CPU they never leave.
func (c *Checker) callID() (*ir.Expr, error) {
	if c.Pp.Go != nil {
		return c.goid()
	}
	idle := &ir.Expr{Op: ir.OpOr, Type: ir.Uint64Type(), Args: []*ir.Expr{ir.NewBuiltin("cpu"), {Op: ir.OpConst, Type: ir.Uint64Type(), Int: -1 << 63}}}
	id := ir.NewBuiltin("pidtgid")
	return c.Expr(&ir.Expr{Op: ir.OpCond, Type: ir.Uint64Type(), Args: []*ir.Expr{ir.NewExpr(ir.OpNe, id, ir.NewConst(0)), id, idle}})
}

// funcAddress is the address of the probed function.
func (c *Checker) funcAddress(b *ir.Expr) (*ir.Expr, error) {
	if len(c.Pp.Sites) == 1 && c.Pp.Sites[0].Address != 0 {
		s := c.Pp.Sites[0]
		return constOf(b.Type, s.Address-s.Offset), nil
	}
	if c.Pp.UserRegs {
		return c.register(c.specialReg("ip"), b.Type.WithFormat(ir.FormatUsym))
	}
	if c.Pp.Type != ebpf.Kprobe && c.Pp.Type != ebpf.Tracing {
		return nil, fmt.Errorf("%s is at no function", c.targetName())
	}
	if c.Kern.AtLeast(ir.Version{5, 15}) {
		return b, nil
	}
	if c.Pp.Type != ebpf.Kprobe || c.Pp.Returns || slices.ContainsFunc(c.Pp.Sites, func(s probe.Site) bool { return s.Offset != 0 }) {
		return nil, Unsupported("builtin func", ir.Version{5, 15}, "the program has several sites, and "+c.Plan.Kernel+" has no bpf_get_func_ip")
	}
	return c.probedAddress(b.Type)
}

// probedAddress is the address of a kprobe, from the instruction pointer that it
// sees: on amd64 that is behind the breakpoint's one byte, however the kprobe
// is done (kprobe_ftrace_handler, optimized_callback, kprobe_int3_handler,
// arch/x86/kernel/kprobes).
func (c *Checker) probedAddress(t ir.Type) (*ir.Expr, error) {
	ip, err := c.register(c.specialReg("ip"), ir.Uint64Type())
	if err != nil || c.Plan.Arch != "amd64" {
		return ip, err
	}
	return &ir.Expr{Op: ir.OpSub, Type: t, Args: []*ir.Expr{ip, constOf(ir.Uint64Type(), 1)}}, nil
}

// cookie is the attach cookie, or what it would be where it is known now.
func (c *Checker) cookie(b *ir.Expr) (*ir.Expr, error) {
	mask := ^uint64(0)
	if b.Str == "probe" {
		mask = 0xffffffff
	}
	if len(c.Pp.Sites) == 1 && c.Pp.Sites[0].Cookie != 0 {
		return constOf(b.Type, uint64(c.Pp.Sites[0].Cookie)&mask), nil
	}
	since := ir.Version{5, 15}
	switch c.Pp.Method {
	case probe.MethodPerfLink, probe.MethodKprobeMulti, probe.MethodUprobeMulti:
	case probe.MethodTracing:
		since = ir.Version{5, 19}
	case probe.MethodRawTracepoint:
		since = ir.Version{6, 10}
	default:
		return nil, fmt.Errorf("%s is attached in a way that has no cookie", c.targetName())
	}
	if !c.Kern.AtLeast(since) {
		return nil, Unsupported("builtin "+b.Str, since, "the program has several sites, and "+c.Plan.Kernel+" has no cookies for them")
	}
	raw := &ir.Expr{Op: ir.OpBuiltin, Str: "cookie", Type: ir.Uint64Type()}
	if mask == ^uint64(0) {
		return raw, nil
	}
	return &ir.Expr{Op: ir.OpAnd, Type: b.Type, Args: []*ir.Expr{raw, constOf(ir.Uint64Type(), mask)}}, nil
}
