package ir

// KernelSymbols are the kernel symbols whose addresses a program needs, in
// order of first use: what a plan must name in Symbols before the program is
// compiled for it. Attach and ResolveSymbols see to that.
func (p *Program) KernelSymbols() []string {
	var out []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	p.Visit(func(*Stmt) {}, func(e *Expr) {
		switch e.Op {
		case OpKaddr:
			add(e.Str)
		case OpPerCPU:
			add(perCPUTable)
		}
	})
	return out
}

// perCPUTable is the kernel's table of where each CPU's variables are.
const perCPUTable = "__per_cpu_offset"
