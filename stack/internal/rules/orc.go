package rules

// ORCVersion is a layout of the kernel's ORC entries, which changed three times.
type ORCVersion uint8

// The layouts.
const (
	ORCUnknown ORCVersion = iota
	ORC1                  // Linux 4.14 to 6.2: type, end
	ORC2                  // 6.3: type, signal, end
	ORC3                  // 6.4 to 7.0: a wider type that says end and undefined, signal
	ORC4                  // 7.1 and later: as 3, registers numbered anew
)

// ORCReg is what an entry's address is counted from.
type ORCReg uint8

// The registers, in no kernel version's order.
const (
	ORCUndefined  ORCReg = iota // not known
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

// ORCType is what kind of frame an entry describes.
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

// ORC is how to walk from one stretch of kernel code to its caller.
type ORC struct {
	// SP and SPOffset, in bytes, give the stack pointer before the call, BP and
	// BPOffset where the caller's frame pointer was saved (ORCUndefined: it is
	// unchanged).
	SPOffset, BPOffset int16
	SP, BP             ORCReg
	// Type is what lies there: a call's frame, or registers.
	Type ORCType
	// Signal is set where what comes next is an interrupted instruction, not a
	// return address.
	Signal bool
}
