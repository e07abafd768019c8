package probe

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// Fentry fires at the entry of a kernel function, or of a BPF program, through
// a trampoline, with typed arguments. "fentry:vfs_read", "fentry:ext4:ext4_sync_fs",
// "fentry:bpf:123:name".
//
// A name that several functions have is an error, because the kernel would trace the first of
// them, and BTF may describe another; so is a function of which there are clones only
// (name.isra.0). Patterns leave both out.
type Fentry struct {
	Module string // kernel module, "" for any
	Symbol string // function; may hold wildcards
	// BPF is the id of the BPF program that has the function Symbol; 0 for a kernel function.
	BPF uint32
}

// Fexit fires at the return of a function, with its arguments and return value; otherwise
// it is as Fentry. "fexit:vfs_read".
type Fexit struct {
	Module string // kernel module, "" for any
	Symbol string // function; may hold wildcards
	BPF    uint32 // id of the BPF program that has the function Symbol; 0 for a kernel function
}

// FmodRet fires before a kernel function runs, and may replace its return value, where the
// kernel permits that (ALLOW_ERROR_INJECTION and security_*). "fmod_ret:…".
type FmodRet struct {
	Module string // kernel module, "" for any
	Symbol string // function; may hold wildcards
}

func (t Fentry) resolve(r *resolver) error {
	return t.trampoline().tracing(r)
}

func (t Fentry) trampoline() trampoline {
	return trampoline{
		target: t, module: t.Module, symbol: t.Symbol, bpf: t.BPF,
		at: ebpf.AttachTraceFEntry,
	}
}

func (t Fentry) requires(q *requirer) { q.kernel(feature.Fentry, t.Symbol) }

func (t Fentry) list(l *lister) error {
	return l.trampolines(t.trampoline(), feature.Fentry, func(s kallsyms.Symbol) Target {
		return Fentry{Module: cmp.Or(s.Module, "vmlinux"), Symbol: s.Name}
	})
}

func (t Fentry) word() string { return t.Symbol }

func (t Fexit) resolve(r *resolver) error {
	return t.trampoline().tracing(r)
}

func (t Fexit) trampoline() trampoline {
	return trampoline{
		target: t, module: t.Module, symbol: t.Symbol, bpf: t.BPF,
		at: ebpf.AttachTraceFExit,
	}
}

func (t Fexit) requires(q *requirer) { q.kernel(feature.Fexit, t.Symbol) }

func (t Fexit) list(l *lister) error {
	return l.trampolines(t.trampoline(), feature.Fexit, func(s kallsyms.Symbol) Target {
		return Fexit{Module: cmp.Or(s.Module, "vmlinux"), Symbol: s.Name}
	})
}

func (t Fexit) word() string { return t.Symbol }

func (t FmodRet) resolve(r *resolver) error {
	return trampoline{
		target: t, module: t.Module, symbol: t.Symbol,
		at: ebpf.AttachModifyReturn,
	}.tracing(r)
}

func (t FmodRet) requires(q *requirer) { q.kernel(feature.Fexit, t.Symbol) }

func (t FmodRet) list(l *lister) error { return l.put(Match{Target: t}) }

func (t FmodRet) word() string { return t.Symbol }

func parseTrampoline(s *spelling.Scanned, name string) (module, symbol string, id uint32,
	err error,
) {
	if len(s.Parts) != 3 {
		module, symbol, err = s.ModuleSymbol(name + ":[MODULE:]FUNCTION or " + name + ":bpf:ID:FUNCTION")
		return module, symbol, 0, err
	}
	p, err := s.Exactly(3, name+":bpf:ID:FUNCTION", "")
	if err != nil {
		return "", "", 0, err
	}
	if p[0].Text != "bpf" || p[0].Quoted {
		return "", "", 0, s.Errorf(p[0].Off,
			"want %s:bpf:ID:FUNCTION, with the id of a loaded BPF program", name)
	}
	n, err := s.Number(p[1], 32)
	if err == nil && n == 0 {
		err = s.Errorf(p[1].Off, "BPF program ids begin at 1")
	}
	return "", p[2].Text, uint32(n), err
}

// String returns "fentry:[MODULE:]SYMBOL" or "fentry:bpf:ID:NAME".
func (t Fentry) String() string { return "fentry:" + trampolineTarget(t.Module, t.Symbol, t.BPF) }

// String returns "fexit:[MODULE:]SYMBOL" or "fexit:bpf:ID:NAME".
func (t Fexit) String() string { return "fexit:" + trampolineTarget(t.Module, t.Symbol, t.BPF) }

// String returns "fmod_ret:[MODULE:]SYMBOL".
func (t FmodRet) String() string { return "fmod_ret:" + spelling.ModuleSymbol(t.Module, t.Symbol) }

func trampolineTarget(module, symbol string, id uint32) string {
	if id != 0 {
		return fmt.Sprintf("bpf:%d:%s", id, spelling.QuoteName(symbol))
	}
	return spelling.ModuleSymbol(module, symbol)
}

// trampoline is what fentry, fexit and fmod_ret have in common.
type trampoline struct {
	target         Target
	module, symbol string
	bpf            uint32
	at             ebpf.AttachType
	why            string // why it is not the kind that was asked for
}

func (t trampoline) renamed(name string) Target {
	switch k := t.target.(type) {
	case Fentry:
		k.Symbol = name
		return k
	case Fexit:
		k.Symbol = name
		return k
	case FmodRet:
		k.Symbol = name
		return k
	}
	return t.target
}

func (t trampoline) tracing(r *resolver) error {
	if t.symbol == "" {
		return errors.New("it names no function")
	}
	f := feature.Fentry
	if t.at != ebpf.AttachTraceFEntry {
		f = feature.Fexit
	}
	if err := r.env.Supports(f); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if t.bpf != 0 {
		return t.ofBPF(r)
	}
	if err := t.checkType(r); err != nil {
		return err
	}
	if glob.IsPattern(t.symbol) || glob.IsPattern(t.module) {
		return t.matches(r)
	}
	if isTracingMulti(t.at) {
		return t.multi(r)
	}
	proto, err := t.prototype(r)
	if err != nil {
		return err
	}
	r.add(tracingProgram(t, proto))
	return nil
}

// prototype returns the prototype of the function that the kernel traces, if it is known to be
// its own.
func (t *trampoline) prototype(r *resolver) (*btf.FuncProto, error) {
	proto, err := prototype.Of(r.env, t.module, t.symbol)
	if errors.Is(err, btf.ErrNotFound) && t.module == "" {
		module := prototype.ModuleOf(r.env, t.symbol)
		if p, merr := prototype.Of(r.env, module, t.symbol); module != "" && merr == nil {
			t.module, proto, err = module, p, nil
		}
	}
	if err != nil {
		return nil, t.refused(r, err)
	}
	return proto, kernelcode.Only(r.env, t.module, t.symbol)
}

// tracingProgram returns the program for a function of that prototype.
func tracingProgram(t trampoline, proto *btf.FuncProto) ProgramPlan {
	p := ProgramPlan{
		Type: ebpf.Tracing, AttachType: t.at, AttachTo: t.symbol,
		Context: ContextTramp, Method: MethodTracing, FallbackReason: t.why,
		Sites: []Site{{Target: t.target, Symbol: t.symbol, Module: t.module, CPU: -1}},
	}
	var slots int
	p.Args, slots = trampArgs(proto.Params)
	if t.at == ebpf.AttachTraceFEntry || t.at == AttachFentryMulti {
		return p
	}
	p.Returns = t.at == ebpf.AttachTraceFExit
	if isVoid(proto.Return) {
		return p
	}
	size, err := btf.Sizeof(proto.Return)
	p.Ret = &Arg{
		Name: "retval", Type: proto.Return,
		Loc: Location{Kind: LocationContext, Offset: int64(slots) * 8, Size: size},
	}
	switch {
	case err != nil || size > 8:
		p.Ret.Loc = Location{Reason: byValue(isAggregate(proto.Return), size)}
	case kernelcode.MayNotReturn(t.symbol):
		p.Ret.Loc = Location{Reason: cloneRet}
	}
	return p
}

// refused explains why a function has no prototype for a trampoline.
func (t *trampoline) refused(r *resolver, err error) error {
	if !errors.Is(err, btf.ErrNotFound) {
		return err
	}
	k, kerr := r.env.Functions()
	if kerr != nil {
		return notexist.Errorf("no function %s in BTF", t.symbol)
	}
	if len(k.Lookup(t.module, t.symbol)) > 0 {
		return notexist.Errorf(
			"%s has no prototype in BTF, which a trampoline needs; kprobe:%s does without",
			t.symbol, t.symbol)
	}
	return k.Absent(t.module, t.symbol)
}

func (t trampoline) matches(r *resolver) error {
	list, err := r.env.Traceable()
	if err != nil {
		return err
	}
	n := 0
	matches := list.Match(t.module, t.symbol)
	for _, fn := range matches {
		if isTracingMulti(t.at) {
			m := t
			m.symbol, m.module, m.target = fn.Name, fn.Module, t.renamed(fn.Name)
			if m.addMulti(r, len(matches) <= maxTyped) == nil {
				n++
			}
			continue
		}
		m := t
		m.symbol, m.module, m.target = fn.Name, fn.Module, t.renamed(fn.Name)
		proto, err := m.prototype(r)
		if err != nil {
			continue // a match of a wildcard that cannot be attached
		}
		r.add(tracingProgram(m, proto))
		n++
	}
	if n == 0 {
		return notexist.Errorf("no traceable kernel function with a prototype matches")
	}
	return nil
}

// ofBPF resolves fentry or fexit on a BPF program's function, whose types
// are in the program's own BTF.
func (t trampoline) ofBPF(r *resolver) error {
	if !r.env.Live() {
		return errors.New("BPF programs can be looked at on this machine only")
	}
	proto, err := prototype.OfProgram(t.bpf, t.symbol)
	if err != nil {
		return err
	}
	p := tracingProgram(t, proto)
	p.AttachTarget = t.bpf
	r.add(p)
	return nil
}

var fentrySpelled = spelled{
	words: []string{"fentry", "f", "kfunc"},
	parse: func(s *spelling.Scanned) (Target, error) {
		m, sym, id, err := parseTrampoline(s, "fentry")
		return Fentry{Module: m, Symbol: sym, BPF: id}, err
	},
}

var fexitSpelled = spelled{
	words: []string{"fexit", "fr", "kretfunc"},
	parse: func(s *spelling.Scanned) (Target, error) {
		m, sym, id, err := parseTrampoline(s, "fexit")
		return Fexit{Module: m, Symbol: sym, BPF: id}, err
	},
}

var fmodRetSpelled = spelled{
	words: []string{"fmod_ret"},
	parse: func(s *spelling.Scanned) (Target, error) {
		m, sym, err := s.ModuleSymbol("fmod_ret:[MODULE:]FUNCTION")
		return FmodRet{Module: m, Symbol: sym}, err
	},
}

// trampolines lists the functions that match a trampoline's target and have the prototype
// that a trampoline needs.
func (l *lister) trampolines(t trampoline, needs feature.Feature,
	target func(kallsyms.Symbol) Target,
) error {
	if err := l.env.Supports(needs); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return l.functions(t.module, t.symbol, func(s kallsyms.Symbol, _ bool) (x Match, ok bool) {
		proto, err := prototype.Of(l.env, s.Module, s.Name)
		if err != nil || kernelcode.Only(l.env, s.Module, s.Name) != nil {
			return x, false
		}
		x.Target = target(s)
		if l.o.Args {
			p := tracingProgram(trampoline{target: x.Target, symbol: s.Name, at: t.at}, proto)
			x.Args, x.Ret = p.Args, p.Ret
		}
		return x, true
	})
}

// fallback returns a kprobe, which has no types.
func (t Fentry) fallback() Target {
	if t.BPF != 0 {
		return nil
	}
	return Kprobe{Module: t.Module, Symbol: t.Symbol}
}

// fallback returns a kretprobe, which has no arguments.
func (t Fexit) fallback() Target {
	if t.BPF != 0 {
		return nil
	}
	return Kretprobe{Module: t.Module, Symbol: t.Symbol}
}
