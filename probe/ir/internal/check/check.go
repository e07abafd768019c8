package check

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// Checked is an action made ready for one program of a plan: every node is
// typed, operands are converted where types differ, arguments are replaced by
// where they are found, and member paths by addresses and offsets.
type Checked struct {
	Body []*ir.Stmt
	Vars []*ir.Var
	Pp   *probe.Program
	Kern ir.Version
	// Cgroup is where the current cgroup is found, for storage by cgroup.
	Cgroup cgroupPath
	// Walk is the walker of user stacks, nil if the action asks for none.
	Walk *bpfwalk.Walker
}

// Checker types an action for one program of a plan.
type Checker struct {
	Prog *ir.Program
	Plan *probe.Plan
	Pp   *probe.Program
	Kern ir.Version
	Vars map[*ir.Var]*ir.Var
	list []*ir.Var
	// scope are the variables of the enclosing blocks, in order of declaration.
	scope []*ir.Var
	nodes int
	// cgroup is where the current cgroup is found, for storage by cgroup.
	cgroup cgroupPath
	// before are assignments that the current statement wants made before it.
	before []*ir.Stmt
	// loops is how many loops the current statement is inside of.
	loops int
	// walk is the walker of user stacks, nil if there is none so far.
	walk *bpfwalk.Walker
	// ns is the pid namespace whose numbers are meant; nil: the initial one's.
	ns *kernel.PIDNamespace
}

// Check makes an action ready for program i of the plan, with the numbers that
// the namespace gives to tasks; nil is the initial one.
func Check(p *ir.Program, plan *probe.Plan, i int, ns *kernel.PIDNamespace) (*Checked, error) {
	pp := &plan.Programs[i]
	if pp.Group < 0 || pp.Group >= len(p.Actions) {
		return nil, fmt.Errorf("program %s: plan group %d: the program has %d actions", pp.Name, pp.Group, len(p.Actions))
	}
	c := &Checker{Prog: p, Plan: plan, Pp: pp, Kern: KernelVersion(plan.Kernel), Vars: map[*ir.Var]*ir.Var{}, ns: ns}
	body, err := c.block(p.Actions[pp.Group].Body)
	if err != nil {
		return nil, err
	}
	return &Checked{Body: body, Vars: c.list, Pp: pp, Kern: c.Kern, Cgroup: c.cgroup, Walk: c.walk}, nil
}

// KernelVersion reads "6.1.0-56-cloud-amd64"; what cannot be read is the
// oldest kernel there is support for.
func KernelVersion(release string) ir.Version {
	v, ok := feature.ParseVersion(release)
	if !ok {
		return ir.Version{5, 10}
	}
	return ir.Version(v)
}

// At adds the place to an error that has none.
func At(pos ir.Pos, where string, err error) error {
	if err == nil {
		return nil
	}
	var e *ir.Error
	if errors.As(err, &e) {
		if e.Pos == (ir.Pos{}) && pos != (ir.Pos{}) {
			return &ir.Error{Pos: pos, Where: e.Where, Err: e.Err}
		}
		return err
	}
	return &ir.Error{Pos: pos, Where: where, Err: err}
}

// Expr types an expression.
func (c *Checker) Expr(e *ir.Expr) (*ir.Expr, error) {
	return c.exprDepth(e, 0)
}

// maxNodes bounds an action's expressions, counted as often as they are used:
// nodes may be shared, and a small graph can stand for an endless tree.
const maxNodes = 100_000

func (c *Checker) exprDepth(e *ir.Expr, depth int) (*ir.Expr, error) {
	if e == nil {
		return nil, errors.New("missing expression")
	}
	if depth > ir.MaxDepth {
		return nil, At(e.Pos, "", fmt.Errorf("expression nested more than %d deep", ir.MaxDepth))
	}
	if c.nodes++; c.nodes > maxNodes {
		return nil, At(e.Pos, "", fmt.Errorf("action of more than %d expressions", maxNodes))
	}
	if err := checkArity(e); err != nil {
		return nil, At(e.Pos, e.Op.String(), err)
	}
	args := make([]*ir.Expr, len(e.Args))
	for i, a := range e.Args {
		x, err := c.exprDepth(a, depth+1)
		if err != nil {
			return nil, At(e.Pos, "", err)
		}
		args[i] = x
	}
	x, err := c.node(e, args)
	if err != nil {
		return nil, At(e.Pos, shortString(e), err)
	}
	return x, nil
}

// node types one node whose operands are typed.
func (c *Checker) node(e *ir.Expr, args []*ir.Expr) (*ir.Expr, error) {
	if err := flippedMap(e.Map); err != nil {
		return nil, err
	}
	switch e.Op {
	case ir.OpConst, ir.OpString, ir.OpVar, ir.OpBuiltin, ir.OpArg, ir.OpField, ir.OpRet, ir.OpReg, ir.OpKaddr, ir.OpKstack, ir.OpUstack,
		ir.OpUstackWalk, ir.OpUaddr, ir.OpBytes, ir.OpEnum, ir.OpSizeof:
		return c.leaf(e)
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShl, ir.OpShr:
		return c.arith(e, args)
	case ir.OpNeg, ir.OpNot:
		return c.unary(e, args[0])
	case ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe:
		return c.comparison(e, args)
	case ir.OpLAnd, ir.OpLOr, ir.OpLNot:
		return c.logic(e, args)
	case ir.OpCond:
		return c.cond(e, args)
	case ir.OpCast:
		return c.cast(e, args[0])
	case ir.OpBswap:
		return c.bswap(e, args[0])
	case ir.OpDeref, ir.OpMember, ir.OpAddrOf, ir.OpIndex, ir.OpStr, ir.OpBuf, ir.OpPerCPU, ir.OpOffset, ir.OpKptr, ir.OpUptr:
		return c.memory(e, args)
	case ir.OpSocketCookie:
		return c.socketCookie(e, args[0])
	case ir.OpTaskPID, ir.OpTaskTID:
		return c.taskID(e.Op, args[0])
	case ir.OpPath:
		return c.path(e, args[0])
	case ir.OpHasPrefix, ir.OpContains, ir.OpIndexOf, ir.OpGlob, ir.OpLen, ir.OpStrncmp, ir.OpMemcmp:
		return c.text(e, args)
	case ir.OpTuple, ir.OpElem:
		return c.tuple(e, args)
	case ir.OpMapGet, ir.OpMapHas:
		return c.mapRead(e, args)
	case ir.OpMapCPU:
		return c.mapCPU(e, args)
	}
	return nil, errors.New("no such operation")
}

// IsConst says whether e is an integer constant, and untyped whether it may
// take any type.
func IsConst(e *ir.Expr) bool { return e.Op == ir.OpConst }

// untyped marks a constant that adapts itself; it is typed s64 for now.
func untyped(e *ir.Expr) bool { return e.Op == ir.OpConst && e.Loose }

func constOf(t ir.Type, v uint64) *ir.Expr {
	return &ir.Expr{Op: ir.OpConst, Type: t, Int: int64(eval.Norm(t, v))}
}

func (c *Checker) leaf(e *ir.Expr) (*ir.Expr, error) {
	switch e.Op {
	case ir.OpConst:
		if e.Type.Kind == ir.KindAuto {
			return &ir.Expr{Op: ir.OpConst, Type: ir.Int64Type(), Int: e.Int, Loose: true, Pos: e.Pos}, nil
		}
		if err := validScalar(e.Type); err != nil {
			return nil, err
		}
		return &ir.Expr{Op: ir.OpConst, Type: e.Type, Int: int64(eval.Norm(e.Type, uint64(e.Int))), Pos: e.Pos}, nil
	case ir.OpString:
		return c.stringConst(e)
	case ir.OpBytes:
		return bytesConst(e)
	case ir.OpEnum:
		return c.enumerator(e)
	case ir.OpSizeof:
		return c.sizeof(e)
	case ir.OpVar:
		v := c.Vars[e.Var]
		if v == nil {
			return nil, errors.New("variable is used before it is set")
		}
		return &ir.Expr{Op: ir.OpVar, Type: v.Type, Var: v, Pos: e.Pos}, nil
	case ir.OpBuiltin:
		return c.builtin(e)
	case ir.OpKstack, ir.OpUstack, ir.OpUstackWalk:
		return c.stack(e)
	}
	return c.context(e)
}

func (c *Checker) stringConst(e *ir.Expr) (*ir.Expr, error) {
	t := e.Type
	if t.Kind == ir.KindAuto {
		t = ir.StringType(len(e.Str) + 1)
	}
	if t.Kind != ir.KindString || t.Size <= len(e.Str) || t.Size > ir.MaxMemory {
		return nil, fmt.Errorf("%d bytes of text do not fit %s", len(e.Str), t)
	}
	for i := range len(e.Str) {
		if e.Str[i] == 0 {
			return nil, errors.New("text with a NUL byte")
		}
	}
	return &ir.Expr{Op: ir.OpString, Type: t, Str: e.Str, Pos: e.Pos}, nil
}

func (c *Checker) stack(e *ir.Expr) (*ir.Expr, error) {
	n := e.Int
	if n == 0 {
		n = ir.DefaultFrames
	}
	if n < 1 || n > 512 || e.Skip < 0 || e.Skip > 255 {
		return nil, fmt.Errorf("stack of %d frames, %d left out: 1 to 512 and 0 to 255 are possible", n, e.Skip)
	}
	if e.Op == ir.OpUstackWalk {
		if err := c.walked(int(n) + e.Skip); err != nil {
			return nil, err
		}
	}
	return &ir.Expr{Op: e.Op, Type: stackType(e.Op, n), Int: n, Skip: e.Skip, Pos: e.Pos}, nil
}

func (c *Checker) builtin(e *ir.Expr) (*ir.Expr, error) {
	b, ok := ir.BuiltinNamed(e.Str)
	if !ok {
		return nil, fmt.Errorf("no builtin %q%s", e.Str, nearBuiltin(e.Str))
	}
	out := &ir.Expr{Op: ir.OpBuiltin, Type: b.Type, Str: e.Str, Pos: e.Pos}
	switch e.Str {
	case "curtask":
		t, err := c.kernelType("task_struct")
		if err == nil {
			out.Type = ir.PtrType(t, false)
		}
		return out, nil
	case "ppid":
		parent := &ir.Expr{Op: ir.OpMember, Str: "real_parent", Args: []*ir.Expr{{Op: ir.OpBuiltin, Str: "curtask"}}}
		return c.Expr(&ir.Expr{Op: ir.OpTaskPID, Args: []*ir.Expr{parent}})
	case "pcomm":
		task := &ir.Expr{Op: ir.OpBuiltin, Str: "curtask"}
		return c.Expr(&ir.Expr{Op: ir.OpMember, Str: "group_leader->comm", Args: []*ir.Expr{task}})
	case "usermode":
		return c.userMode()
	case "is_return":
		if !c.Pp.Session() {
			return constOf(ir.BoolType(), eval.B2u(c.Pp.Returns)), nil
		}
		return out, c.session(e.Str)
	case "session_cookie":
		return out, c.session(e.Str)
	case "probetype":
		name, _, _ := strings.Cut(c.targetName(), ":")
		return c.stringConst(&ir.Expr{Op: ir.OpString, Str: name, Pos: e.Pos})
	case "ip", "sp":
		return c.register(c.specialReg(e.Str), b.Type)
	case "goid":
		return c.goid()
	case "goframe":
		return c.goFrame()
	case "call_id":
		return c.callID()
	case "func":
		return c.funcAddress(out)
	case "probe", "cookie":
		return c.cookie(out)
	}
	if !c.Kern.AtLeast(b.Since) {
		return nil, Unsupported("builtin "+e.Str, b.Since, "this plan is for Linux "+c.Plan.Kernel)
	}
	return out, nil
}

func Unsupported(what string, since ir.Version, hint string) error {
	u := &probe.UnsupportedError{Feature: what, Hint: hint}
	if since != (ir.Version{}) {
		u.Since = fmt.Sprintf("%d.%d", since[0], since[1])
	}
	return u
}

// kernelType finds a kernel type by name.
func (c *Checker) kernelType(name string) (btf.Type, error) {
	if c.Plan.BTF == nil {
		return nil, Unsupported("type "+name, ir.Version{}, noBTF)
	}
	return lookupType(c.Plan.BTF, name)
}

// License is the licence to load a program with.
func License(p *ir.Program) string { return cmp.Or(p.License, ir.DefaultLicense) }
