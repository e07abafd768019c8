package probe

import (
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/spelling"
)

func nameOr(s *Site) string {
	if s.Symbol != "" {
		return s.Symbol
	}
	return fmt.Sprintf("%#x", s.Address)
}

// Kprobe fires when a kernel instruction is reached.
// "kprobe:vfs_read", "kprobe:ext4:ext4_sync_fs", "kprobe:vfs_read+4",
// "kprobe:0xffffffff81234567".
//
// Arguments have types by BTF where that has the function's own prototype: not those of clones
// that the compiler made (name.isra.0), nor in patterns those of functions with one name.
type Kprobe struct {
	Module  string // kernel module, "" for any
	Symbol  string // function; may hold wildcards; "" with Address
	Offset  uint64 // bytes from the function's start; an instruction boundary
	Address uint64 // raw kernel address, instead of Symbol
}

// Kretprobe fires when a kernel function returns. "kretprobe:vfs_read". Parts of functions that
// are jumped to (name.cold) do not return: they are errors, and patterns leave them out.
type Kretprobe struct {
	Module string // kernel module, "" for any
	Symbol string // function; may hold wildcards
	// MaxActive bounds the number of calls in flight that are seen, on kernels that
	// allocate return instances in advance; 0 is the kernel's choice.
	MaxActive int
}

func (t Kprobe) requires(q *requirer) { q.kernel(feature.Kprobe, t.Symbol) }

func (t Kprobe) list(l *lister) error {
	return l.kprobes(t.Module, t.Symbol, func(s kallsyms.Symbol, again bool) Match {
		target := Kprobe{Module: s.Module, Symbol: s.Name}
		if again && s.Address != 0 {
			target = Kprobe{Address: s.Address}
		}
		return Match{Target: target}
	})
}

func (t Kprobe) word() string { return t.Symbol }

func (t Kretprobe) requires(q *requirer) {
	q.kernel(feature.Kprobe, t.Symbol)
	if t.MaxActive > 0 {
		q.mount()
	}
}

func (t Kretprobe) list(l *lister) error {
	return l.kprobes(t.Module, t.Symbol, func(s kallsyms.Symbol, _ bool) Match {
		return Match{Target: Kretprobe{Module: s.Module, Symbol: s.Name}}
	})
}

func (t Kretprobe) word() string { return t.Symbol }

func parseKprobe(s *spelling.Scanned) (Target, error) {
	const want = "kprobe:[MODULE:]FUNCTION[+OFFSET] or kprobe:0xADDRESS"
	n := 1
	if len(s.Parts) > 1 {
		n = 2
	}
	p, err := s.Exactly(n, want, "+")
	if err != nil {
		return nil, err
	}
	last := p[n-1]
	if spelling.IsAddress(last) {
		if n == 2 {
			return nil, s.Errorf(last.Off, "a raw address takes no module: want kprobe:0xADDRESS")
		}
		a, err := s.Number(last, 64)
		if err == nil && a == 0 {
			err = s.Errorf(last.Off, "there is no kernel instruction at address 0")
		}
		return Kprobe{Address: a}, err
	}
	sym, off, err := s.SymbolOffset(last)
	if err != nil {
		return nil, err
	}
	k := Kprobe{Symbol: sym, Offset: off}
	if n == 2 {
		k.Module = p[0].Text
	}
	return k, nil
}

// String returns "kprobe:[MODULE:]SYMBOL[+OFFSET]" or "kprobe:0xADDRESS".
func (t Kprobe) String() string {
	if t.Symbol == "" {
		return fmt.Sprintf("kprobe:%#x", t.Address)
	}
	return "kprobe:" + spelling.ModuleSymbol(t.Module, t.Symbol) + spelling.PlusOffset(t.Offset)
}

// String returns "kretprobe:[MODULE:]SYMBOL[ maxactive=N]".
func (t Kretprobe) String() string {
	s := "kretprobe:" + spelling.ModuleSymbol(t.Module, t.Symbol)
	if t.MaxActive != 0 {
		s += " maxactive=" + strconv.Itoa(t.MaxActive)
	}
	return s
}

// resolve resolves a kprobe to one program; sites of a group are merged later.
func (t Kprobe) resolve(r *resolver) error {
	if t.Symbol == "" && t.Address == 0 {
		return errors.New("it names no function and no address")
	}
	if t.Symbol == "" {
		return t.atAddress(r)
	}
	p := ProgramPlan{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink}
	return r.kernelSites(p, t, t.Module, t.Symbol, t.Offset, func(m, s string) Target {
		return Kprobe{Module: m, Symbol: s, Offset: t.Offset}
	})
}

func (t Kretprobe) resolve(r *resolver) error {
	if t.Symbol == "" {
		return errors.New("it names no function")
	}
	p := ProgramPlan{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink, Returns: true}
	if t.MaxActive > 0 {
		p.Method, p.FallbackReason = MethodTracefs, "only tracefs takes maxactive"
	}
	return r.kernelSites(p, t, t.Module, t.Symbol, 0, func(m, s string) Target {
		return Kretprobe{Module: m, Symbol: s, MaxActive: t.MaxActive}
	})
}

// atAddress resolves a kprobe on a raw address, which the kernel checks.
func (t Kprobe) atAddress(r *resolver) error {
	p := ProgramPlan{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink}
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

func (Kprobe) event(a *attacher, g *ProgramPlan, s *Site) (*perfevent.Event, error) {
	return a.kprobeEvent(g, s)
}

func (Kretprobe) event(a *attacher, g *ProgramPlan, s *Site) (*perfevent.Event, error) {
	return a.kprobeEvent(g, s)
}

func (a *attacher) kprobeEvent(g *ProgramPlan, s *Site) (*perfevent.Event, error) {
	t, err := a.pmu("kprobe", feature.Kprobe)
	if err != nil {
		return nil, err
	}
	ev := &perfevent.Event{
		Attr: perfring.Attr{Type: t.Number, Config2: s.Offset},
		Explain: func(err error) error {
			return a.explainKprobe(s, err)
		},
	}
	if g.Returns {
		ev.Attr.Config |= 1 << t.Return
	}
	ev.Path = s.Symbol
	if s.Module != "" && s.Module != "vmlinux" {
		ev.Path = s.Module + ":" + s.Symbol
	}
	if s.Symbol == "" {
		ev.Attr.Config2 = s.Address
	}
	return a.anyCPU(ev)
}

// explainKprobe explains the errors of register_kprobe and its callers
// (kernel/kprobes.c, kernel/trace/trace_kprobe.c).
func (a *attacher) explainKprobe(s *Site, err error) error {
	if why := feature.Explain(feature.Kprobe, err); why != err {
		return why
	}
	k, kerr := a.env.Functions()
	known := kerr == nil && !k.Hidden
	switch {
	case known && s.Symbol != "" && len(k.Lookup(s.Module, s.Symbol)) == 0:
		return k.Absent(s.Module, s.Symbol)
	case errors.Is(err, syscall.EADDRNOTAVAIL) && known:
		return kernelcode.Ambiguous(s.Symbol, k.Lookup(s.Module, s.Symbol))
	case errors.Is(err, syscall.EILSEQ):
		return fmt.Errorf("offset %d is not where an instruction begins: %w", s.Offset, err)
	case kallsyms.ReadBlacklist(a.env.Root()).Has(s.Symbol):
		return fmt.Errorf(
			"%s is on the kprobe blacklist: the kernel itself needs it to handle probes: %w", s.Symbol, err)
	case errors.Is(err, syscall.EINVAL) && s.Offset != 0:
		return fmt.Errorf("offset %d into %s cannot be probed: outside the function, or within an instruction that ftrace patches: %w",
			s.Offset, s.Symbol, err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("the kernel does not let %s be probed: it is blacklisted (notrace, noinstr, or in an excluded section): %w",
			nameOr(s), err)
	case errors.Is(err, syscall.ENOENT):
		return notexist.Errorf("no kernel function %s", s.Symbol)
	}
	return err
}

var kprobeSpelled = spelled{words: []string{"kprobe", "k"}, parse: parseKprobe}

var kretprobeSpelled = spelled{
	words: []string{"kretprobe", "kr"},
	parse: func(s *spelling.Scanned) (Target, error) {
		m, sym, err := s.ModuleSymbol("kretprobe:[MODULE:]FUNCTION")
		return Kretprobe{Module: m, Symbol: sym}, err
	},
}

func (t Kretprobe) withMaxActive(n int) Target {
	t.MaxActive = n
	return t
}

// kprobes lists kernel functions for kprobes or kretprobes, if this kernel has any.
func (l *lister) kprobes(module, pattern string,
	one func(s kallsyms.Symbol, again bool) Match,
) error {
	if err := l.r.canKprobe(); err != nil {
		return err
	}
	return l.functions(module, pattern, func(s kallsyms.Symbol, again bool) (Match, bool) {
		x := one(s, again)
		if l.o.Args {
			p := ProgramPlan{}
			_, p.Returns = x.Target.(Kretprobe)
			if err := l.r.typeKernel(&p, s, 0, l.r.prototyped(s)); err == nil {
				x.Args, x.Ret = p.Args, p.Ret
			}
		}
		return x, true
	})
}
