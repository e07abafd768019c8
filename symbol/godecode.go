package symbol

import (
	"cmp"
	"math"
	"slices"

	"github.com/borescope/borescope/internal/pclntab"
)

// Bounds of functions that are decoded.
const (
	maxGoRuns  = 1 << 16
	maxInlined = 64 // calls inlined into each other
)

// goDecoder makes a goFunc.
type goDecoder struct {
	e     *ELF
	fn    *pclntab.Func
	runs  []pclntab.Run
	keys  []goSiteKey // of the sites
	sites []goSite
	work  int // besides the steps through the function's tables, in those
}

// goSiteKey identifies a site of a function, by numbers of the table.
type goSiteKey struct{ file, call int32 }

// decodeGoFunc decodes function i and returns its size in memory, in bytes. It returns
// plainGoFunc for functions that are too large (with the bytes that it took to find that out),
// malformed, or with references to what does not exist.
func decodeGoFunc(e *ELF, g *goTable, i int) (*goFunc, int64) {
	fn, ok := g.Func(i)
	if !ok || fn.End-fn.Entry > math.MaxUint32 {
		return &plainGoFunc, 0
	}
	d := &goDecoder{e: e, fn: &fn}
	defer func() { g.spend(fn.Steps() + d.work) }()
	var buf [64]pclntab.Run
	if d.runs, ok = fn.Runs(buf[:0], maxGoRuns); !ok {
		return &plainGoFunc, goRunSize * maxGoRuns
	}
	n := len(d.runs)
	f := &goFunc{runs: make([]uint32, 2*n)}
	for i := range d.runs {
		pos, ok := d.position(&d.runs[i])
		if !ok {
			return &plainGoFunc, 0
		}
		f.runs[i], f.runs[n+i] = d.runs[i].Off, uint32(pos)
	}
	f.sites = slices.Clone(d.sites)
	// Names are shared with the memory of names, but may outlive their place there;
	// those of inlined functions and files are shared by many.
	name := len(fn.Name())
	return f, int64(goFuncSize + goRunSize*n + goSiteSize*cap(f.sites) + name)
}

// position returns the position of a run. ok is false if a goPosition can't hold it, it takes
// too long, or the function is malformed.
func (d *goDecoder) position(r *pclntab.Run) (pos goPosition, ok bool) {
	if r.Line < 0 {
		return noGoSite, true
	}
	if d.work > goStepsBase {
		return 0, false
	}
	if d.e.opts.noInline {
		r = d.outermost(r)
	}
	if r == nil || r.Line > maxGoLine {
		return 0, false
	}
	k, ok := d.site(r, 0)
	return goPosition(r.Line)<<goSiteBits | goPosition(k), ok
}

// outermost returns the run of the outermost call that a run is inlined in; nil if there is
// none.
func (d *goDecoder) outermost(r *pclntab.Run) *pclntab.Run {
	for n := 0; r != nil && n < maxInlined; n++ {
		_, parent, inlined := d.fn.Inlined(r.Call)
		if !inlined {
			return r
		}
		r = d.runAt(parent)
	}
	return nil
}

// site returns the number of a run's site, which it adds if it is new. depth is the number of
// callers so far.
func (d *goDecoder) site(r *pclntab.Run, depth int) (k int16, ok bool) {
	key := goSiteKey{r.File, r.Call}
	d.work += len(d.keys) / 16
	if k := slices.Index(d.keys, key); k >= 0 {
		return int16(k), true
	}
	s := goSite{caller: -1}
	name, parent, inlined := d.fn.Inlined(r.Call)
	if inlined {
		caller := d.runAt(parent)
		if caller == nil || depth == maxInlined {
			return 0, false
		}
		if s.caller, ok = d.site(caller, depth+1); !ok {
			return 0, false
		}
		s.line = caller.Line
	} else {
		name = d.fn.NameOffset()
	}
	if s.name = d.e.names.get(d.e, tabGoFunc, name); s.name == "" || len(d.sites) == noGoSite {
		return 0, false
	}
	if off, ok := d.fn.File(r.File); ok {
		s.file = d.e.names.get(d.e, tabGoFile, off)
	}
	d.keys, d.sites = append(d.keys, key), append(d.sites, s)
	return int16(len(d.sites) - 1), true
}

// runAt returns the run that contains an offset in the function, nil if it has no line.
func (d *goDecoder) runAt(off uint32) *pclntab.Run {
	d.work += 4
	i, found := slices.BinarySearchFunc(d.runs, off, func(r pclntab.Run, off uint32) int {
		return cmp.Compare(r.Off, off)
	})
	if !found {
		i--
	}
	if i < 0 || d.runs[i].Line < 0 {
		return nil
	}
	return &d.runs[i]
}
