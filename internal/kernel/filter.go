package kernel

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// TaskFilter selects the tasks for which a program runs. All conditions that are set must
// hold.
type TaskFilter struct {
	// Tgids are process ids in the initial namespace. The task's process must be one of them.
	Tgids []uint32
	// Cgroups are cgroups of version 2. The task must be in one of them or below.
	Cgroups []CgroupAt
	// CgroupOffsets is set for kernels without a helper by which tracing programs get a task's
	// cgroups (before 5.15). It contains the offsets of task_struct.cgroups, css_set.dfl_cgrp,
	// cgroup.level and cgroup.ancestor_ids. It requires a GPL-compatible licence, like
	// MountNamespace.
	CgroupOffsets *[4]uint32
	// PIDNamespace is the device and inode of a pid namespace, nil for any.
	PIDNamespace *[2]uint64
	// MountNamespace is the inode of a mount namespace, 0 for any. Offsets contains the
	// offsets of task_struct.nsproxy, nsproxy.mnt_ns and the inode in mnt_namespace.
	MountNamespace uint32
	Offsets        [3]uint32
}

// CgroupAt is a cgroup by its id. Level is its depth in the hierarchy (0 is the root), or -1
// if it is not known.
type CgroupAt struct {
	ID    uint64
	Level int
}

// maxCgroupLevel bounds the levels at which cgroups of unknown level are searched.
const maxCgroupLevel = 16

const filterPass = "filter.pass."

// Filter puts the filter in front of a program. For other tasks, the program then does nothing
// and returns idle. A mount namespace requires a GPL-compatible licence.
func Filter(ins asm.Instructions, f *TaskFilter, idle int32) (asm.Instructions, error) {
	if len(ins) == 0 {
		return nil, fmt.Errorf("no instructions")
	}
	out := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	out[0].Metadata = ins[0].Metadata // it is now the function's first instruction
	stage := 0
	// check adds a condition: the code that emit returns jumps to the label if it holds.
	check := func(emit func(pass string) asm.Instructions) {
		if stage > 0 {
			out = append(out, asm.Mov.Reg(asm.R6, asm.R6).WithSymbol(fmt.Sprint(filterPass, stage-1)))
		}
		out = append(out, emit(fmt.Sprint(filterPass, stage))...)
		out = append(out, asm.Mov.Imm(asm.R0, idle), asm.Return())
		stage++
	}
	if len(f.Tgids) > 0 {
		check(f.tgids)
	}
	if len(f.Cgroups) > 0 {
		if f.CgroupOffsets != nil {
			check(f.readCgroups)
		} else {
			check(f.cgroups)
		}
	}
	if f.PIDNamespace != nil {
		check(f.pidNamespace)
	}
	if f.MountNamespace != 0 {
		check(f.mountNamespace)
	}
	if stage == 0 {
		return ins, nil
	}
	out = append(out, asm.Mov.Reg(asm.R1, asm.R6).WithSymbol(fmt.Sprint(filterPass, stage-1)))
	first, err := bare(ins[0])
	if err != nil {
		return nil, err
	}
	return append(append(out, first), ins[1:]...), nil
}

// bare returns a function's first instruction without the metadata that made it the first.
func bare(from asm.Instruction) (asm.Instruction, error) {
	n := from
	n.Metadata = asm.Metadata{}
	if ref := from.Reference(); ref != "" {
		n = n.WithReference(ref)
	}
	if m := from.Map(); m != nil {
		if err := n.AssociateMap(m); err != nil {
			return n, err
		}
	}
	return withSource(n, from), nil
}

func (f *TaskFilter) tgids(pass string) asm.Instructions {
	out := asm.Instructions{asm.FnGetCurrentPidTgid.Call(), asm.RSh.Imm(asm.R0, 32)}
	for _, id := range f.Tgids {
		out = append(out, asm.JEq.Imm(asm.R0, int32(id), pass))
	}
	return out
}

func (f *TaskFilter) cgroups(pass string) asm.Instructions {
	var out asm.Instructions
	// by level, so that the helper is called once per level
	for level := range maxCgroupLevel {
		asked := false
		for _, c := range f.Cgroups {
			if c.Level != level && c.Level >= 0 {
				continue
			}
			if !asked {
				asked = true
				out = append(out, asm.Mov.Imm(asm.R1, int32(level)), asm.FnGetCurrentAncestorCgroupId.Call())
			}
			out = append(out, asm.LoadImm(asm.R1, int64(c.ID), asm.DWord), asm.JEq.Reg(asm.R0, asm.R1, pass))
		}
	}
	for _, c := range f.Cgroups {
		if c.Level >= maxCgroupLevel {
			out = append(out,
				asm.Mov.Imm(asm.R1, int32(c.Level)), asm.FnGetCurrentAncestorCgroupId.Call(),
				asm.LoadImm(asm.R1, int64(c.ID), asm.DWord), asm.JEq.Reg(asm.R0, asm.R1, pass))
		}
	}
	return out
}

func (f *TaskFilter) pidNamespace(pass string) asm.Instructions {
	return asm.Instructions{
		asm.LoadImm(asm.R1, int64(f.PIDNamespace[0]), asm.DWord),
		asm.LoadImm(asm.R2, int64(f.PIDNamespace[1]), asm.DWord),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, -8), // struct bpf_pidns_info, not used
		asm.Mov.Imm(asm.R4, 8),
		asm.FnGetNsCurrentPidTgid.Call(),
		// The helper returns -EINVAL for tasks of another namespace.
		asm.JEq.Imm(asm.R0, 0, pass),
	}
}

// readCgroups reads the cgroups from the kernel's structures: task, css_set, cgroup.
func (f *TaskFilter) readCgroups(pass string) asm.Instructions {
	o := f.CgroupOffsets
	out := asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(asm.R3, asm.R0)}
	for _, offset := range o[:2] {
		out = append(out, readKernel(int32(offset), 8)...)
		out = append(out, asm.LoadMem(asm.R3, asm.RFP, -8, asm.DWord))
	}
	out = append(out, asm.Mov.Reg(asm.R7, asm.R3))
	out = append(out, readKernel(int32(o[2]), 4)...)
	out = append(out, asm.LoadMem(asm.R8, asm.RFP, -8, asm.Word)) // the cgroup's own level
	for level := range maxCgroupLevel {
		var ids []uint64
		for _, c := range f.Cgroups {
			if c.Level == level || c.Level < 0 {
				ids = append(ids, c.ID)
			}
		}
		if len(ids) == 0 {
			continue
		}
		deeper := fmt.Sprint(filterPass, "level.", level)
		out = append(out, asm.JLT.Imm(asm.R8, int32(level), deeper), asm.Mov.Reg(asm.R3, asm.R7))
		out = append(out, readKernel(int32(o[3])+8*int32(level), 8)...)
		out = append(out, asm.LoadMem(asm.R0, asm.RFP, -8, asm.DWord))
		for _, id := range ids {
			out = append(out, asm.LoadImm(asm.R1, int64(id), asm.DWord), asm.JEq.Reg(asm.R0, asm.R1, pass))
		}
		out = append(out, asm.Mov.Imm(asm.R0, 0).WithSymbol(deeper))
	}
	return out
}

// readKernel reads size bytes at R3 plus an offset into the stack slot at -8. Memory that
// cannot be read reads as zeros.
func readKernel(offset, size int32) asm.Instructions {
	return asm.Instructions{
		asm.Add.Imm(asm.R3, offset),
		asm.Mov.Reg(asm.R1, asm.RFP),
		asm.Add.Imm(asm.R1, -8),
		asm.Mov.Imm(asm.R2, size),
		asm.FnProbeReadKernel.Call(),
	}
}

func (f *TaskFilter) mountNamespace(pass string) asm.Instructions {
	out := asm.Instructions{asm.FnGetCurrentTask.Call(), asm.Mov.Reg(asm.R3, asm.R0)}
	for i, offset := range f.Offsets {
		size := int32(8)
		if i == len(f.Offsets)-1 {
			size = 4
		}
		out = append(out, readKernel(int32(offset), size)...)
		if size == 8 {
			out = append(out, asm.LoadMem(asm.R3, asm.RFP, -8, asm.DWord))
		}
	}
	return append(out,
		asm.LoadMem(asm.R0, asm.RFP, -8, asm.Word),
		asm.LoadImm(asm.R1, int64(f.MountNamespace), asm.DWord),
		asm.JEq.Reg(asm.R0, asm.R1, pass))
}
