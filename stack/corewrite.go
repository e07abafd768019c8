package stack

import (
	"bufio"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
)

// Sizes that WriteCore keeps by.
const (
	coreRedZone   = 256      // bytes below a stack pointer
	coreStackMax  = 1 << 20  // bytes of a stack above it
	coreDataMax   = 48 << 10 // writable segments up to this size are kept: the loader's lists
	coreHeaderMax = 4 << 10  // of a mapped file: its ELF header and notes
)

// WriteCore writes a core file that holds only what walking the threads' stacks
// needs: the notes, every stack from just below its stack pointer, the vDSO, and
// for debuggers the first page of every mapped file, small writable segments and
// the loader's list of libraries. It is a valid core file, which gdb and eu-stack
// walk too, of a few hundred kilobytes that compress well.
func WriteCore(w io.Writer, c *Core) error {
	out := coreWriter{w: bufio.NewWriter(w), c: c}
	wanted := append(c.stackRanges(), c.libraryList()...)
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
	c     *Core
	parts []coreSegment // what is kept; off is in the old file
}

// keep notes what to keep of a segment: parts with contents, and what is around
// them without, so that the mappings stay whole.
func (o *coreWriter) keep(s *coreSegment, wanted []addrRange) {
	held := s.addr + s.size
	var ranges []addrRange
	switch {
	case s.flags&elf.PF_W != 0 && s.size <= coreDataMax, o.c.vdso >= s.addr && o.c.vdso < s.end(),
		s.flags&elf.PF_W == 0 && s.size <= coreHeaderMax:
		ranges = []addrRange{{s.addr, held}}
	default:
		for _, w := range wanted {
			if r := (addrRange{max(w.from&^4095, s.addr), min((w.to+4095)&^4095, held)}); w.to > w.from && r.from < r.to {
				ranges = append(ranges, r)
			}
		}
		slices.SortFunc(ranges, func(a, b addrRange) int { return cmp.Compare(a.from, b.from) })
	}
	at := s.addr
	for _, r := range ranges {
		if r.from = max(r.from, at); r.from >= r.to {
			continue
		}
		if r.from > at {
			o.parts = append(o.parts, coreSegment{addr: at, memsz: r.from - at, flags: s.flags})
		}
		n := r.to - r.from
		o.parts = append(o.parts, coreSegment{addr: r.from, memsz: n, off: s.off + r.from - s.addr, size: n, flags: s.flags})
		at = r.to
	}
	if at < s.end() || s.memsz == 0 {
		o.parts = append(o.parts, coreSegment{addr: at, memsz: s.end() - at, flags: s.flags})
	}
}

// stackRanges are the used parts of the threads' stacks.
func (c *Core) stackRanges() []addrRange {
	var out []addrRange
	for i := range c.Threads {
		sp := c.Threads[i].Regs.SP()
		out = append(out, addrRange{sp - min(sp, coreRedZone), sp + min(coreStackMax, math.MaxUint64-sp)})
	}
	return out
}

// maxLibraries bounds the loader's list, which a corrupted process may have made
// a circle.
const maxLibraries = 4096

// libraryList is where the loader's list of libraries and their names lie: from
// the program's DT_DEBUG through struct r_debug (link.h).
func (c *Core) libraryList() []addrRange {
	debug, ok := c.rDebug()
	if !ok {
		return nil
	}
	out := []addrRange{{debug, debug + 40}}
	at, ok := c.word(debug + 8) // r_map
	for n := 0; ok && at != 0 && n < maxLibraries; n++ {
		out = append(out, addrRange{at, at + 40})
		if name, ok := c.word(at + 8); ok { // l_name
			out = append(out, addrRange{name, name + min(256, math.MaxUint64-name)})
		}
		at, ok = c.word(at + 24) // l_next
	}
	return out
}

// rDebug finds struct r_debug by the program's dynamic section.
func (c *Core) rDebug() (uint64, bool) {
	const phdrSize, dtDebug = 56, 21
	var bias, dynamic uint64
	for i := range min(c.phnum, 128) {
		var p [phdrSize]byte
		if c.ReadMemory(p[:], c.phdr+i*phdrSize) != nil {
			return 0, false
		}
		vaddr := binary.LittleEndian.Uint64(p[16:])
		switch elf.ProgType(binary.LittleEndian.Uint32(p[:])) {
		case elf.PT_PHDR:
			bias = c.phdr - vaddr
		case elf.PT_DYNAMIC:
			dynamic = vaddr
		}
	}
	if dynamic == 0 {
		return 0, false
	}
	for at, n := dynamic+bias, 0; n < 1000; at, n = at+16, n+1 {
		tag, ok := c.word(at)
		if !ok || tag == 0 {
			return 0, false
		}
		if tag == dtDebug {
			return c.word(at + 8)
		}
	}
	return 0, false
}

func (c *Core) word(addr uint64) (uint64, bool) {
	var b [8]byte
	err := c.ReadMemory(b[:], addr)
	return binary.LittleEndian.Uint64(b[:]), err == nil
}

func (o *coreWriter) write() error {
	const ehdrSize, phdrSize = 64, 56
	le := binary.LittleEndian
	notes := o.c.notes
	phnum := len(o.parts) + 1
	off := uint64(ehdrSize + phnum*phdrSize)
	hdr := elf.Header64{
		Type: uint16(elf.ET_CORE), Machine: uint16(o.c.Machine), Version: 1, Phoff: ehdrSize,
		Ehsize: ehdrSize, Phentsize: phdrSize, Phnum: uint16(phnum),
	}
	copy(hdr.Ident[:], elf.ELFMAG)
	hdr.Ident[elf.EI_CLASS], hdr.Ident[elf.EI_DATA], hdr.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	_ = binary.Write(o.w, le, &hdr) // errors stay in the bufio.Writer
	_ = binary.Write(o.w, le, &elf.Prog64{Type: uint32(elf.PT_NOTE), Off: off, Filesz: uint64(len(notes)), Align: 4})
	end := off + uint64(len(notes))
	data := (end + 4095) &^ 4095
	pad := data - end
	for _, s := range o.parts {
		p := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(s.flags), Off: data, Vaddr: s.addr, Filesz: s.size, Memsz: s.memsz, Align: 1}
		_ = binary.Write(o.w, le, &p)
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

// Walker returns a walker for the core's threads: by call frame information and
// frame pointers, over the modules that Modules found.
func (c *Core) Walker(m *Modules) *CFIWalker { return &CFIWalker{Modules: m} }

// Thread returns the thread of that number, nil if there is none.
func (c *Core) Thread(tid int) *CoreThread {
	i := slices.IndexFunc(c.Threads, func(t CoreThread) bool { return t.TID == tid })
	if i < 0 {
		return nil
	}
	return &c.Threads[i]
}
