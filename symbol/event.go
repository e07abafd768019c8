package symbol

import "github.com/borescope/borescope/internal/procfs"

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
	// happened before a process's mappings were read only tells since when they have been there.
	// Of EventLost it is since when events may be missing.
	Time uint64

	// EventMmap: the mapping.
	Addr   uint64
	Len    uint64 // bytes
	Offset uint64 // into the file, bytes
	Dev    uint64 // major<<32 | minor, 0 if unknown
	Inode  uint64 // 0 if unknown, or not a file
	Path   string // in the process's root; "" or "//anon" for memory
}

// mapped returns the mapping of an event.
func (ev *Event) mapped() procfs.Mapping {
	m := procfs.Mapping{
		Start: ev.Addr, End: ev.Addr + ev.Len, Offset: ev.Offset, Dev: ev.Dev, Inode: ev.Inode,
		Path: ev.Path, Perm: procfs.Read | procfs.Exec,
	}
	if m.Path == "//anon" {
		m.Path = "" // as /proc has it
	}
	return m
}
