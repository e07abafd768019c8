package symbol

import (
	"sync/atomic"

	"github.com/borescope/borescope/internal/pclntab"
)

// goTable is the function table of a Go program. Functions that are looked up repeatedly are
// kept decoded: reading a function's tables takes several times as long as everything else.
type goTable struct {
	*pclntab.Table
	known []atomic.Pointer[goFunc] // by number; allocated once, so that readers take no lock
	size  atomic.Int64             // bytes of known functions
	limit int64
	full  atomic.Bool  // a function was not kept
	steps atomic.Int64 // steps beyond goStepsEach per address, minus unused ones
}

// The steps through tables that addresses may take, each and together: in real programs
// the mean is 125 to 515, and a function with tens of thousands is decoded once.
const (
	goStepsEach = 2 << 10
	goStepsBase = 1 << 20
)

// spend counts the steps for an address, or for decoding a function.
func (g *goTable) spend(steps int) { g.steps.Add(int64(steps) - goStepsEach) }

// spent reports whether the number of steps is far above normal: then addresses get
// functions without source positions.
func (g *goTable) spent() bool { return g.steps.Load() > goStepsBase }

// goFunc is a decoded function. It is not changed after it is published.
type goFunc struct {
	// The runs of instructions with one source position: first the offsets of all runs in the
	// function, in order, then as many goPositions.
	runs  []uint32
	sites []goSite
}

// goPosition is a line and a site, in 22 and 10 bits.
type goPosition uint32

// The bounds of the parts of a goPosition. The last site means no line: padding.
const (
	goSiteBits = 10
	noGoSite   = 1<<goSiteBits - 1
	maxGoLine  = 1<<(32-goSiteBits) - 1
)

func (p goPosition) line() int   { return int(p >> goSiteBits) }
func (p goPosition) site() int16 { return int16(p & noGoSite) }

// goSite is the common part of runs: a function, its file, and the call that is inlined.
type goSite struct {
	name, file string
	line       int32 // of the call in the caller
	caller     int16 // the site of that; -1 if this is not inlined
}

// The memory of a goFunc without strings.
const (
	goFuncSize = 48
	goRunSize  = 8
	goSiteSize = 40
)

// The values in goTable.known for functions that are not decoded.
var (
	seenGoFunc  goFunc // looked up once
	plainGoFunc goFunc // too large or malformed: always read in place
)

// newGoTable keeps functions within half of limit bytes.
func newGoTable(t *pclntab.Table, limit int64) *goTable {
	g := &goTable{Table: t, limit: limit / 2}
	if int64(8*t.Len()) < g.limit {
		g.known = make([]atomic.Pointer[goFunc], t.Len())
		g.size.Store(int64(8 * t.Len()))
	} else {
		g.full.Store(true)
	}
	return g
}

func (g *goTable) bytes() int64 {
	if g == nil {
		return 0
	}
	return g.size.Load()
}

// get returns function i of e decoded, if it is looked up for the second time or later; nil if
// it is not kept, or not yet.
func (g *goTable) get(e *ELF, i int) *goFunc {
	if i >= len(g.known) {
		return nil
	}
	p := &g.known[i]
	f := p.Load()
	switch {
	case f == &plainGoFunc:
		return nil
	case f != nil && f != &seenGoFunc:
		return f
	case g.full.Load() || g.spent():
		return nil
	case f == nil:
		p.CompareAndSwap(nil, &seenGoFunc)
		return nil
	}
	f, size := decodeGoFunc(e, g, i)
	if g.size.Load()+size > g.limit {
		g.full.Store(true)
		return nil
	}
	if p.CompareAndSwap(&seenGoFunc, f) {
		g.size.Add(size)
		if e.grown != nil {
			e.grown.Store(true)
		}
	}
	if f == &plainGoFunc {
		return nil
	}
	return f
}

// appendKnown names an address by a function that is kept.
func (e *ELF) appendKnown(g *goTable, dst []Frame, index int, vaddr uint64) ([]Frame, bool) {
	i, ok := g.Index(vaddr)
	if !ok {
		return dst, false
	}
	f := g.get(e, i)
	if f == nil {
		return dst, false
	}
	entry, end := g.Bounds(i)
	pos := f.at(vaddr - entry)
	k, line := pos.site(), pos.line()
	if k == noGoSite {
		return dst, false // padding, or the end of the Go code
	}
	p := goPlace{e: e, index: index, vaddr: vaddr, entry: entry, end: end}
	for {
		s := &f.sites[k]
		dst = p.append(dst, s.name, s.file, line)
		if s.caller < 0 {
			return dst, true
		}
		dst[len(dst)-1].Inlined = true
		k, line = s.caller, int(s.line)
	}
}

// at returns the position of the run that contains an offset.
func (f *goFunc) at(off uint64) goPosition {
	all := len(f.runs) / 2
	offs, first := f.runs[:all], 0
	for n := all; n > 1; {
		half := n >> 1
		// Adds half if that run begins at or before off, without a branch, which the processor
		// could not predict.
		first += half &^ int(int64(off-uint64(offs[first+half]))>>63)
		n -= half
	}
	return goPosition(f.runs[all+first])
}

// goPlace is an address in a Go program, and the function that contains it.
type goPlace struct {
	e          *ELF
	index      int
	vaddr      uint64
	entry, end uint64
}

// appendGo names an address by the Go function table, in place.
func (e *ELF) appendGo(g *goTable, dst []Frame, index int, vaddr uint64) ([]Frame, bool) {
	fn, ok := g.Find(vaddr)
	if !ok {
		return dst, false
	}
	p := goPlace{e: e, index: index, vaddr: vaddr, entry: fn.Entry, end: fn.End}
	if g.spent() {
		return p.appendOuter(dst, &fn)
	}
	dst, ok = p.appendCalls(dst, &fn)
	g.spend(fn.Steps())
	return dst, ok
}

// appendCalls appends the function and the calls inlined there, with their positions.
func (p *goPlace) appendCalls(dst []Frame, fn *pclntab.Func) ([]Frame, bool) {
	e := p.e
	line, ok := fn.Line(p.vaddr)
	var buf [16]pclntab.Call
	calls := fn.Calls(buf[:0], p.vaddr)
	switch {
	case fn.Spent():
		return p.appendOuter(dst, fn)
	case !ok:
		return dst, false // padding, or the end of the Go code
	}
	if e.opts.noInline {
		calls = calls[len(calls)-1:]
	}
	n := len(dst)
	for i, c := range calls {
		name := e.names.get(e, tabGoFunc, c.Name)
		if name == "" {
			return dst[:n], false
		}
		file := ""
		if off, ok := fn.FileOffset(c.PC); ok {
			file = e.names.get(e, tabGoFile, off)
		}
		if c.PC != p.vaddr {
			line, _ = fn.Line(c.PC)
		}
		dst = p.append(dst, name, file, max(line, 0))
		dst[n+i].Inlined = i < len(calls)-1
	}
	return dst, true
}

// appendOuter appends the function alone, without a position.
func (p *goPlace) appendOuter(dst []Frame, fn *pclntab.Func) ([]Frame, bool) {
	name := p.e.names.get(p.e, tabGoFunc, fn.NameOffset())
	if name == "" {
		return dst, false
	}
	return p.append(dst, name, "", 0), true
}

// append appends a frame that is not inlined. Setting the fields one by one takes half the time
// of a new Frame.
func (p *goPlace) append(dst []Frame, name, file string, line int) []Frame {
	n := len(dst)
	if n == cap(dst) {
		dst = append(dst, Frame{})
	}
	dst = dst[:n+1]
	fr := &dst[n]
	fr.Index, fr.Inlined = p.index, false
	fr.Name, fr.Offset, fr.Size = name, p.vaddr-p.entry, p.end-p.entry
	fr.Module, fr.ModuleOffset, fr.BuildID = p.e.path, p.vaddr, p.e.buildID
	fr.File, fr.Line, fr.Column = file, line, 0
	fr.Kind, fr.Confidence, fr.Reason, fr.NoLine = KindGo, ConfidenceExact, ReasonNone, ReasonNone
	return dst
}
