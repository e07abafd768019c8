package imports

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/script/syntax"
)

// Limits on the imported files.
const (
	mostFiles  = 100
	mostFile   = 256 << 10 // the limit of syntax.Parse
	mostBytes  = 1 << 20
	mostNodes  = 25_000 // of the trees, with the script's, as in syntax.Expand
	mostErrors = 100
)

// Dir is a folder in which imports are looked up.
type Dir struct {
	Name string // for errors
	FS   fs.FS
}

// Options are the options of [Load].
type Options struct {
	// Dirs are searched in this order. bpftrace has the script's folder first.
	Dirs []Dir
	// Syntax are the options for parsing imported files; nil is the default.
	Syntax *syntax.Options
}

// Load adds to a script its imports and their imports, each name once. Headers that are
// included with a name in quotes are imported, too. As in bpftrace, C definitions are added
// before the script's, probes before its own, those of one file in reverse order, and
// everything else behind. From in a node's location is the import that the node is from. The
// error is a [syntax.Errors], which includes the errors in imported files.
func Load(f *syntax.File, o *Options) (warnings syntax.Errors, err error) {
	if o == nil {
		o = &Options{}
	}
	l := &loader{o: o, names: map[string]bool{}, files: map[string]*imported{}}
	l.count(f)
	top := map[syntax.Node]bool{}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *syntax.Import:
			top[d] = true
			l.load(d)
		case *syntax.C:
			l.include(d, ".")
		}
	}
	for n := range syntax.All(f) {
		if i, ok := n.(*syntax.Import); ok && !top[i] {
			l.inBlock(i)
		}
	}
	if err := l.errs.Err(); err != nil {
		return nil, err
	}
	l.merge(f)
	return l.errs, nil
}

// imported is an imported file.
type imported struct {
	by   *syntax.Loc
	file *syntax.File
}

// loader loads imports.
type loader struct {
	o     *Options
	names map[string]bool // names of imports
	files map[string]*imported
	order []*imported // a file's imports before the file
	bytes int
	nodes int
	errs  syntax.Errors
}

// count counts the nodes of a tree.
func (l *loader) count(n syntax.Node) {
	syntax.Walk(n, func(syntax.Node) bool { l.nodes++; return l.nodes <= mostNodes })
}

func (l *loader) say(n syntax.Node, s syntax.Severity, msg string, hints ...string) {
	if len(l.errs) < mostErrors {
		l.errs = append(l.errs, &syntax.Error{Loc: *n.At(), Severity: s, Msg: msg, Hints: hints})
	}
}

func (l *loader) fail(n syntax.Node, msg string, hints ...string) {
	l.say(n, syntax.SeverityError, msg, hints...)
}

// load finds an import in the first folder that has it.
func (l *loader) load(i *syntax.Import) {
	if l.names[i.Path] {
		return
	}
	l.names[i.Path] = true
	var checked []string
	for _, d := range l.o.Dirs {
		shown := path.Join(d.Name, i.Path)
		checked = append(checked, shown)
		if !fs.ValidPath(i.Path) {
			continue
		}
		if _, err := fs.Stat(d.FS, i.Path); err != nil {
			continue
		}
		if writable(d.FS, i.Path) {
			l.say(i, syntax.SeverityWarning,
				"skipping due to global write permissions: "+strconv.Quote(shown))
			continue
		}
		l.add(i, d, i.Path, true)
		return
	}
	if i.Path == "stdlib" {
		return // its contents need no import
	}
	var hints []string
	if len(checked) > 0 {
		hints = []string{"checked: " + strings.Join(checked, ",")}
	}
	l.fail(i, "Unable to find suitable path for import", hints...)
}

// inBlock loads an import within a block, where only headers are allowed.
func (l *loader) inBlock(i *syntax.Import) {
	const limited = "Import statements that are not at the root are limited to specific object " +
		"(.o), header (.h), or C source (.c or bpf.c) files"
	folder := false
	for _, d := range l.o.Dirs {
		if fs.ValidPath(i.Path) {
			st, err := fs.Stat(d.FS, i.Path)
			folder = folder || err == nil && st.IsDir()
		}
	}
	if folder || path.Ext(i.Path) == ".bt" {
		l.fail(i, limited)
		return
	}
	l.load(i)
}

// include reads a header that is included with a name in quotes. Headers in <> are the
// kernel's or the C library's; the machine has the exact types.
func (l *loader) include(c *syntax.C, from string) {
	rest, ok := strings.CutPrefix(c.Text, "#")
	rest, ok2 := strings.CutPrefix(strings.TrimLeft(rest, " \t"), "include")
	if rest = strings.TrimSpace(rest); !ok || !ok2 || c.Skipped || !strings.HasPrefix(rest, `"`) {
		return
	}
	name, _, _ := strings.Cut(rest[1:], `"`)
	names := []string{path.Join(from, name)}
	if from != "." {
		names = append(names, path.Clean(name))
	}
	for _, name := range names {
		for _, d := range l.o.Dirs {
			if !fs.ValidPath(name) {
				continue
			}
			if st, err := fs.Stat(d.FS, name); err != nil || st.IsDir() {
				continue
			}
			if writable(d.FS, name) {
				l.say(c, syntax.SeverityWarning, "skipping due to global write permissions: "+
					strconv.Quote(path.Join(d.Name, name)))
				return
			}
			l.read(c, d, name)
			return
		}
	}
	l.say(c, syntax.SeverityWarning, "'"+name+"' file not found: what it declares is not known")
}

// writable reports whether everyone may change a file, or the entries of its folder.
func writable(fsys fs.FS, name string) bool {
	for _, name := range []string{name, path.Dir(name)} {
		if st, err := fs.Stat(fsys, name); err == nil && st.Mode().Perm()&0o002 != 0 {
			return true
		}
	}
	return false
}

// add adds a file or, if folders is true, the files of a folder.
func (l *loader) add(i *syntax.Import, d Dir, name string, folders bool) {
	shown := path.Join(d.Name, name)
	st, err := fs.Stat(d.FS, name)
	if err != nil {
		l.failRead(i, shown, err)
		return
	}
	if st.IsDir() {
		if folders {
			l.addFolder(i, d, name)
		}
		return
	}
	switch {
	case path.Ext(name) == ".bt" || path.Ext(name) == ".h":
		l.read(i, d, name)
	case strings.HasSuffix(name, ".bpf.c") || strings.HasSuffix(name, ".bpf.o"):
		if name == i.Path {
			l.fail(i, "cannot import programs in C: "+strconv.Quote(shown),
				"write it as macros or functions of a script; a header may declare types")
		}
	case name == i.Path:
		l.fail(i, "unknown import type: "+strconv.Quote(path.Base(name)))
	}
}

// addFolder adds the files of a folder, but not those of folders in it.
func (l *loader) addFolder(i *syntax.Import, d Dir, name string) {
	entries, err := fs.ReadDir(d.FS, name)
	if err != nil {
		l.failRead(i, path.Join(d.Name, name), err)
		return
	}
	for _, e := range entries {
		file := path.Join(name, e.Name())
		if writable(d.FS, file) {
			l.fail(i, "cowardly refusing to import from a directory with global write permissions: "+
				strconv.Quote(path.Join(d.Name, file)))
			continue
		}
		l.add(i, d, file, false)
	}
}

func (l *loader) failRead(i syntax.Node, shown string, err error) {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	l.fail(i, "error reading import '"+strconv.Quote(shown)+"': "+err.Error())
}

// read reads and parses a file and its imports.
func (l *loader) read(i syntax.Node, d Dir, name string) {
	if l.files[name] != nil {
		return
	}
	if len(l.files) == mostFiles {
		l.fail(i, fmt.Sprintf("more than %d files are imported: import fewer", mostFiles))
		return
	}
	in := &imported{i.At(), &syntax.File{}}
	l.files[name] = in
	text, err := readFile(d.FS, name)
	if err != nil {
		l.failRead(i, path.Join(d.Name, name), err)
		return
	}
	if l.bytes += len(text); l.bytes > mostBytes {
		l.fail(i, fmt.Sprintf("imports have more than %d bytes: import fewer", mostBytes))
		return
	}
	if l.nodes > mostNodes {
		l.fail(i, fmt.Sprintf("the script and its imports have more than %d nodes: import fewer",
			mostNodes))
		return
	}
	parse := syntax.ParseHeader
	if path.Ext(name) == ".bt" {
		parse = syntax.Parse
	}
	in.file, err = parse(name, text, l.o.Syntax)
	if es, ok := errors.AsType[syntax.Errors](err); ok {
		l.errs = append(l.errs, es[:min(len(es), max(0, mostErrors-len(l.errs)))]...)
		return
	}
	l.count(in.file)
	for _, d := range in.file.Decls {
		switch d := d.(type) {
		case *syntax.Config:
			if len(d.Vars) > 0 {
				l.fail(d, "invalid `config` within import")
			}
		case *syntax.Import:
			l.load(d)
		case *syntax.C:
			l.include(d, path.Dir(name))
		}
	}
	l.order = append(l.order, in)
}

// readFile reads at most one byte more than the limit for a script, so that the parser
// refuses a larger file.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostFile+1))
}

// merge adds the declarations of all files to a script.
func (l *loader) merge(f *syntax.File) {
	var c, probes, rest []syntax.Decl
	for _, in := range l.order {
		for _, d := range in.file.Decls {
			if d, ok := d.(*syntax.C); ok {
				c = append(c, d)
			}
			for n := range syntax.All(d) {
				if at := n.At(); at.From == nil {
					at.From = in.by
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.files)) {
		var own []syntax.Decl
		for _, d := range l.files[name].file.Decls {
			switch d.(type) {
			case *syntax.Probe:
				own = append(own, d)
			case *syntax.Macro, *syntax.Func, *syntax.MapDecl:
				rest = append(rest, d)
			}
		}
		slices.Reverse(own)
		probes = append(own, probes...)
	}
	f.Decls = slices.Concat(c, probes, f.Decls, rest)
}
