package kernelcode

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/internal/usercode"
)

// Find finds a function by name. It does not read kallsyms if BTF has the function and the
// kernel refuses a name of several, or if noTypes is set: the kernel finds the address itself,
// and the symbol's Address stays 0.
func Find(e *env.Env, module, name string, noTypes bool) (kallsyms.Symbol, error) {
	if noTypes && e.Live() {
		return kallsyms.Symbol{Name: name, Module: module}, nil
	}
	// Before 6.7 the kernel took the first of several functions, whose parameters may be others
	// than those in BTF (b022f0c7e404; stable releases have it too, which their version does
	// not tell).
	if _, err := prototype.Of(e, module, name); err == nil && e.Live() &&
		feature.KernelAtLeast("6.7") {
		return kallsyms.Symbol{Name: name, Module: module}, nil
	}
	syms, err := e.KernelSymbols(module, name)
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) && !e.Live() {
			if _, perr := prototype.Of(e, module, name); perr == nil {
				return kallsyms.Symbol{Name: name, Module: module}, nil
			}
		}
		return kallsyms.Symbol{}, err
	}
	switch len(syms) {
	case 1:
		return syms[0], nil
	case 0:
		return absent(e, module, name)
	}
	return kallsyms.Symbol{}, Ambiguous(name, syms)
}

// Ambiguous returns an error for a name that several functions have. The kernel refuses such a
// name from 6.7; older ones take the first match.
func Ambiguous(name string, syms []kallsyms.Symbol) error {
	var at []string
	if len(syms) > 0 && syms[0].Address == 0 {
		return fmt.Errorf("%d functions are called %s, and the kernel hides the addresses that tell them apart: kernel.kptr_restrict",
			len(syms), name)
	}
	for _, s := range syms[:min(len(syms), 4)] {
		w := fmt.Sprintf("kprobe:%#x", s.Address)
		if s.Module != "" {
			w += " in " + s.Module
		}
		at = append(at, w)
	}
	return fmt.Errorf("%d functions are called %s; name one by address or module: %s", len(syms), name,
		strings.Join(at, ", "))
}

// syscallPrefixes maps architectures to the prefix of a system call's entry function
// (arch/*/include/asm/syscall_wrapper.h).
var syscallPrefixes = map[string]string{"amd64": "__x64_", "arm64": "__arm64_"}

// absent returns the wrapper that the name of a system call stands for, or an error that
// explains why there is no function of that name.
func absent(e *env.Env, module, name string) (kallsyms.Symbol, error) {
	k, err := e.Functions()
	if err != nil {
		return kallsyms.Symbol{}, err
	}
	if strings.HasPrefix(name, "sys_") {
		if s := k.Lookup(module, syscallPrefixes[e.Arch()]+name); len(s) == 1 {
			return s[0], nil
		}
	}
	return kallsyms.Symbol{}, k.Absent(module, name)
}

// Only returns an error unless the kernel or, with module, that module has exactly one function
// of that name: the one whose prototype BTF has, and that a trampoline traces.
//
// BTF may have a function that was compiled as name.isra.0 only (pahole 1.25 and later add it
// without the suffix), and one prototype for several functions (before 1.31; before 1.25 that
// of any of them); the kernel traces the first that kallsyms has, without a word. Where
// kallsyms cannot be read there is no error.
func Only(e *env.Env, module, name string) error {
	if module == "" {
		module = "vmlinux"
	}
	k, err := e.Functions()
	if err != nil {
		return nil
	}
	where := module
	if module != "vmlinux" && e.Live() && !feature.KernelAtLeast("6.4") {
		where = "" // 31bf1dbccfb0: until then functions of modules were looked for everywhere
	}
	found := k.Lookup(where, name)
	if len(found) == 0 {
		found = k.Renamed(where, name)
	}
	switch {
	case len(found) == 1:
		return nil
	case len(found) > 1:
		return Ambiguous(name, found)
	}
	if clones := k.Clones(name); len(clones) > 0 {
		return notexist.Errorf("%s exists only as %s, which the compiler made of it and whose arguments may differ from those in BTF; kprobe:%s probes that",
			name, strings.Join(clones, ", "), clones[0])
	}
	return k.Absent(module, name)
}

// IsClone reports whether a name is that of a compiler's copy of a function. Its parameters may
// be others than those of the function, whose prototype BTF has. If BTF has a prototype of the
// copy's own name, it is the copy's own.
func IsClone(name string) bool {
	for _, s := range []string{".isra.", ".constprop.", ".part.", ".cold"} {
		if strings.Contains(name, s) {
			return true
		}
	}
	return false
}

// MayNotReturn reports whether a name is that of a copy that may not return the function's
// value: the compiler leaves that out where no caller of the copy uses it.
func MayNotReturn(name string) bool {
	return strings.Contains(name, ".isra.") || strings.Contains(name, ".part.")
}

// IsSplit reports whether a name is that of a part of a function that the function jumps to:
// gcc's name.cold and name.cold.0, LLVM's name.cold and name.__part.0. Nothing calls it, so
// that it has no return address: a probe of its return would overwrite what lies on the stack.
func IsSplit(name string) bool {
	base := strings.TrimRight(name, "0123456789")
	return strings.HasSuffix(name, ".cold") || strings.HasSuffix(base, ".cold.") ||
		strings.HasSuffix(base, ".__part.")
}

// ErrSplit is the error for a probe of the return of a part of a function: see IsSplit.
var ErrSplit = errors.New("it is a part of a function, moved away by the compiler and jumped to: " +
	"it does not return; probe the return of the function itself")

// CheckOffset checks an offset into a kernel function against its size and, if /proc/kcore can
// be read, against its instructions. The kernel checks too, but returns only EILSEQ or EINVAL.
func CheckOffset(e *env.Env, fn kallsyms.Symbol, offset uint64) error {
	if offset == 0 {
		return nil
	}
	k, err := e.Functions()
	if err != nil || k.Hidden {
		return nil // the kernel's check remains
	}
	found := k.Lookup(fn.Module, fn.Name)
	if len(found) == 0 {
		return nil
	}
	_, size, ok := k.At(found[0].Address)
	if !ok || size == 0 {
		return nil
	}
	if offset >= size {
		return &usercode.BeyondError{Function: fn.Name, Offset: offset, Size: size}
	}
	text, err := Text(e.Root(), found[0].Address, size)
	if err != nil {
		return nil
	}
	var unknown *insn.Error
	if err = usercode.CheckBoundary(usercode.Machine(e.Arch()), text, offset); errors.As(err,
		&unknown) {
		return nil // the kernel decodes it too; running code is patched
	}
	return err
}

// Text reads kernel memory through /proc/kcore, at most 1 MB.
func Text(root fs.FS, addr, size uint64) ([]byte, error) {
	f, err := root.Open("proc/kcore")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	core, err := elffile.NewFS(f)
	if err != nil {
		return nil, err
	}
	for _, p := range core.Progs {
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr-p.Vaddr >= p.Filesz || size > 1<<20 {
			continue
		}
		return core.Bytes(p.Offset+addr-p.Vaddr, size)
	}
	return nil, notexist.Errorf("address %#x is not in /proc/kcore", addr)
}
