package dwarf

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
)

// Row is a row of a line program.
type Row struct {
	Addr         uint64
	Line, Column int
	Stmt         bool // its address is recommended for breakpoints
	Wanted       bool // it is for a wanted file; never set at the end of a sequence
}

// SourceFile is a file that a line program names.
type SourceFile struct {
	t *lineTable
	n uint64
}

// Rows calls row for each row of each line program, in the program's order. wanted reports
// whether rows of a file are wanted. It is called once for each file that a program's rows
// refer to.
func (d *Data) Rows(ctx context.Context, wanted func(SourceFile) (bool, error),
	row func(Row) error,
) error {
	var units []*unit
	for _, u := range d.units {
		if u.hasLine && u.lineOff < uint64(len(d.line)) {
			units = append(units, u)
		}
	}
	slices.SortStableFunc(units, func(a, b *unit) int { return cmp.Compare(a.lineOff, b.lineOff) })
	// units that share a program
	units = slices.CompactFunc(units, func(a, b *unit) bool { return a.lineOff == b.lineOff })
	v := &rowVisitor{d: d, wanted: wanted, row: row}
	for _, u := range units {
		err := ctx.Err()
		if err == nil {
			err = v.unit(u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rowVisitor calls a function for the rows of line programs.
type rowVisitor struct {
	d      *Data
	wanted func(SourceFile) (bool, error)
	row    func(Row) error

	p     lineProgram
	files []fileEntry // buffers, reused for each program
	dirs  []value
	known []fileState // by file number
	err   error
}

// fileState is the cached result of wanted for a file.
type fileState uint8

const (
	stateNew fileState = iota
	stateOther
	stateWanted
)

func (v *rowVisitor) unit(u *unit) error {
	t := &lineTable{unit: u, files: v.files[:0], dirs: v.dirs[:0]}
	v.p = lineProgram{u: u, t: t, c: cursor{b: v.d.line, off: int(u.lineOff), be: v.d.be}, visit: v}
	whole := v.p.header()
	if v.known = v.known[:0]; whole {
		v.p.run()
	}
	grown := size(t.files) + size(t.dirs) - size(v.files) - size(v.dirs)
	v.d.grew(2 * max(grown, 0)) // including the smaller ones that they replaced
	v.files, v.dirs = t.files, t.dirs
	switch {
	case v.p.room < 0 || v.d.lineRead > lineUses*len(v.d.line):
		return fmt.Errorf("line program at %#x: %w", u.lineOff, elffile.ErrTooLarge)
	case !whole:
		return fmt.Errorf("malformed line program at %#x", u.lineOff)
	}
	return v.err
}

func (v *rowVisitor) emit(addr, file uint64, line int64, col uint64) {
	r := Row{Addr: addr, Line: int(line), Column: int(col), Stmt: v.p.stmt}
	if n := len(v.p.t.files); file < uint64(n) {
		for len(v.known) < n { // files may be defined between rows
			v.known = append(v.known, stateNew)
		}
		if v.known[file] == stateNew {
			v.ask(file)
		}
		r.Wanted = v.known[file] == stateWanted
	}
	v.pass(r)
}

// pass calls row, unless there was an error.
func (v *rowVisitor) pass(r Row) {
	if v.err == nil {
		v.err = v.row(r)
	}
}

// ask calls wanted for a file.
func (v *rowVisitor) ask(file uint64) {
	v.known[file] = stateOther
	if file == 0 && v.p.version < 5 {
		return // there is no file 0
	}
	is, err := v.wanted(SourceFile{v.p.t, file})
	if is {
		v.known[file] = stateWanted
	}
	if v.err == nil {
		v.err = err
	}
}

// Base returns the last part of the file's name. It is valid until the file is closed.
func (f SourceFile) Base() []byte {
	u := f.t.unit
	name := u.lineStr(f.t.files[f.n].name, u.file)
	return name[bytes.LastIndexByte(name, '/')+1:]
}

// Is reports whether name is the file's path, or the end of it. The path begins with the
// compiler's directory; or it is the path in the program, which may be relative to that. name
// must be clean (path.Clean). The bytes of the path count as decoded.
func (f SourceFile) Is(name string) (bool, error) {
	t, u, e := f.t, f.t.unit, &f.t.files[f.n]
	base := u.lineStr(e.name, u.file)
	comp, dir := u.own(u.compDir), []byte(nil)
	if uint64(e.dir) < uint64(len(t.dirs)) {
		dir = u.lineStr(t.dirs[e.dir], u.compDir)
	}
	// twice to join them, and twice to clean the result
	if err := u.d.Spend(4 * (len(comp) + 2*len(dir) + 2*len(base))); err != nil {
		return false, err
	}
	full := path.Clean(join(comp, dir, base))
	return full == name || strings.HasSuffix(full, "/"+name) ||
		path.Clean(join(nil, dir, base)) == name, nil
}
