package probe

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/rawbtf"
	"github.com/borescope/borescope/internal/tracefs"
	"github.com/borescope/borescope/probe/env"
)

// flagSleepable is BPF_F_SLEEPABLE.
const flagSleepable = 1 << 4

// tracepoint resolves a tracepoint by its format file, or, where there is no
// tracefs, by the BTF of its record.
func (r *resolver) tracepoint(t Tracepoint) error {
	if glob.IsPattern(t.Group) || glob.IsPattern(t.Name) {
		return r.tracepointMatches(t)
	}
	p := Program{Type: ebpf.TracePoint, Context: ContextRecord, Method: MethodPerfLink}
	if t.Sleepable {
		if err := r.sleepable(&p); err != nil {
			return err
		}
	}
	f, err := r.env.Tracepoint(t.Group, t.Name)
	if err != nil {
		// An unmounted tracefs does not keep a plan for another machine from
		// being made; attaching needs it.
		if r.env.Live() || !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		if p.Fields, err = r.recordFields(t, err); err != nil {
			return err
		}
		p.Why = "no tracefs: fields from BTF"
	} else {
		for i := range f.Fields {
			p.Fields = append(p.Fields, fieldArg(&f.Fields[i], t.Group))
		}
	}
	p.Sites = []Site{{Target: t, CPU: -1}}
	r.add(p)
	return nil
}

// sleepable lets a tracepoint's program sleep, where the kernel can.
func (r *resolver) sleepable(p *Program) error {
	if err := r.env.Supports(feature.SleepableTracepoint); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	p.Flags = flagSleepable
	return nil
}

// recordFields are the members of struct trace_event_raw_NAME, as BTF has it.
// Events that share a class have only the class's.
func (r *resolver) recordFields(t Tracepoint, cause error) ([]Arg, error) {
	spec, err := r.env.BTF()
	if err != nil {
		return nil, cause
	}
	var s *btf.Struct
	if err := spec.TypeByName("trace_event_raw_"+t.Name, &s); err != nil {
		return nil, cause
	}
	var out []Arg
	for _, m := range s.Members {
		size, err := btf.Sizeof(m.Type)
		if err != nil || m.Name == "ent" || size == 0 {
			continue
		}
		a := Arg{Name: m.Name, Type: m.Type, Loc: Location{Kind: LocationContext, Offset: int64(m.Offset.Bytes()), Size: size}}
		if name, ok := strings.CutPrefix(m.Name, "__data_loc_"); ok {
			a.Name, a.Loc.Kind = name, LocationDataLoc
			a.Type = &btf.Array{Index: &btf.Int{Name: "unsigned int", Size: 4}, Type: &btf.Int{Name: "char", Size: 1, Encoding: btf.Char}}
		}
		out = append(out, a)
	}
	return out, nil
}

func (r *resolver) tracepointMatches(t Tracepoint) error {
	matches, err := matchTracepoints(r.env, t.Group, t.Name)
	if err != nil {
		return err
	}
	if len(matches) == 0 {
		return notexist.Errorf("no tracepoint matches")
	}
	for _, m := range matches {
		m.Sleepable = t.Sleepable
		if err := r.tracepoint(m); err != nil {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return nil
}

// matchTracepoints lists the tracepoints that two patterns match, sorted.
func matchTracepoints(e *Env, group, name string) ([]Tracepoint, error) {
	mount, err := tracefs.Need(e.Root(), e.Live())
	if err != nil {
		return nil, err
	}
	defer mount.Close()
	dir := mount.Path
	g, n := glob.Compile(group), glob.Compile(name)
	var out []Tracepoint
	for _, d := range tracefs.Names(e.Root(), path.Join(dir, "events")) {
		if !g.Match(d) || d == "ftrace" {
			continue // ftrace's own events take no programs
		}
		for _, ev := range tracefs.Names(e.Root(), path.Join(dir, "events", d)) {
			if n.Match(ev) {
				out = append(out, Tracepoint{Group: d, Name: ev})
			}
		}
	}
	return out, nil
}

func (r *resolver) rawTracepoint(t RawTracepoint) error {
	if t.Name == "" {
		return errors.New("it names no tracepoint")
	}
	if glob.IsPattern(t.Name) {
		return r.rawMatches(t)
	}
	p := Program{Type: ebpf.RawTracepoint, Context: ContextRawArgs, Method: MethodRawTracepoint}
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
	proto, err := r.rawPrototype(t)
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

// preferTyped makes a raw tracepoint a tracing program where that is wanted
// and can be had.
func (r *resolver) preferTyped(p *Program, t RawTracepoint) {
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

// rawSlots are the slots of a raw tracepoint whose prototype is not known. A
// program that reads more of them than the tracepoint has is refused when it is
// attached.
func rawSlots() []Arg {
	args := make([]Arg, rawbtf.MaxArgs)
	for i := range args {
		args[i] = Arg{Name: fmt.Sprintf("arg%d", i), Loc: Location{Kind: LocationContext, Offset: int64(i) * 8, Size: 8}}
	}
	return args
}

const rawTypePrefix = "btf_trace_"

// rawPrototype returns the parameters of a tracepoint, from the typedef that
// TRACE_EVENT leaves in BTF, without the leading data pointer.
func (r *resolver) rawPrototype(t RawTracepoint) ([]btf.FuncParam, error) {
	spec, err := r.env.BTF()
	if err == nil && t.Module != "" && t.Module != "vmlinux" {
		spec, err = r.env.ModuleBTF(t.Module)
	}
	if err != nil {
		return nil, err
	}
	var td *btf.Typedef
	if err := spec.TypeByName(rawTypePrefix+t.Name, &td); err != nil {
		return nil, r.noRaw(spec, t.Name)
	}
	ptr, ok := td.Type.(*btf.Pointer)
	if !ok {
		return nil, fmt.Errorf("BTF: %s is no function pointer", td.Name)
	}
	proto, ok := ptr.Target.(*btf.FuncProto)
	if !ok || len(proto.Params) == 0 {
		return nil, fmt.Errorf("BTF: %s has no prototype", td.Name)
	}
	// The typedef has no names; the function that calls the probes does.
	if named, err := prototypes(spec, "__traceiter_"+t.Name); err == nil && len(named[0].Params) == len(proto.Params) {
		proto = named[0]
	}
	return proto.Params[1:], nil
}

func (r *resolver) noRaw(spec *btf.Spec, name string) error {
	if group, n, ok := strings.Cut(name, ":"); ok {
		return notexist.Errorf("no raw tracepoint %q; raw tracepoints have no group (%s): name it %s", name, group, n)
	}
	hint := near.Hint(name, rawNames(spec))
	if call, ok := strings.CutPrefix(name, "sys_enter_"); ok {
		hint = fmt.Sprintf("; there is one for all system calls, sys_enter, and tracepoint:syscalls:sys_enter_%s for this one", call)
	}
	return notexist.Errorf("no raw tracepoint %s%s", name, hint)
}

// rawNames lists the raw tracepoints of a BTF.
func rawNames(spec *btf.Spec) []string {
	var out []string
	for t, err := range spec.All() {
		if err != nil {
			break
		}
		if td, ok := t.(*btf.Typedef); ok && strings.HasPrefix(td.Name, rawTypePrefix) {
			out = append(out, td.Name[len(rawTypePrefix):])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *resolver) rawMatches(t RawTracepoint) error {
	spec, err := r.env.BTF()
	if err == nil && t.Module != "" && t.Module != "vmlinux" {
		spec, err = r.env.ModuleBTF(t.Module)
	}
	if err != nil {
		return err
	}
	g := glob.Compile(t.Name)
	n := 0
	for _, name := range rawNames(spec) {
		if !g.Match(name) {
			continue
		}
		n++
		m := t
		m.Name = name
		if err := r.rawTracepoint(m); err != nil {
			return err
		}
	}
	if n == 0 {
		return notexist.Errorf("no raw tracepoint matches")
	}
	return nil
}

// trampoline is what fentry, fexit and fmod_ret have in common.
type trampoline struct {
	target         Target
	module, symbol string
	bpf            uint32
	at             ebpf.AttachType
	why            string // why it is not of the kind that was asked for
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

func (r *resolver) tracing(t trampoline) error {
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
		return r.tracingBPF(t)
	}
	if err := r.trampolineType(&t); err != nil {
		return err
	}
	if glob.IsPattern(t.symbol) {
		return r.tracingMatches(t)
	}
	if isTracingMulti(t.at) {
		return r.tracingMulti(t)
	}
	proto, err := r.prototype(t.module, t.symbol)
	if err != nil {
		return r.noTrampoline(t, err)
	}
	r.add(tracingProgram(t, proto))
	return nil
}

// tracingProgram is the program for a function of that prototype.
func tracingProgram(t trampoline, proto *btf.FuncProto) Program {
	p := Program{
		Type: ebpf.Tracing, AttachType: t.at, AttachTo: t.symbol,
		Context: ContextTramp, Method: MethodTracing, Why: t.why,
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
	p.Ret = &Arg{Name: "retval", Type: proto.Return, Loc: Location{Kind: LocationContext, Offset: int64(slots) * 8, Size: size}}
	if err != nil || size > 8 {
		p.Ret.Loc = Location{Reason: byValue(isAggregate(proto.Return), size)}
	}
	return p
}

// noTrampoline explains why a function has no prototype to hang a trampoline on.
func (r *resolver) noTrampoline(t trampoline, err error) error {
	if !errors.Is(err, btf.ErrNotFound) {
		return err
	}
	k, kerr := r.env.Functions()
	if kerr != nil {
		return notexist.Errorf("no function %s in BTF", t.symbol)
	}
	if len(k.Lookup(t.module, t.symbol)) > 0 {
		return notexist.Errorf("%s has no prototype in BTF, which a trampoline needs; kprobe:%s does without",
			t.symbol, t.symbol)
	}
	return k.Absent(t.module, t.symbol)
}

func (r *resolver) tracingMatches(t trampoline) error {
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
			if r.addTracingMulti(m, len(matches) <= maxTyped) == nil {
				n++
			}
			continue
		}
		proto, err := r.prototype(fn.Module, fn.Name)
		if err != nil {
			continue // a match of a wildcard that cannot be had
		}
		m := t
		m.symbol, m.module, m.target = fn.Name, fn.Module, t.renamed(fn.Name)
		r.add(tracingProgram(m, proto))
		n++
	}
	if n == 0 {
		return notexist.Errorf("no traceable kernel function with a prototype matches")
	}
	return nil
}

// lsm resolves a security hook: a function called bpf_lsm_HOOK.
func (r *resolver) lsm(t LSM) error {
	if err := r.env.Supports(feature.LSM); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	proto, err := r.prototype("", "bpf_lsm_"+t.Hook)
	if err != nil {
		if !errors.Is(err, btf.ErrNotFound) {
			return err
		}
		return notexist.Errorf("no security hook %s%s", t.Hook, near.Hint(t.Hook, r.hooks()))
	}
	p := tracingProgram(trampoline{target: t, symbol: t.Hook, at: ebpf.AttachLSMMac}, proto)
	p.Type, p.Returns = ebpf.LSM, false
	r.add(p)
	return nil
}

func (r *resolver) hooks() []string {
	spec, err := r.env.BTF()
	if err != nil {
		return nil
	}
	var out []string
	for t, err := range spec.All() {
		if err != nil {
			break
		}
		if fn, ok := t.(*btf.Func); ok && strings.HasPrefix(fn.Name, "bpf_lsm_") {
			out = append(out, fn.Name[len("bpf_lsm_"):])
		}
	}
	return out
}

// fieldArg makes a record's field a plan's argument. Pointers in the records of system
// calls point to user memory.
func fieldArg(f *env.Field, group string) Arg {
	a := Arg{
		Name: f.Name,
		Type: f.BTFType(),
		Loc:  Location{Kind: LocationContext, Offset: int64(f.Offset), Size: f.Size},
	}
	switch {
	case f.DataLoc:
		a.Loc.Kind = LocationDataLoc
	case f.RelLoc:
		a.Loc.Kind = LocationRelLoc
	}
	if f.Common {
		// tp_prog_is_valid_access, kernel/trace/bpf_trace.c.
		a.Loc.Reason = "the kernel hides the common fields from programs"
	}
	if group == "syscalls" {
		syscallArg(f, &a)
	}
	return a
}

// syscallArg corrects an argument of a system call; pointers are to user memory.
func syscallArg(f *env.Field, a *Arg) {
	if _, ok := a.Type.(*btf.Pointer); ok {
		a.Loc.User = true
		return
	}
	if t, size, ok := f.SyscallType(); ok {
		a.Type, a.Loc.Size = t, size
	}
}
