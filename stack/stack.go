package stack

// How says how a walker found a frame.
type How uint8

// The ways a frame is found.
const (
	HowUnknown     How = iota
	HowRegs            // the thread's own program counter: the leaf
	HowFP              // a frame pointer
	HowCFI             // call frame information: .eh_frame or .debug_frame
	HowSFrame          // .sframe
	HowORC             // the kernel's ORC tables
	HowLBR             // a last branch record
	HowGo              // Go's pclntab frame sizes
	HowKernel          // the kernel's own walker: bpf_get_stack, perf call chain
	HowInterpreter     // an interpreter's own frame (CPython)
	HowGuess           // a scan of the stack; may be wrong
)

// End says why a stack has no further frame.
type End uint8

// The reasons. Only EndBottom is a whole stack.
const (
	EndUnknown   End = iota // the walker did not say
	EndBottom               // the thread's start was reached
	EndLimit                // the frame limit was reached; there are more
	EndNoMapping            // a return address lies in no mapping
	EndNoRule               // no unwind rule covers an address
	EndBadMemory            // the memory that holds the next frame could not be read
	EndLoop                 // the next frame is not further up: a corrupted stack
	EndTruncated            // the captured part of the stack ended
	EndSuspect              // the frame pointer chain broke off before the thread's start
	EndNone                 // there is no such stack: a kernel thread has no user stack
	EndFault                // the kernel's helper refused (an address it could not read)
)

// Frame is one frame of a walked stack, innermost first.
type Frame struct {
	// PC is the address as found: the interrupted instruction in the leaf and
	// below a signal, else a return address. Of an interpreted frame
	// (HowInterpreter) it is the address of the code object.
	PC uint64
	// Return is set where PC is a return address: the call it belongs to is
	// the instruction before. See LookupPC.
	Return bool
	// How says how the frame was found.
	How How
	// Entry is set in an interpreted frame that native code entered the
	// interpreter for; those inside it were called by interpreted code.
	Entry bool
	// Line is the source line that an interpreted frame is at, 0 if it is not
	// known; native frames have their addresses.
	Line uint32
}

// LookupPC is the address to name a frame by: PC itself, or one byte before a
// return address, so that a call at the very end of a function is not named
// after the function that follows (noreturn calls end so).
func (f Frame) LookupPC() uint64 {
	if f.Return && f.PC > 0 {
		return f.PC - 1
	}
	return f.PC
}

// Stack is a walked stack, innermost frame first, with the reason it ends.
type Stack struct {
	Frames []Frame // innermost first
	End    End     // why there are no more
}
