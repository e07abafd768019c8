package symbol

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of Event.
const (
	// EventFork is the start of PID, which has Parent's mappings.
	EventFork EventKind = iota + 1
	// EventExec is PID's start of another program; all earlier mappings are gone.
	EventExec
	// EventMmap is PID's executable mapping of a file or of memory.
	EventMmap
	// EventExit is the end of PID.
	EventExit
	// EventLost says that events were lost, of whichever processes.
	EventLost
)

// Event is a step in the life of a process, as reported by perf's mmap, comm and exit records
// or by tracepoints of package probe. With events a Processes learns at once what it would
// otherwise find only when it reads /proc again, and it can name processes that are too
// short-lived for that. It is plain data.
type Event struct {
	Kind   EventKind // selects which of the other fields are used
	PID    int       // the process (thread group), as /proc numbers it
	Parent int       // EventFork
	Comm   string    // EventExec, if known
	// Time is when it happened, in nanoseconds of CLOCK_MONOTONIC; 0 if that is not known. What
	// happened before a process's mappings were read changes nothing.
	Time uint64

	// EventMmap: the mapping.
	Addr   uint64
	Len    uint64 // bytes
	Offset uint64 // into the file, bytes
	Dev    uint64 // major<<32 | minor, 0 if unknown
	Inode  uint64 // 0 if unknown, or not a file
	Path   string // in the process's root; "" or "//anon" for memory
}
