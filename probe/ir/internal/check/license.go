package check

import (
	"cmp"

	"github.com/borescope/borescope/probe/ir"
)

// License is the licence to load a program with.
func License(p *ir.Program) string { return cmp.Or(p.License, ir.DefaultLicense) }
