package probe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/rawbtf"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// RawTracepoint fires at a tracepoint before its record is built, with the tracepoint's
// own arguments, which BTF types where the kernel has it (tp_btf).
// "rawtracepoint:sched_switch".
type RawTracepoint struct {
	Module string // kernel module, "" for any
	Name   string // without a group; may hold wildcards
	// Sleepable is as for a Tracepoint; only sys_enter and sys_exit allow it (7.2).
	Sleepable bool
}

func (RawTracepoint) requires(q *requirer) { q.capability("CAP_PERFMON", perfmon) }

func (t RawTracepoint) list(l *lister) error {
	return listNames[*btf.Typedef](l, t.Module, rawTypePrefix, t.Name, func(name string) Match {
		one := RawTracepoint{Module: t.Module, Name: name}
		x := Match{Target: one, Module: t.Module}
		if l.o.Args {
			if params, err := one.prototype(l.r); err == nil {
				x.Args, _ = trampArgs(params)
			}
		}
		return x
	})
}

func (t RawTracepoint) word() string { return t.Name }

// String returns "rawtracepoint:[MODULE:]NAME[ sleepable]".
func (t RawTracepoint) String() string {
	return "rawtracepoint:" + spelling.ModuleSymbol(t.Module, t.Name) + sleepable(t.Sleepable)
}

func (t RawTracepoint) resolve(r *resolver) error {
	if t.Name == "" {
		return errors.New("it names no tracepoint")
	}
	if glob.IsPattern(t.Name) {
		return t.matches(r)
	}
	p := ProgramPlan{Type: ebpf.RawTracepoint, Context: ContextRawArgs, Method: MethodRawTracepoint}
	if t.Sleepable {
		if err := r.sleepable(&p); err != nil {
			return err
		}
	}
	p.Sites = []Site{{Target: t, Symbol: t.Name, Module: t.Module, CPU: -1}}
	if r.o.NoTypes {
		p.Args = rawSlots()
		r.add(p)
		return nil
	}
	proto, err := t.prototype(r)
	var unsupported *feature.UnsupportedError
	switch {
	case errors.As(err, &unsupported):
		p.Args = rawSlots()
		p.why("types", err)
	case err != nil:
		return err
	default:
		p.Args, _ = trampArgs(proto)
		r.preferTyped(&p, t)
	}
	r.add(p)
	return nil
}

// preferTyped makes a raw tracepoint a tracing program if the caller prefers that and the
// kernel allows it.
func (r *resolver) preferTyped(p *ProgramPlan, t RawTracepoint) {
	if !r.o.PreferBTF {
		return
	}
	if err := r.env.Supports(feature.TPBTF); err != nil {
		p.why("tp_btf", err)
		return
	}
	p.Type, p.AttachType, p.AttachTo = ebpf.Tracing, ebpf.AttachTraceRawTp, t.Name
	p.Context, p.Method = ContextTramp, MethodTracing
}

// rawSlots returns the slots of a raw tracepoint whose prototype is not known. The kernel
// refuses to attach a program that reads more of them than the tracepoint has.
func rawSlots() []Arg {
	args := make([]Arg, rawbtf.MaxArgs)
	for i := range args {
		args[i] = Arg{
			Name: fmt.Sprintf("arg%d", i),
			Loc:  Location{Kind: LocationContext, Offset: int64(i) * 8, Size: 8},
		}
	}
	return args
}

const rawTypePrefix = "btf_trace_"

// prototype returns the parameters of a tracepoint, from the typedef that
// TRACE_EVENT leaves in BTF, without the leading data pointer.
func (t RawTracepoint) prototype(r *resolver) ([]btf.FuncParam, error) {
	spec, err := prototype.Types(r.env, t.Module)
	if err != nil {
		return nil, err
	}
	var td *btf.Typedef
	if err := spec.TypeByName(rawTypePrefix+t.Name, &td); err != nil {
		return nil, noRaw(r.env, t.Module, t.Name)
	}
	ptr, ok := td.Type.(*btf.Pointer)
	if !ok {
		return nil, fmt.Errorf("BTF: %s is not a function pointer", td.Name)
	}
	proto, ok := ptr.Target.(*btf.FuncProto)
	if !ok || len(proto.Params) == 0 {
		return nil, fmt.Errorf("BTF: %s has no prototype", td.Name)
	}
	// The typedef has no names; the function that calls the probes does.
	if named, err := prototype.In(spec, "__traceiter_"+t.Name); err == nil &&
		len(named[0].Params) == len(proto.Params) {
		proto = named[0]
	}
	return proto.Params[1:], nil
}

// noRaw returns the error for a raw tracepoint that does not exist.
func noRaw(e *Env, module, name string) error {
	if group, n, ok := strings.Cut(name, ":"); ok {
		return notexist.Errorf("no raw tracepoint %q; raw tracepoints have no group (%s): name it %s",
			name, group, n)
	}
	names, _ := prototype.Names[*btf.Typedef](e, module, rawTypePrefix)
	hint := near.Hint(name, names)
	if call, ok := strings.CutPrefix(name, "sys_enter_"); ok {
		hint = fmt.Sprintf("; there is one for all system calls, sys_enter, and tracepoint:syscalls:sys_enter_%s for this one", call)
	}
	return notexist.Errorf("no raw tracepoint %s%s", name, hint)
}

func (t RawTracepoint) matches(r *resolver) error {
	names, err := prototype.Names[*btf.Typedef](r.env, t.Module, rawTypePrefix)
	if err != nil {
		return err
	}
	g := glob.Compile(t.Name)
	n := 0
	for _, name := range names {
		if !g.Match(name) {
			continue
		}
		n++
		m := t
		m.Name = name
		if err := m.resolve(r); err != nil {
			return err
		}
	}
	if n == 0 {
		return notexist.Errorf("no raw tracepoint matches")
	}
	return nil
}

var rawTracepointSpelled = spelled{
	words: []string{"rawtracepoint", "rt", "raw_tracepoint"},
	parse: func(s *spelling.Scanned) (Target, error) {
		m, name, err := s.ModuleSymbol("rawtracepoint:[MODULE:]NAME")
		return RawTracepoint{Module: m, Name: name}, err
	},
}

func (t RawTracepoint) withSleepable() Target {
	t.Sleepable = true
	return t
}
