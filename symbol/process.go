package symbol

import (
	"container/list"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
)

// Process names the addresses of one process, also after it ended, as far as it was seen alive.
// It belongs to a Processes, which guards it: it is safe for concurrent use.
type Process struct {
	ps    *Processes
	pid   int
	start uint64
	own   bool // Close closes ps

	comm   string
	exited bool
	read   time.Time // when maps was read
	// followed is Processes.followed as of then: events have told what happened since, if it is
	// that still. asOf is the time of that reading, or of the last event, and readAsOf the first.
	followed       uint64
	readAsOf, asOf uint64
	text           int64 // what was read then, in bytes
	cut            bool  // maps is not all of it
	maps           []mapping
	version        uint64 // of maps and old; no two processes have one
	// old are earlier states of maps, the newest first: a sample may have been
	// taken before an exec or a dlclose.
	old   []oldMaps
	life  life
	jit   *jitFiles // nil before the first lookup
	nspid int
	// user is the one whose rights it had for files at userRead, the last one that was known.
	user     procfs.User
	userRead time.Time
	owners   map[uint32]stranger.Owner // of files by their users, since userRead
	rootRead time.Time                 // when ownRoot was read
	ownRoot  bool                      // its root is this process's

	// in is the list of Processes that it is in, at the place at; nil if it is not kept.
	in   *list.List
	at   *list.Element
	size listSize // that was accounted for

	held, mapped list.List // of *image: those that were opened for this process
	ahead        int       // files that were opened before they were needed, since read
}

// oldMaps is an earlier state of a process's mappings, or of those that others replaced.
type oldMaps struct {
	maps []mapping
	size listSize
	// until is until when they are known to have been there; exact if an event has told what came
	// then.
	until uint64
	exact bool
}

// maxOld is how many earlier states of its mappings a process keeps.
const maxOld = 32

// mapping is a range of a process's memory.
type mapping struct {
	start, end uint64
	offset     uint64
	since      uint64 // it is known to have been there since then
	bias       uint64 // address - bias is the file's virtual address, if biasKnown
	path       string
	img        *image // nil: not a file
	biasKnown  bool
	exec       bool
	deleted    bool
}

// OpenProcess returns the process that has the pid now; opts may be nil. The caller must
// close it. To name several processes, use a Processes.
func OpenProcess(pid int, opts *Options) (*Process, error) {
	ps := NewProcesses(opts)
	p, err := ps.Process(pid)
	if err != nil {
		ps.Close()
		return nil, err
	}
	p.own = true
	return p, nil
}

// Close frees what OpenProcess opened. For a process of a Processes it does nothing. It may
// be called on a nil Process.
func (p *Process) Close() error {
	if p == nil || !p.own {
		return nil
	}
	return p.ps.Close()
}

// PID returns the process's pid in the pid namespace of the /proc that is read.
func (p *Process) PID() int { return p.pid }

// StartTime returns when the process started, in clock ticks after boot; 0 if it was only
// known from events. A PID may be reused, but PID and StartTime together are unique.
func (p *Process) StartTime() uint64 { return p.start }

// Comm returns the process's name when it was last read.
func (p *Process) Comm() string {
	p.ps.mu.Lock()
	defer p.ps.mu.Unlock()
	return p.comm
}

// Exited reports whether the process is known to have ended.
func (p *Process) Exited() bool {
	p.ps.mu.Lock()
	defer p.ps.mu.Unlock()
	return p.exited
}

// refresh reads the mappings again. Mappings that are still there keep what is known of them.
func (p *Process) refresh() error {
	known, first := p.knownUntil(), p.readAsOf == 0
	asOf, readAsOf := p.asOf, p.readAsOf
	p.read = p.ps.now()
	p.followed, p.asOf = p.ps.followed, p.ps.monotonic()
	p.readAsOf = p.asOf
	f, err := p.ps.root.Open(procPath(p.pid, "maps"))
	if err != nil {
		p.exited, p.followed = p.exited || isGone(err), 0
		return err
	}
	defer f.Close()
	var fresh []mapping
	room, cut := p.room(), false
	p.text, p.ahead = 0, 0
	err = procfs.ReadMaps(f, func(m *procfs.Mapping) bool {
		p.text += int64(len(m.Path)) + procfs.MapsLine
		cut = p.text > procfs.MaxMaps
		if !cut && (m.Perm&procfs.Exec != 0 || p.ps.opts.Data) {
			room -= int64(len(m.Path)) + mappingSize + imageSize
			if cut = room < 0; !cut {
				fresh = append(fresh, p.mapping(m))
			}
		}
		return !cut
	})
	// A process that is on its way out has no mappings left, and one that executes another program
	// none yet: nothing was read that events do not tell.
	if len(fresh) == 0 {
		p.asOf, p.readAsOf = asOf, readAsOf
		p.cut = p.cut || cut
		if p.ps.followed != 0 {
			p.unknown()
		}
		return err
	}
	p.cut = cut
	p.found()
	if p.sameMaps(fresh) {
		return nil
	}
	p.date(fresh, first)
	if len(p.maps) > 0 && !p.covers(fresh) {
		p.bound(known)
		p.bound(p.asOf)
		p.retire(p.maps, known, false)
		p.maps = nil
	}
	p.set(slices.Clip(fresh))
	return nil
}

// ownerOf returns the owner of a file that the process maps.
func (p *Process) ownerOf(st fs.FileInfo) stranger.Owner {
	if !p.ps.live {
		return stranger.Owner{}
	}
	uid := uint32(procfs.Owner(st).UID)
	p.files() // empties owners if they may have changed
	o, ok := p.owners[uid]
	if !ok {
		o = p.ps.work.Owner(p.pid, st)
		if p.owners == nil {
			p.owners = make(map[uint32]stranger.Owner)
		}
		p.owners[uid] = o
	}
	return o
}

// gap returns the age at which the process's mappings are read again, instead of age: reading
// those of a process with very many may not take all of the time.
func (p *Process) gap(age time.Duration) time.Duration {
	return age * time.Duration(1+p.text>>20)
}

// Version returns a number that changes whenever the process maps something else: the names of
// addresses in files stay the same until then. It is 0 while processes are not followed
// (Processes.Follow), since what happens to them is not known then. No two processes have the same.
func (p *Process) Version() uint64 {
	p.ps.mu.Lock()
	defer p.ps.mu.Unlock()
	if !p.current() {
		return 0
	}
	return p.version
}

// lastVersion is the version as of the last time that the mappings were known; 0 of no process.
func (p *Process) lastVersion() uint64 {
	if p == nil {
		return 0
	}
	return p.version
}

// changed gives the process another version.
func (p *Process) changed() {
	p.ps.version++
	p.version = p.ps.version
}

// set sets the mappings, and accounts for their images and their memory.
func (p *Process) set(maps []mapping) {
	p.changed()
	p.ps.ref(maps)
	p.ps.unref(p.maps)
	p.maps = maps
	p.recount()
}

// ref notes that mappings are kept, and with them their images.
func (ps *Processes) ref(maps []mapping) {
	for i := range maps {
		if img := maps[i].img; img != nil {
			img.refs++
		}
	}
}

// unref notes that mappings are not kept any more. Images that no other mapping has go.
func (ps *Processes) unref(maps []mapping) {
	for i := range maps {
		img := maps[i].img
		if img == nil {
			continue
		}
		if img.refs--; img.refs == 0 && ps.images[img.key] == img {
			ps.release(img)
			delete(ps.images, img.key)
			ps.imageBytes -= img.size()
		}
	}
}

// files returns the user whose rights the process has for files. It is read once for each
// reading of the mappings, and remains known when the process has ended.
func (p *Process) files() procfs.User {
	if p.ps.live && p.userRead.Before(p.read) {
		p.userRead, p.owners = p.read, nil
		if u, err := procfs.UserOf(p.ps.root, p.pid); err == nil {
			p.user = u
		}
	}
	return p.user
}

func (p *Process) mapping(m *procfs.Mapping) mapping {
	out := mapping{
		start: m.Start, end: m.End, offset: m.Offset, path: m.Path,
		exec: m.Perm&procfs.Exec != 0, deleted: m.Deleted,
	}
	out.img = p.image(m)
	if out.img != nil && out.img.path == out.path {
		out.path = out.img.path // one string for all
	}
	return out
}

// image returns the image of a mapping, opened if it is new; nil if the mapping
// is not of a file.
func (p *Process) image(m *procfs.Mapping) *image {
	ps := p.ps
	key := imageKey{dev: m.Dev, inode: m.Inode}
	switch {
	case m.Path == "[vdso]":
		key = imageKey{inode: m.End - m.Start, path: vdsoName(m)}
	case isAnonymous(m):
		return nil
	case m.Inode == 0:
		if m.Path == "" || m.Path[0] != '/' {
			return nil
		}
		key.path = m.Path
	}
	img := ps.images[key]
	if img == nil {
		img = &image{key: key, path: m.Path}
		ps.images[key] = img
		ps.imageBytes += img.size()
	} else if img.stale() {
		ps.release(img)
	}
	if ps.live && key.path == "" && !img.dropped && img.failed < maxFailed && !img.isHeld() {
		p.holdAhead(img, m)
	}
	return img
}

// maxFailed is how often opening a file ahead may fail: another process that maps it may be
// permitted to be read.
const maxFailed = 4

// holdAhead opens the image's file before an address in it is to be named, as long as those of
// the process leave enough descriptors to other processes.
func (p *Process) holdAhead(img *image, m *procfs.Mapping) {
	most := p.ps.partOf(p.ps.opts.MaxFiles)
	if p.ahead >= most || p.held.Len() >= most {
		return
	}
	p.ahead++
	if p.hold(img, m); !img.isHeld() {
		img.failed++
	}
}

// isAnonymous reports whether a mapping with an inode is memory: shared anonymous memory and
// System V segments are files of a hidden tmpfs, and huge pages of a hidden hugetlbfs.
func isAnonymous(m *procfs.Mapping) bool {
	switch m.Path {
	case "/dev/zero", "//anon", "/anon_hugepage":
		return true
	}
	return strings.HasPrefix(m.Path, "/SYSV")
}

// sameMaps reports whether fresh are the mappings in p.maps.
func (p *Process) sameMaps(fresh []mapping) bool {
	return slices.EqualFunc(p.maps, fresh, func(a, b mapping) bool {
		return a.start == b.start && a.end == b.end && a.offset == b.offset && a.img == b.img
	})
}

// covers reports whether fresh includes every mapping of p.maps, so that the old state need not
// be kept.
func (p *Process) covers(fresh []mapping) bool {
	for i := range p.maps {
		m := &p.maps[i]
		n := findMapping(fresh, m.start)
		if n == nil || n.img != m.img || n.end < m.end {
			return false
		}
	}
	return true
}

// retire makes mappings an earlier state, which they were until then.
func (p *Process) retire(maps []mapping, until uint64, exact bool) {
	p.changed()
	p.old = slices.Insert(p.old, 0, oldMaps{maps, sizeOf(maps), until, exact})
	if len(p.old) > maxOld {
		p.dropOld()
	}
}

// dropOld drops the earliest state.
func (p *Process) dropOld() {
	last := p.old[len(p.old)-1]
	p.old = slices.Delete(p.old, len(p.old)-1, len(p.old))
	p.ps.unref(last.maps)
	p.unknownBefore(last.until)
}

// current reports whether the mappings are known to be those that the process has now.
func (p *Process) current() bool { return p.followed != 0 && p.followed == p.ps.followed }

// lost reports whether events were lost since the mappings were read.
func (p *Process) lost() bool {
	return p.followed != 0 && p.ps.followed != 0 && p.followed != p.ps.followed
}

// apply applies an exec or mmap event.
func (p *Process) apply(ev *Event) {
	switch {
	case ev.Time != 0 && ev.Time < p.readAsOf: // it was read with the others
		p.late(ev)
	case ev.Time != 0 && ev.Time < p.asOf: // what came in between may have undone it
		p.unknown()
		p.lose(ev.Time)
	case ev.Kind == EventExec:
		p.asOf = max(p.asOf, ev.Time)
		p.exec(ev, !p.exited)
	default:
		p.asOf = max(p.asOf, ev.Time)
		p.mmap(ev)
	}
}

// unknown has the mappings read again at the next lookup.
func (p *Process) unknown() {
	p.read, p.followed = time.Time{}, 0
	p.changed()
}

// exec begins a new program, whose mappings can be read or not.
func (p *Process) exec(ev *Event, read bool) {
	if ev.Comm != "" {
		p.comm = ev.Comm
	}
	at, exact := ev.Time, ev.Time != 0
	if !exact {
		at = p.ps.monotonic()
	}
	if len(p.maps) > 0 {
		p.retire(p.maps, at, exact)
		p.maps = nil
	}
	p.began(at)
	p.jit, p.cut = nil, false
	if read {
		_ = p.refresh() // mmap events and later reads add missing mappings
	}
	p.recount()
}

// mmap adds the mapping of an event.
func (p *Process) mmap(ev *Event) {
	if ev.Len == 0 || ev.Addr+ev.Len < ev.Addr {
		return
	}
	m := ev.mapped()
	if n := findMapping(p.maps, m.Start); n != nil && n.end >= m.End && n.path == m.Path && n.isOf(&m) {
		return // read from /proc already
	}
	if len(p.maps) >= maxEventMaps || p.size.cost > p.room() {
		// Reading all of them again, for the next address, costs less than this for each.
		p.cut = true
		p.unknown()
		return
	}
	// Earlier mappings of the range are replaced (MAP_FIXED): maps[i:j].
	i := endsAfter(p.maps, m.Start)
	j := i
	fresh := []mapping{p.mapping(&m)}
	fresh[0].since = ev.Time
	p.ps.ref(fresh)
	for ; j < len(p.maps) && p.maps[j].start < m.End; j++ {
		o := p.maps[j]
		if o.start < m.Start {
			left := o
			left.end = m.Start
			fresh = slices.Insert(fresh, 0, left)
			p.ps.ref(fresh[:1])
		}
		if o.end > m.End {
			right := o
			right.start, right.offset = m.End, o.offset+(m.End-o.start)
			right.biasKnown = false
			fresh = append(fresh, right)
			p.ps.ref(fresh[len(fresh)-1:])
		}
	}
	if gone := p.maps[i:j]; len(gone) > 0 && ev.Time != 0 {
		p.bound(ev.Time)
		p.retire(slices.Clone(gone), ev.Time, true)
	} else {
		p.ps.unref(gone)
	}
	p.maps = slices.Replace(p.maps, i, j, fresh...)
	p.changed()
	p.recount()
}

// isOf reports whether a mapping has the same bytes of the same file as a part of it of the same
// name.
func (m *mapping) isOf(o *procfs.Mapping) bool {
	if m.img == nil {
		return true
	}
	same := o.Inode == 0 || m.img.key.path != "" || m.img.key == imageKey{dev: o.Dev, inode: o.Inode}
	return same && o.Start-m.start == o.Offset-m.offset
}

// maxEventMaps is the most mappings of a process to which those of events are added.
const maxEventMaps = 4 << 10

func (p *Process) forget() {
	for i := range p.old {
		p.ps.unref(p.old[i].maps)
	}
	p.ps.unref(p.maps)
	p.maps, p.old, p.jit = nil, nil, nil
	p.account(listSize{})
}

// findMapping returns the mapping that contains an address.
func findMapping(maps []mapping, addr uint64) *mapping {
	if i := endsAfter(maps, addr); i < len(maps) && maps[i].start <= addr {
		return &maps[i]
	}
	return nil
}

// endsAfter returns the index of the first mapping that ends after an address, len(maps) if none does.
func endsAfter(maps []mapping, addr uint64) int {
	lo, hi := 0, len(maps)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if maps[m].end <= addr {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// find returns the mapping of an address, the newest state first.
func (p *Process) find(pc uint64) *mapping {
	if m := findMapping(p.maps, pc); m != nil {
		return m
	}
	for i := range p.old {
		if m := findMapping(p.old[i].maps, pc); m != nil {
			return m
		}
	}
	return nil
}

func isGone(err error) bool { return err != nil && errors.Is(err, fs.ErrNotExist) }
