package symbol

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/pclntab"
)

// Symbol is a name with its address.
type Symbol struct {
	// Name is the name in the table, without a symbol version.
	Name string
	// Addr is the address: virtual in a file, live in a process or the kernel.
	Addr uint64
	// Size is in bytes, 0 if unknown.
	Size uint64
	// Offset is the symbol's offset in the file. It is only set, and HasOffset true, for
	// symbols whose bytes are in the file.
	Offset    uint64
	HasOffset bool
	// Module is the file's path, "[kernel]", or a kernel module as "[ext4]".
	Module string
	// Kind is KindUser, KindKernel, KindBPF, KindGo, or KindData.
	Kind Kind
	// Global is set for symbols that other files can refer to, weak ones too.
	Global bool
	// IFunc is set for functions that choose an implementation when they are bound (GNU
	// indirect functions); Addr is the address of the chooser.
	IFunc bool
}

// ErrNoSymbol is the error when no symbol has a name. It matches fs.ErrNotExist.
var ErrNoSymbol = notexist.Errorf("no such symbol")

// Lookup returns the function or variable of that name, mangled or readable (with or without
// parameters). It searches the symbol tables, the separate debug file and the Go function
// table. If several symbols have the name, a function comes before a variable, a global one
// before a local one, and then the one at the lowest address. The error is ErrNoSymbol if there
// is none.
func (e *ELF) Lookup(name string) (Symbol, error) {
	list, err := e.Match(Exact(name))
	if err != nil {
		return Symbol{}, err
	}
	if len(list) == 0 {
		return Symbol{}, fmt.Errorf("%s in %s: %w", name, e.path, ErrNoSymbol)
	}
	return slices.MinFunc(list, func(a, b Symbol) int {
		return cmp.Or(cmpBool(a.Kind == KindData, b.Kind == KindData), cmpBool(!a.Global, !b.Global),
			cmp.Compare(a.Addr, b.Addr))
	}), nil
}

func cmpBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Match returns the functions and variables whose names match, sorted by address; a nil
// pattern matches all. It reads the whole table: some milliseconds for 100,000 symbols. It
// returns an error if the file's names overlap, or if more symbols match than files of its
// size have.
func (e *ELF) Match(p *Pattern) (list []Symbol, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	budget := leastReadable + e.f.Stored()/4
	s := &symbolScan{
		e: e, p: p, full: NewDemangler(&DemangleOptions{Budget: budget}),
		short: NewDemangler(&DemangleOptions{NoParams: true, Budget: budget}),
		room:  leastMatches + e.f.Stored(),
	}
	e.mu.Lock()
	f := e.symbolFile()
	e.mu.Unlock()
	if f != e.f {
		s.room += f.Stored()
	}
	if err := s.table(f, f.SectionOfType(elf.SHT_SYMTAB)); err != nil {
		return nil, err
	}
	if err := s.table(e.f, e.f.SectionOfType(elf.SHT_DYNSYM)); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.out, compareSymbols)
	if g := e.goTable(); g != nil {
		if err := s.goTable(g.Table); err != nil {
			return nil, err
		}
		slices.SortStableFunc(s.out, compareSymbols)
	}
	return slices.CompactFunc(s.out, func(a, b Symbol) bool {
		return a.Addr == b.Addr && a.Name == b.Name
	}), nil
}

func compareSymbols(a, b Symbol) int {
	return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Name, b.Name))
}

// leastMatches is the memory that matching symbols of any file may take, and matchSize that of
// one besides its name, with the memory for finding it, in bytes.
const (
	leastMatches = 32 << 20
	matchSize    = 112
)

// leastReadable is the budget of matching for readable names of any file: see
// DemangleOptions.Budget.
const leastReadable = 1 << 20

func (e *ELF) goTable() *goTable {
	if s := e.source.Load(); s != nil {
		return s.goTab
	}
	return e.findSource().goTab
}

// symbolScan collects matching symbols.
type symbolScan struct {
	e           *ELF
	p           *Pattern
	full, short *Demangler
	room        int64 // for the symbols in out
	out         []Symbol
}

// take subtracts the memory of a matching symbol from room.
func (s *symbolScan) take(name []byte) error {
	if s.room -= int64(matchSize + len(name)); s.room < 0 {
		return fmt.Errorf("%s: matching symbols: %w", s.e.path, elffile.ErrTooLarge)
	}
	return nil
}

// table scans one symbol table twice: first for the number of matching symbols, then for the
// symbols, to allocate memory for exactly that number.
func (s *symbolScan) table(f *elffile.File, tab *elffile.Section) error {
	t, err := f.Symbols(tab)
	if err != nil {
		return err
	}
	var matching []uint32
	var known knownNames
	for i, sym := range t.All() {
		if !s.wanted(t.Strings, &sym) {
			continue
		}
		raw, err := t.Name(&sym)
		if err != nil {
			return fmt.Errorf("%s: %w", s.e.path, err)
		}
		if name := unversioned(raw); len(name) > 0 && known.match(s, sym.Name, name) {
			if err := s.take(name); err != nil {
				return err
			}
			matching = append(matching, uint32(i))
		}
	}
	if err := errors.Join(s.full.Err(), s.short.Err()); err != nil {
		return fmt.Errorf("%s: %w", s.e.path, err)
	}
	s.out = slices.Grow(s.out, len(matching))
	for _, i := range matching {
		sym := t.At(int(i))
		if sec := t.Section(int(i), &sym); f.Type == elf.ET_REL && uint64(sec) < uint64(len(f.Sections)) {
			sym.Value += f.Sections[sec].Addr // it is relative to its section
		}
		s.add(unversioned(elffile.String(t.Strings, uint64(sym.Name))), &sym)
	}
	return nil
}

// knownNames are mangled names that were matched, by their places in the table: many symbols may
// have the same one. Usual symbols don't, so only the last of those that share a slot is kept.
type knownNames [64]struct {
	at      uint32 // 0: none; no name is there
	matches bool
}

// match reports whether the name at a place in the table matches.
func (k *knownNames) match(s *symbolScan, at uint32, name []byte) bool {
	if s.p == nil || !mangled(name) {
		return s.p.match(name, s.full, s.short)
	}
	known := &k[at%uint32(len(k))]
	if known.at != at || at == 0 {
		known.at, known.matches = at, s.p.match(name, s.full, s.short)
	}
	return known.matches
}

// wanted reports whether a symbol is a place and may match.
func (s *symbolScan) wanted(strs []byte, sym *elf.Sym64) bool {
	switch elf.ST_TYPE(sym.Info) {
	case elf.STT_FUNC, elf.STT_OBJECT, elf.STT_GNU_IFUNC:
	case elf.STT_NOTYPE:
		if elf.ST_BIND(sym.Info) == elf.STB_LOCAL {
			return false
		}
	default:
		return false
	}
	switch elf.SectionIndex(sym.Shndx) {
	case elf.SHN_UNDEF, elf.SHN_ABS, elf.SHN_COMMON:
		return false
	}
	// The cheap tests come first: most names do not match.
	return s.p == nil || !s.p.exact || plausible(strs, sym.Name, s.p)
}

// plausible reports whether a name may be the exact name: it has the same bytes, or is mangled.
// It is a quick test.
func plausible(strs []byte, name uint32, p *Pattern) bool {
	n, at := uint64(len(p.text)), uint64(name)
	if at+n >= uint64(len(strs)) {
		return at+2 < uint64(len(strs)) && strs[at] == '_'
	}
	if strs[at] == '_' && (strs[at+1] == 'Z' || strs[at+1] == 'R' || strs[at+1] == '_') {
		return true
	}
	end := strs[at+n]
	return (end == 0 || end == '@') && string(strs[at:at+n]) == p.text
}

// unversioned removes "@@GLIBC_2.2.5" from a name: the linker writes it into the .symtab of
// libraries.
func unversioned(name []byte) []byte {
	for i := 1; i < len(name); i++ {
		if name[i] == '@' {
			return name[:i]
		}
	}
	return name
}

func (s *symbolScan) add(name []byte, raw *elf.Sym64) {
	sym := Symbol{
		Name: string(name), Addr: raw.Value, Size: raw.Size, Module: s.e.path,
		Kind: KindUser,
	}
	typ := elf.ST_TYPE(raw.Info)
	sym.Global, sym.IFunc = elf.ST_BIND(raw.Info) != elf.STB_LOCAL, typ == elf.STT_GNU_IFUNC
	if typ == elf.STT_OBJECT || typ == elf.STT_NOTYPE && s.e.inDataSection(raw.Value) {
		sym.Kind = KindData
	}
	if s.e.f.Machine == elf.EM_ARM && typ == elf.STT_FUNC {
		sym.Addr &^= 1
	}
	sym.Offset, sym.HasOffset = s.e.f.Offset(sym.Addr)
	s.out = append(s.out, sym)
}

// goTable scans a Go function table for functions that the symbol table, if any, does not have:
// the symbols of the latter are in out, in order.
func (s *symbolScan) goTable(t *pclntab.Table) error {
	var matching []uint32
	names := t.Names()
	for i := range t.Len() {
		fn, ok := t.Func(i)
		if !ok {
			continue
		}
		if _, known := slices.BinarySearchFunc(s.out, fn.Entry, func(s Symbol, addr uint64) int {
			return cmp.Compare(s.Addr, addr)
		}); known {
			continue
		}
		name, err := names.At(uint64(fn.NameOffset()))
		if err != nil {
			return fmt.Errorf("%s: Go function table: %w", s.e.path, err)
		}
		if len(name) > 0 && s.p.match(name, nil, nil) {
			if err := s.take(name); err != nil {
				return err
			}
			matching = append(matching, uint32(i))
		}
	}
	s.out = slices.Grow(s.out, len(matching))
	for _, i := range matching {
		fn, _ := t.Func(int(i))
		sym := Symbol{
			Name: string(fn.Name()), Addr: fn.Entry, Size: fn.End - fn.Entry, Module: s.e.path,
			Kind: KindGo, Global: true,
		}
		sym.Offset, sym.HasOffset = s.e.f.Offset(fn.Entry)
		s.out = append(s.out, sym)
	}
	return nil
}

// Lookup returns all kernel symbols of that name, sorted by address; static functions of
// different files can share one. Variables are included if KernelOptions.Data is set. The
// error is ErrNoSymbol if there is none, ErrHidden, or that of reading the table.
func (k *Kernel) Lookup(name string) ([]Symbol, error) {
	list, err := k.Match(Exact(name))
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("%s in the kernel: %w", name, ErrNoSymbol)
	}
	return list, err
}

// Match returns the kernel symbols whose names match, sorted by address; a nil pattern
// matches all. It takes about a millisecond for 100,000 symbols, once the table was read.
func (k *Kernel) Match(p *Pattern) ([]Symbol, error) {
	if err := k.Err(); err != nil {
		return nil, err
	}
	t, _ := k.load()
	var out []Symbol
	for i, name := range t.All() {
		if p != nil && p.exact {
			if string(name) != p.text {
				continue
			}
		} else if !p.match(name, nil, nil) {
			continue
		}
		s := Symbol{Name: string(name), Addr: t.At(i), Module: t.Module(i)}
		typ := t.Type(i)
		s.Kind = kernelKind(s.Module, typ)
		s.Global = typ >= 'A' && typ <= 'Z' || typ == 'w' || typ == 'v'
		if j := t.Next(i); j < t.Len() && t.Module(j) == s.Module {
			s.Size = t.At(j) - s.Addr
		}
		out = append(out, s)
	}
	return out, nil
}

// Match returns the symbols of the process's mapped files whose names match, sorted by
// their addresses in the process; a nil pattern matches all. Files that cannot be read are
// left out.
func (p *Process) Match(pat *Pattern) ([]Symbol, error) {
	p.ps.mu.Lock()
	defer p.ps.mu.Unlock()
	p.ps.reads(p)
	defer p.ps.trim()
	var out []Symbol
	var errs []error
	seen := map[*image]bool{}
	for i := range p.maps {
		m := &p.maps[i]
		if m.img == nil || seen[m.img] || !m.exec {
			continue
		}
		seen[m.img] = true
		e := p.elf(m)
		if e == nil {
			continue
		}
		list, err := e.Match(pat)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, s := range list {
			s.Addr += m.bias
			s.Module = m.path
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Symbol) int { return cmp.Compare(a.Addr, b.Addr) })
	if len(out) == 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}
