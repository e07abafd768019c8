package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/usdtfire"
	"github.com/borescope/borescope/usdt/arg"
)

// probe is a static.Probe that was found in the file.
type probe struct {
	addr uint64
	name string // "PROVIDER:NAME"
	spec string
}

// program is the file that is linked. Go writes 64-bit little-endian ELF on both supported
// machines.
type program struct {
	b      []byte
	f      *elffile.File
	target usdtfire.Target
	// relocated maps addresses of probes' pointers to the values to which the dynamic linker adds
	// its base: in a position-independent program, pointers are not in the data itself.
	relocated map[uint64]uint64
}

// link returns the file in b with notes for its static probes.
func link(b []byte) ([]byte, []probe, error) {
	f, err := elffile.NewBytes(b)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return linkFile(f, b)
}

// linkFile is link for a file whose bytes are b.
func linkFile(f *elffile.File, b []byte) (out []byte, probes []probe, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	p := &program{f: f}
	for _, t := range usdtfire.Targets {
		if t.Machine == f.Machine {
			p.target = t
		}
	}
	switch {
	case p.target.Stub == nil || f.Class != elf.ELFCLASS64 || f.Order != binary.LittleEndian:
		return nil, nil, fmt.Errorf("%v, %v: probes need amd64 or arm64", f.Machine, f.Class)
	case len(f.Sections) == 0 || f.Synthetic:
		return nil, nil, errors.New("file has no section headers")
	case f.Section(".note.stapsdt") != nil:
		return nil, nil, errors.New("file has USDT notes already")
	}
	left := uint64(len(b)) // a program's segments lie next to each other
	for _, g := range f.Progs {
		if g.Type != elf.PT_LOAD {
			continue
		}
		if g.Offset > uint64(len(b)) || g.Filesz > uint64(len(b))-g.Offset {
			return nil, nil, errors.New("segment lies outside the file")
		}
		if g.Filesz > left {
			return nil, nil, fmt.Errorf("segments have more than the %d bytes of the file", len(b))
		}
		left -= g.Filesz
	}
	p.b = bytes.Clone(b)
	pool := p.find(elf.PF_X, usdtfire.PoolMark0, usdtfire.PoolMark1, usdtfire.StubSize)
	marks := p.find(elf.PF_W, usdtfire.ProbeMark0, usdtfire.ProbeMark1, 8)
	switch {
	case len(marks) == 0:
		return nil, nil, errors.New("no static probes found: they must be package-level variables initialised by static.New, in a build with inlining")
	case len(pool) != 1:
		return nil, nil, fmt.Errorf("%d sets of stubs found, want 1", len(pool))
	case len(marks) > usdtfire.PoolSize:
		return nil, nil, fmt.Errorf("%d probes are more than %d", len(marks), usdtfire.PoolSize)
	}
	if err := p.readRelocations(marks); err != nil {
		return nil, nil, err
	}
	probes = make([]probe, len(marks))
	for i, addr := range marks {
		if probes[i], err = p.readProbe(addr); err != nil {
			return nil, nil, err
		}
	}
	out, err = p.write(pool[0], probes)
	return out, probes, err
}

// find returns the addresses of a mark, aligned to align bytes, in the loaded segments with
// flag.
func (p *program) find(flag elf.ProgFlag, mark0, mark1 uint64, align int) []uint64 {
	mark := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, mark0), mark1)
	var found []uint64
	for _, g := range p.f.Progs {
		if g.Type != elf.PT_LOAD || g.Flags&flag == 0 {
			continue
		}
		b := p.b[g.Offset : g.Offset+g.Filesz]
		for at := 0; ; at++ {
			i := bytes.Index(b[at:], mark)
			if i < 0 {
				break
			}
			at += i
			if (g.Vaddr+uint64(at))%uint64(align) == 0 {
				found = append(found, g.Vaddr+uint64(at))
			}
		}
	}
	return found
}

// readRelocations records the pointers in probes at these addresses that the dynamic linker
// writes.
func (p *program) readRelocations(probes []uint64) error {
	relative := uint32(elf.R_X86_64_RELATIVE)
	if p.f.Machine == elf.EM_AARCH64 {
		relative = uint32(elf.R_AARCH64_RELATIVE)
	}
	p.relocated = map[uint64]uint64{}
	for _, addr := range probes {
		p.relocated[addr+usdtfire.ProbeName] = 0
		p.relocated[addr+usdtfire.ProbeTypes] = 0
	}
	moved := map[uint64]uint64{}
	left := uint64(len(p.b)) // tables may lie over each other
	for i := range p.f.Sections {
		s := &p.f.Sections[i]
		if s.Type != elf.SHT_RELA {
			continue
		}
		if s.Size > left {
			return fmt.Errorf("relocations have more than the %d bytes of the file", len(p.b))
		}
		left -= s.Size
		if _, err := p.f.Data(s); err != nil {
			return err
		}
		for r := range p.f.Relocs(s) {
			if _, ok := p.relocated[r.Offset]; ok && r.Type == relative {
				moved[r.Offset] = uint64(r.Addend)
			}
		}
	}
	p.relocated = moved
	return nil
}

// at returns size bytes at an address.
func (p *program) at(addr, size uint64) ([]byte, error) {
	for _, g := range p.f.Progs {
		if g.Type == elf.PT_LOAD && addr >= g.Vaddr && addr-g.Vaddr <= g.Filesz &&
			size <= g.Filesz-(addr-g.Vaddr) {
			off := addr - g.Vaddr + g.Offset
			return p.b[off : off+size], nil
		}
	}
	return nil, fmt.Errorf("%d bytes at %#x are not in the file", size, addr)
}

// offset returns the file offset of an address for which at returned bytes.
func (p *program) offset(addr uint64) uint64 {
	for _, g := range p.f.Progs {
		if g.Type == elf.PT_LOAD && addr >= g.Vaddr && addr-g.Vaddr < g.Filesz {
			return addr - g.Vaddr + g.Offset
		}
	}
	return 0
}

// pointed returns the bytes that a string or slice header at addr refers to.
func (p *program) pointed(addr uint64) ([]byte, error) {
	header, err := p.at(addr, 16)
	if err != nil {
		return nil, err
	}
	data, size := binary.LittleEndian.Uint64(header), binary.LittleEndian.Uint64(header[8:])
	if moved, ok := p.relocated[addr]; ok {
		data = moved
	}
	if size == 0 {
		return nil, nil
	}
	return p.at(data, size)
}

// readProbe reads a static.Probe.
func (p *program) readProbe(addr uint64) (probe, error) {
	fail := func(err error) (probe, error) {
		return probe{}, fmt.Errorf("probe at %#x: %w", addr, err)
	}
	name, err := p.pointed(addr + usdtfire.ProbeName)
	if err != nil {
		return fail(err)
	}
	provider, short, ok := strings.Cut(string(name), ":")
	if !ok || len(name) > 512 {
		return fail(errors.New("name is missing"))
	}
	for _, s := range []string{provider, short} {
		if err := usdtfire.CheckName(s); err != nil {
			return fail(fmt.Errorf("%s: %w", name, err))
		}
	}
	b, err := p.pointed(addr + usdtfire.ProbeTypes)
	if err != nil {
		return fail(err)
	}
	types := make([]arg.Type, len(b))
	for i, t := range b {
		types[i] = arg.Type(t)
	}
	if err := usdtfire.Check(types); err != nil {
		return fail(fmt.Errorf("%s: %w", name, err))
	}
	return probe{addr, string(name), p.target.Spec(types)}, nil
}

// write sets the probes' indexes and appends the sections to the file. The existing contents
// stay where they are.
func (p *program) write(pool uint64, probes []probe) ([]byte, error) {
	le := binary.LittleEndian
	var notes []byte
	first, last := probes[0].addr, probes[0].addr
	for i, pr := range probes {
		first, last = min(first, pr.addr), max(last, pr.addr)
		index, err := p.at(pr.addr+usdtfire.ProbeIndex, 4)
		if err != nil {
			return nil, err
		}
		le.PutUint32(index, uint32(i+1))
		desc := le.AppendUint64(nil, pool+usdtfire.StubSize*uint64(i+1))
		desc = le.AppendUint64(desc, pool)
		desc = le.AppendUint64(desc, pr.addr+usdtfire.ProbeSemaphore)
		desc = append(desc, strings.Replace(pr.name, ":", "\x00", 1)+"\x00"+pr.spec+"\x00"...)
		notes = elfnotes.Append(notes, elfnotes.Note{Owner: "stapsdt", Type: 3, Desc: desc}, 4)
	}
	first, last = first+usdtfire.ProbeSemaphore, last+usdtfire.ProbeSemaphore
	// BCC and bpftrace 0.17 find semaphores by the section header of .probes, which must
	// precede that of the notes.
	return p.appendSections([]newSection{
		{
			name: ".stapsdt.base", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC, addr: pool,
			offset: p.offset(pool), size: 1, align: 1,
		},
		{
			name: ".probes", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_WRITE, addr: first,
			offset: p.offset(first), size: last - first + 4, align: 8,
		},
		{name: ".note.stapsdt", typ: elf.SHT_NOTE, data: notes, align: 4},
	})
}
