package kernel

import (
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Stranger is set in both halves of the ids of a task outside of this process's namespace.
// These ids are those of the initial namespace. No namespace has such large ids (PID_MAX_LIMIT
// is 1<<22), so tasks remain distinct.
const Stranger = 1 << 31

// PIDNamespace is a pid namespace other than the initial one, as programs identify it.
type PIDNamespace struct {
	// Device and Inode are the values that bpf_get_ns_current_pid_tgid compares.
	Device, Inode uint64
	// Nested describes where the kernel keeps the ids of tasks in namespaces below this one,
	// which the helper does not support. It is nil if the kernel's types do not contain it.
	Nested *NestedIDs
}

// NestedIDs contains the address and the depth of a pid namespace, and offsets in the kernel's
// structures.
type NestedIDs struct {
	Address uint64
	Level   uint32
	// These are the offsets of task_struct.thread_pid, task_struct.signal, signal_struct.pids
	// for thread groups, pid.level, pid.numbers, upid.nr and upid.ns, and upid's size.
	ThreadPID, Signal, Groups, PIDLevel, Numbers, NR, NS, Size int32
}

// ownIDs is the name of the function that OwnIDs adds. It uses 32 bytes of stack.
const ownIDs = "own_ids"

// OwnIDs makes a program use the ids of tasks in ns instead of those in the initial namespace:
// it replaces each call of bpf_get_current_pid_tgid. The ids of tasks outside of ns are those
// of the initial namespace, with Stranger set. Without a GPL-compatible licence, tasks of
// namespaces below ns have these too. If ns is nil, the program is returned unchanged.
func (ns *PIDNamespace) OwnIDs(ins asm.Instructions, gpl bool) asm.Instructions {
	return ns.ownIDs(ins, len(ins), gpl)
}

// ownIDs is OwnIDs for the first n instructions of a program, whose others may have it already.
func (ns *PIDNamespace) ownIDs(ins asm.Instructions, n int, gpl bool) asm.Instructions {
	if ns == nil || !slices.ContainsFunc(ins[:n], getsIDs) {
		return ins
	}
	out := slices.Clone(ins)
	for i := range out[:n] {
		if getsIDs(out[i]) {
			out[i].Src, out[i].Constant = asm.PseudoCall, -1
			out[i] = out[i].WithReference(ownIDs)
		}
	}
	if slices.ContainsFunc(ins[n:], func(in asm.Instruction) bool { return in.Symbol() == ownIDs }) {
		return out
	}
	own := ns.function(gpl)
	own[0] = withSource(own[0].WithSymbol(ownIDs), ins[0]) // all functions have a source, or none
	if btf.FuncMetadata(&ins[0]) != nil {
		long := &btf.Int{Name: "long", Size: 8, Encoding: btf.Signed}
		own[0] = btf.WithFuncMetadata(own[0], &btf.Func{
			Name: ownIDs, Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: long},
		})
	}
	return append(out, own...)
}

func getsIDs(ins asm.Instruction) bool {
	return ins.IsBuiltinCall() && ins.Constant == int64(asm.FnGetCurrentPidTgid)
}

// function returns the function, which returns a task's ids in R0: tgid<<32 | tid.
func (ns *PIDNamespace) function(gpl bool) asm.Instructions {
	const (
		info    = -8 // struct bpf_pidns_info: pid, tgid
		strange = ownIDs + "_stranger"
		nested  = ownIDs + "_nested"
	)
	out := asm.Instructions{
		asm.LoadImm(asm.R1, int64(ns.Device), asm.DWord),
		asm.LoadImm(asm.R2, int64(ns.Inode), asm.DWord),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, info),
		asm.Mov.Imm(asm.R4, 8),
		asm.FnGetNsCurrentPidTgid.Call(),
		asm.JNE.Imm(asm.R0, 0, nested), // -EINVAL in another namespace, even one below
		asm.LoadMem(asm.R0, asm.RFP, info+4, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, info, asm.Word),
		asm.LSh.Imm(asm.R0, 32),
		asm.Or.Reg(asm.R0, asm.R1),
		asm.Return(),
	}
	last := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.JEq.Imm(asm.R0, 0, ownIDs+"_idle"), // idle tasks have id 0 in all namespaces
		asm.LoadImm(asm.R1, -1<<63|Stranger, asm.DWord),
		asm.Or.Reg(asm.R0, asm.R1),
		asm.Return().WithSymbol(ownIDs + "_idle"),
	}
	if ns.Nested == nil || !gpl {
		last[0] = last[0].WithSymbol(nested)
		return append(out, last...)
	}
	last[0] = last[0].WithSymbol(strange)
	walk := ns.Nested.walk(strange)
	walk[0] = walk[0].WithSymbol(nested)
	return append(append(out, walk...), last...)
}

// walk reads the current task's ids from its struct pid and returns them. It jumps to strange
// if the task has none at the namespace's depth, or has another namespace there.
func (n *NestedIDs) walk(strange string) asm.Instructions {
	const (
		task, upid = -8, -24 // upid: struct upid, or another value that was read
		pids       = -32
	)
	// read reads size bytes at the address in the stack slot at base, plus off.
	read := func(base int16, off, to, size int32) asm.Instructions {
		return asm.Instructions{
			asm.LoadMem(asm.R3, asm.RFP, base, asm.DWord),
			asm.Add.Imm(asm.R3, off),
			asm.Mov.Reg(asm.R1, asm.RFP),
			asm.Add.Imm(asm.R1, to),
			asm.Mov.Imm(asm.R2, size),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, strange),
		}
	}
	number := n.Numbers + int32(n.Level)*n.Size
	return slices.Concat(
		asm.Instructions{asm.FnGetCurrentTask.Call(), asm.StoreMem(asm.RFP, task, asm.R0, asm.DWord)},
		read(task, n.ThreadPID, pids, 8),
		read(pids, n.PIDLevel, upid, 4),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, upid, asm.Word),
			asm.JLT.Imm(asm.R1, int32(n.Level), strange),
		},
		read(pids, number+n.NS, upid, 8),
		asm.Instructions{
			asm.LoadMem(asm.R1, asm.RFP, upid, asm.DWord),
			asm.LoadImm(asm.R2, int64(n.Address), asm.DWord),
			asm.JNE.Reg(asm.R1, asm.R2, strange),
		},
		read(pids, number+n.NR, upid, 4),
		read(task, n.Signal, pids, 8),
		read(pids, n.Groups, pids, 8),
		read(pids, number+n.NR, upid+4, 4),
		asm.Instructions{
			asm.LoadMem(asm.R0, asm.RFP, upid+4, asm.Word),
			asm.LoadMem(asm.R1, asm.RFP, upid, asm.Word),
			asm.LSh.Imm(asm.R0, 32),
			asm.Or.Reg(asm.R0, asm.R1),
			asm.Return(),
		},
	)
}
