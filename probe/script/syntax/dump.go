package syntax

// Dump returns a tree as bpftrace -d ast prints it: formatted, without comments and, since
// they are expanded, without macros. Unlike Format it prints a script as the passes have
// changed it.
func Dump(f *File) []byte { return DumpNotes(f, nil) }

// DumpNotes returns a tree as Dump does, with the result of note as a comment after each
// expression, and with parentheses around each operand. bpftrace -d types prints types in this
// form.
func DumpNotes(f *File, note func(Expr) string) []byte {
	c := *f
	c.space, c.Decls = nil, nil
	for _, d := range f.Decls {
		if _, macro := d.(*Macro); !macro {
			c.Decls = append(c.Decls, d)
		}
	}
	p := &formatter{src: f.In, dump: true, note: note}
	return p.file(&c).bytes()
}
