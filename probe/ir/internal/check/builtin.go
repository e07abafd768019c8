package check

import (
	"fmt"
	"strings"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/eval"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// A lowering puts a builtin together from other expressions, on some kernels or in some programs.
// It gets the value as the generator would evaluate it.
type lowering func(c *checker, out *typed.Node) (*typed.Node, error)

var lowerings map[string]lowering

func init() { // the functions check expressions, which have builtins
	plain := func(f func(c *checker) (*typed.Node, error)) lowering {
		return func(c *checker, _ *typed.Node) (*typed.Node, error) { return f(c) }
	}
	lowerings = map[string]lowering{
		"curtask":        (*checker).currentTask,
		"ppid":           plain((*checker).parentID),
		"pcomm":          plain((*checker).processName),
		"compat":         plain((*checker).compat),
		"usermode":       plain((*checker).userMode),
		"is_return":      (*checker).isReturn,
		"session_cookie": (*checker).sessionCookie,
		"probetype":      plain((*checker).probeType),
		"ip":             (*checker).special,
		"sp":             (*checker).special,
		"goid":           plain((*checker).goid),
		"goframe":        plain((*checker).goFrame),
		"call_id":        plain((*checker).callID),
		"func":           (*checker).function,
		"probe":          (*checker).site,
		"cookie":         (*checker).site,
	}
}

func (c *checker) builtin(e *ir.Expr) (*typed.Node, error) {
	b, ok := ir.BuiltinNamed(e.Str)
	if !ok {
		return nil, fmt.Errorf("no builtin %q%s", e.Str, nearBuiltin(e.Str))
	}
	out := builtinOf(e.Str, b.Type)
	if lower := lowerings[e.Str]; lower != nil {
		return lower(c, out)
	}
	if !c.kern.AtLeast(b.Since) {
		return nil, Unsupported("builtin "+e.Str, b.Since, "this plan is for Linux "+c.plan.Kernel)
	}
	return out, nil
}

func (c *checker) currentTask(out *typed.Node) (*typed.Node, error) {
	if t, err := c.kernelType("task_struct"); err == nil {
		out.Type = ir.PtrType(t, false)
	}
	return out, nil
}

func (c *checker) parentID() (*typed.Node, error) {
	return c.expr(ir.NewExpr(ir.OpTaskPID, memberExpr(ir.NewBuiltin("curtask"), "real_parent")))
}

func (c *checker) processName() (*typed.Node, error) {
	return c.expr(memberExpr(ir.NewBuiltin("curtask"), "group_leader->comm"))
}

func (c *checker) isReturn(out *typed.Node) (*typed.Node, error) {
	if !c.pp.EntryReturn() {
		return constOf(ir.BoolType(), eval.B2u(c.pp.Returns)), nil
	}
	return out, c.session(out.Str)
}

func (c *checker) sessionCookie(out *typed.Node) (*typed.Node, error) {
	return out, c.session(out.Str)
}

func (c *checker) function(out *typed.Node) (*typed.Node, error) { return c.funcAddress(out.Type) }

func (c *checker) site(out *typed.Node) (*typed.Node, error) { return c.cookie(out.Str, out.Type) }

func (c *checker) probeType() (*typed.Node, error) {
	name, _, _ := strings.Cut(c.targetName(), ":")
	return stringConst(name, ir.Type{})
}

// special reads a register that every machine has.
func (c *checker) special(out *typed.Node) (*typed.Node, error) {
	return c.register(c.specialReg(out.Str), out.Type)
}

// callID returns a number that identifies the caller: a goroutine or a thread. The idle
// threads of all CPUs have the id 0; it is replaced by a number with the CPU, which an idle
// thread never leaves.
func (c *checker) callID() (*typed.Node, error) {
	if c.pp.Go != nil {
		return c.goid()
	}
	idle := ir.NewExpr(ir.OpOr, ir.NewBuiltin("cpu"),
		&ir.Expr{Op: ir.OpConst, Type: ir.Uint64Type(), Int: -1 << 63})
	id := ir.NewBuiltin("pidtgid")
	return c.expr(ir.NewExpr(ir.OpCond, ir.NewExpr(ir.OpNe, id, ir.NewConst(0)), id, idle))
}

// builtinOf returns a builtin that the generator evaluates.
func builtinOf(name string, t ir.Type) *typed.Node {
	return &typed.Node{Op: ir.OpBuiltin, Type: t, Str: name}
}
