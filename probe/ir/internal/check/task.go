package check

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// TaskFields are what taskID reads, besides a task's numbers in the initial
// namespace: what a program asks nothing else of need not be in its types.
var TaskFields = []struct{ Typ, Member string }{
	{"task_struct", "thread_pid"},
	{"task_struct", "group_leader"},
	{"task_struct", "pid"},
	{"task_struct", "tgid"},
	{"pid", "level"},
	{"pid", "numbers"},
	{"upid", "nr"},
	{"upid", "ns"},
}

// UsesTaskIDs says whether an expression is one that taskID types.
func UsesTaskIDs(e *ir.Expr) bool {
	return e.Op == ir.OpTaskPID || e.Op == ir.OpTaskTID || e.Op == ir.OpBuiltin && e.Str == "ppid"
}

// taskID types the number of a task that is not the current one, which is typed:
// the one in the initial namespace or, for a program that is loaded in another one,
// the same as PIDNamespace.OwnIDs gives the current task.
func (c *checker) taskID(op ir.Op, task *typed.Node) (*typed.Node, error) {
	s, _ := StructOf(task.Type.Elem).(*btf.Struct)
	if task.Type.Kind != ir.KindPtr || task.Type.User || s == nil || s.Name != "task_struct" {
		return nil, fmt.Errorf("%s is no pointer to a struct task_struct of the kernel's", task.Type)
	}
	initial, pid := "pid", "thread_pid"
	if op == ir.OpTaskPID {
		initial, pid = "tgid", "group_leader->thread_pid"
	}
	number, err := memberOf(task, initial, ir.IntType(4, false))
	if err != nil || c.ns == nil {
		return number, err
	}
	number = c.keep("initial", number)
	// the idle tasks are 0 everywhere
	idle := compared(ir.OpEq, number, constOf(ir.IntType(4, false), 0))
	stranger := choice(idle, number,
		typed.New(ir.OpOr, ir.IntType(4, false), number, constOf(ir.IntType(4, false), kernel.Stranger)))
	n := c.ns.Nested
	if n == nil {
		return stranger, nil
	}
	at, err := memberOf(task, pid, ir.Type{})
	if err != nil {
		return nil, err
	}
	at = c.keep("thread_pid", at)
	level, err := memberOf(at, "level", ir.IntType(4, false))
	if err != nil {
		return nil, err
	}
	upid, err := elementOf(at, "numbers", int64(n.Level))
	if err != nil {
		return nil, err
	}
	ns, err := memberOf(upid, "ns", ir.Uint64Type())
	if err != nil {
		return nil, err
	}
	own, err := memberOf(upid, "nr", ir.IntType(4, false))
	if err != nil {
		return nil, err
	}
	inside := typed.New(ir.OpLAnd, ir.BoolType(),
		compared(ir.OpGe, level, constOf(ir.IntType(4, false), uint64(n.Level))),
		compared(ir.OpEq, ns, constOf(ir.Uint64Type(), n.Address)),
	)
	return choice(inside, own, stranger), nil
}

// memberOf reads a number behind a typed pointer, as t if that is given.
func memberOf(ptr *typed.Node, path string, t ir.Type) (*typed.Node, error) {
	p, err := placeOf(ptr)
	if err == nil {
		p, err = member(p, path)
	}
	if err != nil {
		return nil, err
	}
	x, err := valueAt(p)
	if err != nil || t.Kind == ir.KindAuto {
		return x, err
	}
	return convert(x, t)
}

// elementOf is the address of element i of an array behind a typed pointer,
// however many its type says there are: one, or none, stands for what the kernel
// allocates.
func elementOf(ptr *typed.Node, array string, i int64) (*typed.Node, error) {
	p, err := placeOf(ptr)
	if err == nil {
		p, err = member(p, array+"[0]")
	}
	if err != nil {
		return nil, err
	}
	size, err := btf.Sizeof(p.typ)
	if err != nil {
		return nil, err
	}
	p.off += i * int64(size)
	return address(p, ir.PtrType(p.typ, false)), nil
}

func compared(op ir.Op, a, b *typed.Node) *typed.Node {
	return typed.New(op, ir.BoolType(), a, b)
}

// choice is a if the condition holds, or else b of the same type.
func choice(cond, a, b *typed.Node) *typed.Node {
	return typed.New(ir.OpCond, a.Type, cond, a, b)
}
