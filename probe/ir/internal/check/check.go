package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// Checked is an action that is prepared for one program of a plan: every node has a type,
// operands are converted to common types, arguments are replaced by their locations, and
// member paths by addresses and offsets.
type Checked struct {
	Body []*typed.Stmt
	Vars []*ir.Var
	Pp   *probe.ProgramPlan
	Kern ir.Version
	// Cgroup is the path to the current cgroup, for storage by cgroup.
	Cgroup cgroupPath
	// Walk is the walker of user stacks, nil if the action does not walk any.
	Walk *bpfwalk.Walker
}

// checker determines the types of an action for one program of a plan.
type checker struct {
	locator
	// vars are the typed variables that are set at the current statement, by the program's
	// variables; list has all typed variables.
	vars map[*ir.Var]*ir.Var
	list []*ir.Var
	// scope has the variables of the enclosing blocks, in order of declaration.
	scope []*ir.Var
	nodes int
	// pos is the current statement's place in its source.
	pos ir.Pos
	// cgroup is the path to the current cgroup, for storage by cgroup.
	cgroup cgroupPath
	// before has assignments that must be made before the current statement.
	before []*typed.Stmt
	// loops is the number of loops around the current statement.
	loops int
	// walk is the walker of user stacks, nil if none is needed so far.
	walk *bpfwalk.Walker
	// ns is the pid namespace of the numbers of tasks; nil is the initial one.
	ns *kernel.PIDNamespace
}

func newChecker(p *ir.Program, plan *probe.Plan, i int) (*checker, error) {
	pp := &plan.Programs[i]
	if pp.Group < 0 || pp.Group >= len(p.Actions) {
		return nil, fmt.Errorf("program %s: plan group %d: the program has %d actions", pp.Name, pp.Group,
			len(p.Actions))
	}
	l := locator{prog: p, plan: plan, pp: pp, kern: KernelVersion(plan.Kernel)}
	return &checker{locator: l, vars: map[*ir.Var]*ir.Var{}}, nil
}

// Check prepares an action for program i of the plan. The numbers of tasks are those in
// namespace ns; nil is the initial one.
func Check(p *ir.Program, plan *probe.Plan, i int, ns *kernel.PIDNamespace) (*Checked, error) {
	c, err := newChecker(p, plan, i)
	if err != nil {
		return nil, err
	}
	c.ns = ns
	body, err := c.block(p.Actions[c.pp.Group].Body)
	if err != nil {
		return nil, err
	}
	return &Checked{Body: body, Vars: c.list, Pp: c.pp, Kern: c.kern, Cgroup: c.cgroup, Walk: c.walk},
		nil
}

// TypeOf returns the type that an expression has in program i of the plan. Variables in it
// have the types with which they were made.
func TypeOf(e *ir.Expr, plan *probe.Plan, i int) (ir.Type, error) {
	p := &ir.Program{Actions: make([]ir.Action, max(plan.Programs[i].Group, 0)+1)}
	c, err := newChecker(p, plan, i)
	if err != nil {
		return ir.Type{}, err
	}
	(&ir.Program{Actions: []ir.Action{{Body: []*ir.Stmt{{Op: ir.StmtEval, X: e}}}}}).
		Visit(func(*ir.Stmt) {}, func(e *ir.Expr) {
			if e.Var != nil && e.Var.Type.Kind != ir.KindAuto {
				c.vars[e.Var] = e.Var
			}
		})
	x, err := c.expr(e)
	if err != nil {
		return ir.Type{}, err
	}
	return x.Type, nil
}

// KernelVersion parses a release such as "6.1.0-56-cloud-amd64". For one that it cannot parse
// it returns the oldest supported kernel's version.
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

// expr determines the type of an expression.
func (c *checker) expr(e *ir.Expr) (*typed.Node, error) {
	return c.exprDepth(e, 0)
}

// maxNodes is the maximal number of expressions in an action. Each use of a node counts,
// because nodes may be shared, and a small graph can represent an enormous tree.
const maxNodes = 100_000

func (c *checker) exprDepth(e *ir.Expr, depth int) (*typed.Node, error) {
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
	if x, ok, err := c.goPart(e); ok {
		return x, At(e.Pos, shortString(e), err)
	}
	args := make([]*typed.Node, len(e.Args))
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
	return sited(x, args, c.failureSite(e.Site)), nil
}

// failureSite returns a site, or none if nobody asks for failures.
func (c *checker) failureSite(n uint32) uint32 {
	if c.prog.Failures == nil {
		return 0
	}
	return n
}

// sited returns an operation whose parts that can fail have a site. Its operands have their own.
func sited(x *typed.Node, operands []*typed.Node, site uint32) *typed.Node {
	if site == 0 || x.Site != 0 || slices.Contains(operands, x) {
		return x
	}
	n := *x
	n.Args = make([]*typed.Node, len(x.Args))
	for i, a := range x.Args {
		n.Args[i] = sited(a, operands, site)
	}
	switch x.Op {
	case typed.Load, ir.OpStr, ir.OpBuf, ir.OpPath, ir.OpMapGet:
		n.Site = site
	}
	return &n
}

// node determines the type of a node. Its operands have types.
func (c *checker) node(e *ir.Expr, args []*typed.Node) (*typed.Node, error) {
	if err := flippedMap(e.Map); err != nil {
		return nil, err
	}
	switch e.Op {
	case ir.OpConst, ir.OpString, ir.OpVar, ir.OpVarAddr, ir.OpBuiltin, ir.OpArg, ir.OpField, ir.OpRet, ir.OpReg,
		ir.OpKaddr, ir.OpKstack, ir.OpUstack,
		ir.OpUstackWalk, ir.OpUaddr, ir.OpBytes, ir.OpEnum, ir.OpSizeof:
		return c.leaf(e)
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpDiv, ir.OpMod, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShl,
		ir.OpShr:
		return arith(e.Op, e.Type, args[0], args[1])
	case ir.OpNeg, ir.OpNot:
		return unary(e.Op, e.Type, args[0])
	case ir.OpEq, ir.OpNe, ir.OpLt, ir.OpLe, ir.OpGt, ir.OpGe:
		return comparison(e, args[0], args[1])
	case ir.OpLAnd, ir.OpLOr, ir.OpLNot:
		return logic(e.Op, args)
	case ir.OpCond:
		return cond(e.Type, args)
	case ir.OpCast:
		return c.cast(e, args[0])
	case ir.OpBswap:
		return bswap(args[0])
	case ir.OpDeref, ir.OpMember, ir.OpAddrOf, ir.OpIndex, ir.OpStr, ir.OpBuf, ir.OpPerCPU,
		ir.OpOffset, ir.OpKptr, ir.OpUptr:
		return c.memory(e, args)
	case ir.OpSocketCookie:
		return c.socketCookie(args[0])
	case ir.OpTaskPID, ir.OpTaskTID:
		return c.taskID(e.Op, args[0])
	case ir.OpPath:
		return c.path(e.Type, args[0])
	case ir.OpHasPrefix, ir.OpContains, ir.OpIndexOf, ir.OpGlob, ir.OpLen, ir.OpStrncmp, ir.OpMemcmp:
		return text(e, args)
	case ir.OpTuple:
		return tuple(e.Type, args)
	case ir.OpElem:
		return elem(e.Str, e.Int, args[0])
	case ir.OpMapGet, ir.OpMapHas:
		return c.mapRead(e.Op, e.Map, args)
	case ir.OpMapCPU:
		return c.mapCPU(e, args)
	}
	return nil, errors.New("no such operation")
}

func constOf(t ir.Type, v uint64) *typed.Node {
	return &typed.Node{Op: ir.OpConst, Type: t, Int: int64(eval.Norm(t, v))}
}

func (c *checker) leaf(e *ir.Expr) (*typed.Node, error) {
	switch e.Op {
	case ir.OpConst:
		if e.Type.Kind == ir.KindAuto {
			return &typed.Node{Op: ir.OpConst, Type: ir.Int64Type(), Int: e.Int, Loose: true}, nil
		}
		if !e.Type.Scalar() {
			return nil, fmt.Errorf("%s is not a number", e.Type)
		}
		if err := e.Type.Valid(); err != nil {
			return nil, err
		}
		return &typed.Node{Op: ir.OpConst, Type: e.Type, Int: int64(eval.Norm(e.Type, uint64(e.Int)))},
			nil
	case ir.OpString:
		return stringConst(e.Str, e.Type)
	case ir.OpBytes:
		return bytesConst(e.Str, e.Type)
	case ir.OpEnum:
		return c.enumerator(e.Str)
	case ir.OpSizeof:
		return c.sizeof(e.Str)
	case ir.OpVar, ir.OpVarAddr:
		v := c.vars[e.Var]
		if v == nil {
			return nil, errors.New("variable is used before it is set")
		}
		if e.Op == ir.OpVarAddr {
			return &typed.Node{Op: ir.OpVarAddr, Type: ir.PtrType(nil, false), Var: v}, nil
		}
		return &typed.Node{Op: ir.OpVar, Type: v.Type, Var: v}, nil
	case ir.OpBuiltin:
		return c.builtin(e)
	case ir.OpKstack, ir.OpUstack, ir.OpUstackWalk:
		return c.stack(e)
	}
	return c.context(e)
}

// stringConst returns constant text of the type t or, if that is the zero Type, of a type
// with the text's size.
func stringConst(s string, t ir.Type) (*typed.Node, error) {
	if t.Kind == ir.KindAuto {
		t = ir.StringType(len(s) + 1)
	}
	if t.Kind != ir.KindString || t.Size <= len(s) || t.Size > ir.MaxMemory {
		return nil, fmt.Errorf("%d bytes of text do not fit %s", len(s), t)
	}
	if strings.IndexByte(s, 0) >= 0 {
		return nil, errors.New("text with a NUL byte")
	}
	return &typed.Node{Op: ir.OpString, Type: t, Str: s}, nil
}

func (c *checker) stack(e *ir.Expr) (*typed.Node, error) {
	n := e.Int
	if n == 0 {
		n = ir.DefaultFrames
	}
	if n < 1 || n > 512 || e.Skip < 0 || e.Skip > 255 {
		return nil, fmt.Errorf("stack depth %d (want 1 to 512), skip %d (want 0 to 255)", n,
			e.Skip)
	}
	if e.Op == ir.OpUstackWalk {
		if err := c.walked(int(n) + e.Skip); err != nil {
			return nil, err
		}
	}
	return &typed.Node{Op: e.Op, Type: stackType(e.Op, n), Int: n, Skip: e.Skip}, nil
}

// memberExpr returns a member of the object to which an expression points, without types.
func memberExpr(e *ir.Expr, path string) *ir.Expr {
	return &ir.Expr{Op: ir.OpMember, Str: path, Args: []*ir.Expr{e}}
}

// Unsupported returns the error for a feature that the kernel lacks. since is the first
// version that has it, zero if none has.
func Unsupported(what string, since ir.Version, hint string) error {
	u := &probe.UnsupportedError{Feature: what, Hint: hint}
	if since != (ir.Version{}) {
		u.Since = fmt.Sprintf("%d.%d", since[0], since[1])
	}
	return u
}

// kernelType looks up a kernel type by name.
func (c *checker) kernelType(name string) (btf.Type, error) {
	if c.plan.BTF == nil {
		return nil, Unsupported("type "+name, ir.Version{}, noBTF)
	}
	return lookupType(c.plan.BTF, name)
}

// License returns the license with which a program is loaded.
func License(p *ir.Program) string { return cmp.Or(p.License, ir.DefaultLicense) }
