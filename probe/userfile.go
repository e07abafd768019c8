package probe

import (
	"io"
	"runtime/debug"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/probe/internal/userfile"
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
	found map[string][]userfile.Symbol
	total int
}

// withFile calls f with a user file. It converts memory faults of a file that is truncated
// meanwhile to errors.
func (r *resolver) withFile(path string, f func(*elffile.File) error) (err error) {
	if r.open == nil || r.open.path != path {
		r.closeFile()
		file, closer, err := userfile.OpenELF(r.env, r.sources(), path)
		if err != nil {
			return err
		}
		r.open = &openFile{path: path, file: file, closer: closer, code: newUserCode(r.ctx, file)}
	}
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	r.code = r.open.code
	return f(r.open.file)
}

// closeFile closes the open file.
func (r *resolver) closeFile() {
	if o := r.open; o != nil {
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

// namedFunctions returns the functions of a name in the open file, and the number of all. It
// looks for the names of all targets at once. If only one target has a name, or this one is
// a pattern, ok is false.
func (r *resolver) namedFunctions(u *userProbe) (found []userfile.Symbol, total int, ok bool,
	err error,
) {
	if r.exact == nil {
		r.exact = map[string]bool{}
		for _, t := range r.targets {
			exactNames(t, r.exact)
		}
	}
	if !r.exact[u.symbol] || len(r.exact) == 1 {
		return nil, 0, false, nil
	}
	o := r.open
	if o.found == nil {
		list := map[string][]userfile.Symbol{}
		want := func(b []byte) bool { o.total++; return r.exact[string(b)] }
		if err := userfile.Symbols(r.ctx, o.file, want, func(s userfile.Symbol) error {
			list[s.Name] = append(list[s.Name], s)
			return nil
		}); err != nil {
			return nil, 0, true, err
		}
		o.found = list
	}
	found = o.found[u.symbol]
	return found, o.total, true, r.take(len(found))
}

// exactNames adds the names of the functions that a target has without wildcards.
func exactNames(t Target, to map[string]bool) {
	name, lang := "", ""
	switch t := t.(type) {
	case Set:
		for _, m := range t {
			exactNames(m, to)
		}
	case Uprobe:
		name, lang = t.Symbol, t.Lang
	case Uretprobe:
		name, lang = t.Symbol, t.Lang
	}
	if _, _, versioned := userfile.CutVersion(name); name == "" || lang != "" || versioned ||
		glob.IsPattern(name) {
		return
	}
	to[name] = true
}
