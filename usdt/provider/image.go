package provider

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"runtime"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/usdtfire"
)

// image is a shared object with the probes of a provider, in which file
// offsets and virtual addresses are the same:
//
//	page 0     ELF header, program headers
//	textOff    a stub per probe, .stapsdt.base
//	semOff     .probes: a semaphore per probe
//	behind     notes, symbols, section headers; not mapped
type image struct {
	bytes             []byte
	textOff, textSize uintptr // whole pages
	semOff, semSize   uintptr
	mapped            uintptr // the size of what is mapped
}

const (
	// stubSize separates stubs, so that each is a symbol of its own size.
	stubSize = 16
	// semaphoreSize gives each semaphore, a 16-bit counter, an aligned word of its own, which
	// can be loaded atomically.
	semaphoreSize = 8
)

func (im *image) stub(i int) uintptr      { return im.textOff + uintptr(i)*stubSize }
func (im *image) semaphore(i int) uintptr { return im.semOff + uintptr(i)*semaphoreSize }

// image returns the object for this machine.
func (p *Provider) image() (*image, error) {
	t, ok := usdtfire.Targets[runtime.GOARCH]
	if !ok {
		return nil, &UnsupportedError{
			Feature: "usdt provider",
			Hint:    "needs amd64 or arm64, this is " + runtime.GOARCH,
		}
	}
	return buildImage(t, p.name, p.probes, os.Getpagesize()), nil
}

// section describes a section header to be written.
type section struct {
	name          string
	typ           elf.SectionType
	flags         elf.SectionFlag
	offset, size  uintptr
	link, info    uint32
	align, entity uint64
	alloc         bool
}

// buildImage lays out the object; page is the system's page size in bytes.
func buildImage(t usdtfire.Target, provider string, probes []*Probe, page int) *image {
	roundUp := func(n uintptr) uintptr { return (n + uintptr(page) - 1) &^ (uintptr(page) - 1) }
	im := &image{textOff: uintptr(page)}
	stubs := uintptr(len(probes)) * stubSize
	im.textSize = roundUp(stubs + 1) // with .stapsdt.base
	im.semOff = im.textOff + im.textSize
	semaphores := uintptr(len(probes)) * semaphoreSize
	im.semSize = roundUp(semaphores)
	im.mapped = im.semOff + im.semSize

	var notes, symbols []byte
	strtab := []byte{0}
	le := binary.LittleEndian
	symbols = append(symbols, make([]byte, 24)...)
	b := make([]byte, im.mapped)
	for i, p := range probes {
		copy(b[im.stub(i):], t.Stub)
		desc := le.AppendUint64(nil, uint64(im.stub(i)))
		desc = le.AppendUint64(desc, uint64(im.textOff+stubs))
		desc = le.AppendUint64(desc, uint64(im.semaphore(i)))
		desc = append(desc, provider+"\x00"+p.Name()+"\x00"+t.Spec(p.fire.Types)+"\x00"...)
		notes = elfnotes.Append(notes, elfnotes.Note{Owner: "stapsdt", Type: 3, Desc: desc}, 4)
		// A name for the stub, for tools that print a stack.
		symbols = le.AppendUint32(symbols, uint32(len(strtab)))
		symbols = append(symbols, byte(elf.STB_GLOBAL)<<4|byte(elf.STT_FUNC), 0, 1, 0)
		symbols = le.AppendUint64(symbols, uint64(im.stub(i)))
		symbols = le.AppendUint64(symbols, uint64(len(t.Stub)))
		strtab = append(strtab, "usdt_"+provider+"_"+p.Name()+"\x00"...)
	}
	place := func(data []byte) uintptr {
		b = append(b, make([]byte, -len(b)&7)...)
		off := uintptr(len(b))
		b = append(b, data...)
		return off
	}
	size := func(data []byte) uintptr { return uintptr(len(data)) }
	// BCC finds the semaphores only if .probes precedes .note.stapsdt.
	sections := []section{
		{
			name: ".text", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
			offset: im.textOff, size: stubs, align: stubSize, alloc: true,
		},
		{
			name: ".stapsdt.base", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, offset: im.textOff + stubs,
			size: 1, align: 1, alloc: true,
		},
		{
			name: ".probes", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_WRITE, offset: im.semOff,
			size: semaphores, align: semaphoreSize, alloc: true,
		},
		{name: ".note.stapsdt", typ: elf.SHT_NOTE, offset: place(notes), size: size(notes), align: 4},
		{
			name: ".symtab", typ: elf.SHT_SYMTAB, offset: place(symbols), size: size(symbols), link: 6,
			info: 1, align: 8, entity: 24,
		},
		{name: ".strtab", typ: elf.SHT_STRTAB, offset: place(strtab), size: size(strtab), align: 1},
	}
	shstrtab := []byte{0}
	for _, s := range append(sections, section{name: ".shstrtab"}) {
		shstrtab = append(shstrtab, s.name+"\x00"...)
	}
	sections = append(sections, section{
		name: ".shstrtab", typ: elf.SHT_STRTAB,
		offset: place(shstrtab), size: size(shstrtab), align: 1,
	})
	shoff := place(sectionHeaders(sections))
	copy(b, im.header(t.Machine, shoff, len(sections)+1))
	im.bytes = b
	return im
}

func sectionHeaders(sections []section) []byte {
	le := binary.LittleEndian
	b := make([]byte, 64)
	name := uint32(1)
	for _, s := range sections {
		addr := uint64(0)
		if s.alloc {
			addr = uint64(s.offset)
		}
		b = le.AppendUint32(b, name)
		b = le.AppendUint32(b, uint32(s.typ))
		for _, v := range []uint64{
			uint64(s.flags), addr, uint64(s.offset), uint64(s.size),
			uint64(s.link) | uint64(s.info)<<32, s.align, s.entity,
		} {
			b = le.AppendUint64(b, v)
		}
		name += uint32(len(s.name)) + 1
	}
	return b
}

// header returns the ELF header and the program headers.
func (im *image) header(machine elf.Machine, shoff uintptr, sections int) []byte {
	le := binary.LittleEndian
	const ehsize, phsize = 64, 56
	segments := []struct {
		typ       elf.ProgType
		flags     elf.ProgFlag
		off, size uintptr
		align     uint64
	}{
		{elf.PT_LOAD, elf.PF_R, 0, ehsize + 4*phsize, uint64(im.textOff)},
		{elf.PT_LOAD, elf.PF_R | elf.PF_X, im.textOff, im.textSize, uint64(im.textOff)},
		{elf.PT_LOAD, elf.PF_R | elf.PF_W, im.semOff, im.semSize, uint64(im.textOff)},
		{elf.PT_GNU_STACK, elf.PF_R | elf.PF_W, 0, 0, 16},
	}
	b := append([]byte(elf.ELFMAG), byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT),
		0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint16(b, uint16(elf.ET_DYN))
	b = le.AppendUint16(b, uint16(machine))
	b = le.AppendUint32(b, uint32(elf.EV_CURRENT))
	b = le.AppendUint64(b, 0)
	b = le.AppendUint64(b, ehsize)
	b = le.AppendUint64(b, uint64(shoff))
	b = le.AppendUint32(b, 0)
	for _, v := range []int{ehsize, phsize, len(segments), 64, sections, sections - 1} {
		b = le.AppendUint16(b, uint16(v))
	}
	for _, s := range segments {
		b = le.AppendUint32(b, uint32(s.typ))
		b = le.AppendUint32(b, uint32(s.flags))
		for _, v := range []uint64{
			uint64(s.off), uint64(s.off), uint64(s.off), uint64(s.size),
			uint64(s.size), s.align,
		} {
			b = le.AppendUint64(b, v)
		}
	}
	return b
}
