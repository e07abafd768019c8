package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/internal/usercode"
)

// kernelSites adds one program for each function that the name stands for.
func (r *resolver) kernelSites(p Program, t Target, module, symbol string, offset uint64, site func(m, s string) Target) error {
	if err := r.canKprobe(&p); err != nil {
		return err
	}
	if glob.IsPattern(symbol) {
		return r.kernelMatches(p, module, symbol, offset, site)
	}
	fn, err := r.kernelFunction(module, symbol)
	if err != nil {
		return err
	}
	if err := r.checkOffset(fn, offset); err != nil {
		return err
	}
	if err := r.typeKernel(&p, fn, offset, true); err != nil {
		return err
	}
	target := t
	if fn.Name != symbol {
		target = site(module, fn.Name) // a system call's wrapper
	}
	p.Sites = []Site{kernelSite(fn, offset, target)}
	r.addAlike(p)
	return nil
}

func kernelSite(fn kallsyms.Symbol, offset uint64, t Target) Site {
	s := Site{Target: t, Symbol: fn.Name, Module: fn.Module, Offset: offset, CPU: -1}
	if fn.Address != 0 {
		s.Address = fn.Address + offset
	}
	return s
}

// kernelMatches adds the functions that a pattern stands for.
func (r *resolver) kernelMatches(p Program, module, pattern string, offset uint64, site func(m, s string) Target) error {
	list, err := r.env.Traceable()
	if err != nil {
		return err
	}
	matches := list.Match(module, pattern)
	if len(matches) == 0 {
		return notexist.Errorf("no traceable kernel function matches")
	}
	typed := !r.o.NoTypes && len(matches) <= maxTyped
	// Without types, one function's program is like the next one's, and a cookie
	// tells them apart.
	alike := !typed && has(r.env, feature.AttachCookie)
	for i, fn := range matches {
		s := kernelSite(fn, offset, site(fn.Module, fn.Name))
		if i > 0 && alike && isClone(fn.Name) == isClone(matches[i-1].Name) {
			last := &r.parts[len(r.parts)-1]
			last.Sites = append(last.Sites, s)
			continue
		}
		q := p
		if err := r.typeKernel(&q, fn, offset, typed); err != nil {
			return err
		}
		q.Why = list.Why
		q.Sites = []Site{s}
		r.add(q)
	}
	return nil
}

// canKprobe says why kprobes cannot be had, when that is known beforehand.
func (r *resolver) canKprobe(p *Program) error {
	err := r.env.Supports(feature.Kprobe)
	if errors.Is(err, errors.ErrUnsupported) {
		// kprobe.multi stands on ftrace alone, and can be there without.
		if !r.multiPossible(feature.KprobeMulti) {
			return err
		}
	}
	return nil
}

func (r *resolver) multiPossible(f feature.Feature) bool { return !r.o.NoMulti && has(r.env, f) }

// kernelFunction finds a function by name. Where BTF knows it, kallsyms is not
// read: the kernel finds the address itself, and Site.Address stays 0.
func (r *resolver) kernelFunction(module, name string) (kallsyms.Symbol, error) {
	if r.o.NoTypes && r.env.Live() {
		return kallsyms.Symbol{Name: name, Module: module}, nil
	}
	if _, err := prototype.Of(r.env, module, name); err == nil && r.env.Live() {
		return kallsyms.Symbol{Name: name, Module: module}, nil
	}
	syms, err := r.env.KernelSymbols(module, name)
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) && !r.env.Live() {
			if _, perr := prototype.Of(r.env, module, name); perr == nil {
				return kallsyms.Symbol{Name: name, Module: module}, nil
			}
		}
		return kallsyms.Symbol{}, err
	}
	switch len(syms) {
	case 1:
		return syms[0], nil
	case 0:
		return r.absentFunction(module, name)
	}
	return kallsyms.Symbol{}, ambiguous(name, syms)
}

// ambiguous refuses a name that several functions have: the kernel (6.7+)
// would too, older ones take the first they meet.
func ambiguous(name string, syms []kallsyms.Symbol) error {
	var at []string
	for _, s := range syms[:min(len(syms), 4)] {
		w := fmt.Sprintf("kprobe:%#x", s.Address)
		if s.Module != "" {
			w += " in " + s.Module
		}
		at = append(at, w)
	}
	return fmt.Errorf("%d functions are called %s; name one by address or module: %s", len(syms), name, strings.Join(at, ", "))
}

// syscallPrefixes are what architectures put before the name of a system call's
// entry function (arch/*/include/asm/syscall_wrapper.h).
var syscallPrefixes = map[string]string{"amd64": "__x64_", "arm64": "__arm64_"}

// absentFunction explains why there is no function of that name, or returns
// the wrapper that a system call's name stands for.
func (r *resolver) absentFunction(module, name string) (kallsyms.Symbol, error) {
	k, err := r.env.Functions()
	if err != nil {
		return kallsyms.Symbol{}, err
	}
	if strings.HasPrefix(name, "sys_") {
		if s := k.Lookup(module, syscallPrefixes[r.env.Arch()]+name); len(s) == 1 {
			return s[0], nil
		}
	}
	return kallsyms.Symbol{}, k.Absent(module, name)
}

// typeKernel gives a kprobe program its arguments, or a kretprobe its value.
func (r *resolver) typeKernel(p *Program, fn kallsyms.Symbol, offset uint64, typed bool) error {
	abi, err := abiOf(r.env.Arch())
	if err != nil {
		return err
	}
	p.Args, p.Ret = nil, nil
	var proto *btf.FuncProto
	if typed && !r.o.NoTypes && !isClone(fn.Name) {
		// Without a prototype the registers remain.
		proto, _ = prototype.Of(r.env, fn.Module, fn.Name)
	}
	switch {
	case p.Returns && proto != nil:
		p.Ret = abi.retArg(proto.Return)
	case p.Returns:
		p.Ret = abi.untypedRet(false)
	case proto != nil:
		p.Args = abi.protoArgs(proto)
	default:
		if r.untyped == nil {
			r.untyped = abi.untypedArgs(false)
		}
		p.Args = r.untyped
	}
	switch {
	case offset != 0:
		p.Args = withReason(p.Args, "arguments are known at a function's entry only")
	case isClone(fn.Name):
		p.Args = withReason(p.Args, "a clone made by the compiler may take other arguments")
	}
	return nil
}

// isClone tells a compiler's copy of a function, of which BTF knows nothing.
func isClone(name string) bool {
	for _, s := range []string{".isra.", ".constprop.", ".part.", ".cold"} {
		if strings.Contains(name, s) {
			return true
		}
	}
	return false
}

// withReason returns the arguments with all locations marked as unreadable.
func withReason(args []Arg, why string) []Arg {
	out := slices.Clone(args)
	for i := range out {
		out[i].Loc = Location{Reason: why}
	}
	return out
}

// checkOffset checks an offset into a kernel function against its size and,
// where /proc/kcore may be read, against its instructions. The kernel checks
// too, but says no more than EILSEQ or EINVAL.
func (r *resolver) checkOffset(fn kallsyms.Symbol, offset uint64) error {
	if offset == 0 {
		return nil
	}
	k, err := r.env.Functions()
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
		return fmt.Errorf("offset %d lies beyond %s, which has %d bytes: %w", offset, fn.Name, size, fs.ErrInvalid)
	}
	text, err := kernelText(r.env.Root(), found[0].Address, size)
	if err != nil {
		return nil
	}
	var unknown *insn.Error
	if err = usercode.CheckBoundary(machineOf(r.env.Arch()), text, offset); errors.As(err, &unknown) {
		return nil // the kernel, too, knows what it is; code that runs is patched
	}
	return err
}

func machineOf(arch string) elf.Machine {
	if arch == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}

// kernelText reads kernel memory through /proc/kcore.
func kernelText(root fs.FS, addr, size uint64) ([]byte, error) {
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
