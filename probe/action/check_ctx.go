package action

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
)

// ctxKind says how a value is found in the context.
type ctxKind uint8

const (
	ctxLoad    ctxKind = iota // a scalar of size bytes at the offset
	ctxMem                    // bytes at the offset
	ctxAddr                   // the context's address plus the offset
	ctxDataLoc                // the address that a __data_loc at the offset gives
	ctxRelLoc                 // the same, relative to the end of the __rel_loc
)

// ctxLoc is where opCtx finds its value.
type ctxLoc struct {
	kind ctxKind
	off  int
	size int
}

// context types a leaf that the plan describes.
func (c *checker) context(e *Expr) (*Expr, error) {
	switch e.Op {
	case OpReg:
		if e.Type.Kind == KindAuto {
			return c.register(int(e.Int), Uint64Type())
		}
		return c.register(int(e.Int), e.Type)
	case OpKaddr:
		return c.kernelAddr(e)
	case OpUaddr:
		return c.userAddr(e)
	case OpRet:
		if c.pp.Ret == nil && c.pp.Session() {
			return c.register(c.specialReg("ret"), u64)
		}
		if c.pp.Ret == nil {
			return nil, errors.New("this probe has no return value")
		}
		return c.located(*c.pp.Ret)
	case OpField:
		return c.named(c.pp.Fields, e.Str, "field")
	}
	if e.Str != "" {
		return c.named(c.pp.Args, e.Str, "argument")
	}
	if e.Int < 0 || e.Int >= int64(len(c.pp.Args)) {
		return nil, fmt.Errorf("argument %d: the probe has %d", e.Int, len(c.pp.Args))
	}
	return c.argument(int(e.Int))
}

func (c *checker) named(args []probe.Arg, name, what string) (*Expr, error) {
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
func (c *checker) targetName() string {
	if len(c.pp.Sites) > 0 && c.pp.Sites[0].Target != nil {
		return c.pp.Sites[0].Target.String()
	}
	if t := c.prog.Actions[c.pp.Group].Target; t != nil {
		return t.String()
	}
	return c.pp.Name
}

// argument is argument number i. Where a USDT program's sites differ, the
// cookie chooses among the argument sets.
func (c *checker) argument(i int) (*Expr, error) {
	first, err := c.located(c.pp.Args[i])
	if err != nil || len(c.pp.Specs) < 2 {
		return first, err
	}
	cookie, err := c.cookie(&Expr{Op: OpBuiltin, Str: "cookie", Type: u64})
	if err != nil {
		return nil, err
	}
	spec := &Expr{Op: OpAnd, Type: u64, Args: []*Expr{
		{Op: OpShr, Type: u64, Args: []*Expr{cookie, constOf(u64, 32)}}, constOf(u64, 0xffff),
	}}
	out := first
	for n := len(c.pp.Specs) - 1; n > 0; n-- {
		if i >= len(c.pp.Specs[n]) {
			return nil, fmt.Errorf("argument %d: some sites have %d", i, len(c.pp.Specs[n]))
		}
		a := c.pp.Specs[n][i]
		a.Type = c.pp.Args[i].Type
		x, err := c.located(a)
		if err != nil {
			return nil, err
		}
		if x, err = convert(x, first.Type); err != nil {
			return nil, err
		}
		is := &Expr{Op: OpEq, Type: BoolType(), Args: []*Expr{spec, constOf(u64, uint64(n))}}
		out = &Expr{Op: OpCond, Type: first.Type, Args: []*Expr{is, x, out}}
	}
	return out, nil
}

// located is an argument by its type and location.
func (c *checker) located(a probe.Arg) (*Expr, error) {
	if a.Loc.Reason != "" {
		return nil, fmt.Errorf("argument %s cannot be read: %s", a.Name, a.Loc.Reason)
	}
	t := Uint64Type()
	if a.Type != nil {
		var err error
		if t, err = fromBTF(a.Type, a.Loc.User); err != nil {
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

// ptRegs are the offsets of DWARF registers in the registers that a program
// sees: struct pt_regs on amd64 (arch/x86/include/asm/ptrace.h), struct
// user_pt_regs on arm64 (arch/arm64/include/uapi/asm/ptrace.h).
func ptRegs(arch string, reg int) (off int, ok bool) {
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
func (c *checker) register(reg int, t Type) (*Expr, error) {
	if c.pp.Context != probe.ContextPtRegs && c.pp.Context != probe.ContextPerf {
		return nil, fmt.Errorf("%s gives no registers", c.targetName())
	}
	off, ok := ptRegs(c.plan.Arch, reg)
	if !ok {
		return nil, fmt.Errorf("no register %d on %s", reg, c.plan.Arch)
	}
	if !t.Scalar() {
		if t.Size > 8 {
			return nil, fmt.Errorf("%s does not fit a register", t)
		}
		t = Uint64Type()
	}
	return &Expr{Op: opCtx, Type: t, ctx: ctxLoc{kind: ctxLoad, off: off, size: 8}}, nil
}

// specialReg is the DWARF number of the instruction or stack pointer, or of the
// register that holds a returned value.
func (c *checker) specialReg(name string) int {
	switch {
	case c.plan.Arch == "arm64" && name == "ret":
		return 0 // x0
	case name == "ret":
		return stack.AMD64RAX
	case c.plan.Arch == "arm64" && name == "ip":
		return stack.ARM64PC
	case c.plan.Arch == "arm64":
		return stack.ARM64SP
	case name == "ip":
		return stack.AMD64RIP
	}
	return stack.AMD64RSP
}

// userMode says whether registers are those of user space: by the privilege
// level in cs on amd64, by the exception level in pstate on arm64. Events
// without registers, and kprobes, are in the kernel.
func (c *checker) userMode() (*Expr, error) {
	if c.pp.Context != probe.ContextPerf {
		return constOf(BoolType(), b2u(c.pp.UserRegs)), nil
	}
	loc, mask, user := ctxLoc{kind: ctxLoad, off: 136, size: 8}, uint64(3), uint64(3)
	if c.plan.Arch == "arm64" {
		loc.off, mask, user = 264, 0xf, 0
	}
	reg := &Expr{Op: opCtx, Type: u64, ctx: loc}
	level := &Expr{Op: OpAnd, Type: u64, Args: []*Expr{reg, constOf(u64, mask)}}
	return &Expr{Op: OpEq, Type: BoolType(), Args: []*Expr{level, constOf(u64, user)}}, nil
}

// onStack is an argument in memory at the stack pointer.
func (c *checker) onStack(a probe.Arg, t Type) (*Expr, error) {
	sp, err := c.register(c.specialReg("sp"), PtrType(nil, c.pp.UserRegs))
	if err != nil {
		return nil, err
	}
	if !t.Scalar() {
		return nil, fmt.Errorf("argument %s: %s on the stack", a.Name, t)
	}
	return &Expr{Op: opLoad, Type: t, Args: []*Expr{sp}, Int: a.Loc.Offset}, nil
}

// inContext is a value in the context itself.
func (c *checker) inContext(a probe.Arg, t Type) (*Expr, error) {
	loc := ctxLoc{off: int(a.Loc.Offset), size: a.Loc.Size}
	if loc.off < 0 || loc.off > 1<<15-64 {
		return nil, fmt.Errorf("argument %s: offset %d", a.Name, loc.off)
	}
	if t.Scalar() {
		if loc.size == 0 {
			loc.size = t.Size
		}
		if loc.size != 1 && loc.size != 2 && loc.size != 4 && loc.size != 8 {
			return nil, fmt.Errorf("argument %s: %s in %d bytes", a.Name, t, loc.size)
		}
		return &Expr{Op: opCtx, Type: t, ctx: loc}, nil
	}
	if c.pp.Context == probe.ContextRawArgs || c.pp.Context == probe.ContextTramp {
		return nil, fmt.Errorf("argument %s: %s by value", a.Name, t)
	}
	if t.Size == 0 || t.Size > maxMemory {
		return nil, fmt.Errorf("argument %s: %s of %d bytes", a.Name, t, t.Size)
	}
	loc.kind = ctxAddr
	elem := a.Type
	addr := &Expr{Op: opCtx, Type: PtrType(elem, false), ctx: loc}
	if t.Kind == KindString {
		return &Expr{Op: OpStr, Type: t, Args: []*Expr{addr}}, nil
	}
	return &Expr{Op: OpBuf, Type: t, Args: []*Expr{addr}}, nil
}

// dynamic is an array of a tracepoint's record whose place the record gives:
// a pointer to its first element, in kernel memory.
func (c *checker) dynamic(a probe.Arg) (*Expr, error) {
	t := PtrType(charBTF(), false)
	if a.Type != nil {
		if arr, ok := arrayOf(a.Type); ok {
			t.Elem = arr
		}
	}
	loc := ctxLoc{kind: ctxDataLoc, off: int(a.Loc.Offset)}
	if a.Loc.Kind == probe.LocationRelLoc {
		loc.kind = ctxRelLoc
	}
	return &Expr{Op: opCtx, Type: t, ctx: loc}, nil
}

// goid is the goroutine's id: the current g is in a register of its own.
func (c *checker) goid() (*Expr, error) {
	g := c.pp.Go
	if g == nil {
		return nil, fmt.Errorf("%s is no Go program", c.targetName())
	}
	if g.GoidOffset == 0 {
		return nil, fmt.Errorf("%s is of Go %q: where that keeps a goroutine's id is not known", c.targetName(), g.Version)
	}
	ptr, err := c.register(g.GReg, PtrType(nil, true))
	if err != nil {
		return nil, err
	}
	return &Expr{Op: opLoad, Type: Uint64Type(), Args: []*Expr{ptr}, Int: g.GoidOffset}, nil
}

// stackHi is the offset of stack.hi in the runtime's g, whose first field is
// struct stack { lo, hi uintptr } (runtime/runtime2.go).
const stackHi = 8

// goFrame tells the calls of a goroutine apart: how far the stack pointer is
// from the stack's top.
func (c *checker) goFrame() (*Expr, error) {
	g := c.pp.Go
	if g == nil {
		return constOf(u64, 0), nil
	}
	ptr, err := c.register(g.GReg, PtrType(nil, true))
	if err != nil {
		return nil, err
	}
	sp, err := c.register(c.specialReg("sp"), u64)
	if err != nil {
		return nil, err
	}
	top := &Expr{Op: opLoad, Type: u64, Args: []*Expr{ptr}, Int: stackHi}
	return &Expr{Op: OpSub, Type: u64, Args: []*Expr{top, sp}}, nil
}

// callID is who makes a call. The idle threads of all CPUs have the id 0; they
// are told apart by the CPU they never leave.
func (c *checker) callID() (*Expr, error) {
	if c.pp.Go != nil {
		return c.goid()
	}
	idle := &Expr{Op: OpOr, Type: u64, Args: []*Expr{NewBuiltin("cpu"), {Op: OpConst, Type: u64, Int: -1 << 63}}}
	id := NewBuiltin("pidtgid")
	return c.expr(&Expr{Op: OpCond, Type: u64, Args: []*Expr{NewExpr(OpNe, id, NewConst(0)), id, idle}})
}

// funcAddress is the address of the probed function.
func (c *checker) funcAddress(b *Expr) (*Expr, error) {
	if len(c.pp.Sites) == 1 && c.pp.Sites[0].Address != 0 {
		s := c.pp.Sites[0]
		return constOf(b.Type, s.Address-s.Offset), nil
	}
	if c.pp.UserRegs {
		return c.register(c.specialReg("ip"), b.Type.WithFormat(FormatUsym))
	}
	if c.pp.Type != ebpf.Kprobe && c.pp.Type != ebpf.Tracing {
		return nil, fmt.Errorf("%s is at no function", c.targetName())
	}
	if c.kern.AtLeast(Version{5, 15}) {
		return b, nil
	}
	if c.pp.Type != ebpf.Kprobe || c.pp.Returns || slices.ContainsFunc(c.pp.Sites, func(s probe.Site) bool { return s.Offset != 0 }) {
		return nil, unsupported("builtin func", Version{5, 15}, "the program has several sites, and "+c.plan.Kernel+" has no bpf_get_func_ip")
	}
	return c.probedAddress(b.Type)
}

// probedAddress is the address of a kprobe, from the instruction pointer that it
// sees: on amd64 that is behind the breakpoint's one byte, however the kprobe
// is done (kprobe_ftrace_handler, optimized_callback, kprobe_int3_handler,
// arch/x86/kernel/kprobes).
func (c *checker) probedAddress(t Type) (*Expr, error) {
	ip, err := c.register(c.specialReg("ip"), u64)
	if err != nil || c.plan.Arch != "amd64" {
		return ip, err
	}
	return &Expr{Op: OpSub, Type: t, Args: []*Expr{ip, constOf(u64, 1)}}, nil
}

// cookie is the attach cookie, or what it would be where it is known now.
func (c *checker) cookie(b *Expr) (*Expr, error) {
	mask := ^uint64(0)
	if b.Str == "probe" {
		mask = 0xffffffff
	}
	if len(c.pp.Sites) == 1 && c.pp.Sites[0].Cookie != 0 {
		return constOf(b.Type, uint64(c.pp.Sites[0].Cookie)&mask), nil
	}
	since := Version{5, 15}
	switch c.pp.Method {
	case probe.MethodPerfLink, probe.MethodKprobeMulti, probe.MethodUprobeMulti:
	case probe.MethodTracing:
		since = Version{5, 19}
	case probe.MethodRawTracepoint:
		since = Version{6, 10}
	default:
		return nil, fmt.Errorf("%s is attached in a way that has no cookie", c.targetName())
	}
	if !c.kern.AtLeast(since) {
		return nil, unsupported("builtin "+b.Str, since, "the program has several sites, and "+c.plan.Kernel+" has no cookies for them")
	}
	raw := &Expr{Op: OpBuiltin, Str: "cookie", Type: u64}
	if mask == ^uint64(0) {
		return raw, nil
	}
	return &Expr{Op: OpAnd, Type: b.Type, Args: []*Expr{raw, constOf(u64, mask)}}, nil
}
