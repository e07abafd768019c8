package action

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
)

// Kernel functions of session programs.
const (
	kfuncIsReturn = "bpf_session_is_return"
	kfuncCookie   = "bpf_session_cookie"
)

// session refuses what only session programs have.
func (c *checker) session(what string) error {
	if !c.pp.Session() {
		return unsupported(what, Version{6, 10}, c.targetName()+" has no session program: it needs probe.Options.Session, and Linux 6.10 for kprobes, 6.13 for uprobes, 7.0 for fentry")
	}
	if what == StmtSkip.String() && c.pp.Type == ebpf.Tracing {
		return unsupported(what, Version{}, c.targetName()+" is a tracing session, whose returns the kernel does not leave out: test what SetSessionCookie kept")
	}
	_, err := kernelFunc(c.plan, kfuncIsReturn)
	return err
}

// kernelFunc is a kernel function that programs may call, from the plan's BTF.
func kernelFunc(plan *probe.Plan, name string) (*btf.Func, error) {
	if plan.BTF == nil {
		return nil, unsupported(name, Version{}, noBTF)
	}
	var f *btf.Func
	if err := plan.BTF.TypeByName(name, &f); err != nil {
		return nil, unsupported(name, Version{}, "the kernel's BTF has no such function")
	}
	return f, nil
}

// kfunc calls a kernel function with the context, which those of session
// programs take since Linux 7.0; before, they take nothing.
func (g *gen) kfunc(name string) {
	g.emit(asm.Mov.Reg(asm.R1, g.ctxReg()))
	g.kernelCall(name)
}

// isReturn leaves 1 in R0 at a return, 0 at an entry.
func (g *gen) isReturn() {
	g.kfunc(kfuncIsReturn)
	g.emit(asm.And.Imm(asm.R0, 1))
}

// clearCookie has the entry of a kprobe session keep nothing, whether the program is
// disabled then or not: the kernel hands over what an earlier call left there (fprobe
// does not clear what it reserves for its entry handler, kernel/trace/fprobe.c). Those
// of uprobes and tracing begin with 0.
func (g *gen) clearCookie() {
	returns := g.label()
	g.isReturn()
	g.emit(asm.JNE.Imm(asm.R0, 0, returns))
	g.kfunc(kfuncCookie)
	g.emit(asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord))
	g.place(returns)
}

// kernelCall calls a kernel function, whose arguments are in place, by its id in
// the plan's BTF, which is that of the kernel that the plan is for.
func (g *gen) kernelCall(name string) {
	f, err := kernelFunc(g.plan, name)
	if err != nil {
		g.fail("%w", err)
		return
	}
	id, err := g.plan.BTF.TypeID(f)
	if err != nil {
		g.fail("%w", err)
		return
	}
	if !gplCompatible(g.prog.license()) {
		g.fail("%s needs a licence that is compatible with the GPL, which %q is not", name, g.prog.license())
	}
	g.emit(asm.Instruction{
		OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: int64(id),
	})
}

// cgroupPath is where the current task's cgroup is: the offset of its css_set in
// the task, and of the cgroup of the default hierarchy in that.
type cgroupPath struct{ set, cgroup int16 }

// The first kernels with storage by task for tracing programs, and by cgroup.
var (
	taskStorageSince   = Version{5, 12}
	cgroupStorageSince = Version{6, 2}
)

// storage checks that the plan's kernel has a kind of storage.
func (c *checker) storage(m *Map) error {
	since, by := taskStorageSince, "tid"
	if m.Kind == MapCgroupStorage {
		since, by = cgroupStorageSince, "cgroup"
	}
	if !c.kern.AtLeast(since) {
		return unsupported("map kind "+m.Kind.String(), since, "use a hash keyed by "+by+", which "+c.plan.Kernel+" has")
	}
	if m.Kind != MapCgroupStorage || c.cgroup != (cgroupPath{}) {
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
	if c.cgroup.set, err = offset("task_struct", "cgroups"); err != nil {
		return err
	}
	c.cgroup.cgroup, err = offset("css_set", "dfl_cgrp")
	return err
}

// owner is the key by which the interpreter keeps a storage's values: the
// current thread or cgroup.
func (r *run) owner(m *Map) string {
	name := "tid"
	if m.Kind == MapCgroupStorage {
		name = "cgroup"
	}
	id := uint64(0)
	if r.Builtin != nil {
		id = r.Builtin(name)
	}
	return string(binary.LittleEndian.AppendUint64(nil, id))
}
