package collect

import "github.com/borescope/borescope/stack/bpfwalk"

// The layouts that the BPF program and this package share. A test checks the
// offsets against the Go structs.

const (
	// segmentPCs is how many addresses a segment holds: a hash map's key is at
	// most 512 bytes (MAX_BPF_STACK, kernel/bpf/hashtab.c).
	segmentPCs = 63
	// helperFrames is how many frames of a stack the kernel's helper is asked
	// for: two segments. Its own default limit is 127 (perf_event_max_stack).
	helperFrames = 2 * segmentPCs
	// walkerFrames is the same for the walker of package stack: eight segments.
	walkerFrames = 8 * segmentPCs
)

// segment is a part of a stack, and the key that the kernel has it under. The program looks
// stacks up by their addresses, so two stacks never share an id, whatever their hashes: the
// map compares whole keys.
type segment struct {
	// Parent is the id of the segment that holds the frames further in, 0 for
	// the innermost.
	Parent uint64
	// PCs are the addresses, innermost first, zero behind the last.
	PCs [segmentPCs]uint64
}

// stackID names a stack: the id of its outermost segment, or, as a negative
// number, the errno with which the kernel refused to walk; 0 is a stack that
// was not asked for or is empty.
type stackID int64

// taskKey identifies what is counted: a process or thread, and its stacks.
type taskKey struct {
	Kernel stackID
	User   stackID
	// PID is the process (thread group), TID the thread, 0 unless asked for.
	PID uint32
	TID uint32
	// Comm is the thread's name, NUL-padded.
	Comm [16]byte
	// Start is when the process started, in nanoseconds of CLOCK_BOOTTIME, and Exec counts the
	// programs that it and its ancestors executed; 0 if the kernel's types do not say where they are.
	Start uint64
	Exec  uint32
	// Epoch is raised when the process maps something in the place of something else, and goes on with the
	// time for a while then (epoch).
	Epoch uint32
	// Program is the index of the plan's program that took the sample.
	Program uint32
	// UserEnd is userWalked plus the stack.StopReason of a user stack that package
	// stack's walker walked, whose frames are in its form
	// (stack.DecodeBPFFrame); 0 where the kernel's helper did.
	UserEnd uint32
}

// waitKey is the key of what is added up where there is more than a number of events: a
// sleeper and its waker, each with the parts that the collector's kind has, or an event's
// task alone.
type waitKey struct{ Task, Waker taskKey }

// Total is what is added up for a Sample: the number of events or waits, and the sum of
// their values. The kernel adds to first one and then the other.
type Total struct {
	Count uint64 // events, or waits
	Sum   int64  // of what Options.Value names, or nanoseconds
}

// counted is a value of mapCounts: how often the key was counted, and when for the first and the last
// time, in nanoseconds of CLOCK_MONOTONIC. CPUs may write the times out of order, by less than the time
// that a sample takes.
type counted struct{ Count, First, Last uint64 }

// summed is a value of mapTotals: a Total with the times. The first is when a wait began.
type summed struct {
	Count       uint64
	Sum         int64
	First, Last uint64
}

const (
	keyKernel  = 0
	keyUser    = 8
	keyPID     = 16
	keyTID     = 20
	keyComm    = 24
	keyStart   = 40
	keyExec    = 48
	keyEpoch   = 52
	keyProgram = 56
	keyUserEnd = 60
	keySize    = 64

	// PID, TID, Comm, Start and Exec are together the key of mapSeen.
	seenSize = keyEpoch - keyPID

	segmentSize = 8 + 8*segmentPCs

	// The values of the tables are numbers to add up, and then two times.
	countWords = 1
	totalWords = 2
	timesSize  = 16

	// What is known of a thread that is off its CPU: since when, a waitKey, and what became of a copy of
	// its user stack.
	waitStart = 0
	waitTask  = 8
	waitWaker = waitTask + keySize
	waitCopy  = waitWaker + keySize
	waitSize  = waitCopy + 8

	// A scratch slot: the counter by which it is claimed, the last id that it returned, what
	// bounds copies (the first slot's), the wait being built, whose first key an event's is,
	// zeros, then the state of package stack's walker, which ends with the stack's addresses.
	// The helper's stack is at the same place.
	scratchClaims = 0
	scratchLastID = 8
	scratchSlice  = 16 // of time in which the CPU's last copy was made
	scratchCopies = 24 // and how many were in it
	scratchWait   = 32
	scratchKey    = scratchWait + waitTask
	scratchWaker  = scratchWait + waitWaker
	scratchZeros  = scratchWait + waitSize
	scratchState  = scratchZeros + 8*segmentPCs
	// scratchSlots bounds how deep one CPU's samples may nest: task, soft
	// interrupt, interrupt, NMI.
	scratchSlots = 4
)

// userWalked is the bit of taskKey.UserEnd that is always set with the walker.
const userWalked = 1 << 8

// walker is the walker of user stacks, as it is built into programs.
var walker = bpfwalk.Walker{Machine: machine, MaxFrames: walkerFrames}

var (
	scratchPCs = int32(scratchState + walker.PCsOffset())
	// Room to clear a segment's worth behind the last frame.
	scratchSize = uint32(scratchState + walker.StateSize() + 8*segmentPCs)
)

// The slots of the counters' per-CPU array.
const (
	counterSamples   = iota // samples that passed the filters
	counterFull             // lost: no room for another key
	counterNested           // lost: all scratch slots of a CPU in use
	counterSegments         // stacks cut short: no room for another segment
	counterRing             // first sights of a process that were not sent
	counterWaits            // lost: no room for another thread that is off its CPU
	counterUnwoken          // waits whose waker was not seen
	counterUnended          // waits whose end was not seen
	counterGaps             // places where switches of traced threads are missing
	counterUnwalked         // samples whose stacks had no rules yet, to be copied
	counterCopyFull         // of those, not copied: no room in the ring
	counterCopyLimit        // and too many in a time
	counterCopied           // samples whose stacks were walked in Go: this package's count
	numCounters
)
