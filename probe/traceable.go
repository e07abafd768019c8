package probe

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// traceable is the list of kernel functions that probes may be put on.
type traceable struct {
	funcs []KernelSymbol
	// why says that the list is not the kernel's own, and why; "" if it is.
	why string
}

// loadTraceable reads which functions can be traced: the kernel's list, with
// addresses where it gives them (available_filter_functions_addrs, 6.5), or,
// where that may not be read, functions known to both BTF and kallsyms.
func (e *Env) loadTraceable() (*traceable, error) {
	dir, err := e.tracefs()
	if err == nil {
		for _, name := range []string{"available_filter_functions_addrs", "available_filter_functions"} {
			var f fs.File
			if f, err = e.root.Open(dir + "/" + name); err != nil {
				continue
			}
			t, perr := parseFilterFunctions(f, strings.HasSuffix(name, "_addrs"))
			f.Close()
			if perr == nil {
				return t, e.dropBlacklisted(t)
			}
			err = perr
		}
	}
	t, ferr := e.guessTraceable()
	if ferr != nil {
		return nil, errors.Join(ferr, err)
	}
	t.why = "functions in BTF and kallsyms, less the kprobe blacklist: available_filter_functions: " + reasonOf(err)
	return t, nil
}

// parseFilterFunctions reads "NAME [MODULE]" lines, with the address before
// them if addrs is set. Sections of other annotations are cut off.
func parseFilterFunctions(r io.Reader, addrs bool) (*traceable, error) {
	t := &traceable{}
	modules := map[string]string{}
	lines := newLineReader(io.LimitReader(r, maxKallsyms))
	for lines.next() {
		b := lines.line
		var s KernelSymbol
		if addrs {
			addr, rest, ok := bytes.Cut(b, []byte(" "))
			if !ok {
				continue
			}
			for _, c := range addr {
				s.Address = s.Address<<4 | uint64(hexDigit(c)&15)
			}
			b = rest
		}
		name, rest, _ := bytes.Cut(b, []byte(" "))
		if len(name) == 0 || bytes.HasPrefix(name, []byte("__ftrace_invalid_address__")) {
			continue
		}
		s.Name = string(name)
		if i := bytes.IndexByte(rest, '['); i >= 0 {
			m, _, _ := bytes.Cut(rest[i+1:], []byte("]"))
			if s.Module = modules[string(m)]; s.Module == "" {
				s.Module = string(m)
				modules[s.Module] = s.Module
			}
		}
		t.funcs = append(t.funcs, s)
	}
	return t, lines.err
}

// blacklist reads debugfs's list of functions that kprobes refuse; nil where
// it can't be read.
func (e *Env) blacklist() map[string]bool {
	f, err := e.root.Open("sys/kernel/debug/kprobes/blacklist")
	if err != nil {
		return nil
	}
	defer f.Close()
	out := map[string]bool{}
	lines := newLineReader(io.LimitReader(f, maxKallsyms))
	for lines.next() {
		if _, name, ok := bytes.Cut(lines.line, []byte("\t")); ok {
			out[string(name)] = true
		}
	}
	return out
}

func (e *Env) dropBlacklisted(t *traceable) error {
	if list := e.blacklist(); list != nil {
		t.funcs = slices.DeleteFunc(t.funcs, func(s KernelSymbol) bool { return list[s.Name] })
	}
	return nil
}

// guessTraceable is BTF's functions that kallsyms has too.
func (e *Env) guessTraceable() (*traceable, error) {
	k, err := e.syms()
	if err != nil {
		return nil, err
	}
	names, err := e.kernelFuncs()
	if err != nil {
		return nil, err
	}
	t := &traceable{}
	bad := e.blacklist()
	for _, name := range names {
		if !bad[name] {
			t.funcs = append(t.funcs, k.lookup("vmlinux", name)...)
		}
	}
	slices.SortFunc(t.funcs, func(a, b KernelSymbol) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Address, b.Address))
	})
	t.funcs = slices.Compact(t.funcs)
	return t, nil
}

// match returns the functions that a pattern of module and name stands for.
func (t *traceable) match(module, pattern string) []KernelSymbol {
	g := compileGlob(pattern)
	m := compileGlob(module)
	var out []KernelSymbol
	for _, s := range t.funcs {
		if module != "" && !m.match(s.Module) && (module != "vmlinux" || s.Module != "") {
			continue
		}
		if g.match(s.Name) {
			out = append(out, s)
		}
	}
	return out
}
