package lower

import (
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
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
	frames := &ir.Expr{Op: ir.OpUstack, Int: int64(t.Limit)}
	switch l.point.Provider {
	case "begin", "end", "iter": // the process is this one
	default:
		l.announce(n)
		l.walks++
		if !l.o.FramePointers && (!l.o.OneWalk || l.walks == 1 && l.loops == 0) {
			frames.Op = ir.OpUstackWalk
			l.out.IR.WalkAnyone = l.o.Process == 0
		}
	}
	return &ir.Expr{Op: ir.OpTuple, Type: l.of(n), Args: []*ir.Expr{
		castTo(ir.Uint64Type(), ir.NewBuiltin("pid")), frames,
	}}
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
// reads the ring looks at its files, so that addresses have names also after it ended.
func (l *lowerer) announce(n syntax.Expr) {
	for s := l.scope; s != nil; s = s.up {
		if s.announced {
			return
		}
	}
	l.scope.announced = true
	u64 := ir.Uint64Type()
	if l.seen == nil {
		l.out.Announces = true
		l.seen = &ir.Map{
			Name: "processes_seen", Kind: ir.MapLRU, Key: ir.IntType(4, false), Entries: mostSeen,
			Value: ir.TupleType(ir.Field{Name: "due", Type: u64}, ir.Field{Name: "every", Type: u64}),
		}
		l.out.IR.Maps = append(l.out.IR.Maps, l.seen)
	}
	pid := ir.NewVar(l.let(n, "process", castTo(l.seen.Key, ir.NewBuiltin("pid")), l.seen.Key))
	now := ir.NewVar(l.let(n, "now", castTo(u64, ir.NewBuiltin("jiffies")), u64))
	was := l.let(n, "announced", &ir.Expr{Op: ir.OpMapGet, Map: l.seen, Args: []*ir.Expr{pid}}, l.seen.Value)
	part := func(name string) *ir.Expr {
		return &ir.Expr{Op: ir.OpElem, Str: name, Args: []*ir.Expr{ir.NewVar(was)}}
	}
	body := l.block(func() {
		twice := &ir.Expr{Op: ir.OpMul, Type: u64, Args: []*ir.Expr{part("every"), constant(u64, 2)}}
		every := ir.NewVar(l.let(n, "every", twice, u64))
		bounded := func(op ir.Op, limit int64) {
			l.set(n, every.Var, &ir.Expr{Op: ir.OpCond, Type: u64, Args: []*ir.Expr{
				ir.NewExpr(op, every, constant(u64, limit)), constant(u64, limit), every,
			}})
		}
		bounded(ir.OpLt, announcedFirst)
		bounded(ir.OpGt, announcedLast)
		due := &ir.Expr{Op: ir.OpAdd, Type: u64, Args: []*ir.Expr{now, every}}
		l.add(n, &ir.Stmt{Op: ir.StmtSet, Map: l.seen, Key: pid, X: &ir.Expr{
			Op: ir.OpTuple, Type: l.seen.Value, Args: []*ir.Expr{due, every},
		}})
		l.emit(n, Site{Kind: Process, Args: []types.Type{{Kind: types.Integer, Size: 4}}}, pid)
	})
	l.add(n, &ir.Stmt{Op: ir.StmtIf, X: ir.NewExpr(ir.OpGe, now, part("due")), Body: body})
}

// resetProcesses has a process announced anew that executes another program.
func (l *lowerer) resetProcesses() {
	if l.seen == nil {
		return
	}
	l.out.Added++
	l.out.IR.Actions = append(l.out.IR.Actions, ir.Action{
		Target: probe.RawTracepoint{Name: "sched_process_exec"},
		Body:   []*ir.Stmt{{Op: ir.StmtDelete, Map: l.seen, Key: castTo(l.seen.Key, ir.NewBuiltin("pid"))}},
	})
}
