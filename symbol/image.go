package symbol

import (
	"bytes"
	"container/list"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
)

// imageKey identifies a mapped file. An inode's device and number come from /proc/PID/maps.
// path is empty for those; it is set for the vdso, and in recorded trees without inodes.
type imageKey struct {
	dev, inode uint64
	path       string
}

// image is one mapped file, shared by all processes that map it. It is opened when a process
// that maps it is first seen, so that it can be read after the process, and the path, are gone.
// It is read when an address in it is named. Guarded by Processes.mu.
type image struct {
	key    imageKey
	path   string
	file   fs.File     // open since the image was first seen; nil if closed
	stat   fs.FileInfo // of file when it was opened
	owner  stranger.Owner
	user   procfs.User // of the process that mapped it when it was opened
	elf    *ELF        // nil until an address in it is named
	reason Reason      // why elf is nil
	vast   bool        // its headers alone take too much memory: it is not read again
	refs   int         // mappings that have it

	// opener is the process for which the image is in held and mapped.
	opener       *Process
	held, mapped place
	dropped      bool   // others needed its descriptor
	failed       int    // how often opening it ahead failed
	tried        uint64 // Processes.tick of the last try to read it
}

// place is where an image is in a list of Processes, and in that of its process.
type place struct{ all, own *list.Element }

// size returns the memory that an image takes, in bytes.
func (img *image) size() int64 { return imageSize + int64(len(img.path)) }

// list puts the image into a list and into its process's.
func (img *image) list(at *place, all, own *list.List) {
	if at.all == nil {
		at.all, at.own = all.PushBack(img), own.PushBack(img)
	}
}

// unlist takes it out of them.
func (img *image) unlist(at *place, all, own *list.List) {
	if at.all != nil {
		all.Remove(at.all)
		own.Remove(at.own)
		*at = place{}
	}
}

// isHeld reports whether the image has resources.
func (img *image) isHeld() bool { return img.file != nil || img.elf != nil }

// open opens the file behind a mapping of a process.
func (ps *Processes) open(pid int, m *procfs.Mapping) (fs.File, error) {
	if !ps.live {
		return ps.openRecorded(pid, m.Path)
	}
	return procfs.OpenMapped(pid, m, ps.opts.Served)
}

// openRecorded opens a mapped file in a recorded tree, which has a container's files below
// proc/PID/root.
func (ps *Processes) openRecorded(pid int, path string) (fs.File, error) {
	if len(path) < 2 || path[0] != '/' || !fs.ValidPath(path[1:]) {
		return nil, fs.ErrNotExist
	}
	if f, err := ps.root.Open(procPath(pid, "root") + path); err == nil {
		return f, nil
	}
	return ps.root.Open(path[1:])
}

// hold opens the image's file if that is possible.
func (p *Process) hold(img *image, m *procfs.Mapping) {
	ps := p.ps
	if img.isHeld() || ps.closed {
		return
	}
	img.reason = ReasonNoFile
	if p.startFile() != nil {
		img.reason = ReasonBudget
		return
	}
	ps.limitFiles(p)
	f, err := ps.open(p.pid, m)
	if err != nil {
		if isServed(err) {
			img.reason = ReasonServed
		}
		return
	}
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		f.Close()
		return
	}
	img.file, img.stat, img.owner, img.reason = f, st, p.ownerOf(st), ReasonNone
	img.user = p.files()
	img.opener = p
	img.list(&img.held, &ps.held, &p.held)
}

func isServed(err error) bool {
	var served *procfs.ServedError
	return errors.As(err, &served)
}

// load makes the image's ELF from its file.
func (p *Process) load(img *image, m *procfs.Mapping) {
	ps := p.ps
	if img.vast {
		img.reason = ReasonBudget
		return
	}
	p.hold(img, m)
	if img.file == nil {
		return
	}
	if ps.startTable(stranger.Owner{}, fileWork) != nil {
		img.reason = ReasonBudget
		return
	}
	ef, err := elffile.NewFS(img.file)
	if err == nil {
		ps.work.Add(img.owner, ps.reader.party(), elffile.Headers(ef)-fileWork)
	}
	if err == nil && elffile.Headers(ef) > ps.opts.tableRoom()/4 {
		// With them, the tables would exceed the budget, and be read again for each address.
		ef.Close()
		img.reason, img.vast = ReasonBudget, true
		return
	}
	if err == nil {
		ef.Bound(ps.opts.room())
		ps.limitHeaders(img, elffile.Headers(ef))
	}
	if err != nil {
		img.reason = ReasonBadFile
		if isServed(err) { // it came too late
			img.reason = ReasonServed
		}
		if isMemory(m.Path) && !hasMagic(img.file) {
			img.reason = ReasonAnonymous
		}
		return
	}
	ps.adopt(img, p, ef)
}

// isMemory reports whether a file is named memory: a memfd or POSIX shared memory.
func isMemory(path string) bool {
	return strings.HasPrefix(path, "/memfd:") || strings.HasPrefix(path, "/dev/shm/")
}

// hasMagic reports whether a file begins as ELF files do.
func hasMagic(f fs.File) bool {
	r, ok := f.(io.ReaderAt)
	if !ok {
		return true
	}
	var b [len(elf.ELFMAG)]byte
	_, err := r.ReadAt(b[:], 0)
	return err == nil && string(b[:]) == elf.ELFMAG
}

// stale reports whether the image's file was overwritten in place: its mapping
// shows the new contents, so that the table is wrong.
func (img *image) stale() bool {
	if img.file == nil {
		return false
	}
	st, err := img.file.Stat()
	return err == nil && (st.Size() != img.stat.Size() || !st.ModTime().Equal(img.stat.ModTime()))
}

// adopt gives the image an ELF: that of another image with the same build-id, or a new one.
func (ps *Processes) adopt(img *image, p *Process, ef *elffile.File) {
	ps.limitMapped(p)
	if img.opener == nil { // the vdso
		img.opener = p
	}
	img.list(&img.mapped, &ps.mapped, &img.opener.mapped)
	id := ef.BuildID()
	if other := ps.byID[id]; id != "" && other != nil && other.mayServe(img.owner) &&
		sameNames(other.f, ef) {
		ef.Close()
		other.refs++
		if img.owner == (stranger.Owner{}) {
			other.owner = img.owner
		}
		img.elf = other
		return
	}
	ps.nextID++
	e := &ELF{
		f: ef, path: img.path, buildID: id, names: ps.names, id: ps.nextID, refs: 1,
		grown: &ps.grown,
	}
	e.owner, e.room = img.owner, ps.opts.tableRoom()
	e.start = func(size int64) error { return ps.startTable(e.owner, size) }
	e.opts = sourceOptions{dwarf: ps.opts.Source, noInline: ps.opts.NoInline}
	e.opts.find = elffile.DebugFinder{
		Path: img.path, Dirs: debugDirs(ps.opts.DebugDirs),
		Open: func(path string) (fs.File, error) { return p.openDebug(img, path) },
		Room: ps.opts.room(), Start: e.start,
	}
	e.init()
	img.elf = e
	ps.headers += elffile.Headers(ef)
	ps.count(e)
	ps.grown.Store(true)
	if id != "" {
		ps.byID[id] = e
	}
}

// mayServe reports whether an image of the same file that belongs to o may share e. Untrusted
// owners may not share: one that has used up its bound would keep another's file from being
// read.
func (e *ELF) mayServe(o stranger.Owner) bool {
	trusted := stranger.Owner{}
	return o == trusted || e.owner == trusted || e.owner == o
}

// sameNames reports whether two files of one build-id have the same names as well. GNU ld
// does not hash the string tables into the build-id: programs that differ only in names
// have the same one.
func sameNames(a, b *elffile.File) (same bool) {
	var err error
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	if a.Size() != b.Size() {
		return false
	}
	for _, name := range []string{".dynstr", ".strtab"} {
		s, t := a.Section(name), b.Section(name)
		if s == nil && t == nil {
			continue
		}
		if s == nil || t == nil || s.Size != t.Size || s.Flags&elf.SHF_COMPRESSED != 0 {
			return false
		}
		size := min(s.Size, maxCompared)
		x, err1 := a.Bytes(s.Offset, size)
		y, err2 := b.Bytes(t.Offset, size)
		if err1 != nil || err2 != nil || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

// maxCompared is how much of a table of names is compared.
const maxCompared = 16 << 20

// openDebug opens a debug file of an image: the process's own, or the host's.
func (p *Process) openDebug(img *image, name string) (fs.File, error) {
	if !p.ps.live {
		return p.ps.openRecorded(p.pid, name)
	}
	dirs, own := debugDirs(p.ps.opts.DebugDirs), os.Getpid()
	if p.hasOwnRoot() {
		return elffile.OpenDebug(img.user, dirs, name, own)
	}
	return elffile.OpenDebug(img.user, dirs, name, p.pid, own)
}

// hasOwnRoot reports whether the process's root is this process's, so that files, most of which
// do not exist, need not be looked for twice.
func (p *Process) hasOwnRoot() bool {
	if p.rootRead.IsZero() || p.rootRead.Before(p.read) {
		p.rootRead, p.ownRoot = p.read, procfs.HasOwnRoot(p.pid)
	}
	return p.ownRoot
}

// release drops the resources of an image; it is read again when needed, if it still
// exists.
func (ps *Processes) release(img *image) {
	ps.unmap(img)
	ps.closeFile(img)
}

// unmap drops an image's ELF.
func (ps *Processes) unmap(img *image) {
	e := img.elf
	img.elf, img.tried = nil, 0
	if img.opener != nil {
		img.unlist(&img.mapped, &ps.mapped, &img.opener.mapped)
	}
	if e == nil {
		return
	}
	if e.refs--; e.refs == 0 {
		ps.forgetELF(e)
		if ps.byID[e.buildID] == e {
			delete(ps.byID, e.buildID)
		}
		e.Close()
	}
}

// closeFile closes the descriptor of an image.
func (ps *Processes) closeFile(img *image) {
	if img.file == nil {
		return
	}
	img.unlist(&img.held, &ps.held, &img.opener.held)
	img.file.Close()
	img.file = nil
}
