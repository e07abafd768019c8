package probe

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/probe/internal/kernelcode"
	"github.com/borescope/borescope/probe/internal/prototype"
)

// checkType settles whether an fentry or fexit becomes a session, or one of the sites of
// a tracing.multi link.
func (t *trampoline) checkType(r *resolver) error {
	entry := t.at == ebpf.AttachTraceFEntry
	if !entry && t.at != ebpf.AttachTraceFExit {
		return nil
	}
	session := entry && r.session()
	multi := r.o.TracingMulti || isTracingMulti(r.o.AttachType)
	if session {
		if ok, err := t.better(r, feature.Fsession); !ok {
			return err
		}
		t.at = AttachFsession
	}
	if !multi {
		return nil
	}
	if ok, err := t.better(r, feature.TracingMulti); !ok {
		return err
	}
	switch {
	case session:
		t.at = AttachFsessionMulti
	case entry:
		t.at = AttachFentryMulti
	default:
		t.at = AttachFexitMulti
	}
	return nil
}

// better reports whether the kernel has a feature that is better than a plain trampoline.
// If not, the plan does without it, unless the program is already loaded.
func (t *trampoline) better(r *resolver, f feature.Feature) (bool, error) {
	err := r.env.Supports(f)
	loaded := r.o.AttachType != ebpf.AttachNone
	switch {
	case err == nil:
		return true, nil
	case loaded && errors.Is(err, errors.ErrUnsupported):
		return false, err
	case loaded:
		return true, nil // attaching will show
	}
	t.why = f.String() + ": " + feature.Reason(err)
	return false, nil
}

// inModule reports whether a function is in a module, which has types of its own.
func (t *trampoline) inModule() bool { return t.module != "" && t.module != "vmlinux" }

// multi resolves one function by name.
func (t trampoline) multi(r *resolver) error {
	return t.addMulti(r, len(r.parts) < maxTyped)
}

// addMulti adds one function to the program for many.
func (t trampoline) addMulti(r *resolver, typed bool) error {
	if t.inModule() {
		return t.addSingle(r)
	}
	ids, err := r.env.Trampolines()
	if err != nil {
		return err
	}
	switch id, known := ids[t.symbol]; {
	case !known:
		return t.refused(r, btf.ErrNotFound)
	case id == 0:
		return fmt.Errorf("%s has arguments or a value that a trampoline does not take (more than 12, larger than 16 bytes, or variable), or namesakes; kprobe:%s does", t.symbol, t.symbol)
	}
	if err := kernelcode.Only(r.env, t.module, t.symbol); err != nil {
		return err
	}
	p := ProgramPlan{
		Type: ebpf.Tracing, AttachType: t.at, Context: ContextTramp, Method: MethodTracingMulti,
		Returns: t.at == AttachFexitMulti,
		Sites:   []Site{{Target: t.target, Symbol: t.symbol, CPU: -1}},
	}
	if err := r.helperArgs(&p, t, typed && !r.o.NoTypes); err != nil {
		return err
	}
	r.addAlike(p)
	return nil
}

// addSingle gives a function of a module a program of its own: cilium/ebpf can't load
// programs for many functions with a module's types (its #2078).
func (t trampoline) addSingle(r *resolver) error {
	if r.o.AttachType != ebpf.AttachNone {
		return fmt.Errorf(
			"it is in module %s, and the program was loaded for functions of the kernel itself", t.module)
	}
	proto, err := t.prototype(r)
	if err != nil {
		return err
	}
	switch t.at {
	case AttachFentryMulti:
		t.at = ebpf.AttachTraceFEntry
	case AttachFexitMulti:
		t.at = ebpf.AttachTraceFExit
	case AttachFsessionMulti:
		t.at = AttachFsession
	}
	t.why = fmt.Sprintf("%s: module %s has types of its own", feature.TracingMulti, t.module)
	r.add(tracingProgram(t, proto))
	return nil
}

// helperArgs gives a program for many functions its arguments: typed by the prototype, or
// the largest number possible, of which a function has the first few.
func (r *resolver) helperArgs(p *ProgramPlan, t trampoline, typed bool) error {
	if typed {
		proto, err := prototype.Of(r.env, t.module, t.symbol)
		if err != nil {
			return err
		}
		single := tracingProgram(t, proto)
		p.Args, p.Ret = byHelper(single.Args), single.Ret
		if p.Ret != nil && p.Ret.Loc.Kind == LocationContext {
			p.Ret.Loc.Kind, p.Ret.Loc.Offset = LocationFuncRet, 0
		}
		return nil
	}
	if r.slots == nil {
		r.slots = byHelper(rawSlots())
	}
	p.Args = r.slots
	if t.at != AttachFentryMulti {
		p.Ret = &Arg{Name: "retval", Loc: Location{Kind: LocationFuncRet, Size: 8}}
	}
	return nil
}

// byHelper makes bpf_get_func_arg the location of arguments in a trampoline's context.
func byHelper(args []Arg) []Arg {
	for i := range args {
		if l := &args[i].Loc; l.Kind == LocationContext {
			l.Kind, l.Offset = LocationFuncArg, l.Offset/8
		}
	}
	return args
}
