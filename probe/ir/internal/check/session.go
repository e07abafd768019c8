package check

import (
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/ir"
)

// Kernel functions of session programs.
const (
	KfuncIsReturn = "bpf_session_is_return"
	KfuncCookie   = "bpf_session_cookie"
)

// session refuses features of session programs in other programs.
func (l *locator) session(what string) error {
	if !l.pp.EntryReturn() {
		return Unsupported(what, ir.Version{6, 10},
			l.targetName()+" has no session program: it needs probe.Options.EntryReturn, and Linux 6.10 for kprobes, 6.13 for uprobes, 7.0 for fentry")
	}
	if what == ir.StmtSkip.String() && l.pp.Type == ebpf.Tracing {
		return Unsupported(what, ir.Version{},
			l.targetName()+" is a tracing session, whose returns the kernel does not leave out: test what SetCallCookie kept")
	}
	_, err := KernelFunc(l.plan, KfuncIsReturn)
	return err
}

// KernelFunc returns a kfunc from the plan's BTF.
func KernelFunc(plan *probe.Plan, name string) (*btf.Func, error) {
	if plan.BTF == nil {
		return nil, Unsupported(name, ir.Version{}, noBTF)
	}
	var f *btf.Func
	if err := plan.BTF.TypeByName(name, &f); err != nil {
		return nil, Unsupported(name, ir.Version{}, "the kernel's BTF has no such function")
	}
	return f, nil
}

// cgroupPath is the path to the current task's cgroup: the offset of its css_set in the task,
// and that of the default hierarchy's cgroup in the css_set.
type cgroupPath struct{ Set, Cgroup int16 }

// The first kernels with task storage in tracing programs, and with cgroup storage.
var (
	TaskStorageSince   = ir.Version{5, 12}
	cgroupStorageSince = ir.Version{6, 2}
)

// storage checks that the plan's kernel has a kind of storage. For cgroup storage it
// determines c.cgroup.
func (c *checker) storage(m *ir.Map) error {
	since, by := TaskStorageSince, "tid"
	if m.Kind == ir.MapCgroupStorage {
		since, by = cgroupStorageSince, "cgroup"
	}
	if !c.kern.AtLeast(since) {
		return Unsupported("map kind "+m.Kind.String(), since,
			"use a hash keyed by "+by+", which "+c.plan.Kernel+" has")
	}
	if m.Kind != ir.MapCgroupStorage || c.cgroup != (cgroupPath{}) {
		return nil
	}
	offset := func(typ, member string) (int16, error) {
		t, err := c.kernelType(typ)
		if err != nil {
			return 0, err
		}
		p, err := field(place{typ: t}, member)
		if err == nil && p.off > math.MaxInt16 {
			err = fmt.Errorf("%s.%s is at %d", typ, member, p.off)
		}
		return int16(p.off), err
	}
	var err error
	if c.cgroup.Set, err = offset("task_struct", "cgroups"); err != nil {
		return err
	}
	c.cgroup.Cgroup, err = offset("css_set", "dfl_cgrp")
	return err
}
