package probe

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/glob"
)

// traceable is the list of kernel functions that probes may be put on.
type traceable struct {
	funcs []KernelSymbol
	// why says that the list is not the kernel's own, and why; "" if it is.
	why string
}

// loadTraceable finds which functions can be traced: those of the kernel's list
// less those that kprobes refuse, or, where it may not be read, functions known
// to both BTF and kallsyms.
func (e *Env) loadTraceable() (*traceable, error) {
	t, err := e.patchable()
	if err == nil {
		return e.lessBlacklisted(t), nil
	}
	t, ferr := e.guessTraceable()
	if ferr != nil {
		return nil, errors.Join(ferr, err)
	}
	t.why = "functions in BTF and kallsyms, less the kprobe blacklist: available_filter_functions: " + reasonOf(err)
	return t, nil
}

// loadPatchable reads the kernel's list of the functions that begin with a place
// to patch, with addresses where it gives them (available_filter_functions_addrs, 6.5).
func (e *Env) loadPatchable() (*traceable, error) {
	dir, err := e.tracefs()
	if err == nil {
		defer dir.Close()
		for _, name := range []string{"available_filter_functions_addrs", "available_filter_functions"} {
			var f fs.File
			if f, err = e.root.Open(dir.Path + "/" + name); err != nil {
				continue
			}
			t, perr := parseFilterFunctions(f, strings.HasSuffix(name, "_addrs"))
			f.Close()
			if perr == nil {
				return t, nil
			}
			err = perr
		}
	}
	return nil, err
}

// byName finds the functions by name, nil where the list has no addresses.
func (t *traceable) byName() map[string][]KernelSymbol {
	if len(t.funcs) == 0 || t.funcs[0].Address == 0 {
		return nil
	}
	out := make(map[string][]KernelSymbol, len(t.funcs))
	for i := range t.funcs {
		name := t.funcs[i].Name
		if have := out[name]; have != nil {
			out[name] = append(slices.Clone(have), t.funcs[i])
			continue
		}
		out[name] = t.funcs[i : i+1 : i+1]
	}
	return out
}

// parseFilterFunctions reads "NAME [MODULE]" lines, with the address before
// them if addrs is set. Sections of other annotations are cut off. The names
// are parts of one string.
func parseFilterFunctions(r io.Reader, addrs bool) (*traceable, error) {
	var blob strings.Builder
	blob.Grow(2 << 20)
	if _, err := io.CopyBuffer(&blob, onlyReader{io.LimitReader(r, maxKallsyms)}, make([]byte, 256<<10)); err != nil {
		return nil, err
	}
	text := blob.String()
	t := &traceable{funcs: make([]KernelSymbol, 0, len(text)/24)}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		var s KernelSymbol
		if addrs {
			addr, rest, ok := strings.Cut(line, " ")
			if !ok {
				continue
			}
			for i := range len(addr) {
				s.Address = s.Address<<4 | uint64(hexDigit(addr[i])&15)
			}
			line = rest
		}
		name, rest, _ := strings.Cut(line, " ")
		if len(name) == 0 || strings.HasPrefix(name, "__ftrace_invalid_address__") {
			continue
		}
		s.Name = name
		if i := strings.IndexByte(rest, '['); i >= 0 {
			s.Module, _, _ = strings.Cut(rest[i+1:], "]")
		}
		t.funcs = append(t.funcs, s)
	}
	return t, nil
}

// onlyReader hides the other methods of a reader, so that the buffer is used.
type onlyReader struct{ io.Reader }

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

// lessBlacklisted is the list without the functions that kprobes refuse.
func (e *Env) lessBlacklisted(t *traceable) *traceable {
	bad := e.blacklist()
	if len(bad) == 0 {
		return t
	}
	out := &traceable{funcs: make([]KernelSymbol, 0, len(t.funcs))}
	for _, s := range t.funcs {
		if !bad[s.Name] {
			out.funcs = append(out.funcs, s)
		}
	}
	return out
}

// guessTraceable is BTF's functions that kallsyms has too, in its order, which is
// that of addresses, as in the kernel's own list.
func (e *Env) guessTraceable() (*traceable, error) {
	k, err := e.syms()
	if err != nil {
		return nil, err
	}
	have := make([]bool, len(k.syms))
	n := 0
	err = e.kernelFuncs(func(name []byte) {
		for i := range k.named(name) {
			if k.syms[i].module == 0 && !have[i] {
				have[i] = true
				n++
			}
		}
	})
	if err != nil {
		return nil, err
	}
	bad := e.blacklist()
	t := &traceable{funcs: make([]KernelSymbol, 0, n)}
	names := string(k.names) // one for all
	for i, ok := range have {
		if !ok {
			continue
		}
		s := &k.syms[i]
		if name := names[s.name : s.name+uint32(s.length)]; !bad[name] {
			t.funcs = append(t.funcs, KernelSymbol{Name: name, Address: s.addr})
		}
	}
	return t, nil
}

// match returns the functions that a pattern of module and name stands for. The
// slice is not to be changed.
func (t *traceable) match(module, pattern string) []KernelSymbol {
	if module == "" && pattern == "*" {
		return t.funcs
	}
	g := glob.Compile(pattern)
	m := glob.Compile(module)
	var out []KernelSymbol
	for _, s := range t.funcs {
		if module != "" && !m.Match(s.Module) && (module != "vmlinux" || s.Module != "") {
			continue
		}
		if g.Match(s.Name) {
			out = append(out, s)
		}
	}
	return out
}
