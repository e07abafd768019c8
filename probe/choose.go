package probe

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/probe/internal/caps"
	"github.com/borescope/borescope/probe/internal/kernelcode"
)

// choose settles how a program's sites are attached, once their number is known.
func (r *resolver) choose(p *ProgramPlan) error {
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
func (r *resolver) perfMethod(p *ProgramPlan) {
	if err := r.env.Supports(feature.PerfLink); err != nil {
		p.Method = MethodPerfIoctl
		p.why("perf link", err)
	}
}

// why records why a better method was not taken.
func (p *ProgramPlan) why(what string, err error) {
	if p.FallbackReason == "" {
		p.FallbackReason = what + ": " + feature.Reason(err)
	}
}

// chooseKernel picks kprobe.multi for several functions, and for one where
// kprobes themselves are missing.
func (r *resolver) chooseKernel(p *ProgramPlan) error {
	err := r.chooseMulti(p)
	if !p.Returns && !p.EntryReturn() {
		p.Ret = nil // it was to be a session
	}
	return err
}

// chooseMulti picks kprobe.multi, kprobe.session or neither.
func (r *resolver) chooseMulti(p *ProgramPlan) error {
	want := len(p.Sites) > 1 || r.session() || isMultiType(r.o.AttachType) ||
		errors.Is(r.env.Supports(feature.Kprobe), errors.ErrUnsupported)
	if !want || r.o.NoMulti {
		r.perfMethod(p)
		return nil
	}
	f, at := feature.KprobeMulti, ebpf.AttachTraceKprobeMulti
	if !p.Returns && (r.session() || r.o.AttachType == ebpf.AttachTraceKprobeSession) {
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

// canMulti returns why sites can't be put into one link, which takes the addresses of
// function entries. known is set if there are addresses besides those of kallsyms.
func (r *resolver) canMulti(p *ProgramPlan, known bool) error {
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

// addresses fills in the addresses that a multi link needs, and leaves sites that have
// no address, or several, to the caller's policy.
func (r *resolver) addresses(p *ProgramPlan, listed map[string][]kallsyms.Symbol) error {
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
				bad = kernelcode.Ambiguous(s.Symbol, found)
			}
			if bad != nil {
				if err := r.missing(s.Target, &TargetError{"resolve", s.Target, bad}); err != nil {
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

// listed returns the functions of the kernel's list that a multi link accepts, by name.
// It returns nil unless there are so many sites that reading the list is quicker than
// reading kallsyms, which is five times as long.
func (r *resolver) listed(p *ProgramPlan) map[string][]kallsyms.Symbol {
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
	return kallsyms.Traceable(t.Functions).ByName()
}

// functionsOf returns the functions of a name: those in the list, which has only what a
// multi link accepts, or all functions of that name if it is not in the list.
func (r *resolver) functionsOf(listed map[string][]kallsyms.Symbol, module,
	name string,
) ([]kallsyms.Symbol, error) {
	found := listed[name]
	if module != "" {
		want := module
		if module == "vmlinux" {
			want = ""
		}
		found = slices.DeleteFunc(slices.Clone(found), func(s kallsyms.Symbol) bool {
			return s.Module != want
		})
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

// unprivileged reports whether this process lacks CAP_SYS_ADMIN, which is looked
// up once for all targets.
func (r *resolver) unprivileged() bool {
	if r.lacksAdmin == nil {
		lacks := caps.Lacks(r.env, "CAP_SYS_ADMIN")
		r.lacksAdmin = &lacks
	}
	return *r.lacksAdmin
}

// chooseUser picks uprobe.multi for several sites, for programs that sleep or see both
// entry and return, and for processes without CAP_SYS_ADMIN, which
// perf_uprobe_event_init (kernel/events/core.c) demands and multi links do not.
func (r *resolver) chooseUser(p *ProgramPlan) {
	if p.Sleepable() {
		if err := r.env.Supports(feature.SleepableUprobe); err != nil {
			p.why(feature.SleepableUprobe.String(), err)
			p.Flags &^= flagSleepable
		}
	}
	want := len(p.Sites) > 1 || r.session() || p.Sleepable() || isMultiType(r.o.AttachType) ||
		r.unprivileged()
	if !want || r.o.NoMulti {
		r.perfMethod(p)
		return
	}
	f, at := feature.UprobeMulti, ebpf.AttachTraceUprobeMulti
	if !p.Returns && p.Specs == nil && (r.session() || r.o.AttachType == AttachUprobeSession) {
		f, at = feature.UprobeSession, AttachUprobeSession
	}
	if err := r.env.Supports(f); err != nil {
		p.why(f.String(), err)
		r.perfMethod(p)
		return
	}
	p.Method, p.AttachType = MethodUprobeMulti, at
}
