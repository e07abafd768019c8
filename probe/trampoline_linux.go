package probe

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kernel"
)

func (a *attacher) tracing(g *ProgramPlan, prog *ebpf.Program, s *Site) error {
	cookie := uint64(s.Cookie)
	fd, err := kernel.Tracing(prog.FD(), uint32(g.AttachType), cookie)
	if err != nil && cookie != 0 {
		// Before 5.19 trampolines take no cookie (commit 2fcc82411e74).
		fd, err = kernel.Tracing(prog.FD(), uint32(g.AttachType), 0)
	}
	if err != nil {
		return a.explainTracing(g, err)
	}
	a.keep(held{fd: fd, link: true, method: MethodTracing}, *s)
	return nil
}

func (a *attacher) explainTracing(g *ProgramPlan, err error) error {
	f := feature.Fentry
	switch g.AttachType {
	case ebpf.AttachTraceFExit, ebpf.AttachModifyReturn:
		f = feature.Fexit
	case AttachFsession:
		f = feature.Fsession
	case ebpf.AttachTraceRawTp:
		f = feature.TPBTF
	case ebpf.AttachLSMMac:
		f = feature.LSM
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		// Commit f3a95075549e, "bpf: Allow trampoline re-attach".
		return &feature.UnsupportedError{
			Feature: "attaching a tracing program again", Since: "5.13", Err: err,
			Hint: "Linux " + a.env.Release() + " allows it once: load the program anew",
		}
	case errors.Is(err, syscall.EBUSY):
		// bpf_trampoline_link_prog, kernel/bpf/trampoline.c, and ftrace_direct.
		return fmt.Errorf("the program is on this function already, where the kernel takes each once (load it a second time); "+
			"or an extension or another user has replaced the function's entry, or it is not patchable (notrace): %w", err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("the kernel allows at most 38 programs per function: %w", err)
	}
	return feature.Explain(f, err)
}

// tracingMulti attaches at many functions with one link, and finds the sites at fault as
// kprobeMulti does.
func (a *attacher) tracingMulti(g *ProgramPlan, prog *ebpf.Program, sites []Site) error {
	if err := a.ended(sites); err != nil {
		return err
	}
	ids, err := a.env.Trampolines()
	if err != nil {
		return fmt.Errorf("attach %s: %w", placeOf(sites), err)
	}
	which := make([]uint32, len(sites))
	cookies := make([]uint64, len(sites))
	for i := range sites {
		which[i], cookies[i] = ids[sites[i].Symbol], uint64(sites[i].Cookie)
	}
	fd, err := kernel.TracingMulti(prog.FD(), uint32(g.AttachType), which, cookies)
	if err == nil {
		a.keep(held{fd: fd, link: true, method: MethodTracingMulti}, sites...)
		return nil
	}
	if len(sites) > 1 && a.o.Missing != MissingError && !errors.Is(err, syscall.EPERM) {
		h := len(sites) / 2
		if err := a.tracingMulti(g, prog, sites[:h]); err != nil {
			return err
		}
		return a.tracingMulti(g, prog, sites[h:])
	}
	return a.missing(&sites[0],
		fmt.Errorf("attach %s: %w", placeOf(sites), explainTracingMulti(g, err)))
}

func explainTracingMulti(g *ProgramPlan, err error) error {
	if why := feature.Explain(feature.TracingMulti, err); why != err {
		return why
	}
	switch {
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("the program was not loaded with attach type %s, or a function is not traceable: %w", attachTypeName(g.AttachType), err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.EBUSY):
		return fmt.Errorf(
			"the entry of a function is not patchable (notrace), or another user has replaced it: %w", err)
	case errors.Is(err, syscall.E2BIG):
		return fmt.Errorf("the kernel allows at most 38 programs per function: %w", err)
	}
	return err
}

// multiFunc is the function that the kernel itself loads programs for many functions for
// (kernel/bpf/syscall.c).
const multiFunc = "bpf_multi_func"

// tracingMultiType returns the attach type of a tracing program that is bound to no
// function, or AttachNone if it is bound to one or that can't be told. It can't tell sessions.
func tracingMultiType(env *Env, prog *ebpf.Program, t Target) ebpf.AttachType {
	if !has(env, feature.TracingMulti) {
		return ebpf.AttachNone
	}
	id, err := kernel.ProgramTarget(prog.FD())
	ids, berr := env.Trampolines()
	if err != nil || berr != nil || id == 0 || id != ids[multiFunc] {
		return ebpf.AttachNone
	}
	for set, ok := t.(Set); ok && len(set) > 0; set, ok = t.(Set) {
		t = set[0]
	}
	switch t.(type) {
	case Fentry:
		return AttachFentryMulti
	case Fexit:
		return AttachFexitMulti
	}
	return ebpf.AttachNone
}
