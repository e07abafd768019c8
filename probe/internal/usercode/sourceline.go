package usercode

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/dwarf"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
)

// lineTable collects the rows of one file and line from the line programs.
type lineTable struct {
	file    string
	line    int
	column  int          // 0 means any
	columns map[int]bool // columns of the line that have code
	addrs   []uint64
	after   int // the next line that has code
	inside  bool
	any     bool            // the file occurs
	names   map[string]bool // names of all files, without directories
	d       *dwarf.Data
}

// LineAddresses returns the addresses at which the code of a source line begins, ascending:
// one for each place in which the compiler put code for it. Column 0 means any.
func LineAddresses(ctx context.Context, debug *Debug, name, file string, line,
	column int,
) ([]uint64, error) {
	if !debug.has("line") {
		return nil, notexist.Errorf(
			"%s has no line table: build it with -g, or install its debug symbols", name)
	}
	d, err := debug.read()
	t := &lineTable{
		file: file, line: line, column: column, names: map[string]bool{},
		columns: map[int]bool{}, d: d,
	}
	if err == nil {
		err = d.Rows(ctx, t.sameFile, t.row)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t.result(name)
}

// wordCost is the cost in bytes of a number or a string in a table or a map that grows.
const wordCost = 48

// row processes one row. A place begins where the line becomes the wanted one, at an address
// recommended for breakpoints.
func (t *lineTable) row(r dwarf.Row) error {
	if !r.Wanted {
		t.inside = false
		return nil
	}
	cost, hit := 0, r.Line == t.line
	if hit && t.column != 0 {
		if !t.columns[r.Column] {
			t.columns[r.Column], cost = true, wordCost
		}
		hit = r.Column == t.column
	}
	if hit && !t.inside && r.Stmt {
		t.addrs, cost = append(t.addrs, r.Addr), cost+wordCost
	}
	t.inside = hit && (r.Stmt || t.inside)
	if r.Line > t.line && (t.after == 0 || r.Line < t.after) {
		t.after = r.Line
	}
	return t.d.Spend(cost)
}

// sameFile reports whether t.file is a file's name or the end of its path.
func (t *lineTable) sameFile(f dwarf.SourceFile) (bool, error) {
	base, cost := f.Base(), 0
	if len(base) > 0 && !t.names[string(base)] {
		t.names[string(base)], cost = true, wordCost+len(base)
	}
	if err := t.d.Spend(cost); err != nil || string(base) != path.Base(t.file) {
		return false, err
	}
	same, err := f.Is(t.file)
	t.any = t.any || same
	return same, err
}

func (t *lineTable) result(name string) ([]uint64, error) {
	slices.Sort(t.addrs)
	t.addrs = slices.Compact(t.addrs)
	if len(t.addrs) > 0 {
		return t.addrs, nil
	}
	switch {
	case len(t.columns) > 0:
		return nil, notexist.Errorf(
			"column %d of line %d of %s has no code of its own; the columns %s have",
			t.column, t.line, t.file, strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(t.columns))), "[]"))
	case !t.any:
		return nil, notexist.Errorf("no source file %s in %s%s", t.file, name,
			near.Hint(t.file, slices.Sorted(maps.Keys(t.names))))
	case t.after > 0:
		return nil, notexist.Errorf("line %d of %s has no code; the next that has is %d", t.line, t.file,
			t.after)
	}
	return nil, notexist.Errorf("line %d of %s has no code, nor has any after it", t.line, t.file)
}
