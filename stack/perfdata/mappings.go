package perfdata

import (
	"debug/elf"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/stack"
)

// mappings are a process's, at a moment. A child begins with its parent's.
type mappings struct {
	mods    *stack.Modules // as they were; nil stands for none
	changes *change        // since then, the newest first
	own     int            // how many of them are since the fork
	last    located        // the newest one of code in mods
	behind  bool           // that mods are behind has been said
}

// change is a mapping that was made. Children have those of their parents.
type change struct {
	before     *change
	n          int // how many there are with this one
	start, end uint64
	offset     uint64
	path       string
	data       bool // of a file, without code
}

// located is a mapping by which the next one of its file is found.
type located struct {
	start, end, bias uint64
	name             string
}

// fewModules and one for each record is how many modules are made of mappings at once: the
// processes that were recorded decide upon that work. One that always maps between two
// samples would have all of its mappings gone through each time. When that many have been
// made, its samples have the mappings as they were, until as many have been made anew. Real
// programs make some dozens, most of them before they are at work.
const fewModules = 64 << 10

// maxErrors is how many files that could not be used are named.
const maxErrors = 100

func (p *File) complain(format string, args ...any) {
	if p.errors++; p.errors <= maxErrors {
		p.errs = append(p.errs, fmt.Errorf(format, args...))
	}
}

// isFile says whether a mapping is a file's: perf calls others "//anon" and
// "[stack]".
func isFile(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//")
}

// mapped notes a mapping.
func (p *File) mapped(m *perfring.Mmap, data bool) {
	end := m.Addr + m.Len
	if end <= m.Addr {
		return
	}
	proc := p.process(m.PID)
	c := &change{
		before: proc.changes, n: 1, start: m.Addr, end: end, offset: m.PageOff, path: m.Path,
		data: data,
	}
	if c.before != nil {
		c.n += c.before.n
	}
	proc.changes = c
	proc.own++
}

// forked gives a process its parent's mappings. Those that many would have to be made of
// again and again are made of them first.
func (p *File) forked(parent, child uint32) {
	from := p.procs[parent]
	if from == nil {
		delete(p.procs, child)
		return
	}
	if from.due() {
		p.settle(from)
	}
	p.procs[child] = &mappings{mods: from.mods, changes: from.changes, last: from.last}
}

// due says that so much has changed that mods are made anew, however often that is.
func (m *mappings) due() bool {
	return m.changes != nil && m.own >= len(m.mods.All())+len(m.mods.Data())
}

// modules returns the mappings of a process as they are now.
func (p *File) modules(pid uint32) *stack.Modules {
	proc := p.procs[pid]
	if proc == nil {
		return noModules
	}
	if proc.changes != nil {
		switch n := len(proc.mods.All()) + len(proc.mods.Data()) + proc.changes.n; {
		case n <= p.room:
			p.room -= n
			p.settle(proc)
		case proc.due():
			p.settle(proc)
		case !proc.behind:
			proc.behind = true
			p.complain("process %d maps so often that its samples may lack half of its mappings", pid)
		}
	}
	if proc.mods == nil {
		return noModules
	}
	return proc.mods
}

var noModules = stack.NewModules()

// settle applies the changes. A later mapping hides what was there before.
func (p *File) settle(proc *mappings) {
	o := &p.over
	n := proc.changes.n
	o.changes, o.code, o.data = slices.Grow(o.changes[:0], n), slices.Grow(o.code[:0], n), o.data[:0]
	for c := proc.changes; c != nil; c = c.before {
		o.changes = append(o.changes, c)
	}
	for _, c := range slices.Backward(o.changes) {
		m := stack.Module{Start: c.start, End: c.end, Offset: c.offset, Name: c.path}
		if c.data {
			o.data = append(o.data, m)
			continue
		}
		if c.path == "[vdso]" {
			p.loadVDSO(&m)
		} else if isFile(c.path) {
			o.before = o.before[:0]
			if l := &proc.last; l.start < c.start || l.end > c.end { // it is not hidden
				o.before = append(o.before,
					stack.Module{Start: l.start, End: l.end, Bias: l.bias, Name: l.name})
			}
			p.loadModule(&m, o.before)
		}
		o.code = append(o.code, m)
		proc.last = located{m.Start, m.End, m.Bias, m.Name}
	}
	data := proc.mods.Data()
	mods := stack.NewModules(o.put(proc.mods.All(), o.code)...)
	if len(data)+len(o.data) > 0 {
		mods = mods.WithData(o.put(data, o.data)...)
	}
	proc.mods, proc.changes, proc.own = mods, nil, 0
	clear(o.changes)
}

// loadVDSO has the rules of the kernel's code in processes from this process, as perf does: no file has
// them. They are those of the recorded machine if its kernel and architecture are this machine's.
func (p *File) loadVDSO(m *stack.Module) {
	if p.Root != nil || p.release == "" || p.release != feature.Release() || p.Machine != ownMachine() {
		return
	}
	if p.vdso == nil {
		p.vdso = ownVDSO()
	}
	if uint64(len(p.vdso)) != m.End-m.Start {
		return
	}
	if err := m.LoadImage(image{m.Start, p.vdso}); err != nil {
		p.complain("[vdso]: %w", err)
	}
}

// ownMachine returns the machine of this process.
func ownMachine() elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
}

// ownVDSO returns the image of the vDSO in this process, nil if there is none.
func ownVDSO() (b []byte) {
	pid := os.Getpid()
	_ = procfs.EachMapping(pid, func(m *procfs.Mapping) bool {
		if m.Path != "[vdso]" {
			return true
		}
		b = make([]byte, m.End-m.Start)
		if procfs.ReadMemory(pid, b, m.Start) != nil {
			b = nil
		}
		return false
	})
	return b
}

// image is memory from an address on.
type image struct {
	start uint64
	data  []byte
}

// ReadMemory implements stack.Memory.
func (i image) ReadMemory(dst []byte, addr uint64) error {
	if addr < i.start || addr-i.start > uint64(len(i.data)) || uint64(len(dst)) > uint64(len(i.data))-(addr-i.start) {
		return fmt.Errorf("%d bytes at %#x are not in the image", len(dst), addr)
	}
	copy(dst, i.data[addr-i.start:])
	return nil
}

func (p *File) loadModule(m *stack.Module, before []stack.Module) {
	file, known := p.files[m.Name]
	if !known {
		var err error
		if file, err = stack.ReadFileCFI(p.Root, m.Name, ""); err != nil {
			p.complain("%s: %w", m.Name, err)
		}
		p.files[m.Name] = file
	}
	file.Locate(m, before)
}

// overlay lays mappings over others. It has memory that is used again.
type overlay struct {
	changes            []*change
	code, data, before []stack.Module

	out    []stack.Module
	bounds []uint64 // where any mapping begins or ends
	next   []int32  // by stretch between two bounds: the next one that nothing covers
	owner  []int32  // the mapping that covers it, -1: none
}

// put returns what is to be seen of old mappings, which are in order and don't overlap,
// under added ones, each of which hides what was there before; in order too, until the
// next call. It takes time as sorting them does.
func (o *overlay) put(old, added []stack.Module) []stack.Module {
	if len(added) == 0 {
		return old
	}
	at := func(i int32) *stack.Module {
		if n := int(i) - len(old); n >= 0 {
			return &added[n]
		}
		return &old[i]
	}
	n := int32(len(old) + len(added))
	o.bounds = slices.Grow(o.bounds[:0], int(2*n))
	for i := range n {
		o.bounds = append(o.bounds, at(i).Start, at(i).End)
	}
	slices.Sort(o.bounds)
	o.bounds = slices.Compact(o.bounds)
	o.next, o.owner = slices.Grow(o.next[:0], len(o.bounds)), slices.Grow(o.owner[:0], len(o.bounds))
	for i := range o.bounds {
		o.next, o.owner = append(o.next, int32(i)), append(o.owner, -1)
	}
	for i := n - 1; i >= 0; i-- { // the newest first: what it covers stays covered
		m := at(i)
		from, _ := slices.BinarySearch(o.bounds, m.Start)
		for s := o.free(int32(from)); o.bounds[s] < m.End; s = o.free(s) {
			o.owner[s], o.next[s] = i, s+1
		}
	}
	begins := func(s int) bool { return o.owner[s] >= 0 && (s == 0 || o.owner[s-1] != o.owner[s]) }
	pieces := 0
	for s := range o.owner {
		if begins(s) {
			pieces++
		}
	}
	o.out = slices.Grow(o.out[:0], pieces)
	for s, i := range o.owner {
		if i < 0 {
			continue
		}
		from, to := o.bounds[s], o.bounds[s+1]
		if !begins(s) {
			o.out[len(o.out)-1].End = to
			continue
		}
		m := *at(i)
		m.Offset += from - m.Start
		m.Start, m.End = from, to
		o.out = append(o.out, m)
	}
	return o.out
}

// free is the first stretch from s on that nothing covers.
func (o *overlay) free(s int32) int32 {
	for o.next[s] != s {
		o.next[s] = o.next[o.next[s]]
		s = o.next[s]
	}
	return s
}
