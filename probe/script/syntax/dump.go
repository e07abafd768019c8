package syntax

// Dump returns a tree as bpftrace prints it with -d ast: formatted, without comments and,
// since they are expanded, without macros. Unlike Format it prints what passes have made
// of a script.
func Dump(f *File) []byte { return DumpNotes(f, nil) }

// DumpNotes returns a tree as Dump does, with what note says of an expression as a comment
// behind each, and each in parentheses that is a part of another: bpftrace prints types
// so, with -d types.
func DumpNotes(f *File, note func(Expr) string) []byte {
	c := *f
	c.space, c.Decls = nil, nil
	for _, d := range f.Decls {
		if _, macro := d.(*Macro); !macro {
			c.Decls = append(c.Decls, d)
		}
	}
	p := &formatter{src: f.Source, dump: true, note: note}
	return p.file(&c).bytes()
}
