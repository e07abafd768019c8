package symbol

import (
	"sync/atomic"

	"github.com/borescope/borescope/internal/pclntab"
)

// goTable is the function table of a Go program, with what is asked for again and
// again of a function: finding its name and file takes as long as everything else.
type goTable struct {
	*pclntab.Table
	known []atomic.Pointer[goFunc] // by number; made once, so that readers take no lock
	size  atomic.Int64             // bytes of known functions
	limit int64
}

// goFunc is what is known of a function.
type goFunc struct {
	name  string
	file  string // of all its code; empty if it comes from several files
	lines uint32 // pclntab.Func.Lines
	flat  bool   // nothing was inlined in it
}

// goFuncSize is the memory of a goFunc without the strings.
const goFuncSize = 48

// newGoTable keeps what is known of functions within a quarter of limit bytes.
func newGoTable(t *pclntab.Table, limit int64) *goTable {
	g := &goTable{Table: t, limit: limit / 4}
	if int64(8*t.Len()) < g.limit {
		g.known = make([]atomic.Pointer[goFunc], t.Len())
		g.size.Store(int64(8 * t.Len()))
	}
	return g
}

func (g *goTable) bytes() int64 {
	if g == nil {
		return 0
	}
	return g.size.Load()
}

// get returns what is known of a function; e is the file that it is in.
func (g *goTable) get(e *ELF, fn *pclntab.Func) goFunc {
	if g.known == nil {
		return g.read(e, fn)
	}
	if f := g.known[fn.Index].Load(); f != nil {
		return *f
	}
	f := g.read(e, fn)
	// Names are shared with the memory of names, but may outlive their place there.
	n := int64(goFuncSize + len(f.name))
	if g.size.Load()+n <= g.limit && g.known[fn.Index].CompareAndSwap(nil, &f) {
		g.size.Add(n)
		if e.grown != nil {
			e.grown.Store(true)
		}
	}
	return f
}

func (g *goTable) read(e *ELF, fn *pclntab.Func) goFunc {
	f := goFunc{name: e.names.get(e, tabGoFunc, fn.NameOffset()), lines: fn.Lines(), flat: !fn.Inlines()}
	if off, ok := fn.OneFile(); ok {
		f.file = e.names.get(e, tabGoFile, off)
	}
	return f
}

// goPlace is an address in a Go program.
type goPlace struct {
	e     *ELF
	index int
	vaddr uint64
	line  int // of the innermost call
	fn    pclntab.Func
	known goFunc
}

// appendGo names an address by the Go function table.
func (e *ELF) appendGo(g *goTable, dst []Frame, index int, vaddr uint64) ([]Frame, bool) {
	p := goPlace{e: e, index: index, vaddr: vaddr}
	var ok bool
	if p.fn, ok = g.Find(vaddr); !ok {
		return dst, false
	}
	if p.known = g.get(e, &p.fn); p.known.name == "" {
		return dst, false
	}
	if p.line, ok = p.fn.LineIn(p.known.lines, vaddr); !ok {
		return dst, false // padding, or the end of the Go code
	}
	if p.known.flat {
		return p.append(dst, p.known.name, vaddr), true
	}
	return p.appendCalls(dst)
}

// appendCalls appends the frames of an address that calls may be inlined at.
func (p *goPlace) appendCalls(dst []Frame) ([]Frame, bool) {
	var buf [16]pclntab.Call
	calls := p.fn.Calls(buf[:0], p.vaddr)
	last := len(calls) - 1
	n := len(dst)
	for i, c := range calls[:last] {
		if p.e.opts.noInline {
			break
		}
		name := p.e.names.get(p.e, tabGoFunc, c.Name)
		if name == "" {
			return dst[:n], false
		}
		dst = p.append(dst, name, c.PC)
		dst[n+i].Inlined = true
	}
	return p.append(dst, p.known.name, calls[last].PC), true
}

// append appends the frame of a function whose file and line are those of pc. It
// sets the fields one by one, which takes half the time of a new Frame.
func (p *goPlace) append(dst []Frame, name string, pc uint64) []Frame {
	n := len(dst)
	if n == cap(dst) {
		dst = append(dst, Frame{})
	}
	dst = dst[:n+1]
	fr := &dst[n]
	fr.Index, fr.Inlined = p.index, false
	fr.Name, fr.Offset, fr.Size = name, p.vaddr-p.fn.Entry, p.fn.End-p.fn.Entry
	fr.Module, fr.ModuleOffset, fr.BuildID = p.e.path, p.vaddr, p.e.buildID
	fr.File, fr.Line, fr.Column = p.known.file, p.line, 0
	fr.Kind, fr.Confidence, fr.Reason = KindGo, ConfidenceExact, ReasonNone
	if fr.File == "" {
		if off, ok := p.fn.FileOffset(pc); ok {
			fr.File = p.e.names.get(p.e, tabGoFile, off)
		}
	}
	if pc != p.vaddr {
		fr.Line, _ = p.fn.LineIn(p.known.lines, pc)
	}
	fr.Line = max(fr.Line, 0)
	return dst
}
