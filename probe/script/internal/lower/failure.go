package lower

import (
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/types"
)

// failure returns the site of an operation that fails if a helper does, 0 if nobody asks for those.
func (l *lowerer) failure(n syntax.Node, helper string) uint32 {
	if !l.o.Failures {
		return 0
	}
	l.fails = true
	l.out.Sites = append(l.out.Sites, Site{
		Kind: Failure, Loc: *n.At(), Helper: helper, End: l.point.Provider == "end",
	})
	return uint32(len(l.out.Sites) - 1)
}

// failing returns an operation with the site of its failures.
func (l *lowerer) failing(n syntax.Node, helper string, e *ir.Expr) *ir.Expr {
	e.Site = l.failure(n, helper)
	return e
}

// update adds a statement that changes a map, with the site of its failures.
func (l *lowerer) update(n syntax.Node, s *ir.Stmt) {
	s.Site = l.failure(n, MapUpdate)
	l.add(n, s)
}

// reading returns the read of what a value of the script's refers to, with its site. bpftrace names
// the helper by what it knows of the address: whether it is the kernel's or the user's.
func (l *lowerer) reading(n syntax.Node, of types.Type, e *ir.Expr) *ir.Expr {
	helper := ProbeRead
	switch of.Space {
	case types.UserSpace:
		helper += "_user"
	case types.KernelSpace:
		helper += "_kernel"
	}
	if e.Op == ir.OpStr {
		helper += "_str"
	}
	return l.failing(n, helper, e)
}

// Names of helpers.
const (
	ProbeRead = "probe_read" // of an address that may be the kernel's or the user's
	MapLookup = "map_lookup_elem"
	MapUpdate = "map_update_elem"
)
