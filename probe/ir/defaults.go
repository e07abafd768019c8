package ir

// DefaultEntries is the number of keys in a map that declares no size, as in bpftrace: making
// 10,240 takes 4 ms of a program's start. DefaultBuffer is the size in bytes of such a
// buffer.
const (
	DefaultEntries = 4096
	DefaultBuffer  = 256 << 10
)

// EachProbe, as the Entries of a hash or an aggregation, makes room for as many keys as the
// plan has probes. It is for maps with the builtin probe as key.
const EachProbe = -1

// DefaultString is the size in bytes of text that declares no size.
const DefaultString = 64

// DefaultFrames is the number of frames of a stack that declares none: PERF_MAX_STACK_DEPTH,
// which is the limit of the kernel's walker.
const DefaultFrames = 127
