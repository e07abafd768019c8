package symbol

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/borescope/borescope/internal/kernel"
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
	// What is known of the processes themselves (mappings with their paths, the tables of their
	// compilers) may take four times as much, of which one process gets half of what the others
	// leave. What exceeds it is not kept: ReasonBudget.
	//
	// The work is bounded too, whatever processes map: all tables together may have 512 MiB
	// of symbols, and 32,768 files may be opened. Of that, no process gets more than an eighth
	// of what the others leave, and all processes of a user who is not trusted get a quarter.
	// What exceeds it has no names: ReasonBudget. These are amounts of work and not of time, so
	// it is the same on any machine; but 10 MiB of symbols and 640 files come back each second,
	// about a tenth of a processor's time, so that a program that runs for months goes on. On a
	// recorded machine (Root) nothing comes back.
	Budget int64
	// Chosen is set if the user has chosen the processes, so that all of their files are
	// read alike, and one of them may get half of the work that Budget describes. Otherwise a
	// file is trusted only if it belongs to root, to this process's user or to the logged in
	// user, and is mapped in this mount namespace. Each owner of other files has a bound: the
	// first file is read, and more only while they have at most 2 MiB of symbols together, of
	// which 256 KiB come back each second. Until then, addresses in the rest have no names:
	// ReasonBudget. A user is one owner in all the user namespaces that this user made; a
	// container of root's is one owner.
	Chosen bool
	// Served also reads mapped files that another user's process may serve (FUSE, an overlay in
	// a container of that user's). It may answer late, or differently each time, so without
	// Served their addresses have no names: ReasonServed. All files of one such file system,
	// or of a network's, are waited for a few seconds at most.
	Served bool
	// MaxFiles is the most files that are held open at a time. 0 means a quarter of what this
	// process may open (the soft limit RLIMIT_NOFILE) when NewProcesses is called, and at most
	// 1024: the rest is for the program that uses this package. A process that maps more than a
	// quarter of MaxFiles has the others opened when an address in them is named. Files whose
	// addresses were named are mapped, which needs no descriptor: up to 4096, or MaxFiles.
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
	// monotonic is the clock of events; on a recorded machine they are what makes it go on.
	monotonic func() uint64

	names *names

	mu     sync.Mutex // guards the fields below, and every Process and image
	byPID  map[int]*Process
	gone   map[procKey]*Process // earlier owners of a pid
	images map[imageKey]*image  // of all mappings of these
	byID   map[string]*ELF
	nextID uint32

	// Lists, with what was used longest ago first: each step has its price once, however many
	// there are.
	known  list.List // of *Process, those in byPID
	ended  list.List // of *Process, those in gone
	held   list.List // of *image: those with an open file
	mapped list.List // of *image: those with an ELF
	tables list.List // of *ELF: those with tables

	tick    uint64
	reader  *Process // whose addresses are looked up
	touched []*ELF   // in this tick
	closed  bool
	work    stranger.Share // bytes of symbols
	files   stranger.Share // files opened
	grown   atomic.Bool    // memory was added since the budget was last checked

	// Memory, in bytes; headers is part of elfBytes.
	elfBytes, procBytes, imageBytes, headers int64

	memory stranger.Pool[*Process]

	// followed counts how often following began, or events were lost; 0 while nothing is followed.
	followed uint64
	begun    uint64 // the last value that followed had
	version  uint64 // the last one that a process got
	lostAt   uint64 // when following ended last, or since when events were lost
	latest   uint64 // the time of the last event

	// earlier are events of processes that were not asked for yet, as a ring once it is full.
	earlier     []Event
	nextEarlier int
	ancestors   int // that are being asked for, for the mappings of their children
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
		monotonic: kernel.Monotonic,
		byPID:     map[int]*Process{}, gone: map[procKey]*Process{},
		images: map[imageKey]*image{}, byID: map[string]*ELF{},
	}
	if !ps.live {
		ps.monotonic = func() uint64 { return ps.latest }
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
	ps.work.Chosen, ps.files.Chosen = ps.opts.Chosen, ps.opts.Chosen
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
	for ps.held.Len() > 0 {
		ps.release(ps.held.Front().Value.(*image))
	}
	for ps.mapped.Len() > 0 {
		ps.release(ps.mapped.Front().Value.(*image))
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
	if p != nil && (p.exited || p.current() || !p.lost() && ps.now().Sub(p.read) < p.gap(newer)) {
		ps.tick++
		ps.recent(p)
		if !p.exited {
			return p, nil
		}
		// Another process may have the number by now.
	}
	st, err := procfs.ReadStat(ps.root, pid)
	if err != nil {
		if p == nil {
			p = ps.recalled(pid)
		}
		if p != nil {
			p.exited = true
			return p, nil
		}
		return nil, fmt.Errorf("process %d: %w", pid, err)
	}
	if p != nil && p.start != st.StartTime {
		p.exited = true
		ps.replaced(p)
		p = nil
	}
	unseen := p == nil
	if unseen {
		p = &Process{ps: ps, pid: pid, start: st.StartTime, user: procfs.Anybody}
		p.recall(false, timeless)
	}
	p.comm = st.Comm
	// The first thread may have ended before the others, or have given its number to one that
	// executed another program.
	p.exited, p.life.ended = st.State == 'Z', 0
	ps.tick++
	ps.recent(p)
	err = p.refresh()
	if unseen && len(p.maps) == 0 && ps.followed != 0 { // it is on its way out: its end may have been told already
		p.recall(true, timeless)
	}
	if err != nil && len(p.maps) == 0 {
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

// recent notes that a process is used now. It is kept from now on if it was not, and those
// beyond the limit are not: first those whose pid another one has.
func (ps *Processes) recent(p *Process) {
	if p.in != nil {
		p.in.MoveToBack(p.at)
		return
	}
	if ps.closed {
		return
	}
	other := ps.byPID[p.pid]
	ps.byPID[p.pid] = p
	p.in = &ps.known
	p.at = p.in.PushBack(p)
	if other != nil && (p.exited || p.start < other.start) {
		ps.replaced(p)
		ps.byPID[p.pid] = other
	} else if other != nil {
		ps.replaced(other)
		ps.byPID[p.pid] = p
	}
	p.recount()
	for ps.known.Len()+ps.ended.Len() > ps.opts.MaxProcesses {
		oldest := ps.ended.Front()
		if oldest == nil {
			oldest = ps.known.Front()
		}
		if oldest.Value == any(p) {
			return
		}
		ps.drop(oldest.Value.(*Process))
	}
}

// replaced notes that another process has the pid of one that is known.
func (ps *Processes) replaced(p *Process) {
	key := procKey{p.pid, p.start}
	if same := ps.gone[key]; same != nil {
		ps.drop(same)
	}
	p.in.Remove(p.at)
	delete(ps.byPID, p.pid)
	ps.gone[key] = p
	p.in = &ps.ended
	p.at = p.in.PushBack(p)
}

// drop keeps a process no longer.
func (ps *Processes) drop(p *Process) {
	if ps.byPID[p.pid] == p {
		delete(ps.byPID, p.pid)
	}
	if key := (procKey{p.pid, p.start}); ps.gone[key] == p {
		delete(ps.gone, key)
	}
	p.in.Remove(p.at)
	p.in, p.at = nil, nil
	p.forget()
}

// Follow says that from now on Handle is told of everything that happens to all processes (on),
// or is not any more. While processes are followed, the mappings of one are read when it is first
// looked up or observed, and again if an address is in none of them, or after events were lost:
// not because of their age. Events of processes that nobody has asked for are left out, since these
// are read when they are asked for.
func (ps *Processes) Follow(on bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.follow(on, ps.monotonic())
}

// follow follows processes anew, or not any more, since what is known until a time.
func (ps *Processes) follow(on bool, until uint64) {
	ps.followed, ps.lostAt = 0, until
	if on && !ps.opts.Data { // events are of code alone
		ps.begun++
		ps.followed = ps.begun
	}
}

// rereading is how long the mappings of processes are read again after events were lost; those of others
// are read when they are asked for.
const rereading = 10 * time.Millisecond

// lose follows processes anew: events since a time are missing. Those that ended before are known.
func (ps *Processes) lose(at uint64) {
	var unsure []*Process
	for _, p := range ps.byPID {
		if p.current() && !p.exited {
			p.lose(max(at, p.readAsOf))
			unsure = append(unsure, p)
		}
	}
	ps.follow(true, at)
	for start := ps.now(); len(unsure) > 0 && ps.now().Sub(start) < rereading; unsure = unsure[1:] {
		_ = unsure[0].refresh() // one that can't be read stays unknown
	}
}

// Handle applies an event, and reports whether the mappings of a process that is known are others
// now. Processes that were neither observed nor looked up before are observed on their fork, exec
// and mmap events, unless all are followed. Events of one process are to come in their order; one
// that comes late has the mappings read again.
func (ps *Processes) Handle(ev *Event) (changed bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.closed {
		return false
	}
	ps.latest = max(ps.latest, ev.Time)
	if ev.Kind == EventLost {
		if ps.followed != 0 {
			ps.lose(ev.Time)
		}
		return false
	}
	p := ps.byPID[ev.PID]
	if ps.followed != 0 && (p == nil || ev.Kind == EventExit || ev.Kind == EventFork) {
		ps.remember(ev)
	}
	switch {
	case ps.followed != 0 && (p == nil || ev.Kind == EventFork):
		if p != nil && p.exited { // another one has the number
			if p.life.ended == 0 {
				p.life.ended = ev.Time - 1
			}
			ps.replaced(p)
		}
		return false
	case ev.Kind == EventExit:
		if p != nil {
			p.exited, p.life.ended = true, ev.Time
		}
		return false
	case ev.Kind == EventFork:
		ps.fork(ev)
		return false
	}
	before := p.lastVersion()
	if p == nil || p.exited {
		if p = ps.described(ev.PID); p == nil {
			return false
		}
	}
	p.apply(ev)
	return p.lastVersion() != before
}

// described returns the process that has a pid, nil if it may not be read. If it has ended already,
// only events describe it.
func (ps *Processes) described(pid int) *Process {
	p, err := ps.process(pid, refreshAfter)
	if p != nil || !errors.Is(err, fs.ErrNotExist) {
		return p
	}
	p = &Process{ps: ps, pid: pid, exited: true, user: procfs.Anybody}
	ps.recent(p)
	return p
}

// fork adds a new process with its parent's mappings.
func (ps *Processes) fork(ev *Event) {
	parent := ps.byPID[ev.Parent]
	if p, err := ps.process(ev.PID, refreshAfter); err == nil && len(p.maps) > 0 || parent == nil {
		return
	}
	p := ps.byPID[ev.PID]
	if p == nil {
		p = &Process{ps: ps, pid: ev.PID, exited: true, user: procfs.Anybody}
		ps.recent(p)
	}
	p.take(parent, slices.Clone(parent.maps))
}

// take gives a new process mappings of its parent's.
func (p *Process) take(parent *Process, maps []mapping) {
	p.comm = parent.comm
	kept := parent.in != nil
	room := p.room() // the parent may go for it
	if p.cut = parent.cut || kept && parent.in == nil || sizeOf(maps).cost > room; !p.cut {
		p.set(maps)
	}
}

// Stats are the current sizes of a Processes.
type Stats struct {
	Processes int   // processes kept
	Files     int   // distinct mapped files
	Open      int   // files held open
	Mapped    int   // files mapped
	Bytes     int64 // bytes of memory of tables, mappings and names
}

// Stats returns the current sizes.
func (ps *Processes) Stats() Stats {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	s := Stats{Processes: len(ps.byPID) + len(ps.gone), Bytes: ps.bytes()}
	s.Files, s.Open, s.Mapped = len(ps.images), ps.held.Len(), ps.mapped.Len()
	return s
}
