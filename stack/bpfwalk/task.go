package bpfwalk

import "github.com/cilium/ebpf/asm"

// TaskOffsets are offsets in kernel types, from BTF. They lead from a task to the executable
// of its process and of the one that started it.
type TaskOffsets struct {
	Parent     int // task_struct.real_parent
	TGID       int // task_struct.tgid
	MM         int // task_struct.mm
	Executable int // mm_struct.exe_file
}

// parent leaves in R0 what is known of the process that started this one, or goes to none. It
// is true of this one until it executes a program: then the kernel opens the executable anew,
// even the same one. A child of vfork has the very memory of its parent.
func (g *bpfGen) parent(none string) {
	f := g.w.Task
	g.Add(asm.FnGetCurrentTask.Call(), asm.Mov.Reg(asm.R7, asm.R0))
	g.kernelWord(asm.R8, asm.R7, f.Parent, none)
	g.kernelWord(asm.R9, asm.R7, f.MM, none)
	g.kernelWord(asm.R9, asm.R9, f.Executable, none)
	g.kernelWord(asm.R7, asm.R8, f.MM, none)
	g.kernelWord(asm.R7, asm.R7, f.Executable, none)
	g.Add(
		asm.JNE.Reg(asm.R7, asm.R9, none),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.Add.Imm(asm.R3, int32(f.TGID)),
	)
	g.readKernel(stBuf, 4, none)
	g.Add(asm.LoadMem(asm.R1, asm.R6, stBuf, asm.Word))
	g.lookup(MapProcesses, asm.R1, none)
}

// kernelWord loads a word of kernel memory, or goes to none if it can't, or it is 0.
func (g *bpfGen) kernelWord(dst, base asm.Register, off int, none string) {
	g.Add(asm.Mov.Reg(asm.R3, base), asm.Add.Imm(asm.R3, int32(off)))
	g.readKernel(stBuf, 8, none)
	g.load(dst, stBuf)
	g.Add(asm.JEq.Imm(dst, 0, none))
}
