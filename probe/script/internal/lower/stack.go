package lower

import (
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/internal/life"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// stack is the frames of a stack; a user's has its process, whose names they have. User stacks are
// walked by call frame information, unless by Options.FramePointers.
func (l *lowerer) stack(n syntax.Expr) *ir.Expr {
	t := l.typ(n)
	if t.Kind == types.Kstack {
		return &ir.Expr{Op: ir.OpKstack, Int: int64(t.Limit)}
	}
	frames, process := &ir.Expr{Op: ir.OpUstack, Int: int64(t.Limit)}, castTo(ir.Uint64Type(), ir.NewBuiltin("pid"))
	switch l.point.Provider {
	case "begin", "end", "iter": // the process is this one
	default:
		process = l.announce(n)
		l.walks++
		if !l.o.FramePointers && (!l.o.OneWalk || l.walks == 1 && l.loops == 0) {
			frames.Op = ir.OpUstackWalk
			l.out.IR.WalkAnyone = l.o.Process == 0
		}
	}
	return &ir.Expr{Op: ir.OpTuple, Type: l.of(n), Args: []*ir.Expr{process, frames}}
}

// A process is announced when it is first seen, and again after these times: it may have mapped
// other files meanwhile. They double from the first to the last, and are jiffies, of 1 to 10 ms
// (CONFIG_HZ): the clock may take longer than all else that a program does.
const (
	announcedFirst = 1
	announcedLast  = 8 << 10
)

// mostSeen is the number of processes of which programs know when they were announced.
const mostSeen = 16 << 10

// announce adds the announcement of the current process, unless that was announced of late: whoever
// reads the ring looks at its files, so that addresses have names also after it ended. It returns the
// process as values have it (output.Process).
func (l *lowerer) announce(n syntax.Expr) *ir.Expr {
	for s := l.scope; s != nil; s = s.up {
		if s.process != nil {
			return ir.NewVar(s.process)
		}
	}
	u64 := ir.Uint64Type()
	if l.seen == nil {
		l.out.Announces = true
		l.seen = &ir.Map{
			Name: "processes_seen", Kind: ir.MapLRU, Key: ir.IntType(4, false), Entries: mostSeen,
			Value: ir.TupleType(ir.Field{Name: "due", Type: u64}, ir.Field{Name: "every", Type: u64},
				ir.Field{Name: "process", Type: u64}),
		}
		l.out.IR.Maps = append(l.out.IR.Maps, l.seen)
	}
	pid := ir.NewVar(l.let(n, "pid", castTo(l.seen.Key, ir.NewBuiltin("pid")), l.seen.Key))
	now := ir.NewVar(l.let(n, "now", castTo(u64, ir.NewBuiltin("jiffies")), u64))
	find := func() *ir.Expr { return &ir.Expr{Op: ir.OpMapGet, Map: l.seen, Args: []*ir.Expr{pid}} }
	was := l.let(n, "announced", find(), l.seen.Value)
	part := func(name string) *ir.Expr {
		return &ir.Expr{Op: ir.OpElem, Str: name, Args: []*ir.Expr{ir.NewVar(was)}}
	}
	process := l.let(n, "process", part("process"), u64)
	l.scope.process = process
	store := func(flag ir.MapFlag, due, every *ir.Expr) {
		l.add(n, &ir.Stmt{Op: ir.StmtSet, Map: l.seen, Key: pid, Flag: flag, X: &ir.Expr{
			Op: ir.OpTuple, Type: l.seen.Value, Args: []*ir.Expr{due, every, ir.NewVar(process)},
		}})
	}
	begin := l.block(func() {
		l.set(n, process, identity(pid))
		// Of threads that come here at a time, one says which process it is.
		store(ir.SetCreate, constant(u64, 0), constant(u64, 0))
		l.set(n, was, find())
		l.set(n, process, &ir.Expr{Op: ir.OpCond, Type: u64, Args: []*ir.Expr{
			ir.NewExpr(ir.OpNe, part("process"), constant(u64, 0)), part("process"), ir.NewVar(process),
		}})
	})
	body := l.block(func() {
		l.add(n, &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpEq, ir.NewVar(process), constant(u64, 0)), Body: begin})
		twice := &ir.Expr{Op: ir.OpMul, Type: u64, Args: []*ir.Expr{part("every"), constant(u64, 2)}}
		every := ir.NewVar(l.let(n, "every", twice, u64))
		bounded := func(op ir.Op, limit int64) {
			l.set(n, every.Var, &ir.Expr{Op: ir.OpCond, Type: u64, Args: []*ir.Expr{
				ir.NewExpr(op, every, constant(u64, limit)), constant(u64, limit), every,
			}})
		}
		bounded(ir.OpLt, announcedFirst)
		bounded(ir.OpGt, announcedLast)
		store(ir.SetAny, &ir.Expr{Op: ir.OpAdd, Type: u64, Args: []*ir.Expr{now, every}}, every)
		l.emit(n, Site{Kind: Process, Args: []types.Type{{Kind: types.Integer, Size: 4}}}, pid)
	})
	l.add(n, &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpGe, now, part("due")), Body: body})
	return ir.NewVar(process)
}

// identity is an output.Process of the process with an id, which is there now. The time is rounded up:
// a unit earlier the process may have run another program.
func identity(pid *ir.Expr) *ir.Expr {
	u64 := ir.Uint64Type()
	op := func(op ir.Op, x *ir.Expr, n int64) *ir.Expr {
		return &ir.Expr{Op: op, Type: u64, Args: []*ir.Expr{x, constant(u64, n)}}
	}
	wide := castTo(u64, pid)
	number := op(ir.OpAnd, wide, life.Stranger-1)
	outside := op(ir.OpMul, op(ir.OpShr, wide, 31), life.Stranger)
	time := op(ir.OpShl, op(ir.OpAdd, op(ir.OpShr, castTo(u64, ir.NewBuiltin("nsecs")), life.Unit), 1),
		life.TimeShift)
	or := func(x, y *ir.Expr) *ir.Expr { return &ir.Expr{Op: ir.OpOr, Type: u64, Args: []*ir.Expr{x, y}} }
	return or(or(number, outside), time)
}

// resetProcesses has a process be another one, which is announced anew, when it executes another program,
// and when it ends: its number may become that of a process that executes none.
func (l *lowerer) resetProcesses() {
	if l.seen == nil {
		return
	}
	reset := func(tracepoint string, body func(forget *ir.Stmt) *ir.Stmt) {
		l.out.Added++
		l.out.IR.Actions = append(l.out.IR.Actions, ir.Action{
			Target: probe.RawTracepoint{Name: tracepoint},
			Body: []*ir.Stmt{body(&ir.Stmt{
				Op: ir.StmtDelete, Map: l.seen, Key: castTo(l.seen.Key, ir.NewBuiltin("pid")),
			})},
		})
	}
	reset("sched_process_exec", func(forget *ir.Stmt) *ir.Stmt { return forget })
	reset("sched_process_exit", func(forget *ir.Stmt) *ir.Stmt { // of each thread
		first := ir.NewExpr(ir.OpEq, ir.NewBuiltin("pid"), ir.NewBuiltin("tid"))
		return &ir.Stmt{Op: ir.StmtIf, X: first, Body: []*ir.Stmt{forget}}
	})
}
