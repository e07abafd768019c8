package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/notexist"
)

// kprobe resolves a kprobe to one program; sites of a group are merged later.
func (r *resolver) kprobe(t Kprobe) error {
	if t.Symbol == "" && t.Address == 0 {
		return errors.New("it names no function and no address")
	}
	if t.Symbol == "" {
		return r.kprobeAddress(t)
	}
	p := Program{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink}
	return r.kernelSites(p, t, t.Module, t.Symbol, t.Offset, func(m, s string) Target {
		return Kprobe{Module: m, Symbol: s, Offset: t.Offset}
	})
}

func (r *resolver) kretprobe(t Kretprobe) error {
	if t.Symbol == "" {
		return errors.New("it names no function")
	}
	p := Program{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink, Returns: true}
	if t.MaxActive > 0 {
		p.Method, p.Why = MethodTracefs, "only tracefs takes maxactive"
	}
	return r.kernelSites(p, t, t.Module, t.Symbol, 0, func(m, s string) Target {
		return Kretprobe{Module: m, Symbol: s, MaxActive: t.MaxActive}
	})
}

// kprobeAddress is a kprobe on a raw address, which the kernel checks.
func (r *resolver) kprobeAddress(t Kprobe) error {
	p := Program{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink}
	if t.Address < 1<<63 {
		return fmt.Errorf("address %#x is not in the kernel's half of the address space", t.Address)
	}
	abi, err := abiOf(r.env.Arch())
	if err != nil {
		return err
	}
	p.Args = withReason(abi.untypedArgs(false), "arguments are known at a function's entry only")
	p.Sites = []Site{{Target: t, Address: t.Address, CPU: -1}}
	r.add(p)
	return nil
}

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
	if _, err := r.prototype(module, name); err == nil && r.env.Live() {
		return kallsyms.Symbol{Name: name, Module: module}, nil
	}
	syms, err := r.env.KernelSymbols(module, name)
	if err != nil {
		if errors.Is(err, errors.ErrUnsupported) && !r.env.Live() {
			if _, perr := r.prototype(module, name); perr == nil {
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

// prototype is a function's type, from the kernel's BTF or a module's.
func (r *resolver) prototype(module, name string) (*btf.FuncProto, error) {
	spec, err := r.env.BTF()
	if module != "" && module != "vmlinux" {
		spec, err = r.env.ModuleBTF(module)
	}
	if err != nil {
		return nil, err
	}
	protos, err := prototypes(spec, name)
	if err != nil {
		return nil, err
	}
	if len(protos) > 1 {
		return nil, fmt.Errorf("%d functions called %s have different prototypes", len(protos), name)
	}
	return protos[0], nil
}

// prototypes are the distinct types of the functions of that name.
func prototypes(spec *btf.Spec, name string) ([]*btf.FuncProto, error) {
	types, err := spec.AnyTypesByName(name)
	if err != nil {
		return nil, err
	}
	var out []*btf.FuncProto
	for _, t := range types {
		if fn, ok := t.(*btf.Func); ok {
			if p, ok := fn.Type.(*btf.FuncProto); ok {
				out = append(out, p)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is no function in BTF: %w", name, btf.ErrNotFound)
	}
	return out, nil
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
		proto, _ = r.prototype(fn.Module, fn.Name)
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

// choose settles how a program's sites are attached, once it is known how many
// there are.
func (r *resolver) choose(p *Program) error {
	switch {
	case p.Method != MethodPerfLink:
	case p.Type == ebpf.PerfEvent || p.Type == ebpf.TracePoint:
		r.perfMethod(p)
	case p.UserRegs:
		r.chooseUser(p)
	default:
		return r.chooseKernel(p)
	}
	return nil
}

// perfMethod settles between a link and the ioctl.
func (r *resolver) perfMethod(p *Program) {
	if err := r.env.Supports(feature.PerfLink); err != nil {
		p.Method = MethodPerfIoctl
		p.why("perf link", err)
	}
}

// why notes the reason why a better way was not taken.
func (p *Program) why(what string, err error) {
	if p.Why == "" {
		p.Why = what + ": " + feature.Reason(err)
	}
}

// chooseKernel picks kprobe.multi for several functions, and for one where
// kprobes themselves are missing.
func (r *resolver) chooseKernel(p *Program) error {
	want := len(p.Sites) > 1 || r.o.Session || isMultiType(r.o.AttachType) ||
		errors.Is(r.env.Supports(feature.Kprobe), errors.ErrUnsupported)
	if !want || r.o.NoMulti {
		r.perfMethod(p)
		return nil
	}
	f, at := feature.KprobeMulti, ebpf.AttachTraceKprobeMulti
	if !p.Returns && (r.o.Session || r.o.AttachType == ebpf.AttachTraceKprobeSession) {
		f, at = feature.KprobeSession, ebpf.AttachTraceKprobeSession
	}
	if err := r.env.Supports(f); err != nil {
		p.why(f.String(), err)
		r.perfMethod(p)
		return nil
	}
	listed := r.listed(p)
	if err := r.canMulti(p, listed != nil); err != nil {
		p.why(f.String(), err)
		r.perfMethod(p)
		return nil
	}
	p.Method, p.AttachType = MethodKprobeMulti, at
	return r.addresses(p, listed)
}

func isMultiType(t ebpf.AttachType) bool {
	return t == ebpf.AttachTraceKprobeMulti || t == ebpf.AttachTraceKprobeSession ||
		t == ebpf.AttachTraceUprobeMulti || t == AttachUprobeSession || isTracingMulti(t)
}

// canMulti says why sites can't be put into one link, which takes the addresses
// of functions' entries. known says that there are addresses besides those of
// kallsyms.
func (r *resolver) canMulti(p *Program, known bool) error {
	all := true
	for i := range p.Sites {
		if p.Sites[i].Offset != 0 {
			return errors.New("it takes functions' entries only")
		}
		all = all && p.Sites[i].Address != 0
	}
	if all || known {
		return nil
	}
	k, err := r.env.Functions()
	if err == nil && k.Hidden {
		err = errors.New("kernel addresses are hidden: kernel.kptr_restrict")
	}
	return err
}

// addresses fills in the addresses that a multi link needs, and leaves sites
// that have none, or several, to the caller's policy.
func (r *resolver) addresses(p *Program, listed map[string][]kallsyms.Symbol) error {
	kept := p.Sites[:0]
	for _, s := range p.Sites {
		if s.Address == 0 {
			found, err := r.functionsOf(listed, s.Module, s.Symbol)
			if err != nil {
				return err
			}
			var bad error
			switch len(found) {
			case 1:
				s.Address = found[0].Address
			case 0:
				k, err := r.env.Functions()
				if err != nil {
					return err
				}
				bad = k.Absent(s.Module, s.Symbol)
			default:
				bad = ambiguous(s.Symbol, found)
			}
			if bad != nil {
				if err := r.missing(s.Target, fmt.Errorf("resolve %s: %w", s.Target, bad)); err != nil {
					return err
				}
				continue
			}
		}
		kept = append(kept, s)
	}
	p.Sites = kept
	return nil
}

// listed are the functions of the kernel's list of those that a multi link can
// be put on, by name, where there are so many sites that reading it is quicker
// than kallsyms, which is five times as long. nil is no list.
func (r *resolver) listed(p *Program) map[string][]kallsyms.Symbol {
	unknown := 0
	for i := range p.Sites {
		if p.Sites[i].Address == 0 {
			unknown++
		}
	}
	if unknown <= maxTyped {
		return nil
	}
	t, err := r.env.Patchable()
	if err != nil {
		return nil
	}
	return t.ByName()
}

// functionsOf are the functions of a name: by the list, which leaves out what a
// multi link refuses, or for those that it does not have, all there are.
func (r *resolver) functionsOf(listed map[string][]kallsyms.Symbol, module, name string) ([]kallsyms.Symbol, error) {
	found := listed[name]
	if module != "" {
		want := module
		if module == "vmlinux" {
			want = ""
		}
		found = slices.DeleteFunc(slices.Clone(found), func(s kallsyms.Symbol) bool { return s.Module != want })
	}
	if len(found) > 0 {
		return found, nil
	}
	k, err := r.env.Functions()
	if err != nil {
		return nil, err
	}
	return k.Lookup(module, name), nil
}
