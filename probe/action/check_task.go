package action

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
)

// taskFields are what taskID reads, besides a task's numbers in the initial
// namespace: what a program asks nothing else of need not be in its types.
var taskFields = []struct{ typ, member string }{
	{"task_struct", "thread_pid"},
	{"task_struct", "group_leader"},
	{"task_struct", "pid"},
	{"task_struct", "tgid"},
	{"pid", "level"},
	{"pid", "numbers"},
	{"upid", "nr"},
	{"upid", "ns"},
}

// usesTaskIDs says whether an expression is one that taskID types.
func usesTaskIDs(e *Expr) bool {
	return e.Op == OpTaskPID || e.Op == OpTaskTID || e.Op == OpBuiltin && e.Str == "ppid"
}

// taskID types the number of a task that is not the current one, which is typed:
// the one in the initial namespace or, for a program that is loaded in another one,
// the same as PIDNamespace.OwnIDs gives the current task.
func (c *checker) taskID(op Op, task *Expr) (*Expr, error) {
	s, _ := structOf(task.Type.Elem).(*btf.Struct)
	if task.Type.Kind != KindPtr || task.Type.User || s == nil || s.Name != "task_struct" {
		return nil, fmt.Errorf("%s is no pointer to a struct task_struct of the kernel's", task.Type)
	}
	initial, pid := "pid", "thread_pid"
	if op == OpTaskPID {
		initial, pid = "tgid", "group_leader->thread_pid"
	}
	number, err := c.memberOf(task, initial, u32)
	if err != nil || c.ns == nil {
		return number, err
	}
	number = c.keep("initial", number)
	idle := compared(OpEq, number, constOf(u32, 0)) // the idle tasks are 0 everywhere
	stranger := choice(idle, number, &Expr{Op: OpOr, Type: u32, Args: []*Expr{number, constOf(u32, kernel.Stranger)}})
	n := c.ns.Nested
	if n == nil {
		return stranger, nil
	}
	at, err := c.memberOf(task, pid, Type{})
	if err != nil {
		return nil, err
	}
	at = c.keep("thread_pid", at)
	level, err := c.memberOf(at, "level", u32)
	if err != nil {
		return nil, err
	}
	upid, err := c.elementOf(at, "numbers", int64(n.Level))
	if err != nil {
		return nil, err
	}
	ns, err := c.memberOf(upid, "ns", u64)
	if err != nil {
		return nil, err
	}
	own, err := c.memberOf(upid, "nr", u32)
	if err != nil {
		return nil, err
	}
	inside := &Expr{Op: OpLAnd, Type: BoolType(), Args: []*Expr{
		compared(OpGe, level, constOf(u32, uint64(n.Level))),
		compared(OpEq, ns, constOf(u64, n.Address)),
	}}
	return choice(inside, own, stranger), nil
}

// memberOf reads a number behind a typed pointer, as t if that is given.
func (c *checker) memberOf(ptr *Expr, path string, t Type) (*Expr, error) {
	p, err := placeOf(ptr)
	if err == nil {
		p, err = c.member(p, path)
	}
	if err != nil {
		return nil, err
	}
	x, err := c.valueAt(p, &Expr{Op: OpMember, Pos: ptr.Pos})
	if err != nil || t.Kind == KindAuto {
		return x, err
	}
	return convert(x, t)
}

// elementOf is the address of element i of an array behind a typed pointer,
// however many its type says there are: one, or none, stands for what the kernel
// allocates.
func (c *checker) elementOf(ptr *Expr, array string, i int64) (*Expr, error) {
	p, err := placeOf(ptr)
	if err == nil {
		p, err = c.member(p, array+"[0]")
	}
	if err != nil {
		return nil, err
	}
	size, err := btf.Sizeof(p.typ)
	if err != nil {
		return nil, err
	}
	p.off += i * int64(size)
	return address(p, PtrType(p.typ, false)), nil
}

func compared(op Op, a, b *Expr) *Expr { return &Expr{Op: op, Type: BoolType(), Args: []*Expr{a, b}} }

// choice is a if the condition holds, or else b of the same type.
func choice(cond, a, b *Expr) *Expr {
	return &Expr{Op: OpCond, Type: a.Type, Args: []*Expr{cond, a, b}}
}
