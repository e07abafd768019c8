package check

import (
	"fmt"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/builtin"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// TaskFields are the members that taskID reads besides the numbers in the initial namespace.
// A program that uses no task ids does not need them in its types.
var TaskFields = []builtin.Member{
	{Type: "task_struct", Name: "thread_pid"},
	{Type: "task_struct", Name: "group_leader"},
	{Type: "task_struct", Name: "pid"},
	{Type: "task_struct", Name: "tgid"},
	{Type: "pid", Name: "level"},
	{Type: "pid", Name: "numbers"},
	{Type: "upid", Name: "nr"},
	{Type: "upid", Name: "ns"},
}

// UsesTaskIDs reports whether taskID determines the type of an expression.
func UsesTaskIDs(e *ir.Expr) bool {
	return e.Op == ir.OpTaskPID || e.Op == ir.OpTaskTID ||
		e.Op == ir.OpBuiltin && builtin.Named(e.Str).TaskIDs
}

// compatFlags are, by architecture, the member of a task's thread_info and its bit that are set
// in system calls of the 32-bit ABI.
var compatFlags = map[string]struct {
	member string
	bit    int64
}{
	// TS_COMPAT of the call, which a 64-bit program makes with int 0x80, too. TIF_ADDR32 and
	// the code segment are those of the program.
	"amd64": {"status", 1},
	"arm64": {"flags", 22}, // TIF_32BIT of the program, whose calls are all of one kind
}

// compat reports whether the current task is in a system call of the 32-bit ABI.
func (c *checker) compat() (*typed.Node, error) {
	flag, ok := compatFlags[c.plan.Arch]
	if !ok {
		return nil, Unsupported("builtin compat", ir.Version{}, "not known on "+c.plan.Arch)
	}
	bits := memberExpr(ir.NewBuiltin("curtask"), "thread_info."+flag.member)
	return c.expr(ir.NewExpr(ir.OpNe, ir.NewExpr(ir.OpAnd, bits, ir.NewConst(1<<flag.bit)),
		ir.NewConst(0)))
}

// taskID returns the number of a task other than the current one, given its typed pointer. It
// is the number in the initial namespace or, for a program that is loaded in another one, the
// number that PIDNamespace.OwnIDs would give it as the current task.
func (c *checker) taskID(op ir.Op, task *typed.Node) (*typed.Node, error) {
	s, _ := StructOf(task.Type.Elem).(*btf.Struct)
	if task.Type.Kind != ir.KindPtr || task.Type.User || s == nil || s.Name != "task_struct" {
		return nil, fmt.Errorf("%s is not a pointer to the kernel's struct task_struct", task.Type)
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
	// The idle tasks have the number 0 in every namespace.
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

// memberOf returns a member behind a typed pointer, as t if t is not the zero Type.
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

// elementOf returns the address of element i of an array behind a typed pointer. It ignores
// the array's length, because the kernel declares arrays with one element or none if it
// chooses their length at allocation.
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

// choice returns a if the condition is true, otherwise b, which has the same type.
func choice(cond, a, b *typed.Node) *typed.Node {
	return typed.New(ir.OpCond, a.Type, cond, a, b)
}
