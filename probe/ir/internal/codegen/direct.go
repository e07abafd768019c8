package codegen

import (
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/ctype"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/internal/check"
	"github.com/borescope/borescope/probe/ir/internal/typed"
)

// In programs that the kernel types by BTF (fentry, fexit, tp_btf, LSM, iterators), the
// verifier tracks the types of the context's pointers. A program can load through such a
// pointer directly, and the verifier tracks the type of a pointer that was loaded that way
// too. The kernel makes a faulting load return zeros. This file decides which loads the
// verifier accepts (btf_struct_walk, kernel/bpf/btf.c). All others go through the helper that
// reads any memory.

// direct reports whether the load e can be a direct load, and if so through which pointer and
// at which offset.
func (g *values) direct(e *typed.Node) (root *typed.Node, off int, ok bool) {
	// A direct load does not tell that it failed.
	if e.Op != typed.Load || e.Bits != nil || e.Site != 0 || e.Args[0].Type.User || !g.typedContext() {
		return nil, 0, false
	}
	root, at := pointerRoot(e.Args[0], e.Int)
	if at < 0 || at > math.MaxInt16-8 {
		return nil, 0, false
	}
	known := g.pointee(root)
	if known == nil {
		return nil, 0, false
	}
	part, exact := memberAt(known, int(at), e.Type.Size, 0)
	if part == nil {
		return nil, 0, false
	}
	if _, pointer := part.(*btf.Pointer); pointer && (!exact || e.Type.Kind != ir.KindPtr) {
		return nil, 0, false
	}
	return root, int(at), true
}

// typedContext reports whether the verifier tracks the types of the context's pointers.
func (g *values) typedContext() bool {
	if g.c.Pp.Context != probe.ContextTramp && g.c.Pp.Context != probe.ContextIter {
		return false
	}
	return g.progType(ebpf.Tracing, ebpf.LSM)
}

// pointerRoot returns a pointer without constant offsets and casts, and the sum of the
// offsets.
func pointerRoot(e *typed.Node, off int64) (*typed.Node, int64) {
	for {
		switch {
		case e.Op == ir.OpCast && e.Type.Kind == ir.KindPtr && e.Args[0].Type.Kind == ir.KindPtr &&
			e.Type.User == e.Args[0].Type.User:
			e = e.Args[0]
		case e.Op == ir.OpAdd && e.Type.Kind == ir.KindPtr && e.Args[0].Type.Kind == ir.KindPtr &&
			e.Args[1].Const():
			off += e.Args[1].Int
			e = e.Args[0]
		default:
			return e, off
		}
	}
}

// pointee returns the struct that a pointer points to if the verifier tracks it, else nil.
func (g *values) pointee(e *typed.Node) btf.Type {
	switch e.Op {
	case typed.Ctx:
		if e.Place.Kind == typed.PlaceValue && e.Place.Size == 8 && e.Type.Kind == ir.KindPtr &&
			!e.Type.User {
			return check.StructOf(e.Type.Elem)
		}
	case ir.OpVar:
		return g.typedVars[e.Var]
	case typed.Load:
		root, off, ok := g.direct(e)
		if !ok {
			return nil
		}
		if p, _ := memberAt(g.pointee(root), off, 8, 0); p != nil {
			if ptr, ok := p.(*btf.Pointer); ok && !ctype.Tagged(ptr, "user", "percpu") {
				return check.StructOf(ptr.Target)
			}
		}
	}
	return nil
}

// memberAt returns the scalar or pointer in t that covers size bytes at off. exact reports
// whether it covers only these. Like the kernel, memberAt takes the first member that covers
// them. It returns nil if kernel versions differ.
func memberAt(t btf.Type, off, size, depth int) (part btf.Type, exact bool) {
	if depth > 16 {
		return nil, false
	}
	var members []btf.Member
	switch u := ctype.Underlying(t).(type) {
	case *btf.Struct:
		members = u.Members
	case *btf.Union:
		members = u.Members
	case *btf.Array:
		n, err := btf.Sizeof(u.Type)
		if err != nil || n == 0 || off >= n*int(u.Nelems) {
			return nil, false
		}
		return memberAt(u.Type, off%n, size, depth+1)
	case *btf.Int, *btf.Enum, *btf.Pointer:
		n, err := btf.Sizeof(u)
		if err != nil || off+size > n {
			return nil, false
		}
		return u, off == 0 && size == n
	default:
		return nil, false
	}
	for _, m := range members {
		n, err := btf.Sizeof(m.Type)
		if err != nil || m.BitfieldSize != 0 {
			if m.BitfieldSize != 0 {
				continue
			}
			return nil, false
		}
		at := int(m.Offset / 8)
		if off < at || off >= at+n {
			continue
		}
		return memberAt(m.Type, off-at, size, depth+1)
	}
	return nil, false
}

// findTypedVars finds the variables that hold pointers whose type the verifier tracks: those
// that are set once, from such a pointer, and live in a register or in the frame, where the
// verifier tracks values.
func (g *values) findTypedVars(u usage) {
	if !g.typedContext() || u.callbacks {
		return
	}
	sets := map[*ir.Var]int{}
	typed.Walk(g.c.Body, func(s *typed.Stmt) {
		for _, v := range s.Vars() {
			sets[v]++
		}
	}, func(*typed.Node) {})
	g.typedVars, g.argVars = map[*ir.Var]btf.Type{}, map[*ir.Var]bool{}
	typed.Walk(g.c.Body, func(s *typed.Stmt) {
		if s.Op != ir.StmtLet || sets[s.Var] != 1 || s.X.Type.Kind != ir.KindPtr {
			return
		}
		if h := g.homes[s.Var]; !h.inReg && h.at.kind != inFrame {
			return
		}
		if root, off := pointerRoot(s.X, 0); off == 0 {
			if t := g.pointee(root); t != nil {
				g.typedVars[s.Var] = t
				g.argVars[s.Var] = root.Op == typed.Ctx
			}
		}
	}, func(*typed.Node) {})
}

// loadDirect loads through a pointer whose type the verifier tracks. A null pointer is
// counted as a failed read. For some of these pointers the verifier requires the comparison
// with null before they are used.
func (g *values) loadDirect(e, root *typed.Node, off int, dst asm.Register) {
	null, back := g.label(), g.label()
	g.scalar(root, dst)
	g.emit(asm.JEq.Imm(dst, 0, null), asm.LoadMem(dst, dst, int16(off), sizeOf(e.Type.Size)))
	g.Label(back)
	g.later(null, func() {
		g.count(check.CntFaults)
		g.imm(dst, 0)
		g.jump(back)
	})
	switch {
	case e.Type.Kind == ir.KindBool:
		g.truth(dst)
	case e.Type.Signed:
		g.extend(dst, e.Type)
	}
}
