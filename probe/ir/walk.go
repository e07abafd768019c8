package ir

// WalksStacks says whether a program asks for walked user stacks.
func WalksStacks(p *Program) bool {
	walks := false
	p.Visit(func(*Stmt) {}, func(e *Expr) { walks = walks || e.Op == OpUstackWalk })
	return walks
}
