package dwarf

import (
	"cmp"
	"slices"
)

// funcTable holds the functions of a unit that have code, and what was inlined
// in them.
type funcTable struct {
	funcs  []function
	ranges []funcRange // sorted by lo
	calls  []inlined
	spans  []callSpan // of each function, sorted by depth, then lo
}

// function is a function with code.
type function struct {
	die        uint64 // its entry
	first, end int32  // its spans
}

type funcRange struct {
	lo, hi uint64
	fn     int32
}

// inlined is a call that was inlined.
type inlined struct {
	origin uint64 // entry of the function that was called
	file   uint32
	line   uint32
	col    uint32
}

// callSpan is a range of an inlined call.
type callSpan struct {
	lo, hi uint64
	call   int32
	depth  int32
}

// maxDepth bounds the nesting of entries.
const maxDepth = 4096

// funcTableOf returns the unit's functions, decoded at the first call.
func (u *unit) funcTableOf() *funcTable {
	if u.funcs == nil {
		u.funcs = &funcTable{}
		w := funcWalker{u: u, t: u.funcs}
		w.walk()
		u.funcs.index()
		u.d.grew(int64(16*cap(u.funcs.funcs) + 24*cap(u.funcs.ranges) + 24*cap(u.funcs.calls) + 24*cap(u.funcs.spans)))
	}
	return u.funcs
}

// funcWalker reads the entries of a unit.
type funcWalker struct {
	u *unit
	t *funcTable
	// open holds the spans of the functions that are being read: they may nest.
	open [][]callSpan
}

// level is an entry whose children are being read.
type level struct {
	fn    int32 // enclosing function with code, -1 if none
	depth int32 // of inlined calls in it
}

func (w *funcWalker) walk() {
	u := w.u
	c := u.cursorAt(u.die)
	stack := make([]level, 0, 32)
	abbrevs := u.abbrevs()
	cur := level{fn: -1}
	b, off := c.b, c.off
	for off < len(b) {
		at, code := off, uint64(b[off])
		if off++; code >= 0x80 {
			code, off = leb(b, at)
		}
		if code == 0 {
			if len(stack) == 0 {
				break
			}
			w.leave(cur, stack[len(stack)-1])
			cur, stack = stack[len(stack)-1], stack[:len(stack)-1]
			continue
		}
		a := abbrevs.get(code)
		if a == nil {
			break
		}
		next, sibling := cur, uint64(0)
		if a.kind == kindOther {
			if a.fixed >= 0 {
				off += int(a.fixed)
			} else {
				off = u.skipEntry(b, off, a)
			}
		} else {
			c.off = off
			next, sibling = w.entry(&c, a, cur, at)
			off = c.off
		}
		if !a.children {
			if next.fn != cur.fn {
				w.leave(next, cur)
			}
			continue
		}
		if sibling > uint64(off) && sibling < u.end {
			off = int(sibling)
			continue
		}
		if len(stack) >= maxDepth {
			break
		}
		stack = append(stack, cur)
		cur = next
	}
	// A malformed unit may end inside of functions.
	for ; len(stack) > 0; stack = stack[:len(stack)-1] {
		w.leave(cur, stack[len(stack)-1])
		cur = stack[len(stack)-1]
	}
}

// entry reads an entry that is of interest: it returns what its children are in,
// or where the next entry is if they need not be read.
func (w *funcWalker) entry(c *cursor, a *abbrev, cur level, at int) (next level, sibling uint64) {
	switch a.kind {
	case kindSubprogram:
		next, sibling = w.subprogram(c, a, uint64(at))
	case kindInlined:
		next = w.inlined(c, a, cur)
	default:
		next, sibling = cur, w.sibling(c, a)
	}
	if c.bad {
		c.off = len(c.b) // what follows cannot be found
	}
	return next, sibling
}

// leave ends a function: its spans are complete and are put in order.
func (w *funcWalker) leave(from, to level) {
	if from.fn < 0 || from.fn == to.fn {
		return
	}
	spans := w.open[len(w.open)-1]
	w.open = w.open[:len(w.open)-1]
	slices.SortFunc(spans, func(a, b callSpan) int {
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.lo, b.lo))
	})
	f := &w.t.funcs[from.fn]
	f.first = int32(len(w.t.spans))
	w.t.spans = append(w.t.spans, spans...)
	f.end = int32(len(w.t.spans))
}

// sibling reads an entry for its DW_AT_sibling, 0 if it has none.
func (w *funcWalker) sibling(c *cursor, a *abbrev) uint64 {
	var sib uint64
	for _, s := range w.u.attrsOf(a) {
		v := w.u.read(c, s)
		if s.name == attrSibling {
			sib, _ = w.u.ref(v)
		}
	}
	return sib
}

// subprogram reads a function's entry. One without code, a declaration or what
// inlined calls refer to, has nothing of use inside.
func (w *funcWalker) subprogram(c *cursor, a *abbrev, at uint64) (level, uint64) {
	var low, high, ranges, sib value
	for _, s := range w.u.attrsOf(a) {
		v := w.u.read(c, s)
		switch s.name {
		case attrLowPC:
			low = v
		case attrHighPC:
			high = v
		case attrRanges:
			ranges = v
		case attrSibling:
			sib = v
		}
	}
	if c.bad {
		return level{fn: -1}, 0
	}
	n, fn := len(w.t.ranges), int32(len(w.t.funcs))
	w.u.ranges(low, high, ranges, func(lo, hi uint64) {
		w.t.ranges = append(w.t.ranges, funcRange{lo, hi, fn})
	})
	if len(w.t.ranges) == n {
		s, _ := w.u.ref(sib)
		return level{fn: -1}, s
	}
	w.t.funcs = append(w.t.funcs, function{die: at})
	if n := len(w.open); n < cap(w.open) {
		w.open = w.open[:n+1]
		w.open[n] = w.open[n][:0]
	} else {
		w.open = append(w.open, nil)
	}
	return level{fn: fn}, 0
}

// inlined reads the entry of an inlined call.
func (w *funcWalker) inlined(c *cursor, a *abbrev, in level) level {
	var low, high, ranges value
	var call inlined
	for _, s := range w.u.attrsOf(a) {
		v := w.u.read(c, s)
		switch s.name {
		case attrLowPC:
			low = v
		case attrHighPC:
			high = v
		case attrRanges:
			ranges = v
		case attrAbstractOrigin:
			call.origin, _ = w.u.ref(v)
			if w.u.isAlt(v) {
				call.origin |= altRef
			}
		case attrCallFile:
			call.file = uint32(v.n)
		case attrCallLine:
			call.line = uint32(v.n)
		case attrCallColumn:
			call.col = uint32(v.n)
		}
	}
	if in.fn < 0 || c.bad {
		return in
	}
	n := int32(len(w.t.calls))
	any := false
	w.u.ranges(low, high, ranges, func(lo, hi uint64) {
		top := len(w.open) - 1
		w.open[top] = append(w.open[top], callSpan{lo, hi, n, in.depth})
		any = true
	})
	if any {
		w.t.calls = append(w.t.calls, call)
	}
	return level{in.fn, in.depth + 1}
}

// altRef marks a reference into the alternate file that dwz made.
const altRef = 1 << 63

func (u *unit) isAlt(v value) bool {
	return v.form == formGNURefAlt || v.form == formRefSup4 || v.form == formRefSup8
}

// ref returns the offset in .debug_info that a value refers to.
func (u *unit) ref(v value) (uint64, bool) {
	switch v.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUdata:
		return u.off + v.n, true
	case formRefAddr, formGNURefAlt, formRefSup4, formRefSup8:
		return v.n, true
	}
	return 0, false
}

// index sorts the functions' ranges once they are all known.
func (t *funcTable) index() {
	slices.SortFunc(t.ranges, func(a, b funcRange) int { return cmp.Compare(a.lo, b.lo) })
}

// lookup returns the range of an address and so its function, nil if there is
// none.
func (t *funcTable) lookup(pc uint64) *funcRange {
	i, j := 0, len(t.ranges)
	for i < j {
		if m := int(uint(i+j) >> 1); t.ranges[m].lo <= pc {
			i = m + 1
		} else {
			j = m
		}
	}
	for n := 0; i > 0 && n < 8; n++ {
		if i--; pc < t.ranges[i].hi {
			return &t.ranges[i]
		}
	}
	return nil
}

// callAt returns the inlined call of a depth at an address, -1 if there is none.
func (t *funcTable) callAt(f *function, depth int32, pc uint64) int32 {
	spans := t.spans[f.first:f.end]
	i, j := 0, len(spans)
	for i < j {
		if m := int(uint(i+j) >> 1); spans[m].depth < depth || spans[m].depth == depth && spans[m].lo <= pc {
			i = m + 1
		} else {
			j = m
		}
	}
	// Several calls may share their code; the last that covers the address is it.
	for n := 0; i > 0 && n < 8; n++ {
		i--
		if spans[i].depth != depth {
			return -1
		}
		if pc < spans[i].hi {
			return spans[i].call
		}
	}
	return -1
}
