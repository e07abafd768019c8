package env

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/tracefs"
)

// KernelSymbol is a function of the running kernel: its Name as in /proc/kallsyms, its
// Module, "" for the kernel itself, and its Address, where it begins.
type KernelSymbol = kallsyms.Symbol

func (e *Env) loadKallsyms() (*kallsyms.Functions, error) {
	f, err := kallsyms.Open(e.root)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return kallsyms.Read(f)
}

// KernelSymbols returns every kernel function of that name: several if it is ambiguous, none
// if it does not exist. Module "" is any, "vmlinux" the kernel itself. The first call reads
// /proc/kallsyms (tens of milliseconds).
func (e *Env) KernelSymbols(module, name string) ([]KernelSymbol, error) {
	k, err := e.syms()
	if err != nil {
		return nil, err
	}
	return k.Lookup(module, name), nil
}

// KernelAddresses returns the addresses of kernel symbols of any kind, functions and data, by
// name. Names that do not exist are left out. If several symbols have one name, the kernel's
// own precedes those of modules. Data symbols need CONFIG_KALLSYMS_ALL. Each call reads
// /proc/kallsyms (tens of milliseconds). If the kernel hides addresses, the error matches
// errors.ErrUnsupported.
func (e *Env) KernelAddresses(names ...string) (map[string]uint64, error) {
	f, err := kallsyms.Open(e.root)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	want := make(map[string]bool, len(names))
	for _, n := range names {
		want[n] = true
	}
	out := map[string]uint64{}
	modular := map[string]bool{}
	hidden := true
	lines := kallsyms.NewLines(f)
	for lines.Next() {
		hidden = hidden && lines.Address == 0
		name := lines.Name()
		if !want[string(name)] {
			continue
		}
		if _, have := out[string(name)]; !have || modular[string(name)] && len(lines.Module()) == 0 {
			out[string(name)] = lines.Address
			modular[string(name)] = len(lines.Module()) > 0
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if hidden && len(out) > 0 {
		return nil, &feature.UnsupportedError{
			Feature: "kernel addresses",
			Hint:    "/proc/kallsyms shows zeros: kernel.kptr_restrict, or no CAP_SYSLOG",
		}
	}
	return out, nil
}

// MissingSymbol returns the error for a kernel symbol, of any kind, that KernelAddresses left
// out. It matches fs.ErrNotExist and offers the nearest names.
func (e *Env) MissingSymbol(name string) error {
	f, err := kallsyms.Open(e.root)
	if err != nil {
		return err
	}
	defer f.Close()
	meant := near.New(name)
	lines := kallsyms.NewLines(f)
	data := false
	for lines.Next() {
		data = data || isData(lines.Type)
		meant.Add(string(lines.Name()))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	hint := meant.Hint()
	if hint == "" && !data {
		hint = "; /proc/kallsyms has no data (CONFIG_KALLSYMS_ALL)"
	}
	return notexist.Errorf("no kernel symbol %s%s", name, hint)
}

// isData reports whether a symbol's type, as nm prints it, is data's.
func isData(typ byte) bool { return strings.IndexByte("dDbBrRvV", typ) >= 0 }

// KernelVariable returns the address of a variable of the running kernel or of a module, from
// /proc/kallsyms, which it reads each time. For a name that does not exist the error matches
// fs.ErrNotExist and offers the nearest ones.
func (e *Env) KernelVariable(name string) (uint64, error) {
	f, err := kallsyms.Open(e.root)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	meant := near.New(name)
	lines := kallsyms.NewLines(f)
	for lines.Next() {
		if !isData(lines.Type) {
			continue
		}
		if string(lines.Name()) == name {
			if lines.Address == 0 {
				return 0, errors.New("kernel addresses are hidden: kernel.kptr_restrict")
			}
			return lines.Address, nil
		}
		meant.Add(string(lines.Name()))
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, notexist.Errorf("no kernel variable %s%s", name, meant.Hint())
}

// KernelFunctions are the kernel's functions, except those of BPF programs, by name and by address. They
// take some 5 MB.
type KernelFunctions = kallsyms.Functions

// Functions returns the kernel's functions. The first call reads them (tens of milliseconds).
func (e *Env) Functions() (*KernelFunctions, error) { return e.syms() }

// Traceable is a list of kernel functions that probes can be attached to.
type Traceable struct {
	// Functions are in the order of the kernel's list.
	Functions []KernelSymbol
	// Reason says why the list is not the kernel's own; "" if it is.
	Reason string
}

// Match returns the functions that match patterns for module and name. Module "" is any, and the kernel
// itself matches as "vmlinux". The slice must not be changed.
func (t *Traceable) Match(module, pattern string) []KernelSymbol {
	return kallsyms.Traceable(t.Functions).Match(module, pattern)
}

// Traceable returns the functions that probes can be attached to. The first call reads them.
func (e *Env) Traceable() (*Traceable, error) { return e.traced() }

// Patchable returns the kernel's own list of functions that begin with a place to patch, some
// of which kprobes refuse. It needs tracefs.
func (e *Env) Patchable() (*Traceable, error) { return e.patchable() }

// loadTraceable returns the functions that can be traced: those of the kernel's list except
// those that kprobes refuse or that are not to be traced or, if the list can't be read, the
// functions in both BTF and kallsyms.
func (e *Env) loadTraceable() (*Traceable, error) {
	if e.functions != nil {
		list, err := kallsyms.ReadTraceable(bytes.NewReader(e.functions), false)
		return &Traceable{Functions: list.Stable()}, err
	}
	t, err := e.patchable()
	if err == nil {
		may := kallsyms.Traceable(t.Functions).Without(kallsyms.ReadBlacklist(e.root))
		return &Traceable{Functions: may.Stable()}, nil
	}
	t, ferr := e.guessTraceable()
	if ferr != nil {
		return nil, errors.Join(ferr, err)
	}
	t.Reason = "functions in BTF and kallsyms, less the kprobe blacklist: available_filter_functions: " + feature.Reason(err)
	return t, nil
}

// loadPatchable reads the kernel's list of functions that begin with a place to patch, with
// addresses if it has them (available_filter_functions_addrs, 6.5).
func (e *Env) loadPatchable() (*Traceable, error) {
	dir, err := tracefs.Need(e.root, e.live)
	if err == nil {
		defer dir.Close()
		for _, name := range []string{"available_filter_functions_addrs", "available_filter_functions"} {
			var f fs.File
			if f, err = e.root.Open(dir.Path + "/" + name); err != nil {
				continue
			}
			var list kallsyms.Traceable
			list, err = kallsyms.ReadTraceable(f, strings.HasSuffix(name, "_addrs"))
			f.Close()
			if err == nil {
				return &Traceable{Functions: list}, nil
			}
		}
	}
	return nil, err
}

// guessTraceable returns BTF's functions that kallsyms has too.
func (e *Env) guessTraceable() (*Traceable, error) {
	k, err := e.syms()
	if err != nil {
		return nil, err
	}
	list, err := k.Own(func(f func(name []byte)) error { return EachTypeName[*btf.Func](e, f) },
		kallsyms.ReadBlacklist(e.root))
	if err != nil {
		return nil, err
	}
	return &Traceable{Functions: kallsyms.Traceable(list).Stable()}, nil
}
