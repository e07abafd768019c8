package probe

import (
	"io"
	"maps"
	"runtime/debug"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/symbol"
)

// openFile is the user file in which probes are being resolved. It stays open while the next
// targets are in it, too: its debug information takes milliseconds to decompress, and a look
// through its symbols as long.
type openFile struct {
	path   string
	file   *elffile.File
	closer io.Closer
	code   *userCode
	// found are the functions by name, of the names that several targets have; nil before
	// they were looked for. total is the number of all functions.
	found map[wantedName][]userfile.Symbol
	total int
	err   error // of looking for names, and that of a Go program's function table
	goErr error
}

// withFile calls f with a user file. It converts memory faults of a file that is truncated
// meanwhile to errors.
func (r *resolver) withFile(path string, f func(*elffile.File) error) error {
	return r.withFileFrom(r.sources(), path, f)
}

// withFileFrom is withFile for a file from other sources than those of a plan.
func (r *resolver) withFileFrom(from userfile.Sources, path string, f func(*elffile.File) error) (err error) {
	if r.open == nil || r.open.path != path {
		r.closeFile()
		file, closer, err := userfile.OpenELF(r.env, from, path)
		if err != nil {
			return err
		}
		r.open = &openFile{path: path, file: file, closer: closer, code: r.newUserCode(path, file, closer)}
	}
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	r.code = r.open.code
	return f(r.open.file)
}

// closeFile closes the open file.
func (r *resolver) closeFile() {
	if o := r.open; o != nil {
		o.code.close()
		o.file.Close()
		o.closer.Close()
		r.open = nil
	}
}

// userPaths returns the files that a path of user probes stands for. Targets next to each other
// often have the same.
func (r *resolver) userPaths(name string, pid int) ([]string, error) {
	if l := r.looked; l == nil || l.name != name || l.pid != pid {
		paths, err := userfile.Paths(r.env, name, pid)
		r.looked = &lookedUp{name, pid, paths, err}
	}
	return r.looked.paths, r.looked.err
}

// lookedUp is a result of userfile.Paths.
type lookedUp struct {
	name  string
	pid   int
	paths []string
	err   error
}

// wantedName is a name without wildcards that a target has, and its language. The names of
// languages other than C++ and Rust are those of symbols.
type wantedName struct{ lang, name string }

// byName finds the functions of the names of all targets in one look through the symbols.
type byName struct {
	want  map[wantedName]bool
	langs []string
	names *symbol.Demangler
}

// add calls f for each wanted name that a symbol's name is.
func (b *byName) add(raw []byte, f func(wantedName)) {
	for _, lang := range []string{"", "go"} {
		if n := (wantedName{lang, string(raw)}); b.want[n] {
			f(n)
		}
	}
	for _, lang := range b.langs {
		if !mangled(lang, string(raw)) {
			continue
		}
		full := b.names.Demangle(string(raw))
		for _, name := range []string{full, userfile.BareName(full)} {
			if n := (wantedName{lang, name}); b.want[n] {
				f(n)
				break
			}
		}
	}
}

// namedFunctions returns the functions of a probe's name in the open file, and the number of
// all. If only one target has a name, or this one is a pattern, ok is false.
func (r *resolver) namedFunctions(u *userProbe, goProgram bool) (found []userfile.Symbol,
	total int, ok bool, err error,
) {
	if r.exact == nil {
		r.exact = map[wantedName]bool{}
		for _, t := range r.targets {
			exactNames(t, r.exact)
		}
	}
	n := wantedName{u.lang, u.symbol}
	if !r.exact[n] || len(r.exact) == 1 {
		return nil, 0, false, nil
	}
	o := r.open
	if o.found == nil && o.err == nil {
		o.found, o.err = r.findNamed(goProgram)
	}
	found = o.found[n]
	switch {
	case o.err != nil:
		return nil, 0, true, o.err
	case len(found) == 0 && o.goErr != nil && n.lang != "cpp" && n.lang != "rust":
		return nil, 0, true, o.goErr
	}
	return found, o.total, true, r.take(len(found))
}

// findNamed returns what the open file has of the names.
func (r *resolver) findNamed(goProgram bool) (map[wantedName][]userfile.Symbol, error) {
	o := r.open
	list := map[wantedName][]userfile.Symbol{}
	b := &byName{want: r.exact, names: demangler(o.file)}
	for _, lang := range []string{"cpp", "rust"} {
		for n := range r.exact {
			if n.lang == lang {
				b.langs = append(b.langs, lang)
				break
			}
		}
	}
	wanted := func(raw []byte) (any bool) {
		o.total++
		b.add(raw, func(wantedName) { any = true })
		return any
	}
	keep := func(s userfile.Symbol) error {
		b.add([]byte(s.Name), func(n wantedName) { list[n] = append(list[n], s) })
		return nil
	}
	if err := userfile.Symbols(r.ctx, o.file, wanted, keep); err != nil {
		return nil, err
	}
	if err := b.names.Err(); err != nil {
		return nil, err
	}
	if goProgram {
		o.goErr = r.findGo(list)
	}
	return list, nil
}

// findGo adds the functions that a Go program has without symbols.
func (r *resolver) findGo(list map[wantedName][]userfile.Symbol) error {
	missing := func(lang string, raw []byte) bool {
		n := wantedName{lang, string(raw)}
		return r.exact[n] && len(list[n]) == 0
	}
	want := func(raw []byte) bool { return missing("", raw) || missing("go", raw) }
	found, err := r.code.GoFunctions(r.open.path, want, func(int) error { return r.ctx.Err() })
	if err != nil {
		return err
	}
	for _, lang := range []string{"", "go"} {
		more := map[wantedName][]userfile.Symbol{}
		for _, s := range found {
			if missing(lang, []byte(s.Name)) {
				n := wantedName{lang, s.Name}
				more[n] = append(more[n], s)
			}
		}
		maps.Copy(list, more)
	}
	return nil
}

// exactNames adds the names of the functions that a target has without wildcards.
func exactNames(t Target, to map[wantedName]bool) {
	var n wantedName
	switch t := t.(type) {
	case Set:
		for _, m := range t {
			exactNames(m, to)
		}
	case Uprobe:
		n = wantedName{t.Lang, t.Symbol}
	case Uretprobe:
		n = wantedName{t.Lang, t.Symbol}
	}
	if _, _, versioned := userfile.CutVersion(n.name); n.name == "" || versioned ||
		glob.IsPattern(n.name) || n.lang != "" && !langs[n.lang] {
		return
	}
	to[n] = true
}
