package stack

import (
	"debug/elf"
	"encoding/binary"

	"github.com/borescope/borescope/stack/internal/rules"
)

// MaxFrames is the frame limit of the kernel's own walkers, unless
// /proc/sys/kernel/perf_event_max_stack was changed. It is a good size for the slice that
// is given to a walker.
const MaxFrames = 127

// FPWalker walks a stack by its chain of frame pointers (rbp, x29). It ends with
//
//   - StopBottom where the chain ends with a zero frame pointer or return
//     address, as the ABIs and the C runtimes lay it out;
//   - StopLimit where dst is full;
//   - StopBadMemory where a frame pointer points to memory that can't be read;
//   - StopLoop where a frame pointer does not point further up the stack;
//   - StopSuspect where it is not aligned, or a return address is not code;
//   - StopCompat where the registers are of 32-bit code of arm;
//   - StopNone where the program counter is not known.
//
// Code built without frame pointers keeps other values in the register: the chain is then
// cut short or wrong, and only StopBottom can be trusted. A function that has no frame of
// its own, or has none yet or no longer (at its first and last instructions, and arm64's
// leaf functions), hides its caller.
//
// The zero value is ready for use.
type FPWalker struct {
	// PACMask has the bits set that pointer authentication may use in a return address
	// (insn_mask of NT_ARM_PAC_MASK). It is used on arm64 only. 0 means bits 48 to 54 and
	// 56 to 63, which is right for address spaces of up to 48 bits.
	PACMask uint64
	// Executable reports whether an address can hold code; nil accepts any.
	Executable func(addr uint64) bool

	buf [16]byte
}

// Walk implements Walker.
func (w *FPWalker) Walk(dst []Frame, r *Regs, mem Memory) (int, StopReason) {
	// This repeats the loop of walk: through an interface a frame costs half as much again.
	n, end := begin(dst, r)
	if end != StopUnknown {
		return n, end
	}
	fp, sp := r.FP(), r.SP()
	record := 2 * wordSize(r.Machine)
	for {
		ret, next, end := w.step(r.Machine, mem, fp, sp)
		switch {
		case end != StopUnknown:
			return n, end
		case n == len(dst):
			return n, StopLimit
		}
		dst[n] = Frame{PC: ret, Return: true, Source: SourceFP}
		n++
		fp, sp = next, fp+record
	}
}

// step reads the frame record at fp, which must not lie below sp: the caller's
// frame pointer and the return address. It ends with StopUnknown if there is a
// caller.
func (w *FPWalker) step(machine elf.Machine, mem Memory, fp, sp uint64) (ret, next uint64,
	end StopReason,
) {
	switch {
	case fp == 0:
		return 0, 0, StopBottom
	case machine == elf.EM_386:
		return w.step32(mem, fp, sp)
	case fp&7 != 0 || fp > ^uint64(0)-16:
		return 0, 0, StopSuspect
	case fp < sp && (machine != elf.EM_AARCH64 || fp+8 < sp): // Go on arm64 keeps it one word below sp
		return 0, 0, StopLoop
	}
	if mem.ReadMemory(w.buf[:], fp) != nil {
		return 0, 0, StopBadMemory
	}
	next = binary.LittleEndian.Uint64(w.buf[:8])
	ret = binary.LittleEndian.Uint64(w.buf[8:])
	if machine == elf.EM_AARCH64 {
		ret = stripPAC(ret, w.PACMask)
	}
	switch {
	case ret == 0:
		return 0, 0, StopBottom
	case w.Executable != nil && !w.Executable(ret):
		return 0, 0, StopSuspect
	}
	return ret, next, StopUnknown
}

// step32 is step for i386.
func (w *FPWalker) step32(mem Memory, fp, sp uint64) (ret, next uint64, end StopReason) {
	switch {
	case fp&3 != 0:
		return 0, 0, StopSuspect
	case fp < sp:
		return 0, 0, StopLoop
	}
	if mem.ReadMemory(w.buf[:8], fp) != nil {
		return 0, 0, StopBadMemory
	}
	next = uint64(binary.LittleEndian.Uint32(w.buf[:]))
	ret = uint64(binary.LittleEndian.Uint32(w.buf[4:]))
	switch {
	case ret == 0:
		return 0, 0, StopBottom
	case w.Executable != nil && !w.Executable(ret):
		return 0, 0, StopSuspect
	}
	return ret, next, StopUnknown
}

// stripPAC removes arm64's pointer authentication code from a return address. mask is as in
// FPWalker.
func stripPAC(addr, mask uint64) uint64 {
	if mask == 0 {
		mask = rules.DefaultPACMask
	}
	if addr&(1<<55) != 0 {
		return addr | mask
	}
	return addr &^ mask
}
