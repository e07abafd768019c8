package probe

import (
	"context"
	"debug/dwarf"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
)

// userLine is a probe at a source line: at the first instruction of every
// place that the compiler made of it (inlining makes several).
func (r *resolver) userLine(f *elffile.File, name, shown string, u userProbe, goProgram bool) error {
	addrs, err := r.lineAddresses(f, name, &u)
	if err != nil {
		return err
	}
	p := r.userProgram(f, goProgram)
	p.Args = withReason(p.Args, "arguments are known at a function's entry only")
	if goProgram {
		p.Go = r.goTarget(f, name)
	}
	var bad error
	for _, a := range addrs {
		off, ok := f.Offset(a)
		if !ok {
			continue
		}
		site := Site{Target: u.renamed(shown, ""), Offset: off, Address: a, Path: name, PID: u.pid, CPU: -1}
		if err := r.begins(&site, r.code.check(a)); err != nil {
			bad = err // of code that the linker has dropped, its lines remain
			continue
		}
		p.Sites = append(p.Sites, site)
	}
	if len(p.Sites) == 0 && bad != nil {
		return bad
	}
	if len(p.Sites) == 0 {
		return notFound("the code of %s:%d lies in no loaded segment", u.file, u.line)
	}
	r.add(p)
	return nil
}

// lineTable collects what the line programs say of one file and line.
type lineTable struct {
	file    string
	line    int
	column  int          // 0 is any
	columns map[int]bool // of the line, that have code
	addrs   []uint64
	after   int // the next line that has code
	matched map[string]bool
}

func (r *resolver) lineAddresses(f *elffile.File, name string, u *userProbe) ([]uint64, error) {
	if f.DebugSection("line") == nil {
		return nil, notFound("%s has no line table: build it with -g, or install its debug symbols", name)
	}
	d, err := userDWARF(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	t := &lineTable{file: u.file, line: u.line, column: u.column, matched: map[string]bool{}, columns: map[int]bool{}}
	if err := t.read(r.ctx, d); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t.result(name)
}

func (t *lineTable) read(ctx context.Context, d *dwarf.Data) error {
	r := d.Reader()
	done := map[any]bool{} // line programs, which units may share
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil {
			return nil
		}
		r.SkipChildren()
		program := e.Val(dwarf.AttrStmtList)
		if e.Tag != dwarf.TagCompileUnit || done[program] {
			continue
		}
		done[program] = true
		lr, err := d.LineReader(e)
		if err != nil {
			return err
		}
		if lr != nil {
			if err := t.unit(lr); err != nil {
				return err
			}
		}
	}
}

// unit reads one unit's line program. A place begins where the line becomes
// the wanted one, at an address recommended for breakpoints.
func (t *lineTable) unit(lr *dwarf.LineReader) error {
	var e dwarf.LineEntry
	inside := false
	for {
		err := lr.Next(&e)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if e.EndSequence || e.File == nil || !t.sameFile(e.File.Name) {
			inside = false
			continue
		}
		hit := e.Line == t.line
		if hit && t.column != 0 {
			t.columns[e.Column] = true
			hit = e.Column == t.column
		}
		if hit && !inside && e.IsStmt {
			t.addrs = append(t.addrs, e.Address)
		}
		if hit && !e.IsStmt {
			hit = inside
		}
		inside = hit
		if e.Line > t.line && (t.after == 0 || e.Line < t.after) {
			t.after = e.Line
		}
	}
}

// sameFile matches a file's name, or the end of its path.
func (t *lineTable) sameFile(name string) bool {
	if same, ok := t.matched[name]; ok {
		return same
	}
	same := name == t.file || strings.HasSuffix(name, "/"+t.file)
	t.matched[name] = same
	return same
}

func (t *lineTable) result(name string) ([]uint64, error) {
	slices.Sort(t.addrs)
	t.addrs = slices.Compact(t.addrs)
	if len(t.addrs) > 0 {
		return t.addrs, nil
	}
	any := false
	var names []string
	for n, same := range t.matched {
		any = any || same
		names = append(names, path.Base(n))
	}
	slices.Sort(names)
	switch {
	case len(t.columns) > 0:
		return nil, notFound("column %d of line %d of %s has no code of its own; the columns %s have",
			t.column, t.line, t.file, strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(t.columns))), "[]"))
	case !any:
		return nil, notFound("no source file %s in %s%s", t.file, name, didYouMean(t.file, slices.Compact(names)))
	case t.after > 0:
		return nil, notFound("line %d of %s has no code; the next that has is %d", t.line, t.file, t.after)
	}
	return nil, notFound("line %d of %s has no code, nor has any after it", t.line, t.file)
}
