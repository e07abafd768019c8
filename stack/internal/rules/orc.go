package rules

// ORCVersion is a layout of the kernel's ORC entries, which changed three times.
type ORCVersion uint8

// The layouts.
const (
	ORCUnknown ORCVersion = iota
	ORC1                  // Linux 4.14 to 6.2: type, end
	ORC2                  // 6.3: type, signal, end
	ORC3                  // 6.4 to 7.0: a wider type with values for end and undefined; signal
	ORC4                  // 7.1 and later: ORC3 with new numbers of registers
)

// ORCReg is the register that an entry's address is relative to.
type ORCReg uint8

// The registers. The numbers are not those of any kernel version.
const (
	ORCUndefined  ORCReg = iota // unknown
	ORCPrevSP                   // the stack pointer before the call
	ORCAX                       // since 7.1
	ORCDX                       //
	ORCDI                       //
	ORCBP                       //
	ORCSP                       //
	ORCR10                      //
	ORCR13                      //
	ORCBPIndirect               // *(bp + offset)
	ORCSPIndirect               // *(sp) + offset
	ORCBadReg                   // none of them
)

// ORCType is the kind of frame that an entry describes.
type ORCType uint8

// The types.
const (
	ORCTypeUndefined   ORCType = iota // the stack can't be walked from here
	ORCTypeEnd                        // the outermost frame
	ORCTypeCall                       // a return address
	ORCTypeRegs                       // all registers, pushed by an entry
	ORCTypeRegsPartial                // the processor's interrupt frame
	ORCBadType                        // none of them
)

// ORC describes how to walk from a stretch of kernel code to its caller.
type ORC struct {
	// SP and SPOffset, in bytes, give the stack pointer before the call. BP and BPOffset give
	// the place where the caller's frame pointer was saved; if BP is ORCUndefined, it is
	// unchanged.
	SPOffset, BPOffset int16
	SP, BP             ORCReg
	// Type is what the stack contains there: a call's frame, or registers.
	Type ORCType
	// Signal is set if the next frame's address is an interrupted instruction, not a return
	// address.
	Signal bool
}
