package dwarf

import (
	"cmp"
	"slices"
)

// funcTable contains the functions of a unit that have code, and the calls inlined in them.
type funcTable struct {
	funcs  []function
	ranges []funcRange // sorted by lo
	calls  []inlined
	spans  []callSpan // for each function, sorted by depth, then lo
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

// funcTableOf returns the unit's functions. It decodes them at the first call.
func (u *unit) funcTableOf() *funcTable {
	if u.funcs == nil {
		u.funcs = &funcTable{}
		w := funcWalker{u: u, t: u.funcs, room: u.d.left()}
		w.walk()
		u.funcs.index()
		u.d.grew(size(u.funcs.funcs) + size(u.funcs.ranges) + size(u.funcs.calls) + size(u.funcs.spans))
	}
	return u.funcs
}

// funcWalker reads the entries of a unit.
type funcWalker struct {
	u *unit
	t *funcTable
	// open contains the spans of the functions that are being read, which may nest.
	open [][]callSpan
	// around contains the inlined calls that are being read, outermost first, for one function
	// after the other.
	around  []aroundCall
	widened int   // spans that widen added to calls
	room    int64 // bytes left for t and open
}

// aroundCall is an inlined call around others, with its spans in open.
type aroundCall struct{ call, first, end int32 }

// level is an entry while its children are being read.
type level struct {
	fn    int32 // enclosing function with code, -1 if none
	depth int32 // of inlined calls in it
	local bool  // inside of a function, so types may have functions with code
	calls int32 // the end of its calls in funcWalker.around
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
	// A malformed unit may end inside of a function.
	for ; len(stack) > 0; stack = stack[:len(stack)-1] {
		w.leave(cur, stack[len(stack)-1])
		cur = stack[len(stack)-1]
	}
}

// entry reads an entry that is needed. It returns the level of the entry's children, or the
// offset of the next entry if the children are not needed.
func (w *funcWalker) entry(c *cursor, a *abbrev, cur level, at int) (next level, sibling uint64) {
	switch a.kind {
	case kindSubprogram:
		next = w.subprogram(c, a, cur, uint64(at))
	case kindInlined:
		next = w.inlined(c, a, cur)
	default:
		next, sibling = cur, w.sibling(c, a)
		if cur.local && isClass(a.tag) {
			sibling = 0
		}
	}
	if c.bad || w.room < 0 {
		c.off = len(c.b) // what follows cannot be found, or does not fit
	}
	return next, sibling
}

// leave ends a function. Its spans are then complete, and leave sorts them.
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
	for _, s := range spans {
		w.t.spans = push(w.t.spans, s, &w.room)
	}
	f.end = int32(len(w.t.spans))
}

// sibling reads an entry and returns its DW_AT_sibling, 0 if it has none.
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

// isClass reports whether a tag is that of a type that has members, and may have functions.
func isClass(tag uint32) bool {
	return tag == TagStructType || tag == TagClassType || tag == TagUnionType
}

// subprogram reads a function's entry. A function without code, to which inlined calls refer,
// may contain functions with code: methods of its local types.
func (w *funcWalker) subprogram(c *cursor, a *abbrev, in level, at uint64) level {
	var low, high, ranges value
	for _, s := range w.u.attrsOf(a) {
		v := w.u.read(c, s)
		switch s.name {
		case attrLowPC:
			low = v
		case attrHighPC:
			high = v
		case attrRanges:
			ranges = v
		}
	}
	if c.bad {
		return level{fn: -1, calls: in.calls}
	}
	n, fn := len(w.t.ranges), int32(len(w.t.funcs))
	w.u.ranges(low, high, ranges, func(lo, hi uint64) {
		w.t.ranges = push(w.t.ranges, funcRange{lo, hi, fn}, &w.room)
	})
	if len(w.t.ranges) > n {
		if w.t.funcs = push(w.t.funcs, function{die: at}, &w.room); w.room < 0 {
			w.t.ranges = w.t.ranges[:n] // its function does not fit
		}
	}
	if len(w.t.ranges) == n {
		return level{fn: -1, local: true, calls: in.calls}
	}
	if n := len(w.open); n < cap(w.open) {
		w.open = w.open[:n+1]
		w.open[n] = w.open[n][:0]
	} else {
		w.open = append(w.open, nil)
	}
	return level{fn: fn, local: true, calls: in.calls}
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
	n, top := int32(len(w.t.calls)), len(w.open)-1
	if w.t.calls = push(w.t.calls, call, &w.room); w.room < 0 {
		return in
	}
	first := len(w.open[top])
	w.u.ranges(low, high, ranges, func(lo, hi uint64) {
		w.open[top] = push(w.open[top], callSpan{lo, hi, n, in.depth}, &w.room)
	})
	end := len(w.open[top])
	for i := first; i < end; i++ {
		w.widen(in, w.open[top][i])
	}
	w.around = append(w.around[:in.calls], aroundCall{n, int32(first), int32(end)})
	in.depth++
	in.calls++
	return in
}

// widen adds the code of an inlined call to the calls and the function around it, if their
// ranges do not contain it: DWARF 2 cannot describe code in several places, so calls have one
// range or none.
func (w *funcWalker) widen(in level, s callSpan) {
	top := len(w.open) - 1
	for i := int32(1); i <= in.depth; i++ {
		c := w.around[in.calls-i]
		if covers(w.open[top][c.first:c.end], s) || w.widened > int(w.u.end-w.u.off)/8 {
			return // a malformed unit must not widen many calls for each of many
		}
		w.widened++
		w.open[top] = push(w.open[top], callSpan{s.lo, s.hi, c.call, in.depth - i}, &w.room)
	}
	r := w.t.ranges
	for i := len(r) - 1; i >= 0 && r[i].fn >= in.fn; i-- {
		if r[i].fn == in.fn && s.lo >= r[i].lo && s.hi <= r[i].hi || len(r)-i > maxWidened {
			return
		}
	}
	w.widened++
	w.t.ranges = push(r, funcRange{s.lo, s.hi, in.fn}, &w.room)
}

// maxWidened bounds how many ranges are searched. An entry with more of them is not one that
// widen is for.
const maxWidened = 64

// covers reports whether one of the spans contains s. It returns true if there are too many
// spans.
func covers(spans []callSpan, s callSpan) bool {
	return len(spans) > maxWidened || slices.ContainsFunc(spans, func(c callSpan) bool {
		return s.lo >= c.lo && s.hi <= c.hi
	})
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

// index completes a table: it sorts the functions' ranges.
func (t *funcTable) index() {
	t.funcs, t.ranges, t.calls, t.spans = clip(t.funcs), clip(t.ranges), clip(t.calls), clip(t.spans)
	slices.SortFunc(t.ranges, func(a, b funcRange) int { return cmp.Compare(a.lo, b.lo) })
}

// lookup returns the range that contains an address, and so its function, or nil.
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

// callAt returns the inlined call of the given depth at an address, -1 if there is none.
func (t *funcTable) callAt(f *function, depth int32, pc uint64) int32 {
	spans := t.spans[f.first:f.end]
	i, j := 0, len(spans)
	for i < j {
		if m := int(uint(i+j) >> 1); spans[m].depth < depth ||
			spans[m].depth == depth && spans[m].lo <= pc {
			i = m + 1
		} else {
			j = m
		}
	}
	// Several calls may share their code. The last one that covers the address is used.
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
