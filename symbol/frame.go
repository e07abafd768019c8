package symbol

// Frame is the name of one address, or of one of the functions that were inlined there. It
// is plain data; its strings stay valid for as long as the caller holds them.
type Frame struct {
	// Index is the position of the address in the slice given to Resolve. Every address yields
	// at least one frame; the frames of one address are consecutive, innermost (most deeply
	// inlined) first.
	Index int
	// Inlined is set on every frame of an address except the last: the function has no call
	// frame and is part of the following frame.
	Inlined bool

	// Name is the function's name, demangled unless the resolver leaves names mangled; empty if
	// there is none, and then Reason is set.
	Name string
	// Offset is the distance of the address from the function's start, in
	// bytes; of an inlined frame it is that of the enclosing function.
	Offset uint64
	// Size is the function's size in bytes, 0 if not known.
	Size uint64

	// Module is the module that contains the address: a file's path in the target's root,
	// "[kernel]", a kernel module as "[ext4]", "[vdso]", "[bpf]", or empty.
	Module string
	// ModuleOffset is the address relative to its module: the virtual address
	// in an ELF file's own numbering. It lets an unnamed frame be looked up later.
	ModuleOffset uint64
	// BuildID is the module's GNU build-id in lower-case hex, if known.
	BuildID string

	// File, Line and Column are the source position; Line is 0 if not known.
	File   string
	Line   int
	Column int

	// Kind is the kind of code.
	Kind Kind
	// Confidence is how certain the name is.
	Confidence Confidence
	// Reason is the reason why Name is empty; ReasonNone otherwise.
	Reason Reason
	// NoLine is the reason why Line is 0, also of a frame with a name. It is ReasonNone if Line
	// is known, if source positions were not asked for (ELFOptions.Source), and for what is no
	// code of an ELF file: data, the kernel's functions, code that was generated.
	NoLine Reason
}

// Kind is the kind of code at an address.
type Kind uint8

// The kinds.
const (
	KindUnknown Kind = iota
	KindUser         // an ELF file's function
	KindKernel       // the kernel's, or a kernel module's
	KindBPF          // a BPF program or trampoline
	KindJIT          // generated at run time, named by a perf map or jitdump
	KindGo           // a Go function, named by pclntab
	KindPLT          // a procedure linkage table entry
	KindData         // an object, not a function
	KindVDSO         // the kernel's code mapped into a process
)

// Confidence is how certain a name is.
type Confidence uint8

// The levels, from none to certain.
const (
	ConfidenceNone   Confidence = iota
	_                           // unused: recordings contain the numbers
	ConfidenceNoSize            // inside a symbol that states no size
	ConfidenceExact             // inside the symbol's stated bounds
)

// Reason is the reason why an address has no name, or no source position.
type Reason uint8

// The reasons.
const (
	ReasonNone        Reason = iota
	ReasonNoMapping          // the address is in no mapping of the process
	ReasonNoSymbols          // the file has no symbols
	ReasonNoSymbol           // the file has symbols, none covers the address
	ReasonNoFile             // the mapped file is gone or cannot be read
	ReasonBadFile            // the mapped file is malformed
	ReasonAnonymous          // anonymous executable memory without a perf map
	ReasonExited             // the process ended before it was seen
	ReasonHidden             // kernel addresses are hidden: kptr_restrict
	ReasonNoKallsyms         // /proc/kallsyms cannot be read
	ReasonBudget             // reading it would exceed the process's part of a budget: Options.Budget
	ReasonTruncated          // no address: the stack ended early
	ReasonServed             // a process may serve the file (Options.Served), or who serves it does not answer
	ReasonNoDebug            // neither the file nor a debug file of it has debug information
	ReasonNoDebugFile        // the file's debug information is in another one, which was not found
	ReasonNoLine             // the debug information has no line for the address
	ReasonTooLarge           // the debug information exceeds what a file of its size may take
	ReasonBadDebug           // the debug information is malformed
	ReasonChanged            // the process mapped something else there in the time of the samples, or may have: State
)

// Resolver names addresses.
//
// Resolve appends the frames of every address of pcs to dst and returns it. It looks
// addresses up exactly as given: for return addresses, callers must subtract one first (as
// stack.Frame.LookupPC does). An address that cannot be named yields one frame with a
// Reason.
type Resolver interface {
	Resolve(dst []Frame, pcs []uint64) []Frame
}
