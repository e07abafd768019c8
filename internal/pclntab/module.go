package pclntab

import (
	"debug/elf"
	"errors"

	"github.com/borescope/borescope/internal/elffile"
)

// module contains the fields of runtime.moduledata that this package uses.
type module struct {
	text   uint64
	gofunc uint64
	find   uint64 // address of the runtime's own index of functions
	minpc  uint64 // the address at which that index begins
}

// These are words of moduledata (runtime/symtab.go), which begins with the address of the
// table's header and six slices. Coverage counters were added in 1.20.
const (
	wordFuncnames = 1
	wordFind      = 19
	wordMinPC     = 20
	wordText      = 22
	wordGofunc118 = 38
	wordGofunc120 = 40
	moduleWords   = 41
)

// maxScan bounds the data that is searched for the module data, in bytes.
const maxScan = 64 << 20

// findModule finds the module data: in its own section since Go 1.26, before that by searching
// for the address of the table.
func findModule(t *Table) (module, bool) {
	if s := t.f.Section(".go.module"); s != nil {
		if m, ok := t.module(s.Addr); ok {
			return m, true
		}
	}
	if m, ok := t.scanRelocs(); ok {
		return m, true
	}
	return t.scanData()
}

// scanData searches initialised data for the table's address.
func (t *Table) scanData() (module, bool) {
	left := uint64(maxScan)
	for i := range t.f.Sections {
		s := &t.f.Sections[i]
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR != 0 ||
			s.Flags&elf.SHF_WRITE == 0 || s.Size > left {
			continue
		}
		left -= s.Size
		b, err := t.f.Data(s)
		if err != nil {
			continue
		}
		for off := 0; off+moduleWords*t.ptr <= len(b); off += t.ptr {
			if t.uptr(b[off:]) != t.addr {
				continue
			}
			if t.tries > maxTries {
				return module{}, false
			}
			if m, ok := t.module(s.Addr + uint64(off)); ok {
				return m, true
			}
		}
	}
	return module{}, false
}

// scanRelocs searches the relocations of a position-independent program for the table's
// address, because its data may contain zeros in the file.
func (t *Table) scanRelocs() (module, bool) {
	var found module
	ok := false
	t.relocs(func(at, addend uint64) bool {
		if addend == t.addr {
			found, ok = t.module(at)
		}
		return !ok && t.tries <= maxTries
	})
	return found, ok
}

// relocs calls f for every relative relocation with an addend, until it returns
// false.
func (t *Table) relocs(f func(at, addend uint64) bool) {
	if t.ptr != 8 {
		return // 32-bit architectures keep the addend in place
	}
	left := uint64(t.f.Size()) // sections may overlap
	for i := range t.f.Sections {
		s := &t.f.Sections[i]
		if s.Type != elf.SHT_RELA || s.Flags&elf.SHF_ALLOC == 0 || s.Size > left {
			continue
		}
		left -= s.Size
		b, err := t.f.Data(s)
		if err != nil {
			continue
		}
		for ; len(b) >= 24; b = b[24:] {
			if t.uptr(b[8:])>>32 == 0 && !f(t.uptr(b), t.uptr(b[16:])) {
				return
			}
		}
	}
}

// module reads the module data at an address. ok is false if there is none.
func (t *Table) module(at uint64) (m module, ok bool) {
	var w [moduleWords]uint64
	if t.tries++; t.tries > maxTries {
		return m, false
	}
	b := t.memory(at)
	if len(b) < moduleWords*t.ptr {
		return m, false
	}
	for i := range w {
		w[i] = t.uptr(b[i*t.ptr:])
	}
	t.relocs(func(off, addend uint64) bool {
		if d := off - at; d < moduleWords*8 && d%8 == 0 {
			w[d/8] = addend
		}
		return true
	})
	// The first slice is the table's first part. No other data looks like this.
	if w[0] != t.addr || w[wordFuncnames] != t.addr+t.funcnamesOff() {
		return m, false
	}
	m.text, m.find, m.minpc = w[wordText], w[wordFind], w[wordMinPC]
	switch t.version {
	case 118:
		m.gofunc = w[wordGofunc118]
	case 120:
		m.gofunc = w[wordGofunc120]
	}
	return m, true
}

// memory returns the file's bytes from a virtual address to the end of the segment, nil if the
// file does not contain them.
func (t *Table) memory(addr uint64) []byte {
	for i := range t.f.Progs {
		p := &t.f.Progs[i]
		if p.Type == elf.PT_LOAD && addr >= p.Vaddr && addr-p.Vaddr < p.Filesz {
			b, err := t.f.Bytes(p.Offset+addr-p.Vaddr, p.Filesz-(addr-p.Vaddr))
			if err != nil {
				return nil
			}
			return b
		}
	}
	return nil
}

// pointer reads a pointer in memory, in the table of Go 1.16 and 1.17.
func (t *Table) pointer(addr uint64) uint64 {
	b := t.memory(addr)
	if len(b) < t.ptr {
		return 0
	}
	return t.uptr(b)
}

// funcsOff and funcnamesOff return the offsets of those parts, all of which reach to the end.
func (t *Table) funcsOff() uint64 { return uint64(t.size - len(t.funcs)) }

func (t *Table) funcnamesOff() uint64 { return uint64(t.size - len(t.funcnames)) }

// textSymbol returns the address of runtime.text from the symbol table.
func textSymbol(f *elffile.File) (uint64, error) {
	syms, err := f.Symbols(f.SectionOfType(elf.SHT_SYMTAB))
	if err != nil {
		return 0, err
	}
	for _, s := range syms.All() {
		if syms.Is(&s, "runtime.text") {
			return s.Value, nil
		}
	}
	return 0, errors.New("pclntab: the start of the Go code is not known")
}
