package symbol

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
)

// Options are the options for naming processes. The zero value, or nil, is the default.
type Options struct {
	// Root is the host tree: proc/PID/maps and the mapped files. Nil means this machine,
	// which needs Linux.
	Root fs.FS
	// Budget is the most memory, in bytes, for symbol tables and names; 0 means 32 MiB. The
	// tables that were not used for the longest time are dropped, and read again when
	// needed. A file has no names (ReasonBudget) if its symbol table, at 16 bytes for each
	// symbol, would exceed Budget, or if one of its sections would exceed it when
	// decompressed (with Source: 16 times Budget). This bound of a single file is at least
	// 1 MiB.
	//
	// The work is bounded too, whatever processes map: all tables together may have 512 MiB
	// of symbols, and 10 MiB more for each second since the first one was read, which is a
	// tenth of a processor's time. Untrusted files share less: see Chosen.
	Budget int64
	// Chosen is set if the user has chosen the processes, so that all of their files are
	// read alike. Otherwise a file is trusted only if it belongs to root, to this process's
	// user or to the logged in user, and is mapped in this mount namespace. Each owner of
	// other files has a bound: the first file is read, and more only while they have at
	// most 2 MiB of symbols together, and 256 KiB more for each second. Until then,
	// addresses in the rest have no names: ReasonBudget. A user is one owner in all the
	// user namespaces that this user made; a container of root's is one owner.
	Chosen bool
	// Served also reads mapped files that another user's process may serve (FUSE, an overlay in
	// a container of that user's). It may answer late, or differently each time, so without
	// Served their addresses have no names: ReasonServed. All files of one such file system,
	// or of a network's, are waited for a few seconds at most.
	Served bool
	// MaxFiles is the most files that are held open, or mapped, at a time; 0 means 1024, or
	// half of what the process may open.
	MaxFiles int
	// MaxProcesses is the most processes that are kept; beyond it, the one that was not used
	// for the longest time is dropped. 0 means 16384.
	MaxProcesses int
	// Data keeps mappings that are not executable too, so that the addresses of
	// variables are named.
	Data bool
	// Source also reads DWARF, of files or of their separate debug files, for
	// file, line, column and inlined calls. Go programs need no option for that.
	Source bool
	// NoInline leaves inlined calls out: one frame for each address.
	NoInline bool
	// DebugDirs are the directories with separate debug files, searched in the process's root
	// and then in this machine's, with the layouts that ELFOptions.DebugDirs describes. Nil
	// means /usr/lib/debug; an empty, non-nil list disables the search.
	DebugDirs []string
	// RawNames leaves C++ and Rust names mangled.
	RawNames bool
	// Demangle are the options for demangled names; RawNames disables them.
	Demangle DemangleOptions
}

// Processes names the addresses of user processes. It reads a process's mappings when it is
// first asked for the process or given an event of it. It shares each mapped file among all
// processes that map it (by device and inode, then by build-id). It keeps both after the
// process ended, so that addresses sampled while it ran can be named later. Tables are made
// when the first address of a file is named.
//
// It is safe for concurrent use. It holds mapped files; Close frees them.
type Processes struct {
	opts Options
	root fs.FS
	live bool
	// now is the clock that limits how often mappings are read again.
	now func() time.Time

	names *names

	mu     sync.Mutex // guards the fields below, and every Process and image
	byPID  map[int]*Process
	gone   map[procKey]*Process // earlier owners of a pid
	images map[imageKey]*image
	byID   map[string]*ELF
	nextID uint32
	held   list.List // of *image: those with an open file or an ELF, used longest ago first
	tick   uint64
	closed bool
	work   stranger.Share // bytes of symbols
	grown  atomic.Bool    // memory was added since the budget was last checked
}

// tableRoom returns the memory that a symbol table may take, room the memory that a file's
// sections may take when decompressed, in bytes.
func (o *Options) tableRoom() int64 { return max(o.Budget, 1<<20) }

func (o *Options) room() int64 {
	if o.Source {
		return 16 * o.tableRoom()
	}
	return o.tableRoom()
}

// tableWork is the number of bytes of symbols that may be read of all files at once.
const tableWork = 512 << 20

var errTooMuchWork = errors.New("reading symbols has taken its share of the time")

// startTable accounts for the work of reading a table of that size in a file of
// that owner. The caller holds mu.
func (ps *Processes) startTable(o stranger.Owner, size int64) error {
	if !ps.work.Take(o, size, tableWork, ps.now()) {
		return errTooMuchWork
	}
	return nil
}

// owner returns the owner of a file that a process maps. The caller holds mu.
func (ps *Processes) owner(pid int, st fs.FileInfo) stranger.Owner {
	if !ps.live || ps.opts.Chosen {
		return stranger.Owner{}
	}
	return ps.work.Owner(pid, st)
}

type procKey struct {
	pid   int
	start uint64
}

// NewProcesses returns an empty cache; opts may be nil. The caller must close it.
func NewProcesses(opts *Options) *Processes {
	if opts == nil {
		opts = &Options{}
	}
	ps := &Processes{
		opts: *opts, root: procfs.Root(opts.Root), live: opts.Root == nil, now: time.Now,
		byPID: map[int]*Process{}, gone: map[procKey]*Process{},
		images: map[imageKey]*image{}, byID: map[string]*ELF{},
	}
	if ps.opts.Budget <= 0 {
		ps.opts.Budget = 32 << 20
	}
	if ps.opts.MaxFiles <= 0 {
		ps.opts.MaxFiles = defaultMaxFiles()
	}
	if ps.opts.MaxProcesses <= 0 {
		ps.opts.MaxProcesses = 16384
	}
	var d *Demangler
	if !opts.RawNames {
		d = NewDemangler(&opts.Demangle)
	}
	ps.names = newNames(d, min(ps.opts.Budget/4, 8<<20))
	return ps
}

// Close frees all resources. The Process values that it returned name nothing afterwards. It
// may be called more than once.
func (ps *Processes) Close() error {
	if ps == nil {
		return nil
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.closed = true
	for _, img := range ps.images {
		ps.release(img)
	}
	clear(ps.images)
	clear(ps.byPID)
	clear(ps.gone)
	return nil
}

// procPath returns proc/PID/name.
func procPath(pid int, name string) string { return "proc/" + strconv.Itoa(pid) + "/" + name }

// refreshAfter is the age at which a living process's mappings are read again for a lookup of
// the process. missGap is the age at which they are read again for an address that they do not
// contain.
const (
	refreshAfter = time.Second
	missGap      = 50 * time.Millisecond
)

// Observe reads the mappings of a process and opens the files that no other process had
// mapped before, so that its addresses can be named after it ended. It costs some 50 µs,
// and nothing if the mappings were read within the last 50 ms. Older mappings are read
// again, because the process may have run another program, or may have been seen in the
// middle of an exec. The error reports that the process is gone or may not be read.
func (ps *Processes) Observe(pid int) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	_, err := ps.process(pid, missGap)
	return err
}

// Process returns the process that has the pid now, or the last one that had it. The error
// wraps fs.ErrNotExist if no process has it and none that had it was seen.
func (ps *Processes) Process(pid int) (*Process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.process(pid, refreshAfter)
}

// process is Process with mappings that were read less than newer ago.
func (ps *Processes) process(pid int, newer time.Duration) (*Process, error) {
	if ps.closed {
		return nil, fs.ErrClosed
	}
	p := ps.byPID[pid]
	if p != nil && (p.exited || ps.now().Sub(p.read) < newer) {
		ps.tick++
		p.used = ps.tick
		if !p.exited {
			return p, nil
		}
		// Another process may have the number by now.
	}
	st, err := procfs.ReadStat(ps.root, pid)
	if err != nil {
		if p != nil {
			p.exited = true
			return p, nil
		}
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	if p != nil && p.start != st.StartTime {
		p.exited = true
		ps.gone[procKey{pid, p.start}] = p
		p = nil
	}
	if p == nil {
		p = &Process{ps: ps, pid: pid, start: st.StartTime, user: anybody}
		ps.byPID[pid] = p
		ps.limitProcesses(p)
		ps.grown.Store(true)
	}
	p.comm = st.Comm
	p.exited = p.exited || st.State == 'Z'
	ps.tick++
	p.used = ps.tick
	if err := p.refresh(); err != nil && len(p.maps) == 0 {
		return p, fmt.Errorf("process %d: %w", pid, err)
	}
	return p, nil
}

// ProcessAt returns the process that had the pid and the start time (in clock ticks after
// boot: /proc/PID/stat, field 22), whether it still runs or not; a start of 0 matches any.
// The error wraps fs.ErrNotExist if it was not seen.
func (ps *Processes) ProcessAt(pid int, start uint64) (*Process, error) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, err := ps.process(pid, refreshAfter)
	if start == 0 || err == nil && p.start == start {
		return p, err
	}
	if p := ps.gone[procKey{pid, start}]; p != nil {
		return p, nil
	}
	return nil, notexist.Errorf("process %d, started at %d, was not seen", pid, start)
}

// limitProcesses makes room for one more process.
func (ps *Processes) limitProcesses(keep *Process) {
	for len(ps.byPID)+len(ps.gone) > ps.opts.MaxProcesses {
		var oldest *Process
		for _, p := range ps.gone {
			if oldest == nil || p.used < oldest.used {
				oldest = p
			}
		}
		if oldest == nil {
			for _, p := range ps.byPID {
				if p != keep && (oldest == nil || p.used < oldest.used) {
					oldest = p
				}
			}
		}
		if oldest == nil {
			return
		}
		delete(ps.gone, procKey{oldest.pid, oldest.start})
		if ps.byPID[oldest.pid] == oldest {
			delete(ps.byPID, oldest.pid)
		}
		oldest.forget()
	}
}

// Handle applies an event. Processes that were neither observed nor looked up before are
// observed on their fork, exec and mmap events.
func (ps *Processes) Handle(ev *Event) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed {
		return
	}
	p := ps.byPID[ev.PID]
	switch ev.Kind {
	case EventExit:
		if p != nil {
			p.exited = true
		}
		return
	case EventFork:
		ps.fork(ev)
		return
	}
	if p == nil || p.exited {
		var err error
		if p, err = ps.process(ev.PID, refreshAfter); err != nil && p == nil {
			if !errors.Is(err, fs.ErrNotExist) {
				return
			}
			// The process has ended already: only the events describe it.
			p = &Process{ps: ps, pid: ev.PID, exited: true, user: anybody}
			ps.byPID[ev.PID] = p
			ps.limitProcesses(p)
		}
	}
	switch ev.Kind {
	case EventExec:
		p.exec(ev.Comm)
	case EventMmap:
		p.mmap(ev)
	}
}

// fork adds a new process with its parent's mappings.
func (ps *Processes) fork(ev *Event) {
	parent := ps.byPID[ev.Parent]
	if p, err := ps.process(ev.PID, refreshAfter); err == nil && len(p.maps) > 0 || parent == nil {
		return
	}
	p := ps.byPID[ev.PID]
	if p == nil {
		p = &Process{ps: ps, pid: ev.PID, exited: true, user: anybody}
		ps.byPID[ev.PID] = p
		ps.limitProcesses(p)
	}
	p.comm, p.maps = parent.comm, parent.maps
}

// Stats are the current sizes of a Processes.
type Stats struct {
	Processes int   // processes kept
	Files     int   // distinct mapped files
	Open      int   // files held open or mapped
	Bytes     int64 // bytes of memory of tables, mappings and names
}

// Stats returns the current sizes.
func (ps *Processes) Stats() Stats {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	s := Stats{Processes: len(ps.byPID) + len(ps.gone), Bytes: ps.bytes()}
	s.Files, s.Open = len(ps.images), ps.held.Len()
	return s
}

// bytes returns the memory in use, in bytes.
func (ps *Processes) bytes() int64 {
	n := ps.names.bytes()
	seen := map[*ELF]bool{}
	for _, img := range ps.images {
		n += 400 // with what an open file takes
		if img.elf != nil && !seen[img.elf] {
			seen[img.elf] = true
			n += img.elf.bytes()
		}
	}
	for _, p := range ps.byPID {
		n += p.bytes()
	}
	for _, p := range ps.gone {
		n += p.bytes()
	}
	return n
}
