package usdt

import (
	"cmp"
	"debug/elf"
	"io/fs"
	"slices"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
)

// resolve turns the symbols in the sites' operands into constants: offsets from the site's PC,
// which hold wherever the file is loaded, and offsets in thread-local storage. Symbols that
// can't be resolved keep a Reason.
func (f *File) resolve(sites []Site) {
	names := map[string]*candidates{}
	var pcs []uint64
	for i := range sites {
		needs := false
		for _, a := range sites[i].Args {
			if a.Addr.Symbol != "" && a.Kind != KindUnknown {
				names[a.Addr.Symbol] = &candidates{}
				needs = true
			}
		}
		if needs {
			pcs = append(pcs, sites[i].PC)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(pcs)
	t := symbolScan{f: f, names: names, pcs: pcs, groupOf: map[uint64]int{}}
	t.scan(f.f, ".symtab")
	t.scan(f.f, ".dynsym")
	if f.f.Section(".symtab") == nil && t.missing() {
		f.debugFile(func(d *elffile.File) { t.scan(d, ".symtab") })
	}
	t.slots()
	for i := range sites {
		for j := range sites[i].Args {
			if a := &sites[i].Args[j]; a.Addr.Symbol != "" && a.Kind != KindUnknown {
				t.resolve(a, sites[i].PC)
			}
		}
	}
}

// candidates are all definitions of one name.
type candidates struct {
	global []symbol
	local  []symbol
	slot   uint64 // address of its GOT entry, 0 if not known
}

type symbol struct {
	value uint64
	group int // number of the STT_FILE symbol above it, for a local one
	tls   bool
}

// symbolScan reads symbol tables once for all names that are needed.
type symbolScan struct {
	f     *File
	names map[string]*candidates
	pcs   []uint64 // sorted
	// groupOf is the source file group of the local function that a PC is in.
	groupOf map[uint64]int
}

// missing reports whether a name was not found.
func (t *symbolScan) missing() bool {
	for _, c := range t.names {
		if len(c.local) == 0 && len(c.global) == 0 {
			return true
		}
	}
	return false
}

// debugFile calls fn with the separate debug file of a stripped file, found by its build-id
// where distributions install it. Addresses are the same in both.
func (f *File) debugFile(fn func(*elffile.File)) {
	if f.debugDir == "" {
		return
	}
	find := elffile.DebugFinder{Dirs: []string{f.debugDir}, Open: func(path string) (fs.File, error) {
		return procfs.Open(path)
	}}
	if d := find.Find(f.f, f.f.BuildID()); d != nil {
		defer d.Close()
		fn(d)
	}
}

// scan collects the definitions of one symbol table.
func (t *symbolScan) scan(f *elffile.File, table string) {
	syms, err := f.Symbols(f.Section(table))
	if err != nil {
		return
	}
	group := 0
	for _, s := range syms.All() {
		typ, local := elf.ST_TYPE(s.Info), elf.ST_BIND(s.Info) == elf.STB_LOCAL
		switch {
		case typ == elf.STT_FILE:
			group++
			continue
		case s.Shndx == uint16(elf.SHN_UNDEF):
			continue
		case typ == elf.STT_FUNC && local:
			t.function(&s, group)
		}
		name, err := syms.Name(&s)
		if err != nil {
			return
		}
		c := t.names[string(name)]
		if c == nil {
			continue
		}
		sym := symbol{s.Value, group, typ == elf.STT_TLS}
		if local {
			c.local = append(c.local, sym)
		} else {
			c.global = append(c.global, sym)
		}
	}
}

// function records which sites a local function contains.
func (t *symbolScan) function(s *elf.Sym64, group int) {
	i, _ := slices.BinarySearch(t.pcs, s.Value)
	for ; i < len(t.pcs) && t.pcs[i]-s.Value < s.Size; i++ {
		t.groupOf[t.pcs[i]] = group
	}
}

// slots finds the entries of the global offset table by the dynamic relocations that fill
// them.
func (t *symbolScan) slots() {
	wanted := uint32(0)
	switch t.f.Machine {
	case elf.EM_X86_64:
		wanted = uint32(elf.R_X86_64_GLOB_DAT)
	case elf.EM_386:
		wanted = uint32(elf.R_386_GLOB_DAT)
	case elf.EM_AARCH64:
		wanted = uint32(elf.R_AARCH64_GLOB_DAT)
	case elf.EM_ARM:
		wanted = uint32(elf.R_ARM_GLOB_DAT)
	default:
		return
	}
	dynsym, err := t.f.f.Symbols(t.f.f.Section(".dynsym"))
	if err != nil {
		return
	}
	for _, name := range []string{".rela.dyn", ".rel.dyn"} {
		s := t.f.f.Section(name)
		b, err := t.f.f.Data(s)
		if err != nil || s == nil {
			continue
		}
		t.relocations(b, s.Type == elf.SHT_RELA, wanted, dynsym)
	}
}

func (t *symbolScan) relocations(b []byte, addend bool, wanted uint32, dynsym *elffile.Symbols) {
	o, wide := t.f.f.Order, t.f.Class == elf.ELFCLASS64
	size := 8
	if wide {
		size = 16
	}
	if addend {
		size += size / 2
	}
	for ; len(b) >= size; b = b[size:] {
		var off, index uint64
		var typ uint32
		if wide {
			info := o.Uint64(b[8:])
			off, index, typ = o.Uint64(b), info>>32, uint32(info)
		} else {
			info := o.Uint32(b[4:])
			off, index, typ = uint64(o.Uint32(b)), uint64(info>>8), info&0xff
		}
		if typ != wanted || index >= uint64(dynsym.Len()) {
			continue
		}
		sym := dynsym.At(int(index))
		name, err := dynsym.Name(&sym)
		if err != nil {
			return
		}
		if c := t.names[string(name)]; c != nil {
			c.slot = off
		}
	}
}

// choose returns the definition that a name means in the function around pc: a static one of
// the same source file, else the global one, else a static one if it is the only one.
func (t *symbolScan) choose(name string, pc uint64) (symbol, Reason) {
	c := t.names[name]
	group, known := t.groupOf[pc]
	if known {
		var same []symbol
		for _, s := range c.local {
			if s.group == group {
				same = append(same, s)
			}
		}
		if len(same) > 0 {
			return only(same)
		}
	}
	switch {
	case len(c.global) > 0 && (known || len(c.local) == 0):
		return only(c.global)
	case len(c.global)+len(c.local) == 0:
		return symbol{}, ReasonSymbol
	}
	return only(append(slices.Clone(c.local), c.global...))
}

// only returns the address of the definitions if all have the same.
func only(s []symbol) (symbol, Reason) {
	if slices.ContainsFunc(s, func(o symbol) bool { return cmp.Compare(o.value, s[0].value) != 0 }) {
		return symbol{}, ReasonAmbiguous
	}
	return s[0], ReasonNone
}

// resolve resolves one operand.
func (t *symbolScan) resolve(a *Arg, pc uint64) {
	addr := &a.Addr
	if addr.Reloc == relocGOTTP {
		return // ReasonTLS stays
	}
	s, reason := t.choose(addr.Symbol, pc)
	if slot := t.names[addr.Symbol].slot; addr.Reloc == relocGOT && slot != 0 {
		addr.Disp += int64(slot - pc)
		addr.PCRel = true
		a.resolved()
		return
	}
	if reason != ReasonNone {
		if a.Reason != ReasonLabel || reason == ReasonAmbiguous {
			a.Reason = reason
		}
		return
	}
	switch addr.Reloc {
	case relocAbs, relocGOTOff:
		addr.Disp += int64(s.value - pc)
		addr.PCRel = true
	case relocGOT:
		// The linker removed the slot; the address that it would hold is known.
		addr.Disp += int64(s.value - pc)
		addr.PCRel, a.Kind = true, KindAddr
	case relocLo12:
		addr.Disp = int64((s.value + uint64(addr.Disp)) & 0xfff)
	case relocLoSext:
		addr.Disp = int64(lowSigned(s.value + uint64(addr.Disp)))
	case relocDTPOff:
		addr.Disp += int64(s.value)
	case relocTPOff, relocTPLo12:
		off, ok := t.f.tpOffset(s.value)
		if !ok {
			a.Reason = ReasonTLS
			return
		}
		if addr.Disp += off; addr.Reloc == relocTPLo12 {
			addr.Disp &= 0xfff
		}
	}
	a.resolved()
}

// resolved clears the reason and sets the reason that remains, if any.
func (a *Arg) resolved() {
	a.Addr.Resolved = true
	a.Reason = ReasonNone
	switch {
	case a.Size != 1 && a.Size != 2 && a.Size != 4 && a.Size != 8:
		a.Reason = ReasonSize
	case a.Addr.Segment != SegmentNone:
		a.Reason = ReasonSegment
	}
}

// tpOffset returns a thread-local symbol's distance from the thread pointer. The static linker
// knows it for the program itself, but it is not known for a library: Ulrich Drepper, ELF
// Handling For Thread-Local Storage, section 3.
func (f *File) tpOffset(value uint64) (int64, bool) {
	for i := range f.f.Progs {
		p := &f.f.Progs[i]
		if p.Type != elf.PT_TLS {
			continue
		}
		if !f.program() {
			return 0, false
		}
		align := max(p.Align, 1)
		switch f.Machine {
		case elf.EM_X86_64, elf.EM_386, elf.EM_S390: // variant II: the block ends at the pointer
			return int64(value) - int64((p.Memsz+align-1)/align*align), true
		case elf.EM_AARCH64: // variant I: it begins after two words
			return int64(value + (16+align-1)/align*align), true
		}
	}
	return 0, false
}

// program reports whether the file is a program rather than a library: it has a fixed address
// or asks for an interpreter.
func (f *File) program() bool {
	if f.Type == elf.ET_EXEC {
		return true
	}
	return slices.ContainsFunc(f.f.Progs, func(p elffile.Prog) bool { return p.Type == elf.PT_INTERP })
}
