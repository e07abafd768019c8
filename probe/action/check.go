package action

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// checked is an action made ready for one program of a plan: every node is
// typed, operands are converted where types differ, arguments are replaced by
// where they are found, and member paths by addresses and offsets.
type checked struct {
	body []*Stmt
	vars []*Var
	pp   *probe.Program
	kern Version
	// cgroup is where the current cgroup is found, for storage by cgroup.
	cgroup cgroupPath
	// walk is the walker of user stacks, nil if the action asks for none.
	walk *bpfwalk.Walker
}

// checker types an action for one program of a plan.
type checker struct {
	prog *Program
	plan *probe.Plan
	pp   *probe.Program
	kern Version
	vars map[*Var]*Var
	list []*Var
	// scope are the variables of the enclosing blocks, in order of declaration.
	scope []*Var
	nodes int
	// cgroup is where the current cgroup is found, for storage by cgroup.
	cgroup cgroupPath
	// before are assignments that the current statement wants made before it.
	before []*Stmt
	// loops is how many loops the current statement is inside of.
	loops int
	// walk is the walker of user stacks, nil if there is none so far.
	walk *bpfwalk.Walker
	// ns is the pid namespace whose numbers are meant; nil: the initial one's.
	ns *kernel.PIDNamespace
}

// check makes an action ready for program i of the plan, with the numbers that
// the namespace gives to tasks; nil is the initial one.
func check(p *Program, plan *probe.Plan, i int, ns *kernel.PIDNamespace) (*checked, error) {
	pp := &plan.Programs[i]
	if pp.Group < 0 || pp.Group >= len(p.Actions) {
		return nil, fmt.Errorf("program %s: plan group %d: the program has %d actions", pp.Name, pp.Group, len(p.Actions))
	}
	c := &checker{prog: p, plan: plan, pp: pp, kern: kernelVersion(plan.Kernel), vars: map[*Var]*Var{}, ns: ns}
	body, err := c.block(p.Actions[pp.Group].Body)
	if err != nil {
		return nil, err
	}
	return &checked{body: body, vars: c.list, pp: pp, kern: c.kern, cgroup: c.cgroup, walk: c.walk}, nil
}

// kernelVersion reads "6.1.0-56-cloud-amd64"; what cannot be read is the
// oldest kernel there is support for.
func kernelVersion(release string) Version {
	v, ok := feature.ParseVersion(release)
	if !ok {
		return Version{5, 10}
	}
	return Version(v)
}

// at adds the place to an error that has none.
func at(pos Pos, where string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		if e.Pos == (Pos{}) && pos != (Pos{}) {
			return &Error{Pos: pos, Where: e.Where, Err: e.Err}
		}
		return err
	}
	return &Error{Pos: pos, Where: where, Err: err}
}

// expr types an expression.
func (c *checker) expr(e *Expr) (*Expr, error) {
	return c.exprDepth(e, 0)
}

// maxDepth bounds the nesting of expressions and statements, so that a
// program made by a hostile front end cannot exhaust the stack.
const maxDepth = 200

// maxNodes bounds an action's expressions, counted as often as they are used:
// nodes may be shared, and a small graph can stand for an endless tree.
const maxNodes = 100_000

func (c *checker) exprDepth(e *Expr, depth int) (*Expr, error) {
	if e == nil {
		return nil, errors.New("missing expression")
	}
	if depth > maxDepth {
		return nil, at(e.Pos, "", fmt.Errorf("expression nested more than %d deep", maxDepth))
	}
	if c.nodes++; c.nodes > maxNodes {
		return nil, at(e.Pos, "", fmt.Errorf("action of more than %d expressions", maxNodes))
	}
	if err := checkArity(e); err != nil {
		return nil, at(e.Pos, e.Op.String(), err)
	}
	args := make([]*Expr, len(e.Args))
	for i, a := range e.Args {
		x, err := c.exprDepth(a, depth+1)
		if err != nil {
			return nil, at(e.Pos, "", err)
		}
		args[i] = x
	}
	x, err := c.node(e, args)
	if err != nil {
		return nil, at(e.Pos, shortString(e), err)
	}
	return x, nil
}

// arity is the number of operands by operation, least and most.
func arity(op Op) (least, most int) {
	switch op {
	case OpConst, OpString, OpVar, OpBuiltin, OpArg, OpField, OpRet, OpReg, OpKaddr, OpKstack, OpUstack,
		OpUstackWalk, OpUaddr, OpBytes, OpEnum, OpSizeof:
		return 0, 0
	case OpNeg, OpNot, OpLNot, OpCast, OpBswap, OpDeref, OpMember, OpOffset, OpKptr, OpUptr, OpSocketCookie, OpPath, OpTaskPID, OpTaskTID,
		OpHasPrefix, OpGlob, OpLen, OpElem:
		return 1, 1
	case OpCond:
		return 3, 3
	case OpTuple:
		return 1, 256
	case OpBuf, OpStr, OpAddrOf, OpContains, OpIndexOf, OpMapCPU:
		return 1, 2
	case OpMapGet, OpMapHas:
		return 0, 1
	case opCtx:
		return 0, 0
	case opLoad:
		return 1, 1
	}
	return 2, 2
}

func checkArity(e *Expr) error {
	if e.Op == OpInvalid && e.Str != "" {
		return errors.New(e.Str)
	}
	if e.Op == OpInvalid || e.Op >= opLoad {
		return fmt.Errorf("no such operation: %d", e.Op)
	}
	least, most := arity(e.Op)
	if n := len(e.Args); n < least || n > most {
		return fmt.Errorf("%d operands", n)
	}
	return nil
}

// node types one node whose operands are typed.
func (c *checker) node(e *Expr, args []*Expr) (*Expr, error) {
	if err := flippedMap(e.Map); err != nil {
		return nil, err
	}
	switch e.Op {
	case OpConst, OpString, OpVar, OpBuiltin, OpArg, OpField, OpRet, OpReg, OpKaddr, OpKstack, OpUstack,
		OpUstackWalk, OpUaddr, OpBytes, OpEnum, OpSizeof:
		return c.leaf(e)
	case OpAdd, OpSub, OpMul, OpDiv, OpMod, OpAnd, OpOr, OpXor, OpShl, OpShr:
		return c.arith(e, args)
	case OpNeg, OpNot:
		return c.unary(e, args[0])
	case OpEq, OpNe, OpLt, OpLe, OpGt, OpGe:
		return c.comparison(e, args)
	case OpLAnd, OpLOr, OpLNot:
		return c.logic(e, args)
	case OpCond:
		return c.cond(e, args)
	case OpCast:
		return c.cast(e, args[0])
	case OpBswap:
		return c.bswap(e, args[0])
	case OpDeref, OpMember, OpAddrOf, OpIndex, OpStr, OpBuf, OpPerCPU, OpOffset, OpKptr, OpUptr:
		return c.memory(e, args)
	case OpSocketCookie:
		return c.socketCookie(e, args[0])
	case OpTaskPID, OpTaskTID:
		return c.taskID(e.Op, args[0])
	case OpPath:
		return c.path(e, args[0])
	case OpHasPrefix, OpContains, OpIndexOf, OpGlob, OpLen, OpStrncmp, OpMemcmp:
		return c.text(e, args)
	case OpTuple, OpElem:
		return c.tuple(e, args)
	case OpMapGet, OpMapHas:
		return c.mapRead(e, args)
	case OpMapCPU:
		return c.mapCPU(e, args)
	}
	return nil, errors.New("no such operation")
}

// isConst says whether e is an integer constant, and untyped whether it may
// take any type.
func isConst(e *Expr) bool { return e.Op == OpConst }

// untyped marks a constant that adapts itself; it is typed s64 for now.
func untyped(e *Expr) bool { return e.Op == OpConst && e.loose }

func constOf(t Type, v uint64) *Expr { return &Expr{Op: OpConst, Type: t, Int: int64(norm(t, v))} }

func (c *checker) leaf(e *Expr) (*Expr, error) {
	switch e.Op {
	case OpConst:
		if e.Type.Kind == KindAuto {
			return &Expr{Op: OpConst, Type: Int64Type(), Int: e.Int, loose: true, Pos: e.Pos}, nil
		}
		if err := validScalar(e.Type); err != nil {
			return nil, err
		}
		return &Expr{Op: OpConst, Type: e.Type, Int: int64(norm(e.Type, uint64(e.Int))), Pos: e.Pos}, nil
	case OpString:
		return c.stringConst(e)
	case OpBytes:
		return bytesConst(e)
	case OpEnum:
		return c.enumerator(e)
	case OpSizeof:
		return c.sizeof(e)
	case OpVar:
		v := c.vars[e.Var]
		if v == nil {
			return nil, errors.New("variable is used before it is set")
		}
		return &Expr{Op: OpVar, Type: v.Type, Var: v, Pos: e.Pos}, nil
	case OpBuiltin:
		return c.builtin(e)
	case OpKstack, OpUstack, OpUstackWalk:
		return c.stack(e)
	}
	return c.context(e)
}

func (c *checker) stringConst(e *Expr) (*Expr, error) {
	t := e.Type
	if t.Kind == KindAuto {
		t = StringType(len(e.Str) + 1)
	}
	if t.Kind != KindString || t.Size <= len(e.Str) || t.Size > maxMemory {
		return nil, fmt.Errorf("%d bytes of text do not fit %s", len(e.Str), t)
	}
	for i := range len(e.Str) {
		if e.Str[i] == 0 {
			return nil, errors.New("text with a NUL byte")
		}
	}
	return &Expr{Op: OpString, Type: t, Str: e.Str, Pos: e.Pos}, nil
}

// maxMemory bounds one value in memory: a per-CPU map's value is at most 32 KiB.
const maxMemory = 8192

func validScalar(t Type) error {
	switch t.Kind {
	case KindInt:
		if t.Size != 1 && t.Size != 2 && t.Size != 4 && t.Size != 8 {
			return fmt.Errorf("integer of %d bytes", t.Size)
		}
		return nil
	case KindBool:
		if t.Size == 1 {
			return nil
		}
	case KindPtr:
		if t.Size == 8 {
			return nil
		}
	}
	return fmt.Errorf("%s is not a number", t)
}

// validType checks a type that a front end made.
func validType(t Type, depth int) error {
	switch {
	case depth > 8:
		return errors.New("type nested more than 8 deep")
	case t.Kind == KindString || t.Kind == KindBytes:
		if t.Size < 1 || t.Size > maxMemory {
			return fmt.Errorf("%s: size must be 1 to %d", t, maxMemory)
		}
		return nil
	case t.Kind == KindTuple:
		if len(t.Fields) == 0 || t.Size > maxMemory {
			return fmt.Errorf("%s: size must be 1 to %d", t, maxMemory)
		}
		end := 0
		for _, f := range t.Fields {
			if err := validType(f.Type, depth+1); err != nil {
				return err
			}
			if f.Offset < end || f.Offset%f.Type.Align() != 0 || f.Offset+f.Type.Size > t.Size {
				return fmt.Errorf("%s: element at offset %d", t, f.Offset)
			}
			end = f.Offset + f.Type.Size
		}
		return nil
	}
	return validScalar(t)
}

// defaultFrames is how many frames a stack has for which nobody gave a number:
// PERF_MAX_STACK_DEPTH, which is the most that the kernel's walker gives.
const defaultFrames = 127

// stackType is the type of a stack of n frames.
func stackType(op Op, n int64) Type {
	if op != OpKstack {
		return BytesType(int(n) * 8).WithFormat(FormatUstack)
	}
	return BytesType(int(n) * 8).WithFormat(FormatKstack)
}

func (c *checker) stack(e *Expr) (*Expr, error) {
	n := e.Int
	if n == 0 {
		n = defaultFrames
	}
	if n < 1 || n > 512 || e.Skip < 0 || e.Skip > 255 {
		return nil, fmt.Errorf("stack of %d frames, %d left out: 1 to 512 and 0 to 255 are possible", n, e.Skip)
	}
	if e.Op == OpUstackWalk {
		if err := c.walked(int(n) + e.Skip); err != nil {
			return nil, err
		}
	}
	return &Expr{Op: e.Op, Type: stackType(e.Op, n), Int: n, Skip: e.Skip, Pos: e.Pos}, nil
}

func (c *checker) builtin(e *Expr) (*Expr, error) {
	b, ok := builtins[e.Str]
	if !ok {
		return nil, fmt.Errorf("no builtin %q%s", e.Str, nearBuiltin(e.Str))
	}
	out := &Expr{Op: OpBuiltin, Type: b.Type, Str: e.Str, Pos: e.Pos}
	switch e.Str {
	case "curtask":
		t, err := c.kernelType("task_struct")
		if err == nil {
			out.Type = PtrType(t, false)
		}
		return out, nil
	case "ppid":
		parent := &Expr{Op: OpMember, Str: "real_parent", Args: []*Expr{{Op: OpBuiltin, Str: "curtask"}}}
		return c.expr(&Expr{Op: OpTaskPID, Args: []*Expr{parent}})
	case "pcomm":
		task := &Expr{Op: OpBuiltin, Str: "curtask"}
		return c.expr(&Expr{Op: OpMember, Str: "group_leader->comm", Args: []*Expr{task}})
	case "usermode":
		return c.userMode()
	case "is_return":
		if !c.pp.Session() {
			return constOf(BoolType(), b2u(c.pp.Returns)), nil
		}
		return out, c.session(e.Str)
	case "session_cookie":
		return out, c.session(e.Str)
	case "probetype":
		name, _, _ := strings.Cut(c.targetName(), ":")
		return c.stringConst(&Expr{Op: OpString, Str: name, Pos: e.Pos})
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
	if !c.kern.AtLeast(b.Since) {
		return nil, unsupported("builtin "+e.Str, b.Since, "this plan is for Linux "+c.plan.Kernel)
	}
	return out, nil
}

func unsupported(what string, since Version, hint string) error {
	u := &probe.UnsupportedError{Feature: what, Hint: hint}
	if since != (Version{}) {
		u.Since = fmt.Sprintf("%d.%d", since[0], since[1])
	}
	return u
}

// kernelType finds a kernel type by name.
func (c *checker) kernelType(name string) (btf.Type, error) {
	if c.plan.BTF == nil {
		return nil, unsupported("type "+name, Version{}, noBTF)
	}
	return lookupType(c.plan.BTF, name)
}
