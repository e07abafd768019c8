package symbol

// EventKind is what happened to a process.
type EventKind uint8

// The kinds of Event.
const (
	// EventFork: PID is new and has Parent's mappings.
	EventFork EventKind = iota + 1
	// EventExec: PID runs another program now; all earlier mappings are gone.
	EventExec
	// EventMmap: PID mapped a file or memory executable.
	EventMmap
	// EventExit: PID ended.
	EventExit
)

// Event is a step in the life of a process, as a source of them (perf's mmap,
// comm and exit records; tracepoints of package probe) tells it. With events a
// Processes knows at once what it would find out by reading /proc again, and
// processes are named that are too short-lived for that. It is plain data.
type Event struct {
	Kind   EventKind // says which of the other fields count
	PID    int       // the process (thread group), as /proc numbers it
	Parent int       // EventFork
	Comm   string    // EventExec, if known

	// EventMmap: the mapping.
	Addr   uint64
	Len    uint64 // bytes
	Offset uint64 // into the file, bytes
	Dev    uint64 // major<<32 | minor, 0 if not known
	Inode  uint64 // 0 if not known, or not a file
	Path   string // as the process's root sees it; "" or "//anon" for memory
}
