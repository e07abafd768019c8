package core

import (
	"bufio"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/stack"
)

// Sizes that bound the output of Write.
const (
	coreRedZone   = 256     // bytes below a stack pointer
	coreFrame     = 512     // bytes above it
	coreGrain     = 64      // what is kept of a stack that can be walked begins and ends at multiples
	coreStackMax  = 1 << 20 // bytes of a stack that can't
	coreHeaderMax = 4 << 10 // of a mapped file: its ELF header and notes
	coreFrames    = 10 * stack.MaxFrames
)

// Write writes a core file that holds only what walking the threads' stacks needs: the
// notes, the part of each stack that a walk over m (File.Modules, or nil) reads, and whole
// stacks where the walk does not reach the thread's start. For debuggers it also has the
// mapped files' headers and the loader's list of libraries. It is a valid core file, which
// gdb walks too (eu-stack needs more of the libraries); compressed it has some ten
// kilobytes. The memory that the functions of keep read from their argument is kept too:
// python.Interpreter.Keep makes one.
func Write(w io.Writer, c *File, m *stack.Modules, keep ...func(stack.Memory)) error {
	out := coreWriter{w: bufio.NewWriter(w), c: c}
	wanted := slices.Concat(c.stackRanges(m), c.libraryList(), c.headers(), c.keptRanges(keep))
	wanted = mergeRanges(wanted)
	for i := range c.segs {
		out.keep(&c.segs[i], wanted)
	}
	if len(out.parts) > 1<<16-2 {
		return errors.New("core file: too many segments")
	}
	return out.write()
}

// addrRange is a stretch of memory.
type addrRange struct{ from, to uint64 }

type coreWriter struct {
	w     *bufio.Writer
	c     *File
	parts []coreSegment // what is kept; off is in the old file
}

// mergeRanges sorts ranges, and joins those that overlap or nearly touch: a
// segment of its own costs as much as a few words.
func mergeRanges(list []addrRange) []addrRange {
	slices.SortFunc(list, func(a, b addrRange) int { return cmp.Compare(a.from, b.from) })
	out := list[:0]
	for _, r := range list {
		if n := len(out); n > 0 && r.from-min(r.from, out[n-1].to) < coreGrain {
			out[n-1].to = max(out[n-1].to, r.to)
			continue
		}
		out = append(out, r)
	}
	return out
}

// keep notes what to keep of a segment: parts with contents, and what is around
// them without, so that the mappings stay whole.
func (o *coreWriter) keep(s *coreSegment, wanted []addrRange) {
	held, at := s.addr+s.size, s.addr
	for _, r := range wanted {
		r = addrRange{max(r.from, s.addr), min(r.to, held)}
		if r.from >= r.to {
			continue
		}
		if r.from > at {
			o.parts = append(o.parts, coreSegment{addr: at, memsz: r.from - at, flags: s.flags})
		}
		n := r.to - r.from
		o.parts = append(o.parts,
			coreSegment{addr: r.from, memsz: n, off: s.off + r.from - s.addr, size: n, flags: s.flags})
		at = r.to
	}
	if at < s.end() || s.memsz == 0 {
		o.parts = append(o.parts, coreSegment{addr: at, memsz: s.end() - at, flags: s.flags})
	}
}

// stackRanges are the parts of the threads' stacks that a walk reads, and the
// vDSO if it leads through it.
func (c *File) stackRanges(m *stack.Modules) []addrRange {
	var out []addrRange
	frames := make([]stack.Frame, coreFrames)
	vdso := c.segment(c.vdso)
	w := stack.CFIWalker{Modules: m}
	for i := range c.Threads {
		regs := &c.Threads[i].Regs
		sp := regs.SP()
		read := recordingMemory{mem: c}
		n, end := w.Walk(frames, regs, &read)
		size := uint64(coreFrame)
		if end == stack.StopBottom {
			out = append(out, read.ranges...)
		} else {
			size = coreStackMax
		}
		out = append(out, addrRange{sp - min(sp, coreRedZone), sp + min(size, math.MaxUint64-sp)})
		if vdso != nil && slices.ContainsFunc(frames[:n], func(f stack.Frame) bool {
			return f.PC >= vdso.addr && f.PC < vdso.end()
		}) {
			out = append(out, addrRange{vdso.addr, vdso.end()})
		}
	}
	return out
}

// keptRanges are the parts of the memory that these read.
func (c *File) keptRanges(keep []func(stack.Memory)) []addrRange {
	read := recordingMemory{mem: c}
	for _, f := range keep {
		f(&read)
	}
	return read.ranges
}

// recordingMemory notes what is read.
type recordingMemory struct {
	mem    stack.Memory
	ranges []addrRange
}

func (r *recordingMemory) ReadMemory(dst []byte, addr uint64) error {
	err := r.mem.ReadMemory(dst, addr)
	if err == nil {
		end := addr + uint64(len(dst))
		r.ranges = append(r.ranges,
			addrRange{addr &^ (coreGrain - 1), (end + coreGrain - 1) &^ (coreGrain - 1)})
	}
	return err
}

// headers are the ELF headers and notes at the beginning of mapped files, by
// which a debugger makes sure that it has the right ones.
func (c *File) headers() []addrRange {
	var out []addrRange
	var page [coreHeaderMax]byte
	l, le := c.layout(), binary.LittleEndian
	for i := range c.segs {
		s := &c.segs[i]
		b := page[:min(s.size, coreHeaderMax)]
		if len(b) < layout64.ehdr || c.ReadMemory(b, s.addr) != nil || string(b[:4]) != elf.ELFMAG {
			continue
		}
		end, phdr := uint64(l.ehdr), uint64(l.phdr)
		for at, n := l.at(b, l.phoff), le.Uint16(b[l.phnum:]); n > 0 && at <= uint64(len(b))-phdr; at, n = at+phdr, n-1 {
			end = max(end, at+phdr)
			p := b[at:]
			if off, size := l.at(p, l.offset), l.at(p, l.size); elf.ProgType(le.Uint32(p)) == elf.PT_NOTE &&
				off < uint64(len(b)) && size < uint64(len(b)) {
				end = max(end, off+size)
			}
		}
		out = append(out, addrRange{s.addr, s.addr + end})
	}
	return out
}

// maxLibraries bounds the loader's list, which a corrupted process may have made
// a circle.
const maxLibraries = 4096

// libraryList is where the loader's list of libraries and their names lie: from
// the program's DT_DEBUG through struct r_debug (link.h).
func (c *File) libraryList() []addrRange {
	debug, dynamic, ok := c.rDebug()
	if !ok {
		return nil
	}
	word := uint64(c.layout().word)
	out := append(dynamic, addrRange{debug, debug + 5*word})
	at, ok := c.word(debug + word) // r_map
	for n := 0; ok && at != 0 && n < maxLibraries; n++ {
		out = append(out, addrRange{at, at + 5*word})
		if name, ok := c.word(at + word); ok { // l_name
			out = append(out, addrRange{name, name + min(256, math.MaxUint64-name)})
		}
		at, ok = c.word(at + 3*word) // l_next
	}
	return out
}

// rDebug finds struct r_debug by the program's dynamic section, and says what it
// read to find it.
func (c *File) rDebug() (debug uint64, read []addrRange, ok bool) {
	const dtDebug = 21
	l := c.layout()
	phdr, word := uint64(l.phdr), uint64(l.word)
	var bias, dynamic uint64
	var room [64]byte
	for i := range min(c.phnum, 128) {
		p := room[:phdr]
		if c.ReadMemory(p, c.phdr+i*phdr) != nil {
			return 0, nil, false
		}
		vaddr := l.at(p, l.vaddr)
		switch elf.ProgType(binary.LittleEndian.Uint32(p)) {
		case elf.PT_PHDR:
			bias = c.phdr - vaddr
		case elf.PT_DYNAMIC:
			dynamic = vaddr
		}
	}
	if dynamic == 0 {
		return 0, nil, false
	}
	from := dynamic + bias
	read = append(read, addrRange{c.phdr, c.phdr + c.phnum*phdr})
	for at, n := from, 0; n < 1000; at, n = at+2*word, n+1 {
		tag, held := c.word(at)
		if !held || tag == 0 {
			return debug, append(read, addrRange{from, at + 2*word}), ok
		}
		if tag == dtDebug {
			debug, ok = c.word(at + word)
		}
	}
	return 0, nil, false
}

func (c *File) word(addr uint64) (uint64, bool) {
	var b [8]byte
	err := c.ReadMemory(b[:c.layout().word], addr)
	return binary.LittleEndian.Uint64(b[:]), err == nil // what was not read is zero
}

func (o *coreWriter) write() error {
	l, le := o.c.layout(), binary.LittleEndian
	var notes []byte
	for _, n := range o.c.notes {
		list, _ := elfnotes.All(n.b, le, n.align) // they were read before, without an error
		for n := range list {
			notes = elfnotes.Append(notes, n, 4)
		}
	}
	phnum := len(o.parts) + 1
	off := uint64(l.ehdr + phnum*l.phdr)
	hdr := elf.Header64{
		Type: uint16(elf.ET_CORE), Machine: uint16(o.c.Machine), Version: 1, Phoff: uint64(l.ehdr),
		Ehsize: uint16(l.ehdr), Phentsize: uint16(l.phdr), Phnum: uint16(phnum),
	}
	copy(hdr.Ident[:], elf.ELFMAG)
	hdr.Ident[elf.EI_CLASS], hdr.Ident[elf.EI_DATA], hdr.Ident[elf.EI_VERSION] = byte(l.class),
		byte(elf.ELFDATA2LSB), 1
	o.header(&hdr)
	o.program(&elf.Prog64{Type: uint32(elf.PT_NOTE), Off: off, Filesz: uint64(len(notes)), Align: 4})
	end := off + uint64(len(notes))
	data := (end + 4095) &^ 4095
	pad := data - end
	for _, s := range o.parts {
		o.program(&elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(s.flags), Off: data, Vaddr: s.addr,
			Filesz: s.size, Memsz: s.memsz, Align: 1,
		})
		data += s.size
	}
	_, _ = o.w.Write(notes)
	_, _ = o.w.Write(make([]byte, pad))
	for _, s := range o.parts {
		if _, err := io.Copy(o.w, io.NewSectionReader(o.c.r, int64(s.off), int64(s.size))); err != nil {
			return err
		}
	}
	return o.w.Flush()
}

// header writes the file's header. Errors stay in the bufio.Writer.
func (o *coreWriter) header(h *elf.Header64) {
	if o.c.layout().word == 8 {
		_ = binary.Write(o.w, binary.LittleEndian, h)
		return
	}
	_ = binary.Write(o.w, binary.LittleEndian, &elf.Header32{
		Ident: h.Ident, Type: h.Type, Machine: h.Machine, Version: h.Version, Phoff: uint32(h.Phoff),
		Ehsize: h.Ehsize, Phentsize: h.Phentsize, Phnum: h.Phnum,
	})
}

// program writes a program header.
func (o *coreWriter) program(p *elf.Prog64) {
	if o.c.layout().word == 8 {
		_ = binary.Write(o.w, binary.LittleEndian, p)
		return
	}
	_ = binary.Write(o.w, binary.LittleEndian, &elf.Prog32{
		Type: p.Type, Off: uint32(p.Off), Vaddr: uint32(p.Vaddr), Filesz: uint32(p.Filesz), Memsz: uint32(p.Memsz),
		Flags: p.Flags, Align: uint32(p.Align),
	})
}

// Thread returns the thread with the number tid, nil if there is none.
func (c *File) Thread(tid int) *Thread {
	i := slices.IndexFunc(c.Threads, func(t Thread) bool { return t.TID == tid })
	if i < 0 {
		return nil
	}
	return &c.Threads[i]
}
