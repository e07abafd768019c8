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
	"github.com/borescope/borescope/probe/ir/internal/typed"
	"github.com/borescope/borescope/stack"
)

// locator locates the values that a probe gives its program: arguments, registers, the
// target. It depends only on the plan.
type locator struct {
	prog *ir.Program
	plan *probe.Plan
	pp   *probe.ProgramPlan
	kern ir.Version
}

// context determines the type and place of a leaf that the plan describes.
func (l *locator) context(e *ir.Expr) (*typed.Node, error) {
	if err := l.inParts(e); err != nil {
		return nil, err
	}
	switch e.Op {
	case ir.OpReg:
		if e.Type.Kind == ir.KindAuto {
			return l.register(int(e.Int), ir.Uint64Type())
		}
		return l.register(int(e.Int), e.Type)
	case ir.OpKaddr:
		return l.kernelAddr(e.Str)
	case ir.OpUaddr:
		return l.userAddr(e.Str)
	case ir.OpRet:
		if l.pp.Ret == nil && l.pp.EntryReturn() {
			return l.register(l.specialReg("ret"), ir.Uint64Type())
		}
		if l.pp.Ret == nil {
			return nil, errors.New("this probe has no return value")
		}
		return l.located(*l.pp.Ret)
	case ir.OpField:
		return l.named(l.pp.Fields, e.Str, "field")
	}
	switch {
	case e.Str != "" && l.pp.Go != nil && l.pp.Returns:
		return l.named(l.pp.Fields, e.Str, "result")
	case e.Str != "":
		return l.named(l.pp.Args, e.Str, "argument")
	}
	if l.pp.Go != nil && l.pp.Fields != nil {
		// Numbers count registers, as they do where debug information is missing.
		words := l.goWords()
		if e.Int < 0 || e.Int >= int64(len(words)) {
			return nil, fmt.Errorf("argument %d: the function takes %d registers", e.Int, len(words))
		}
		return l.located(words[e.Int])
	}
	if e.Int < 0 || e.Int >= int64(len(l.pp.Args)) {
		return nil, fmt.Errorf("argument %d: the probe has %d", e.Int, len(l.pp.Args))
	}
	return l.argument(int(e.Int))
}

func (l *locator) named(args []probe.Arg, name, what string) (*typed.Node, error) {
	names := make([]string, 0, len(args))
	for i, a := range args {
		if a.Name != name {
			names = append(names, a.Name)
			continue
		}
		if what == "argument" {
			return l.argument(i)
		}
		return l.located(a)
	}
	return nil, fmt.Errorf("%s has no %s %q%s", l.targetName(), what, name, near.Hint(name, names))
}

// targetName returns the name of the program's target, for messages.
func (l *locator) targetName() string {
	if len(l.pp.Sites) > 0 && l.pp.Sites[0].Target != nil {
		return l.pp.Sites[0].Target.String()
	}
	if t := l.prog.Actions[l.pp.Group].Target; t != nil {
		return t.String()
	}
	return l.pp.Name
}

// argument returns argument number i. If the sites of a USDT program have different argument
// sets, bits 32 to 47 of the cookie select the site's set.
func (l *locator) argument(i int) (*typed.Node, error) {
	first, err := l.located(l.pp.Args[i])
	if err != nil || len(l.pp.Specs) < 2 {
		return first, err
	}
	cookie, err := l.cookie("cookie", ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	high := typed.New(ir.OpShr, ir.Uint64Type(), cookie, constOf(ir.Uint64Type(), 32))
	spec := typed.New(ir.OpAnd, ir.Uint64Type(), high, constOf(ir.Uint64Type(), 0xffff))
	out := first
	for n := len(l.pp.Specs) - 1; n > 0; n-- {
		if i >= len(l.pp.Specs[n]) {
			return nil, fmt.Errorf("argument %d: some sites have %d", i, len(l.pp.Specs[n]))
		}
		a := l.pp.Specs[n][i]
		a.Type = l.pp.Args[i].Type
		x, err := l.located(a)
		if err != nil {
			return nil, err
		}
		if x, err = convert(x, first.Type); err != nil {
			return nil, err
		}
		is := typed.New(ir.OpEq, ir.BoolType(), spec, constOf(ir.Uint64Type(), uint64(n)))
		out = typed.New(ir.OpCond, first.Type, is, x, out)
	}
	return out, nil
}

// located returns an argument from its type and location.
func (l *locator) located(a probe.Arg) (*typed.Node, error) {
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
		return l.inRegister(a, t)
	case probe.LocationSum:
		return l.sum(a, t)
	case probe.LocationStack:
		return l.onStack(a, t)
	case probe.LocationContext:
		return l.inContext(a, t)
	case probe.LocationDataLoc, probe.LocationRelLoc:
		return l.dynamic(a)
	case probe.LocationConst:
		return constOf(t, uint64(a.Loc.Offset)), nil
	case probe.LocationUSDT:
		return l.operand(a, t)
	}
	return nil, fmt.Errorf("argument %s: no location", a.Name)
}

// PtRegs returns the offset of a DWARF register in the registers that a program sees: struct
// pt_regs on amd64 (arch/x86/include/asm/ptrace.h), struct user_pt_regs on arm64
// (arch/arm64/include/uapi/asm/ptrace.h).
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

// register returns a register of the context as a value of type t, which has its low bytes.
func (l *locator) register(reg int, t ir.Type) (*typed.Node, error) {
	if l.pp.Context != probe.ContextPtRegs && l.pp.Context != probe.ContextPerf {
		return nil, fmt.Errorf("%s gives no registers", l.targetName())
	}
	off, ok := PtRegs(l.plan.Arch, reg)
	if !ok {
		return nil, fmt.Errorf("no register %d on %s", reg, l.plan.Arch)
	}
	if !t.Scalar() {
		if t.Size > 8 {
			return nil, fmt.Errorf("%s does not fit a register", t)
		}
		t = ir.Uint64Type()
	}
	return typed.NewCtx(t, typed.Place{Kind: typed.PlaceValue, Off: off, Size: 8}), nil
}

// inRegister returns an argument in a register. A member of a structure may be in its upper
// bytes.
func (l *locator) inRegister(a probe.Arg, t ir.Type) (*typed.Node, error) {
	n, err := l.register(a.Loc.Reg, t)
	if by := int(a.Loc.Offset); err == nil && by != 0 {
		size := a.Loc.Size
		if by < 0 || size != 1 && size != 2 && size != 4 || by%size != 0 || by+size > 8 || !t.Scalar() {
			return nil, fmt.Errorf("argument %s: %d bytes at byte %d of a register", a.Name, size, by)
		}
		n.Place.Off, n.Place.Size = n.Place.Off+by, size
	}
	return n, err
}

// sum returns an argument that is a register plus a number.
func (l *locator) sum(a probe.Arg, t ir.Type) (*typed.Node, error) {
	reg, err := l.register(a.Loc.Reg, ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	if !t.Scalar() {
		return nil, fmt.Errorf("argument %s: %s does not fit a register", a.Name, t)
	}
	x := typed.New(ir.OpAdd, ir.Uint64Type(), reg, constOf(ir.Uint64Type(), uint64(a.Loc.Offset)))
	return convert(x, t)
}

// specialReg returns the DWARF number of the instruction pointer ("ip"), the stack pointer
// ("sp") or the register of the returned value ("ret").
func (l *locator) specialReg(name string) int {
	switch {
	case l.plan.Arch == "arm64" && name == "ret":
		return 0 // x0
	case name == "ret":
		return stack.AMD64RAX
	case l.plan.Arch == "arm64" && name == "ip":
		return stack.ARM64PC
	case l.plan.Arch == "arm64":
		return stack.ARM64SP
	case name == "ip":
		return stack.AMD64RIP
	}
	return stack.AMD64RSP
}

// userMode returns whether the registers are those of user space: from the privilege level in
// cs on amd64, from the exception level in pstate on arm64. Events without registers, and
// kprobes, are in the kernel.
func (l *locator) userMode() (*typed.Node, error) {
	if l.pp.Context != probe.ContextPerf {
		return constOf(ir.BoolType(), eval.B2u(l.pp.UserRegs)), nil
	}
	loc, mask, user := typed.Place{Kind: typed.PlaceValue, Off: 136, Size: 8}, uint64(3), uint64(3)
	if l.plan.Arch == "arm64" {
		loc.Off, mask, user = 264, 0xf, 0
	}
	reg := typed.NewCtx(ir.Uint64Type(), loc)
	level := typed.New(ir.OpAnd, ir.Uint64Type(), reg, constOf(ir.Uint64Type(), mask))
	return typed.New(ir.OpEq, ir.BoolType(), level, constOf(ir.Uint64Type(), user)), nil
}

// onStack returns an argument in memory at an offset from the stack pointer.
func (l *locator) onStack(a probe.Arg, t ir.Type) (*typed.Node, error) {
	sp, err := l.register(l.specialReg("sp"), ir.PtrType(nil, l.pp.UserRegs))
	if err != nil {
		return nil, err
	}
	if !t.Scalar() {
		return nil, fmt.Errorf("argument %s: %s on the stack", a.Name, t)
	}
	return typed.NewLoad(t, sp, a.Loc.Offset), nil
}

// inContext returns a value in the context itself.
func (l *locator) inContext(a probe.Arg, t ir.Type) (*typed.Node, error) {
	loc := typed.Place{Off: int(a.Loc.Offset), Size: a.Loc.Size}
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
		return typed.NewCtx(t, loc), nil
	}
	if l.pp.Context == probe.ContextRawArgs || l.pp.Context == probe.ContextTramp {
		return nil, fmt.Errorf("argument %s: %s by value", a.Name, t)
	}
	if t.Size == 0 || t.Size > ir.MaxMemory {
		return nil, fmt.Errorf("argument %s: %s of %d bytes", a.Name, t, t.Size)
	}
	loc.Kind = typed.PlaceAddr
	elem := a.Type
	addr := typed.NewCtx(ir.PtrType(elem, false), loc)
	if t.Kind == ir.KindString {
		return typed.New(ir.OpStr, t, addr), nil
	}
	return typed.New(ir.OpBuf, t, addr), nil
}

// dynamic returns an array in a tracepoint's record, at a place that the record contains, as
// a pointer to its first element in kernel memory.
func (l *locator) dynamic(a probe.Arg) (*typed.Node, error) {
	t := ir.PtrType(charBTF(), false)
	if a.Type != nil {
		if arr, ok := arrayOf(a.Type); ok {
			t.Elem = arr
		}
	}
	loc := typed.Place{Kind: typed.PlaceDataLoc, Off: int(a.Loc.Offset)}
	if a.Loc.Kind == probe.LocationRelLoc {
		loc.Kind = typed.PlaceRelLoc
	}
	return typed.NewCtx(t, loc), nil
}

// goid returns the goroutine's id, which it reads from the current g: Go keeps that in a
// fixed register.
func (l *locator) goid() (*typed.Node, error) {
	g := l.pp.Go
	if g == nil {
		return nil, fmt.Errorf("%s is not a Go program", l.targetName())
	}
	if g.GoidOffset == 0 {
		return nil, fmt.Errorf("%s is of Go %q: where that keeps a goroutine's id is not known",
			l.targetName(), g.Version)
	}
	ptr, err := l.register(g.GReg, ir.PtrType(nil, true))
	if err != nil {
		return nil, err
	}
	return typed.NewLoad(ir.Uint64Type(), ptr, g.GoidOffset), nil
}

// stackHi is the offset of stack.hi in the runtime's g. The first field of g is struct stack
// { lo, hi uintptr } (runtime/runtime2.go).
const stackHi = 8

// goFrame returns a number that distinguishes the calls of a goroutine: the distance of the
// stack pointer from the stack's top, which does not change when the runtime moves the stack.
func (l *locator) goFrame() (*typed.Node, error) {
	g := l.pp.Go
	if g == nil {
		return constOf(ir.Uint64Type(), 0), nil
	}
	ptr, err := l.register(g.GReg, ir.PtrType(nil, true))
	if err != nil {
		return nil, err
	}
	sp, err := l.register(l.specialReg("sp"), ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	top := typed.NewLoad(ir.Uint64Type(), ptr, stackHi)
	return typed.New(ir.OpSub, ir.Uint64Type(), top, sp), nil
}

// funcAddress returns the address of the probed function.
func (l *locator) funcAddress(t ir.Type) (*typed.Node, error) {
	switch {
	case !l.pp.UserRegs && len(l.pp.Sites) == 1 && l.pp.Sites[0].Address != 0:
		s := l.pp.Sites[0]
		return constOf(t, s.Address-s.Offset), nil
	case l.pp.UserRegs && (!l.pp.Returns || l.pp.Go != nil):
		return l.register(l.specialReg("ip"), t.WithFormat(ir.FormatUsym))
	case l.pp.UserRegs && l.kern.AtLeast(ir.Version{6, 6}): // bpf_get_func_ip_kprobe and …_uprobe_multi
		return builtinOf("func", t.WithFormat(ir.FormatUsym)), nil
	case l.pp.UserRegs:
		return nil, Unsupported("builtin func", ir.Version{6, 6},
			"at its return, a user function's address is known to bpf_get_func_ip alone, and "+l.plan.Kernel+" has none for it")
	}
	if l.pp.Type != ebpf.Kprobe && l.pp.Type != ebpf.Tracing {
		return nil, fmt.Errorf("%s is at no function", l.targetName())
	}
	if l.kern.AtLeast(ir.Version{5, 15}) {
		return builtinOf("func", t), nil
	}
	if l.pp.Type != ebpf.Kprobe || l.pp.Returns ||
		slices.ContainsFunc(l.pp.Sites, func(s probe.Site) bool {
			return s.Offset != 0
		}) {
		return nil, Unsupported("builtin func", ir.Version{5, 15},
			"the program has several sites, and "+l.plan.Kernel+" has no bpf_get_func_ip")
	}
	return l.probedAddress(t)
}

// probedAddress returns the address of a kprobe, from the instruction pointer that it sees.
// On amd64 that is after the breakpoint's one byte, for every implementation of kprobes
// (kprobe_ftrace_handler, optimized_callback, kprobe_int3_handler, arch/x86/kernel/kprobes).
func (l *locator) probedAddress(t ir.Type) (*typed.Node, error) {
	ip, err := l.register(l.specialReg("ip"), ir.Uint64Type())
	if err != nil || l.plan.Arch != "amd64" {
		return ip, err
	}
	return typed.New(ir.OpSub, t, ip, constOf(ir.Uint64Type(), 1)), nil
}

// cookie returns the attach cookie, or its value if that is already known. The builtin probe
// is its low 32 bits.
func (l *locator) cookie(name string, t ir.Type) (*typed.Node, error) {
	mask := ^uint64(0)
	if name == "probe" {
		mask = 0xffffffff
	}
	if len(l.pp.Sites) == 1 && l.pp.Sites[0].Cookie != 0 {
		return constOf(t, uint64(l.pp.Sites[0].Cookie)&mask), nil
	}
	since := ir.Version{5, 15}
	switch l.pp.Method {
	case probe.MethodPerfLink, probe.MethodKprobeMulti, probe.MethodUprobeMulti:
	case probe.MethodTracing:
		since = ir.Version{5, 19}
	case probe.MethodRawTracepoint:
		since = ir.Version{6, 10}
	default:
		return nil, fmt.Errorf("%s is attached in a way that has no cookie", l.targetName())
	}
	if !l.kern.AtLeast(since) {
		return nil, Unsupported("builtin "+name, since,
			"the program has several sites, and "+l.plan.Kernel+" has no cookies for them")
	}
	raw := builtinOf("cookie", ir.Uint64Type())
	if mask == ^uint64(0) {
		return raw, nil
	}
	return typed.New(ir.OpAnd, t, raw, constOf(ir.Uint64Type(), mask)), nil
}
