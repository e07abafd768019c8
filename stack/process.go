package stack

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/stranger"
)

// UnsupportedError is the error for features that this system lacks; it holds the reason.
type UnsupportedError = feature.UnsupportedError

// ProcessMemory is the memory of a live process, by its pid. Reading needs Linux and ptrace
// read permission (the same user, or CAP_SYS_PTRACE). It holds no resource and is safe for
// concurrent use. The pid may be reused for another process once this one has ended.
type ProcessMemory int

// ReadMemory implements Memory with process_vm_readv.
func (pid ProcessMemory) ReadMemory(dst []byte, addr uint64) error {
	return procfs.ReadMemory(int(pid), dst, addr)
}

// CFICache compiles the call frame information of the files that processes map, once per
// file. The zero value is ready for use. It is safe for concurrent use and holds no file
// open.
type CFICache struct {
	// MaxBytes bounds the memory of the tables that are kept, in bytes; 0 means 256 MiB. A
	// table that was dropped is compiled again when it is next needed; modules that were
	// returned before keep theirs. A file that takes more than twice MaxBytes while it is
	// compiled has no table.
	//
	// The work is bounded too, whatever processes map: all files together may have 32 times
	// MaxBytes of call frame information, and those of one process an eighth of what the others
	// leave, or half if Chosen is set. Of that, 10 MiB come back each second. So may 32,768
	// files be opened, of which 640 come back each second.
	MaxBytes int64
	// MaxMappings is the most executable mappings of a process whose files are read: of one with
	// more, none is. 0 means that there is no such limit.
	MaxMappings int
	// Chosen is set if the user has chosen the processes, so that all of their files are
	// read alike. Otherwise files of untrusted owners share less: symbol.Options.Chosen
	// describes which files, and how much.
	Chosen bool
	// Served also reads files that another user's process may serve: symbol.Options.Served.
	Served bool

	mu     sync.Mutex
	tables map[fileKey]FileCFI
	// reading has those that are compiled just now.
	reading map[fileKey]*sync.Mutex
	order   []fileKey // oldest first
	size    int64
	work    stranger.Share      // bytes of call frame information
	opened  stranger.Share      // files
	images  map[string]imageCFI // of memory, by its bytes
	// latest has what the files were when they were opened last, by device and inode.
	latest map[[2]uint64]openedFile
}

// openedFile is a file as it was at a time.
type openedFile struct {
	key  fileKey
	path string // a number is given to another file when the first one is gone
	at   time.Time
	// changed is when the mapped file was changed, 0 if that is not known: a program that is
	// built and run again and again may have the path and the number of the one before.
	changed int64
}

// openedFor is how long a file that was opened is not opened again: a thousand processes that
// map one library have it opened once.
const openedFor = time.Second

// filesLimit is the number of files that may be opened.
var filesLimit = stranger.Limit{Base: 32 << 10, Second: 640}

func (c *CFICache) maxBytes() int64 {
	if c.MaxBytes == 0 {
		return 256 << 20
	}
	return c.MaxBytes
}

// cacheWork is the bound of the work, in units of CFICache.MaxBytes.
const cacheWork = 32

var errTooMuchWork = errors.New("reading call frame information has taken its share of the time")

// start accounts for the work of reading the call frame information of a file that a
// process maps.
func (c *CFICache) start(pid int, st fs.FileInfo, f *elffile.File) error {
	const open = 16 << 10 // what a file without any is like
	n := int64(open)
	for _, s := range cfiSections(f) {
		n += s.size(f)
	}
	n += pclntab.Work(f) / 8 // of which rows are little
	c.mu.Lock()
	defer c.mu.Unlock()
	c.work.Chosen = c.Chosen
	o := c.work.Owner(pid, st)
	if !c.work.Take(o, stranger.Party{PID: pid}, n, stranger.Bytes(cacheWork*c.maxBytes()), time.Now()) {
		return errTooMuchWork
	}
	return nil
}

type fileKey struct {
	dev, inode  uint64
	size, mtime int64
	// changed tells files apart whose owner has set their mtime, as archives and compilers that
	// reproduce do: 0 if it is not known.
	changed int64
}

// FileCFI is the call frame information of an ELF file, and the ranges of its code. It is
// immutable.
type FileCFI struct {
	table *CFITable      // nil: the file has none that can be read
	segs  []elffile.Prog // executable ones
	err   error          // why
}

// ReadFileCFI reads the file at a path of a tree (nil: this machine's), if it has the given
// build-id (empty: any). It returns an error, which wraps an internal one, if the file is
// not an ELF file, and none if the file has no call frame information.
func ReadFileCFI(root fs.FS, path, buildID string) (*FileCFI, error) {
	var c FileCFI
	err := elffile.InRoot(root, path, func(ef *elffile.File) (err error) {
		if have := ef.BuildID(); buildID != "" && have != buildID {
			return fmt.Errorf("another file than was mapped: build-id %s instead of %s", have, buildID)
		}
		c, err = cfiOf(ef, cfiRoom(ef))
		return err
	})
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// Locate sets CFI and Bias of a mapping of the file; m must have its Start, End, Offset and
// Name. before are the process's modules at lower addresses. Locate returns false if no
// executable segment is mapped there, or if c is nil.
func (c *FileCFI) Locate(m *Module, before []Module) bool {
	if c == nil {
		return false
	}
	var last uint64
	if n := len(before); n > 0 && before[n-1].Name == m.Name {
		last = before[n-1].Bias
	}
	bias, ok := elffile.Bias(c.segs, m.Start, m.Offset, m.End-m.Start, true, last)
	if ok {
		m.CFI, m.Bias = c.table, bias
	}
	return ok
}

// Modules reads the executable mappings of a process. A file that can't be opened or has no
// call frame information is a module without CFI. The error joins an error for each of
// these files; the Modules can be used all the same. It needs Linux and ptrace read
// permission.
func (c *CFICache) Modules(pid int) (*Modules, error) {
	var code []procfs.Mapping
	var other []Module
	err := procfs.EachMapping(pid, func(m *procfs.Mapping) bool {
		switch {
		case m.Perm&procfs.Exec != 0:
			code = append(code, *m)
		case m.Perm&procfs.Read != 0 && m.Inode != 0 && strings.HasPrefix(m.Path, "/"):
			other = append(other, Module{Start: m.Start, End: m.End, Offset: m.Offset, Name: m.Path})
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	m, err := c.ModulesOf(pid, code)
	return m.WithData(other...), err
}

// Mapping is a stretch of a process's memory and what it maps, as in /proc/PID/maps: addresses from Start
// to before End, bytes of Offset into the file, and the file's path in the process's root.
type Mapping = procfs.Mapping

// ModulesOf is Modules for executable mappings that are known (symbol.State.Code), of a process that may
// have ended: its files are then found by their paths.
func (c *CFICache) ModulesOf(pid int, code []Mapping) (*Modules, error) {
	list := make([]Module, 0, len(code))
	var errs []error
	tooMany := c.MaxMappings > 0 && len(code) > c.MaxMappings
	if tooMany {
		errs = append(errs, fmt.Errorf("%d executable mappings, more than %d", len(code), c.MaxMappings))
	}
	for i := range code {
		m := &code[i]
		mod := Module{Start: m.Start, End: m.End, Offset: m.Offset, Name: m.Path}
		if !tooMany {
			if err := c.load(pid, m, &mod, list); err != nil && len(errs) < maxErrors {
				errs = append(errs, fmt.Errorf("%s: %w", m.Path, err))
			}
		}
		list = append(list, mod)
	}
	return NewModules(list...), errors.Join(errs...)
}

// maxErrors is the most errors of files that are joined.
const maxErrors = 100

// load finds the module's table and bias.
func (c *CFICache) load(pid int, m *procfs.Mapping, mod *Module, before []Module) error {
	switch {
	case m.Path == "[vdso]":
		return c.loadImage(pid, mod)
	case m.Inode == 0 || m.Path == "" || m.Path[0] != '/':
		return nil // JIT code, or something of the kernel's
	}
	changed, _ := procfs.MappedChanged(pid, m)
	if cached, ok := c.recent(m, changed); ok {
		if cached.err == nil {
			cached.Locate(mod, before)
		}
		return cached.err
	}
	if !c.startFile(pid) {
		return errTooMuchWork
	}
	f, err := procfs.OpenMapped(pid, m, c.Served)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	key := fileKey{dev: m.Dev, inode: m.Inode, size: st.Size(), mtime: st.ModTime().UnixNano()}
	key.changed, _ = procfs.Changed(f)
	cached, ok := c.get(key)
	if !ok {
		if cached = c.readOnce(pid, key, f, st); errors.Is(cached.err, errTooMuchWork) {
			return cached.err // later, perhaps
		}
	}
	c.openedNow(key, m.Path, changed)
	if cached.err != nil {
		return cached.err
	}
	cached.Locate(mod, before)
	return nil
}

// readOnce compiles a file, and keeps the result. Of several calls for one file the first does.
func (c *CFICache) readOnce(pid int, key fileKey, f fs.File, st fs.FileInfo) FileCFI {
	c.mu.Lock()
	if c.reading == nil {
		c.reading = make(map[fileKey]*sync.Mutex)
	}
	one := c.reading[key]
	if one == nil {
		one = new(sync.Mutex)
		c.reading[key] = one
	}
	c.mu.Unlock()
	one.Lock()
	defer one.Unlock()
	if cached, ok := c.get(key); ok {
		return cached
	}
	cached := c.read(pid, f, st)
	if !errors.Is(cached.err, errTooMuchWork) {
		c.put(key, cached)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reading, key)
	return cached
}

// Compiled reports whether the files of executable mappings were compiled already, so that ModulesOf takes
// no time, and whether one of them is compiled just now, for which it would wait.
func (c *CFICache) Compiled(code []Mapping) (all, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all = true
	for i := range code {
		m := &code[i]
		if m.Inode == 0 || m.Path == "" || m.Path[0] != '/' {
			continue
		}
		last, ok := c.latest[[2]uint64{m.Dev, m.Inode}]
		if _, have := c.tables[last.key]; ok && have {
			continue
		}
		all = false
		for key := range c.reading {
			busy = busy || key.dev == m.Dev && key.inode == m.Inode
		}
	}
	return all, busy
}

// read compiles a process's file, whose contents are not trusted.
func (c *CFICache) read(pid int, f fs.File, st fs.FileInfo) FileCFI {
	ef, err := elffile.NewFS(f)
	if err != nil {
		return FileCFI{err: err}
	}
	defer ef.Close()
	if err := c.start(pid, st, ef); err != nil {
		return FileCFI{err: err}
	}
	room := 2 * c.maxBytes()
	ef.Bound(room)
	out, err := cfiOf(ef, room)
	out.err = err
	return out
}

// cfiOf compiles a file; one that has no call frame information is no error.
func cfiOf(f *elffile.File, room int64) (FileCFI, error) {
	c := FileCFI{segs: executableSegments(f)}
	var err error
	if c.table, err = compileCFI(f, room); errors.Is(err, ErrNoTable) {
		err = nil
	}
	return c, err
}

func executableSegments(f *elffile.File) []elffile.Prog {
	var out []elffile.Prog
	for _, p := range f.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
			out = append(out, p)
		}
	}
	return out
}

// maxImage is far above the two or three pages that the vDSO has.
const maxImage = 1 << 20

// LoadImage sets CFI and Bias from the module's ELF image, which lies in memory from Start
// to End, as the vDSO's does.
func (m *Module) LoadImage(mem Memory) error {
	image, err := m.image(mem)
	if err != nil {
		return err
	}
	return m.setImage(compileImage(image))
}

// image reads the module's image.
func (m *Module) image(mem Memory) ([]byte, error) {
	if m.End-m.Start > maxImage {
		return nil, fmt.Errorf("an image of %d bytes", m.End-m.Start)
	}
	image := make([]byte, m.End-m.Start)
	return image, mem.ReadMemory(image, m.Start)
}

// imageCFI is the call frame information of an image, and the address of its beginning.
type imageCFI struct {
	table  *CFITable
	lowest uint64
	narrow bool // it has 32-bit addresses
	err    error
}

func compileImage(image []byte) (c imageCFI) {
	f, err := elffile.NewBytes(image)
	if err != nil {
		return imageCFI{err: err}
	}
	defer f.Close()
	c.lowest, c.narrow = lowestAddress(f), f.Class == elf.ELFCLASS32
	c.table, c.err = compileCFI(f, cfiRoom(f))
	return c
}

func (m *Module) setImage(c imageCFI) error {
	if c.err != nil {
		return c.err
	}
	m.CFI, m.Bias = c.table, m.Start-c.lowest
	return nil
}

// maxImages is the most images that are kept: there is one for each kind of process, and those that a
// process has changed.
const maxImages = 8

// loadImage is Module.LoadImage with one table for all processes that have the same image.
func (c *CFICache) loadImage(pid int, m *Module) error {
	image, err := m.image(ProcessMemory(pid))
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if known, ok := c.onlyImage(m); ok { // the process may have ended: it had the one that all have
			return m.setImage(known)
		}
		return err
	}
	known, ok := c.images[string(image)]
	if !ok {
		known = compileImage(image)
		if len(c.images) >= maxImages || c.images == nil {
			c.images = make(map[string]imageCFI)
		}
		c.images[string(image)] = known
	}
	return m.setImage(known)
}

// onlyImage returns what is known of a module's image if all processes of its kind, of 32 or of 64 bits,
// have the same one. The caller holds mu.
func (c *CFICache) onlyImage(m *Module) (known imageCFI, ok bool) {
	narrow := m.End <= 1<<32
	for image, other := range c.images {
		if other.narrow != narrow {
			continue
		}
		if ok || uint64(len(image)) != m.End-m.Start {
			return imageCFI{}, false
		}
		known, ok = other, true
	}
	return known, ok
}

// recent returns what is known of a mapped file that was opened a moment ago, and that was last
// changed when that one was.
func (c *CFICache) recent(m *procfs.Mapping, changed int64) (FileCFI, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.latest[[2]uint64{m.Dev, m.Inode}]
	if !ok || last.path != m.Path || last.changed != changed || time.Since(last.at) > openedFor {
		return FileCFI{}, false
	}
	cached, ok := c.tables[last.key]
	return cached, ok
}

// openedNow notes that a file was opened. What is too old goes before there is more of it than
// of tables.
func (c *CFICache) openedNow(key fileKey, path string, changed int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == nil {
		c.latest = make(map[[2]uint64]openedFile)
	}
	now := time.Now()
	if len(c.latest) > 2*len(c.tables) {
		maps.DeleteFunc(c.latest, func(_ [2]uint64, o openedFile) bool { return now.Sub(o.at) > openedFor })
	}
	c.latest[[2]uint64{key.dev, key.inode}] = openedFile{key, path, now, changed}
}

// startFile accounts for the work of opening a file for a process.
func (c *CFICache) startFile(pid int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened.Chosen = c.Chosen
	return c.opened.Take(stranger.Owner{}, stranger.Party{PID: pid}, 1, filesLimit, time.Now())
}

func (c *CFICache) get(key fileKey) (FileCFI, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cached, ok := c.tables[key]
	return cached, ok
}

func (c *CFICache) put(key fileKey, cached FileCFI) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.tables[key]; ok {
		return
	}
	if c.tables == nil {
		c.tables = make(map[fileKey]FileCFI)
	}
	limit := c.maxBytes()
	c.tables[key] = cached
	c.order = append(c.order, key)
	c.size += cached.bytes()
	for c.size > limit && len(c.order) > 1 {
		c.size -= c.tables[c.order[0]].bytes()
		delete(c.tables, c.order[0])
		c.order = c.order[1:]
	}
}

func (c FileCFI) bytes() int64 {
	const fixed = 200
	if c.table == nil {
		return fixed
	}
	return fixed + int64(c.table.stats.Size)
}
