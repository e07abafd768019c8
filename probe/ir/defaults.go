package ir

// DefaultEntries is how many keys a map has room for whose size nobody gave, as
// in bpftrace: making 10,240 takes 4 ms of a program's start. DefaultBuffer is
// the size of a buffer in bytes.
const (
	DefaultEntries = 4096
	DefaultBuffer  = 256 << 10
)

// EachProbe, as the entries of a hash or an aggregation, makes room for as many
// keys as the plan has probes: for what is kept by the builtin probe.
const EachProbe = -1

// DefaultString is the size of text whose size nobody gave, in bytes.
const DefaultString = 64

// DefaultFrames is how many frames a stack has for which nobody gave a number:
// PERF_MAX_STACK_DEPTH, which is the most that the kernel's walker gives.
const DefaultFrames = 127
