package pclntab

// Call is a function at an address: one that was inlined there or, last, the function that
// contains the code.
type Call struct {
	Name uint32 // for Table.NameAt
	// PC is the address to look up for this call's file and line: the address that was looked
	// up or, for outer functions, an address on the line of the inlined call.
	PC uint64
}

// These are indices of the tables of each function: internal/abi/symtab.go. They have not
// changed since Go 1.16.
const (
	pcdataInlTree   = 2
	funcdataInlTree = 3
)

// maxInline bounds the depth of inlined calls. The compiler's budget keeps the real depth far
// below.
const maxInline = 256

// Calls appends the chain of calls at an address of the function, innermost first. The last is
// the function itself.
func (fn *Func) Calls(dst []Call, pc uint64) []Call {
	tree := fn.inlineTree()
	at := pc
	for n := 0; tree != nil && n < maxInline; n++ {
		off := fn.pcdata(pcdataInlTree)
		ix, ok := fn.value(off, at)
		if !ok || ix < 0 {
			break
		}
		name, parent, ok := fn.t.inlined(tree, int(ix))
		if !ok {
			break
		}
		dst = append(dst, Call{name, at})
		at = fn.Entry + uint64(parent)
	}
	return append(dst, Call{fn.NameOffset(), at})
}

// Inlined returns the name (for Table.NameAt) of the call with the number of a Run, and the
// offset in the function at which it was inlined. The Run at that offset is the caller's.
func (fn *Func) Inlined(call int32) (name, parent uint32, ok bool) {
	if call < 0 {
		return 0, 0, false
	}
	return fn.t.inlined(fn.inlineTree(), int(call))
}

// pcdata returns the offset of pcdata table i, 0 if the function has none.
func (fn *Func) pcdata(i int) uint32 {
	at := fn.fixed() + 4*i
	if uint32(i) >= fn.field(fieldNPCData) || at+4 > len(fn.b) {
		return 0
	}
	return fn.t.u32(fn.b[at:])
}

// inlined decodes entry ix of an inline tree: since 1.20 {funcID, name, parentPc, startLine},
// before that {parent, funcID, file, line, name, parentPc}.
func (t *Table) inlined(tree []byte, ix int) (name, parentPC uint32, ok bool) {
	size, nameAt, parentAt := 16, 4, 8
	if t.version < 120 {
		size, nameAt, parentAt = 20, 12, 16
	}
	if (ix+1)*size > len(tree) {
		return 0, 0, false
	}
	e := tree[ix*size:]
	return t.u32(e[nameAt:]), t.u32(e[parentAt:]), true
}

// inlineTree returns the function's inline tree and the bytes after it, nil if nothing was
// inlined in it.
func (fn *Func) inlineTree() []byte {
	t := fn.t
	npc := int(fn.field(fieldNPCData))
	nfuncdata := int(fn.b[fn.fixed()-1])
	if nfuncdata <= funcdataInlTree || npc > 64 {
		return nil
	}
	at := fn.fixed() + 4*npc
	if t.version >= 118 {
		at += 4 * funcdataInlTree
		if at+4 > len(fn.b) || t.gofunc == 0 {
			return nil
		}
		off := t.u32(fn.b[at:])
		if off == ^uint32(0) {
			return nil
		}
		return t.memory(t.gofunc + uint64(off))
	}
	// They are aligned pointers. The structure itself begins at an aligned address.
	if t.ptr == 8 && t.misaligned(fn, at) {
		at += 4
	}
	at += t.ptr * funcdataInlTree
	if at+t.ptr > len(fn.b) {
		return nil
	}
	p := t.pointer(t.addrOf(fn.b) + uint64(at))
	if p == 0 {
		return nil
	}
	return t.memory(p)
}

// addrOf returns the virtual address of a tail of funcs.
func (t *Table) addrOf(tail []byte) uint64 {
	return t.addr + t.funcsOff() + uint64(len(t.funcs)-len(tail))
}

func (t *Table) misaligned(fn *Func, at int) bool { return (t.addrOf(fn.b)+uint64(at))&7 != 0 }
