package perfdata

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/stack"
)

// File is a file that "perf record" wrote. It has samples with call chains, with branch
// stacks, or with registers and a piece of the stack (--call-graph dwarf), which are walked
// here. Records are sorted by time, so that every sample has the mappings that its process
// had then. The records of compressed files (-z) are held in memory, up to 1 GiB. A File is for
// one goroutine at a time.
type File struct {
	// Machine is the architecture whose numbers registers have: elf.EM_X86_64 if the file
	// does not state one.
	Machine elf.Machine
	// Root is the tree in which mapped files are looked up; nil means this machine's root.
	Root fs.FS

	r      io.ReaderAt
	closer io.Closer
	piped  bool // the events are described by records
	events []perfEvent
	ids    []eventID // by id
	data   section
	index  []perfRecord
	buf    []byte // a record
	// expanded are the records that were compressed.
	expanded []byte

	procs   map[uint32]*mappings
	comms   map[uint32]string // by thread
	files   map[string]*stack.FileCFI
	vdso    []byte // this process's, once it was needed
	release string // of the kernel, "" if it is not known
	room    int    // modules that may be made of mappings at once
	over    overlay
	errs    []error
	errors  int // how many there were
}

type section struct{ off, size uint64 }

// eventID is an id in records, and the index of the event that it stands for.
type eventID struct {
	id    uint64
	event int
}

// perfEvent is one event that was recorded.
type perfEvent struct {
	format   perfring.Format
	typ      uint32
	config   uint64
	regsUser uint64
}

// Sample is one sample of a File. It is valid until the next one is read.
type Sample struct {
	// PID and TID are the process and the thread, CPU is the CPU on which it ran.
	PID, TID, CPU int
	// Comm is the thread's name at that time, empty if it is not known.
	Comm string
	// Time is the time of the clock that was used for recording, by default the machine's.
	Time time.Duration
	// Period is the number of events that the sample stands for.
	Period uint64
	// Event is the index of the event.
	Event int
	// IP is the address of the interrupted instruction.
	IP uint64
	// Kernel is set if the sample was taken in the kernel.
	Kernel bool
	// Chain is the call chain as the kernel recorded it, innermost first. KernelFrames is
	// how many of its frames are the kernel's.
	Chain        []uint64
	KernelFrames int
	// Branches is the branch stack, newest first: from, to.
	Branches [][2]uint64
	// Regs and Stack are the user's registers and stack, to be walked; Regs is nil if there
	// are none. 32-bit programs have their own Machine.
	Regs  *stack.Regs
	Stack stack.MemoryRange
	// Modules are the process's executable mappings.
	Modules *stack.Modules
}

// Open opens a perf.data file. The caller must close it.
func Open(path string) (*File, error) {
	f, err := procfs.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil {
		var p *File
		if p, err = New(f, st.Size()); err == nil {
			p.closer = f
			return p, nil
		}
	}
	f.Close()
	return nil, fmt.Errorf("%s: %w", path, err)
}

// Close closes the file that Open opened.
func (p *File) Close() error {
	if p == nil || p.closer == nil {
		return nil
	}
	f := p.closer
	p.closer = nil
	return f.Close()
}

// Layout: tools/perf/util/header.h, struct perf_file_header and perf_file_attr.
const (
	magic           = "PERFILE2"
	headerSize      = 104
	perfAttrMin     = 64 // the first published struct perf_event_attr
	perfMaxAttrs    = 10000
	perfFeatRelease = 4 // HEADER_OSRELEASE
	perfFeatArch    = 6
	perfUserType    = 64 // records from here on are perf's own

	// Of a file that perf wrote to a pipe (struct perf_pipe_file_header).
	pipeHeaderSize    = 16
	perfHeaderAttr    = 64
	perfHeaderFeature = 80

	// Data that is no record follows these.
	perfTracingData = 66
	perfAuxtrace    = 71

	perfCompressed  = 81 // PERF_RECORD_COMPRESSED: a piece of a zstd stream of records
	perfCompressed2 = 83 // PERF_RECORD_COMPRESSED2: the same behind its uint64 length
	// maxExpanded bounds what compressed records may become in memory.
	maxExpanded = 1 << 30
)

// New reads the header of a perf.data file of the given size through r,
// which must stay readable.
func New(r io.ReaderAt, size int64) (*File, error) {
	le := binary.LittleEndian
	var h [headerSize]byte
	if n, err := r.ReadAt(h[:], 0); n < pipeHeaderSize || string(h[:8]) != magic ||
		err != nil && le.Uint64(h[8:]) != pipeHeaderSize {
		return nil, errors.New("not a perf.data file")
	}
	if le.Uint64(h[8:]) == pipeHeaderSize {
		return newPiped(r, size)
	}
	attrSize := le.Uint64(h[16:])
	attrs := section{le.Uint64(h[24:]), le.Uint64(h[32:])}
	p := &File{
		Machine: elf.EM_X86_64, r: r, files: make(map[string]*stack.FileCFI),
		data: section{le.Uint64(h[40:]), le.Uint64(h[48:])},
	}
	if err := checkSections(size, attrs, p.data); err != nil {
		return nil, err
	}
	if attrSize < perfAttrMin+16 || attrs.size/attrSize > perfMaxAttrs || attrs.size < attrSize {
		return nil, fmt.Errorf("perf.data: attributes of %d bytes", attrSize)
	}
	for off := attrs.off; off+attrSize <= attrs.off+attrs.size; off += attrSize {
		if err := p.readAttr(off, attrSize, size); err != nil {
			return nil, err
		}
	}
	p.sortIDs()
	for _, feature := range []int{perfFeatRelease, perfFeatArch} {
		p.setFeature(feature, p.readFeature(feature, h[72:], size))
	}
	return p, p.readIndex()
}

// newPiped reads a file that perf wrote to a pipe: "perf record -o - > FILE". Records describe
// the events before these occur.
func newPiped(r io.ReaderAt, size int64) (*File, error) {
	p := &File{
		Machine: elf.EM_X86_64, r: r, files: make(map[string]*stack.FileCFI), piped: true,
		data: section{pipeHeaderSize, uint64(max(size, pipeHeaderSize)) - pipeHeaderSize},
	}
	if err := checkSections(size, p.data); err != nil {
		return nil, err
	}
	return p, p.readIndex()
}

// readPiped reads a record about the events or the machine.
func (p *File) readPiped(raw *perfring.Raw) error {
	le := binary.LittleEndian
	switch raw.Type {
	case perfHeaderAttr: // struct perf_event_attr, ids
		if len(raw.Data) < perfAttrMin {
			return fmt.Errorf("perf.data: an attribute of %d bytes", len(raw.Data))
		}
		attrSize := uint64(le.Uint32(raw.Data[4:])) // perf_event_attr.size
		if attrSize < perfAttrMin || attrSize > uint64(len(raw.Data)) ||
			len(p.events) >= perfMaxAttrs {
			return fmt.Errorf("perf.data: attribute %d has %d bytes", len(p.events), attrSize)
		}
		p.addEvent(raw.Data[:attrSize], raw.Data[attrSize:])
		p.sortIDs()
	case perfHeaderFeature: // u64, the feature's section
		if len(raw.Data) > 12 {
			p.setFeature(int(min(le.Uint64(raw.Data), 256)), raw.Data[8:])
		}
	}
	return nil
}

func (p *File) sortIDs() {
	slices.SortFunc(p.ids, func(a, b eventID) int { return cmp.Compare(a.id, b.id) })
}

// addEvent adds an event by its struct perf_event_attr, of which an old one may lack the end,
// and its ids.
func (p *File) addEvent(attr, ids []byte) {
	const sampleIDAll = 1 << 18
	le := binary.LittleEndian
	b := make([]byte, max(len(attr), 160)) // what a short one lacks is zero
	copy(b, attr)
	for ; len(ids) >= 8; ids = ids[8:] {
		p.ids = append(p.ids, eventID{le.Uint64(ids), len(p.events)})
	}
	p.events = append(p.events, perfEvent{
		typ: le.Uint32(b), config: le.Uint64(b[8:]), regsUser: le.Uint64(b[80:]),
		format: perfring.Format{
			SampleType: le.Uint64(b[24:]), ReadFormat: le.Uint64(b[32:]),
			BranchSampleType: le.Uint64(b[72:]), RegsUser: le.Uint64(b[80:]), RegsIntr: le.Uint64(b[96:]),
			SampleIDAll: le.Uint64(b[40:])&sampleIDAll != 0,
		},
	})
}

// setFeature sets what the section of a feature says: a length, a text.
func (p *File) setFeature(feature int, b []byte) {
	if len(b) < 4 {
		return
	}
	text, _, _ := strings.Cut(string(b[4:]), "\x00")
	switch feature {
	case perfFeatArch:
		if strings.HasPrefix(text, "aarch64") {
			p.Machine = elf.EM_AARCH64
		}
	case perfFeatRelease:
		p.release = text
	}
}

func checkSections(size int64, list ...section) error {
	if size >= maxOffset {
		return fmt.Errorf("perf.data: %d bytes", size)
	}
	for _, s := range list {
		if s.off > uint64(size) || s.size > uint64(size)-s.off {
			return errors.New("perf.data: a section lies outside of the file")
		}
	}
	return nil
}

// readAttr reads one struct perf_event_attr and its ids.
func (p *File) readAttr(off, attrSize uint64, size int64) error {
	b := make([]byte, attrSize)
	if _, err := p.r.ReadAt(b, int64(off)); err != nil {
		return fmt.Errorf("perf.data: %w", err)
	}
	le := binary.LittleEndian
	ids := section{le.Uint64(b[attrSize-16:]), le.Uint64(b[attrSize-8:])}
	if err := checkSections(size, ids); err != nil {
		return err
	}
	// Each event has ids of its own: many that share them would be a small file's much work.
	if ids.size+8*uint64(len(p.ids)) > uint64(size) {
		return errors.New("perf.data: the events' ids are more than the file")
	}
	list := make([]byte, ids.size&^7)
	if _, err := p.r.ReadAt(list, int64(ids.off)); err != nil && len(list) > 0 {
		return fmt.Errorf("perf.data: ids: %w", err)
	}
	p.ids = slices.Grow(p.ids, len(list)/8)
	p.addEvent(b[:attrSize-16], list)
	return nil
}

// readFeature reads the section of a feature, nil if there is none. Features stand behind the data,
// one section for each bit that is set.
func (p *File) readFeature(feature int, features []byte, size int64) []byte {
	word := binary.LittleEndian.Uint64(features)
	if word&(1<<feature) == 0 {
		return nil
	}
	n := bits.OnesCount64(word & (1<<feature - 1))
	var s [16]byte
	if _, err := p.r.ReadAt(s[:], int64(p.data.off+p.data.size)+int64(16*n)); err != nil {
		return nil
	}
	sec := section{binary.LittleEndian.Uint64(s[:]), binary.LittleEndian.Uint64(s[8:])}
	if checkSections(size, sec) != nil || sec.size > 4096 {
		return nil
	}
	b := make([]byte, sec.size)
	if _, err := p.r.ReadAt(b, int64(sec.off)); err != nil {
		return nil
	}
	return b
}

// event returns the number of the event that an id stands for.
func (p *File) event(id uint64) int {
	i, ok := slices.BinarySearchFunc(p.ids, id, func(e eventID, id uint64) int {
		return cmp.Compare(e.id, id)
	})
	if !ok {
		return 0 // unknown ids, and files without ids, mean the first
	}
	return p.ids[i].event
}

// decode decodes a record by its event's format. Where events differ in it,
// perf has put the id where it can be found without knowing the event: first in
// samples, last in other records.
func (p *File) decode(raw *perfring.Raw, rec *perfring.Record) error {
	const identifier = 1 << 16
	n := 0
	if len(p.events) == 0 {
		return errors.New("no record describes its event")
	}
	if f := &p.events[0].format; len(p.events) > 1 && f.SampleType&identifier != 0 &&
		len(raw.Data) >= 8 {
		at := 0
		if raw.Type != perfring.TypeSample {
			at = len(raw.Data) - 8
		}
		n = p.event(binary.LittleEndian.Uint64(raw.Data[at:]))
	}
	return p.events[n].format.Decode(raw, rec)
}

// Samples yields the samples in the order of time. The function that it returns reports
// after the loop what could not be read: a malformed record ends the loop, files whose call
// frame information is missing do not.
func (p *File) Samples() (iter.Seq[*Sample], func() error) {
	var failed error
	return func(yield func(*Sample) bool) {
			p.procs, p.comms = make(map[uint32]*mappings), make(map[uint32]string)
			p.errs, p.errors = nil, 0
			p.room = fewModules + len(p.index)
			var rec perfring.Record
			var s Sample
			var regs stack.Regs
			for _, r := range p.index {
				raw, err := p.raw(r.at)
				if err == nil {
					err = p.decode(&raw, &rec)
				}
				if err != nil {
					failed = fmt.Errorf("perf.data: record at %#x: %w", r.at.offset(), err)
					return
				}
				if rec.Type != perfring.TypeSample {
					p.follow(&rec)
					continue
				}
				p.fill(&s, &regs, &rec)
				if !yield(&s) {
					return
				}
			}
		}, func() error {
			errs := append(slices.Clone(p.errs), failed)
			if n := p.errors - len(p.errs); n > 0 {
				errs = append(errs, fmt.Errorf("and %d more", n))
			}
			return errors.Join(errs...)
		}
}

func (p *File) process(pid uint32) *mappings {
	proc := p.procs[pid]
	if proc == nil {
		proc = &mappings{}
		p.procs[pid] = proc
	}
	return proc
}

// follow keeps track of processes.
func (p *File) follow(rec *perfring.Record) {
	switch rec.Type {
	case perfring.TypeMmap, perfring.TypeMmap2:
		m := &rec.Mmap
		const protExec = 4
		data := rec.Misc&perfring.MiscMmapData != 0 ||
			rec.Type == perfring.TypeMmap2 && m.Protection&protExec == 0
		if m.PID == ^uint32(0) || data && !isFile(m.Path) {
			return
		}
		p.mapped(m, data)
	case perfring.TypeComm:
		if rec.Comm.Exec {
			delete(p.procs, rec.Comm.PID)
		}
		p.comms[rec.Comm.TID] = rec.Comm.Name
	case perfring.TypeFork:
		t := &rec.Task
		if t.PID != t.PPID {
			p.forked(t.PPID, t.PID)
		}
		if name, ok := p.comms[t.PTID]; ok {
			p.comms[t.TID] = name
		} else {
			delete(p.comms, t.TID)
		}
	}
}

// fill makes a sample of a record.
func (p *File) fill(s *Sample, regs *stack.Regs, rec *perfring.Record) {
	r := &rec.Sample
	*s = Sample{
		PID: int(r.PID), TID: int(r.TID), CPU: int(r.CPU), Comm: p.comms[r.TID],
		Time: time.Duration(r.Time), Period: r.Period, Event: p.event(r.ID), IP: r.IP,
		Kernel: rec.Misc&perfring.MiscCPUMode == perfring.MiscKernel, Chain: s.Chain[:0],
		Branches: s.Branches[:0],
	}
	// Markers stand before the parts of a call chain (enum perf_callchain_context).
	const contextMax, contextKernel = ^uint64(4094), ^uint64(127)
	kernel := s.Kernel
	for _, pc := range r.Callchain {
		if pc >= contextMax {
			kernel = pc == contextKernel
			continue
		}
		s.Chain = append(s.Chain, pc)
		if kernel {
			s.KernelFrames++
		}
	}
	for _, b := range r.Branches {
		s.Branches = append(s.Branches, [2]uint64{b.From, b.To})
	}
	if s.Modules = p.modules(r.PID); r.UserABI == abi32 || r.UserABI == abi64 {
		p.userRegs(regs, r.UserABI, p.events[s.Event].regsUser, r.UserRegs)
		s.Regs = regs
		s.Stack = stack.MemoryRange{Addr: regs.SP(), Data: r.UserStack}
	}
}

// amd64PerfRegs gives the DWARF numbers of enum perf_event_x86_regs.
var amd64PerfRegs = [24]int{
	stack.AMD64RAX, stack.AMD64RBX, stack.AMD64RCX, stack.AMD64RDX, stack.AMD64RSI, stack.AMD64RDI,
	stack.AMD64RBP, stack.AMD64RSP, stack.AMD64RIP, -1, -1, -1, -1, -1, -1, -1, stack.AMD64R8,
	stack.AMD64R9, stack.AMD64R10, stack.AMD64R11, stack.AMD64R12, stack.AMD64R13, stack.AMD64R14,
	stack.AMD64R15,
}

// i386PerfRegs does so for 32-bit code.
var i386PerfRegs = [24]int{
	stack.I386EAX, stack.I386EBX, stack.I386ECX, stack.I386EDX, stack.I386ESI, stack.I386EDI,
	stack.I386EBP, stack.I386ESP, stack.I386EIP, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
}

// Values of enum perf_sample_regs_abi.
const (
	abiNone = 0
	abi32   = 1
	abi64   = 2
)

func (p *File) userRegs(regs *stack.Regs, abi uint64, mask uint64, values []uint64) {
	*regs = stack.Regs{Machine: p.Machine}
	numbers, low := &amd64PerfRegs, ^uint64(0)
	if abi == abi32 {
		regs.Machine, numbers, low = elf.EM_386, &i386PerfRegs, math.MaxUint32
		if p.Machine == elf.EM_AARCH64 {
			regs.Machine = elf.EM_ARM
		}
	}
	for _, v := range values {
		if mask == 0 {
			return
		}
		n := bits.TrailingZeros64(mask)
		mask &= mask - 1
		if p.Machine == elf.EM_X86_64 {
			if n >= len(numbers) {
				return
			}
			n = numbers[n]
		} else if regs.Machine == elf.EM_ARM && n >= stack.ARMPC { // what r15 is elsewhere
			if n != stack.ARM64PC {
				continue
			}
			n = stack.ARMPC
		}
		regs.Set(n, v&low) // arm64's numbers are DWARF's
	}
}
