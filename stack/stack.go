package stack

// FrameSource is the way in which a walker found a frame.
type FrameSource uint8

// The ways a frame is found.
const (
	SourceUnknown     FrameSource = iota
	SourceRegs                    // the thread's own program counter: the leaf
	SourceFP                      // a frame pointer
	SourceCFI                     // call frame information: .eh_frame or .debug_frame
	SourceSFrame                  // .sframe
	SourceORC                     // the kernel's ORC tables
	SourceLBR                     // a last branch record
	SourceGo                      // Go's pclntab frame sizes
	SourceKernel                  // the kernel's own walker: bpf_get_stack, perf call chain
	SourceInterpreter             // an interpreter's own frame (CPython)
	SourceGuess                   // a scan of the stack; may be wrong
)

// StopReason is the reason why a stack has no further frame.
type StopReason uint8

// The reasons. Only StopBottom means that a stack is whole.
const (
	StopUnknown   StopReason = iota // the walker did not report one
	StopBottom                      // the start of the thread or the coroutine was reached
	StopLimit                       // the frame limit was reached; there are more
	StopNoMapping                   // a return address lies in no mapping
	StopNoRule                      // no unwind rule covers an address
	StopBadMemory                   // the memory that holds the next frame could not be read
	StopLoop                        // the next frame is not further up: a corrupted stack
	StopTruncated                   // the captured part of the stack ended
	StopSuspect                     // the frame pointer chain broke off before the thread's start
	StopNone                        // there is no such stack: a kernel thread has no user stack
	StopFault                       // the kernel's helper refused (an address it could not read)
	StopLeftOut                     // a rule that the walker inside BPF leaves out: see package bpfwalk
	StopCompat                      // 32-bit code on a 64-bit kernel, which the walker does not walk
)

// Frame is one frame of a walked stack, innermost first.
type Frame struct {
	// PC is the address as found. It is the interrupted instruction in the leaf and below a
	// signal, else a return address. In an interpreted frame (SourceInterpreter) it is the
	// address of the code object.
	PC uint64
	// Return is set where PC is a return address: its call is the instruction before. See
	// LookupPC.
	Return bool
	// Source is the way in which the frame was found.
	Source FrameSource
	// Entry is set in an interpreted frame for which native code entered the interpreter;
	// the frames inside it were called by interpreted code.
	Entry bool
	// Line is the source line of an interpreted frame, 0 if it is not known; native frames
	// have their addresses.
	Line uint32
}

// LookupPC returns the address to name a frame by: PC itself, or one byte before a return
// address. Without this, a call at the very end of a function (noreturn calls end so) would
// be named after the function that follows.
func (f Frame) LookupPC() uint64 {
	if f.Return && f.PC > 0 {
		return f.PC - 1
	}
	return f.PC
}

// Stack is a walked stack, innermost frame first, with the reason it ends.
type Stack struct {
	Frames  []Frame    // innermost first
	Stopped StopReason // why there are no more
}
