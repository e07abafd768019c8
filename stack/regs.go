package stack

import "debug/elf"

// Register numbers of the DWARF register mapping of each architecture's
// psABI: System V AMD64 ABI, figure 3.36, Intel386 ABI, table 2.14, DWARF for
// the Arm 64-bit Architecture (AADWARF64), section 4.1, and for the Arm
// Architecture (AADWARF32), section 3.1.
const (
	AMD64RAX = 0
	AMD64RDX = 1
	AMD64RCX = 2
	AMD64RBX = 3
	AMD64RSI = 4
	AMD64RDI = 5
	AMD64RBP = 6
	AMD64RSP = 7
	AMD64R8  = 8
	AMD64R9  = 9
	AMD64R10 = 10
	AMD64R11 = 11
	AMD64R12 = 12
	AMD64R13 = 13
	AMD64R14 = 14
	AMD64R15 = 15
	AMD64RIP = 16

	I386EAX = 0
	I386ECX = 1
	I386EDX = 2
	I386EBX = 3
	I386ESP = 4
	I386EBP = 5
	I386ESI = 6
	I386EDI = 7
	I386EIP = 8

	ARM64FP = 29 // x0 … x28 are 0 … 28
	ARM64LR = 30
	ARM64SP = 31
	ARM64PC = 32

	ARMFP = 11 // r0 … r12 are 0 … 12
	ARMSP = 13
	ARMLR = 14
	ARMPC = 15
)

// numRegs holds the general registers, the stack pointer and the program
// counter of all architectures.
const numRegs = 33

// Regs is the register state of one thread at one moment, by DWARF number, as call frame
// information, USDT operands and core files use it. In the zero value no register is known.
// Regs is a plain value; copying it copies the state.
type Regs struct {
	// Machine selects the numbering of R: elf.EM_X86_64 or elf.EM_AARCH64, and for 32-bit code
	// that runs on a 64-bit kernel elf.EM_386 or elf.EM_ARM. Stacks of the last have no walker.
	Machine elf.Machine
	// R holds the registers by DWARF number.
	R [numRegs]uint64
	// Have has bit n set where R[n] is known. A frame unwound by frame pointer has three
	// known registers, a sample taken by the kernel has all of them.
	Have uint64
	// TLS is the thread pointer (FS base on amd64, TPIDR_EL0 on arm64), 0 if
	// not known.
	TLS uint64
}

// Reg returns register n (DWARF number) and whether it is known.
func (r *Regs) Reg(n int) (uint64, bool) {
	if n < 0 || n >= numRegs || r.Have&(1<<n) == 0 {
		return 0, false
	}
	return r.R[n], true
}

// Set makes register n known. It ignores numbers that Regs does not hold.
func (r *Regs) Set(n int, v uint64) {
	if n >= 0 && n < numRegs {
		r.R[n] = v
		r.Have |= 1 << n
	}
}

// PC returns the program counter, 0 if it is not known.
func (r *Regs) PC() uint64 { return r.R[r.pcNum()] }

// SP returns the stack pointer, 0 if it is not known.
func (r *Regs) SP() uint64 { return r.R[r.spNum()] }

// FP returns the frame pointer register (rbp, ebp, x29, r11), 0 if it is not known.
func (r *Regs) FP() uint64 { return r.R[r.fpNum()] }

// SetPC sets the program counter.
func (r *Regs) SetPC(v uint64) { r.Set(r.pcNum(), v) }

// SetSP sets the stack pointer.
func (r *Regs) SetSP(v uint64) { r.Set(r.spNum(), v) }

// SetFP sets the frame pointer register.
func (r *Regs) SetFP(v uint64) { r.Set(r.fpNum(), v) }

// wordSize returns the size of a machine's addresses, in bytes.
func wordSize(m elf.Machine) uint64 {
	if m == elf.EM_386 || m == elf.EM_ARM {
		return 4
	}
	return 8
}

func (r *Regs) pcNum() int {
	switch r.Machine {
	case elf.EM_AARCH64:
		return ARM64PC
	case elf.EM_386:
		return I386EIP
	case elf.EM_ARM:
		return ARMPC
	}
	return AMD64RIP
}

func (r *Regs) spNum() int {
	switch r.Machine {
	case elf.EM_AARCH64:
		return ARM64SP
	case elf.EM_386:
		return I386ESP
	case elf.EM_ARM:
		return ARMSP
	}
	return AMD64RSP
}

func (r *Regs) fpNum() int {
	switch r.Machine {
	case elf.EM_AARCH64:
		return ARM64FP
	case elf.EM_386:
		return I386EBP
	case elf.EM_ARM:
		return ARMFP
	}
	return AMD64RBP
}
