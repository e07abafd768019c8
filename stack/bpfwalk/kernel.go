package bpfwalk

import (
	"debug/elf"
	"encoding/binary"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// KernelCopier generates the instructions that copy the kernel's registers and stacks to a
// map value, to be walked by ORCWalker. They copy the stack that the event hit, and the
// thread's own where that is another one, as in an interrupt.
//
// It works in programs whose context are the registers, of perf events and
// kprobes, on amd64. It is plain data.
type KernelCopier struct {
	// TaskStackOffset is the offset of task_struct.stack, from BTF.
	TaskStackOffset int
}

// KernelCopyFunc is the function to call: R1 is the state, a pointer to
// StateSize bytes of map value, R2 the program's context; R0 is how much of the
// state is to be sent.
//
//	static long stack_copy_kernel(void *state, void *ctx)
const KernelCopyFunc = "stack_copy_kernel"

// The state. Copying goes in steps up to the stack's end, so that it meets the
// unreadable page behind the smaller stacks of exceptions no later than that.
const (
	kernelStep = 512

	kcAddr  = 0                         // uint64: address of the first byte
	kcLen   = 8                         // uint32: bytes of the first stack
	kcTaken = 12                        // uint32: bytes of the thread's own stack, behind the first
	kcTask  = 16                        // uint64: address of the thread's own stack
	kcRegs  = 24                        // struct pt_regs; all zero: the event hit no kernel code
	kcData  = kcRegs + rules.AMD64Regs  // the stacks
	kcBytes = kcData + rules.ThreadSize // where the thread's own stack can begin at the latest
)

// StateSize returns the size of the state in bytes. The state may be at the beginning of a
// map value or at any multiple of 8 in it.
func (c *KernelCopier) StateSize() int { return kcBytes + rules.ThreadSize }

// Instructions returns the function.
func (c *KernelCopier) Instructions() asm.Instructions {
	g := &bpfGen{w: &Walker{}}
	g.Label(KernelCopyFunc)
	g.Add(asm.Mov.Reg(asm.R6, asm.R1), asm.Mov.Reg(asm.R9, asm.R2), asm.Mov.Imm(asm.R1, 0))
	for off := int16(0); off < kcRegs; off += 8 {
		g.store(off, asm.R1)
	}
	g.store(kcRegs+amd64RegsIP, asm.R1)
	g.Add(
		asm.LoadMem(asm.R1, asm.R9, rules.AMD64RegsCS, asm.DWord),
		asm.And.Imm(asm.R1, 3),
		asm.JNE.Imm(asm.R1, 0, "copy_kernel_done"), // the user's
	)
	for off := int16(0); off < rules.AMD64Regs; off += 8 {
		g.Add(asm.LoadMem(asm.R1, asm.R9, off, asm.DWord))
		g.store(kcRegs+off, asm.R1)
	}
	g.Add(asm.FnGetCurrentTask.Call(), asm.Mov.Reg(asm.R3, asm.R0),
		asm.Add.Imm(asm.R3, int32(c.TaskStackOffset)))
	g.readKernel(kcTask, 8, "copy_kernel_done")
	c.thisStack(g)
	c.threadStack(g)
	g.Label("copy_kernel_done")
	g.Add(
		asm.LoadMem(asm.R0, asm.R6, kcLen, asm.Word),
		asm.LoadMem(asm.R1, asm.R6, kcTaken, asm.Word),
		asm.Add.Reg(asm.R0, asm.R1),
		asm.Add.Imm(asm.R0, kcData),
		asm.Return(),
	)
	return g.Finish()
}

// thisStack copies the stack that the stack pointer is on, and leaves in R7 how
// much that is.
func (c *KernelCopier) thisStack(g *bpfGen) {
	g.load(asm.R8, kcRegs+amd64RegsSP)
	g.Add(asm.And.Imm(asm.R8, -kernelStep), asm.Mov.Imm(asm.R7, 0))
	g.store(kcAddr, asm.R8)
	for at := int32(0); at < rules.ThreadSize; at += kernelStep {
		g.Add(asm.Mov.Reg(asm.R3, asm.R8), asm.Add.Imm(asm.R3, at))
		g.readKernel(kcData+at, kernelStep, "copy_kernel_this")
		g.Add(
			asm.Mov.Imm(asm.R7, at+kernelStep),
			asm.Mov.Reg(asm.R1, asm.R8),
			asm.Add.Imm(asm.R1, at+kernelStep),
			asm.And.Imm(asm.R1, rules.ThreadSize-1),
			asm.JEq.Imm(asm.R1, 0, "copy_kernel_this"), // the next stack begins
		)
	}
	g.Label("copy_kernel_this")
	g.Add(asm.StoreMem(asm.R6, kcLen, asm.R7, asm.Word))
}

// threadStack copies the thread's own stack behind the R7 bytes of the first, if that is
// another one. It copies all of it: only the walk finds the place where it continues.
func (c *KernelCopier) threadStack(g *bpfGen) {
	g.load(asm.R1, kcRegs+amd64RegsSP)
	g.load(asm.R8, kcTask)
	g.Add(
		asm.Sub.Reg(asm.R1, asm.R8),
		asm.JLT.Imm(asm.R1, rules.ThreadSize, "copy_kernel_done"),
		asm.Add.Reg(asm.R7, asm.R6),
	)
	for at := int32(0); at < rules.ThreadSize; at += pageSize {
		g.Add(
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Add.Imm(asm.R1, kcData+at),
			asm.Mov.Imm(asm.R2, pageSize),
			asm.Mov.Reg(asm.R3, asm.R8),
			asm.Add.Imm(asm.R3, at),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, "copy_kernel_done"),
			asm.Mov.Imm(asm.R1, at+pageSize),
			asm.StoreMem(asm.R6, kcTaken, asm.R1, asm.Word),
		)
	}
}

// CopiedKernel is the kernel stack that the program copied. It implements Memory.
type CopiedKernel struct {
	// Regs are the registers at the event; none is known if it did not hit the
	// kernel's code.
	Regs stack.Regs
	// Stack is the stack that the event hit, from a little below the stack
	// pointer, Thread the thread's own if that is another one. They share the
	// state's bytes.
	Stack, Thread stack.MemoryRange
}

// ReadMemory implements Memory.
func (k *CopiedKernel) ReadMemory(dst []byte, addr uint64) error {
	if k.Stack.ReadMemory(dst, addr) == nil {
		return nil
	}
	return k.Thread.ReadMemory(dst, addr)
}

// Walk walks the copied stacks with w.
func (k *CopiedKernel) Walk(dst []stack.Frame, w *stack.ORCWalker) (int, stack.StopReason) {
	return w.Walk(dst, &k.Regs, k)
}

// Decode reads a state, which may be cut off where the copied bytes end.
func (c *KernelCopier) Decode(state []byte) (k CopiedKernel) {
	k.Regs.Machine = elf.EM_X86_64
	if len(state) < kcData {
		return k
	}
	o := binary.NativeEndian
	if o.Uint64(state[kcRegs+amd64RegsIP:]) == 0 {
		return k
	}
	for i, num := range rules.KernelEntry {
		if num >= 0 {
			k.Regs.Set(num, o.Uint64(state[kcRegs+8*i:]))
		}
	}
	data := state[kcData:]
	n := min(uint64(o.Uint32(state[kcLen:])), uint64(len(data)))
	taken := min(uint64(o.Uint32(state[kcTaken:])), uint64(len(data))-n)
	k.Stack = stack.MemoryRange{Addr: o.Uint64(state[kcAddr:]), Data: data[:n]}
	k.Thread = stack.MemoryRange{Addr: o.Uint64(state[kcTask:]), Data: data[n:][:taken]}
	return k
}
