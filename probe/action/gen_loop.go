package action

import "github.com/cilium/ebpf/asm"

// loopsWalked is the first kernel whose verifier takes into account that the body
// of bpf_loop runs any number of times (ab5cfac139ab); some older ones have it
// from their stable branch.
var loopsWalked = Version{6, 7}

// forget makes the verifier forget the numbers that variables hold which a loop's
// body changes. A variable that begins as a known number and decides a branch in
// the body has a different known number in every turn: newer verifiers then walk
// turn by turn, up to a million instructions, and older ones take the first
// turn's number for that of all and remove the other branch.
func (g *gen) forget(body []*Stmt) {
	var vars []*Var
	seen := map[*Var]bool{}
	walkStmts(body, func(s *Stmt) {
		if s.Op == StmtLet && s.Var.Type.Scalar() && g.assigned[s.Var] && !seen[s.Var] && s.Var.Type.Kind != KindPtr {
			seen[s.Var] = true
			vars = append(vars, s.Var)
		}
	}, func(*Expr) {})
	if len(vars) == 0 {
		return
	}
	g.control(asm.R1)
	g.emit(asm.LoadMem(asm.R1, asm.R1, ctlZero, asm.DWord))
	for _, v := range vars {
		if h := g.homes[v]; h.inReg {
			g.emit(asm.Add.Reg(h.reg, asm.R1))
			continue
		}
		g.readVar(v, asm.R0)
		g.emit(asm.Add.Reg(asm.R0, asm.R1))
		g.setVar(v, asm.R0)
	}
}

// forgetAfter is forget behind a loop, where the verifier may believe that the
// body ran exactly once.
func (g *gen) forgetAfter(body []*Stmt) {
	if !g.c.kern.AtLeast(loopsWalked) {
		g.forget(body)
	}
}
