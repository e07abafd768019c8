package lower

import (
	"slices"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
)

// pairSessions makes one action of each kprobe that has one kretprobe with the same functions: the kernel
// runs one program at both (kprobe.session). The statements of both stay as they are, and so do the
// records and maps of the script.
func (l *lowerer) pairSessions() {
	actions, points := l.out.IR.Actions, l.out.Points
	returns := map[int]bool{} // the actions that are part of another one
	var sessions []*ir.Stmt
	for i := range actions {
		at, ok := actions[i].Target.(probe.Kprobe)
		if !ok || at.Symbol == "" || at.Offset != 0 || l.needsKprobe(&actions[i]) {
			continue
		}
		j, ok := l.returnOf(at, returns)
		if !ok {
			continue
		}
		returns[j] = true
		both := &ir.Stmt{
			Op: ir.StmtIf, X: ir.NewBuiltin("is_return"), Body: actions[j].Body, Else: actions[i].Body, Pos: actions[i].Pos,
		}
		actions[i].Body = []*ir.Stmt{both}
		sessions = append(sessions, both)
	}
	if len(sessions) == 0 {
		return
	}
	var rest []ir.Action
	var restPoints []*syntax.AttachPoint
	for i, a := range actions {
		if returns[i] {
			continue
		}
		if len(a.Body) == 1 && slices.Contains(sessions, a.Body[0]) {
			l.out.Sessions = append(l.out.Sessions, len(rest))
		}
		rest, restPoints = append(rest, a), append(restPoints, points[i])
	}
	l.out.IR.Actions, l.out.Points = rest, restPoints
}

// returnOf returns the index of the action at the returns of a kprobe's functions, if there is just one
// that is not part of another action yet.
func (l *lowerer) returnOf(at probe.Kprobe, taken map[int]bool) (index int, ok bool) {
	want := probe.Kretprobe{Module: at.Module, Symbol: at.Symbol}
	for i := range l.out.IR.Actions {
		a := &l.out.IR.Actions[i]
		if t, is := a.Target.(probe.Kretprobe); !is || t != want || taken[i] {
			continue
		}
		if ok || l.needsKprobe(a) {
			return 0, false
		}
		index, ok = i, true
	}
	return index, ok
}

// needsKprobe reports whether an action needs what a session does not have: registers other than those of
// arguments (fprobe saves no others, struct ftrace_regs), the kernel's stack, and the replacement of a
// function (bpf_kprobe_multi_link_attach refuses programs that call bpf_override_return).
func (l *lowerer) needsKprobe(a *ir.Action) bool {
	needs := false
	(&ir.Program{Actions: []ir.Action{*a}}).Visit(func(s *ir.Stmt) {
		needs = needs || s.Op == ir.StmtOverride
	}, func(e *ir.Expr) {
		switch e.Op {
		case ir.OpReg:
			needs = needs || !slices.Contains(argumentRegisters[l.o.Arch], e.Int)
		case ir.OpKstack:
			needs = true
		case ir.OpBuiltin:
			needs = needs || e.Str == "ctx"
		}
	})
	return needs
}
