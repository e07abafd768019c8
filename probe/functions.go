package probe

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/internal/prototype"
)

// kernelSites adds one program for each function that the name stands for.
func (r *resolver) kernelSites(p ProgramPlan, t Target, module, symbol string, offset uint64,
	site func(m, s string) Target,
) error {
	if err := r.canKprobe(); err != nil {
		return err
	}
	if glob.IsPattern(symbol) || glob.IsPattern(module) {
		return r.kernelMatches(p, module, symbol, offset, site)
	}
	fn, err := kernelcode.Find(r.env, module, symbol, r.o.NoTypes)
	if err != nil {
		return err
	}
	if err := kernelcode.CheckOffset(r.env, fn, offset); err != nil {
		return err
	}
	if err := r.typeKernel(&p, fn, offset, true); err != nil {
		return err
	}
	if p.Returns && kernelcode.IsSplit(fn.Name) {
		return kernelcode.ErrSplit
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
func (r *resolver) kernelMatches(p ProgramPlan, module, pattern string, offset uint64,
	site func(m, s string) Target,
) error {
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
	matches = slices.DeleteFunc(slices.Clone(matches), func(fn kallsyms.Symbol) bool {
		return p.Returns && kernelcode.IsSplit(fn.Name)
	})
	for i, fn := range matches {
		s := kernelSite(fn, offset, site(fn.Module, fn.Name))
		if i > 0 && alike && sameLocations(fn.Name, matches[i-1].Name) {
			last := &r.parts[len(r.parts)-1]
			last.Sites = append(last.Sites, s)
			continue
		}
		q := p
		if err := r.typeKernel(&q, fn, offset, typed && r.prototyped(fn)); err != nil {
			return err
		}
		q.FallbackReason = list.Reason
		q.Sites = []Site{s}
		r.add(q)
	}
	return nil
}

// sameLocations reports whether of two functions without types the same can be read.
func sameLocations(a, b string) bool {
	return kernelcode.IsClone(a) == kernelcode.IsClone(b) &&
		kernelcode.MayNotReturn(a) == kernelcode.MayNotReturn(b)
}

// prototyped reports whether the prototype that BTF has for the function's name is its own.
func (r *resolver) prototyped(fn kallsyms.Symbol) bool {
	return kernelcode.Only(r.env, fn.Module, fn.Name) == nil
}

// canKprobe returns why kprobes are unavailable, if that is known beforehand.
func (r *resolver) canKprobe() error {
	err := r.env.Supports(feature.Kprobe)
	if errors.Is(err, errors.ErrUnsupported) {
		// kprobe.multi needs ftrace only, and may be available without kprobes.
		if !r.multiPossible(feature.KprobeMulti) {
			return err
		}
	}
	return nil
}

func (r *resolver) multiPossible(f feature.Feature) bool { return !r.o.NoMulti && has(r.env, f) }

// typeKernel gives a kprobe program its arguments, a kretprobe its value, and a session both.
func (r *resolver) typeKernel(p *ProgramPlan, fn kallsyms.Symbol, offset uint64, typed bool) error {
	abi, err := abiOf(r.env.Arch())
	if err != nil {
		return err
	}
	p.Args, p.Ret = nil, nil
	var proto *btf.FuncProto
	if typed && !r.o.NoTypes {
		// Without a prototype the registers remain.
		proto, _ = prototype.Of(r.env, fn.Module, fn.Name)
	}
	switch returns := p.Returns || r.session() && offset == 0; {
	case returns && proto != nil:
		p.Ret = abi.retArg(proto.Return)
	case returns:
		p.Ret = abi.untypedRet(false)
	}
	switch {
	case p.Returns:
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
	case proto == nil && kernelcode.IsClone(fn.Name):
		p.Args = withReason(p.Args, "a clone made by the compiler may take other arguments")
	}
	if p.Ret != nil && kernelcode.MayNotReturn(fn.Name) {
		p.Ret.Loc = Location{Reason: cloneRet}
	}
	return nil
}

// withReason returns the arguments with all locations marked as unreadable.
func withReason(args []Arg, why string) []Arg {
	out := slices.Clone(args)
	for i := range out {
		out[i].Loc = Location{Reason: why}
	}
	return out
}
