package bpfwalk

import (
	"debug/elf"
	"encoding/binary"
	"math"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// Copier generates the instructions that copy the user's registers and the top of the
// user's stack to a map value, to be sent out and walked in Go. That costs the event a
// third of a walk inside BPF, and the walk in Go follows every rule of CFIWalker, but each
// event takes kilobytes.
//
// The zero value generates for amd64 and Linux 5.15 or later. It is plain data.
type Copier struct {
	// Machine is elf.EM_X86_64 (the meaning of 0) or elf.EM_AARCH64.
	Machine elf.Machine
	// Bytes is the size of the copied part of the stack, a multiple of 4,096; 0 means
	// 16,384, the most is 65,536. Up to one page more is copied, so that copying ends at a
	// page boundary.
	Bytes int
	// TaskStackOffset and Returns are as in Walker. The record has 1 KiB for a thread's
	// return probes, of which the kernel allows 64.
	TaskStackOffset int
	Returns         *ReturnProbes
}

// CopyFunc is the function to call: R1 is the state, a pointer to StateSize
// bytes of map value; R0 is how much of the state is to be sent.
//
//	static long stack_copy(void *state)
const CopyFunc = "stack_copy"

// maxCopy bounds Copier.Bytes.
const maxCopy = 64 << 10

// The state. Copying goes page by page: a read that crosses into a page which
// is not there reads nothing.
const (
	pageSize = 4096
	// redZone is what functions may use below the stack pointer on amd64, and
	// where GCC's epilogues have just taken registers from. Go's functions have
	// their caller's frame pointer there on arm64.
	redZone = 128

	copyAddr = 0                       // uint64: address of the first byte
	copyLen  = 8                       // uint32: bytes copied
	copyWhy  = 12                      // uint32: End of a walk that leaves what was copied
	copyRegs = 16                      // struct pt_regs, or user_pt_regs
	copyRets = copyRegs + arm64RegsLen // uint64 pairs, then zeros: ReturnProbe
	maxRets  = 64                      // MAX_URETPROBE_DEPTH
	copyData = copyRets + 16*maxRets
)

// bytes is Bytes in its range.
func (c *Copier) bytes() int {
	if c.Bytes <= 0 {
		return 16 << 10
	}
	return (min(c.Bytes, maxCopy) + pageSize - 1) &^ (pageSize - 1)
}

// StateSize returns the size of the state in bytes. The state may be at the beginning of a
// map value or at any multiple of 8 in it.
func (c *Copier) StateSize() int { return copyData + c.bytes() + pageSize }

// Instructions returns the function.
func (c *Copier) Instructions() asm.Instructions {
	g := &bpfGen{w: &Walker{Returns: c.Returns}, arm: c.Machine == elf.EM_AARCH64}
	g.Label(CopyFunc)
	g.Add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R6, copyAddr, asm.R1, asm.DWord),
		asm.StoreMem(asm.R6, copyLen, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, int32(stack.StopNone)),
		asm.StoreMem(asm.R6, copyWhy, asm.R1, asm.Word),
	)
	g.readUserRegs(copyRegs, c.TaskStackOffset, "stack_copy_done", "stack_copy_other")
	g.Add(asm.Ja.Label("stack_copy_regs"))
	g.Label("stack_copy_other")
	g.Add(asm.JNE.Imm(asm.R1, g.compatCode(), "stack_copy_done"))
	if g.arm { // there is no walker for the stack
		g.Add(
			asm.Mov.Imm(asm.R1, int32(stack.StopCompat)),
			asm.StoreMem(asm.R6, copyWhy, asm.R1, asm.Word),
			asm.Ja.Label("stack_copy_done"),
		)
	}
	g.Label("stack_copy_regs")
	g.copyReturns()
	if g.arm {
		g.load(asm.R8, copyRegs+31*8)
	} else {
		g.load(asm.R8, copyRegs+amd64RegsSP)
	}
	g.Add(
		asm.Add.Imm(asm.R8, -redZone),
		asm.StoreMem(asm.R6, copyAddr, asm.R8, asm.DWord),
		asm.Mov.Imm(asm.R1, int32(stack.StopBadMemory)),
		asm.StoreMem(asm.R6, copyWhy, asm.R1, asm.Word),

		// R7: what is left of the first page.
		asm.Mov.Reg(asm.R1, asm.R8),
		asm.And.Imm(asm.R1, pageSize-1),
		asm.Mov.Imm(asm.R7, pageSize),
		asm.Sub.Reg(asm.R7, asm.R1),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Add.Imm(asm.R1, copyData),
		asm.Mov.Reg(asm.R2, asm.R7),
		asm.Mov.Reg(asm.R3, asm.R8),
		asm.FnProbeReadUser.Call(),
		asm.JEq.Imm(asm.R0, 0, "stack_copy_first"),
		// The page below the stack pointer's may never have been touched; the
		// helper leaves zeros.
		asm.JGT.Imm(asm.R7, redZone, "stack_copy_done"),
	)
	g.Label("stack_copy_first")
	g.Add(asm.StoreMem(asm.R6, copyLen, asm.R7, asm.Word))
	for at := 0; at < c.bytes(); at += pageSize {
		g.Add(
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Add.Imm(asm.R1, int32(copyData+at)),
			asm.Add.Reg(asm.R1, asm.R7),
			asm.Mov.Imm(asm.R2, pageSize),
			asm.Mov.Reg(asm.R3, asm.R8),
			asm.Add.Imm(asm.R3, int32(at)),
			asm.Add.Reg(asm.R3, asm.R7),
			asm.FnProbeReadUser.Call(),
			asm.JNE.Imm(asm.R0, 0, "stack_copy_done"),
			asm.Mov.Reg(asm.R1, asm.R7),
			asm.Add.Imm(asm.R1, int32(at+pageSize)),
			asm.StoreMem(asm.R6, copyLen, asm.R1, asm.Word),
		)
	}
	g.Add(
		asm.Mov.Imm(asm.R1, int32(stack.StopTruncated)),
		asm.StoreMem(asm.R6, copyWhy, asm.R1, asm.Word),
	)
	g.Label("stack_copy_done")
	g.Add(
		asm.LoadMem(asm.R0, asm.R6, copyLen, asm.Word),
		asm.Add.Imm(asm.R0, copyData),
		asm.Return(),
	)
	return g.Finish()
}

// copyReturns copies the list of return probes that the thread is in.
func (g *bpfGen) copyReturns() {
	const none = "stack_copy_noret"
	g.Add(asm.Mov.Imm(asm.R1, 0))
	g.store(copyRets, asm.R1)
	if g.w.Returns == nil {
		return
	}
	g.firstReturn(copyData, none)
	for at := int16(copyRets); at < copyData; at += 16 {
		g.readReturn(copyData, at, at+8, none)
		if next := at + 16; next < copyData {
			g.Add(asm.Mov.Imm(asm.R1, 0))
			g.store(next, asm.R1)
		}
		g.Add(asm.JEq.Imm(asm.R3, 0, none))
	}
	g.Label(none)
}

// CopiedStack is the user stack that the program copied.
type CopiedStack struct {
	// Regs are the user's registers.
	Regs stack.Regs
	// Memory is the stack, from a little below the stack pointer. It shares the
	// state's bytes.
	Memory stack.MemoryRange
	// Stopped is the reason for the end of a walk that needs memory beyond: StopTruncated
	// if more could have been copied, StopBadMemory if the stack could not be read further,
	// StopCompat if it is of 32-bit code of arm, whose stack is not copied, and StopNone if
	// there is no user stack.
	Stopped stack.StopReason
	// Call is the number of the system call that the thread is in. Elsewhere it has no meaning: on amd64
	// it is negative then, or that of an exception.
	Call int64

	returns [maxRets]stack.ReturnProbe
}

// Returns returns the return probes of the thread, innermost first. The slice is the
// receiver's.
func (s *CopiedStack) Returns() []stack.ReturnProbe {
	i := slices.IndexFunc(s.returns[:], func(p stack.ReturnProbe) bool { return p.Stack == 0 })
	if i < 0 {
		i = maxRets
	}
	return s.returns[:i]
}

// Walk walks the copied stack with w, whose Modules are those of the process
// when it was copied. It sets w's Returns.
func (s *CopiedStack) Walk(dst []stack.Frame, w *stack.CFIWalker) (int, stack.StopReason) {
	if s.Stopped == stack.StopNone {
		return 0, stack.StopNone
	}
	w.Returns = s.Returns()
	n, end := w.Walk(dst, &s.Regs, &s.Memory)
	if end == stack.StopBadMemory {
		end = s.Stopped
	}
	return n, end
}

// Decode reads a state, which may be cut off where the copied bytes end.
func (c *Copier) Decode(state []byte) (s CopiedStack) {
	s.Stopped = stack.StopNone
	if len(state) < copyData {
		return s
	}
	o := binary.NativeEndian
	s.Stopped = stack.StopReason(o.Uint32(state[copyWhy:]))
	if s.Stopped == stack.StopNone {
		return s
	}
	n := min(uint64(o.Uint32(state[copyLen:])), uint64(len(state)-copyData))
	s.Memory = stack.MemoryRange{Addr: o.Uint64(state[copyAddr:]), Data: state[copyData:][:n]}
	for i := range s.returns {
		at := state[copyRets+16*i:]
		s.returns[i] = stack.ReturnProbe{Stack: o.Uint64(at), Addr: o.Uint64(at[8:])}
		if s.returns[i].Stack == 0 {
			break
		}
	}
	word := func(i int) uint64 { return o.Uint64(state[copyRegs+8*i:]) }
	if c.Machine == elf.EM_AARCH64 {
		if s.Stopped == stack.StopCompat {
			s.Regs.Machine, s.Call = elf.EM_ARM, int64(word(7))
			for i := range stack.ARMPC { // r0 … r14; what sp is to 64-bit code is not used
				s.Regs.Set(i, word(i))
			}
			s.Regs.SetPC(word(stack.ARM64PC))
			return s
		}
		s.Regs.Machine, s.Call = elf.EM_AARCH64, int64(word(8))
		for i := range stack.ARM64PC + 1 { // x0 … x30, sp, pc, as in struct user_pt_regs
			s.Regs.Set(i, word(i))
		}
		return s
	}
	s.Regs.Machine = elf.EM_X86_64
	s.Call = int64(word(amd64RegsCall / 8))
	numbers, mask := &rules.KernelEntry, ^uint64(0)
	if uint16(word(rules.AMD64RegsCS/8)) == user32CS {
		s.Regs.Machine = elf.EM_386
		numbers, mask = &rules.KernelEntry386, math.MaxUint32
	}
	for i, num := range numbers {
		if num >= 0 {
			s.Regs.Set(num, word(i)&mask)
		}
	}
	return s
}
