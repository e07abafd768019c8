package elffile

import (
	"debug/elf"
	"fmt"
	"iter"
)

// Symbols is a table of symbols with their names.
type Symbols struct {
	// Strings is the string table that contains the symbols' names.
	Strings []byte

	f        *File
	tab      []byte
	size     int
	names    *Names
	extended []byte // section numbers that do not fit 16 bits, 4 bytes each
}

// Symbols reads a table of symbols. If s is nil, it returns an empty table.
func (f *File) Symbols(s *Section) (*Symbols, error) {
	t := &Symbols{f: f, size: f.symbolSize(), names: NewNames(nil)}
	if s == nil {
		return t, nil
	}
	if int(s.Link) >= len(f.Sections) {
		return nil, bad(s.Offset, "%s names no string table", s.Name)
	}
	var err error
	if t.tab, err = SymbolData(f, s); err != nil {
		return nil, err
	}
	if t.Strings, err = f.Data(&f.Sections[s.Link]); err != nil {
		return nil, err
	}
	t.names = NewNames(t.Strings)
	t.extended = f.Extended(s)
	return t, nil
}

// SymbolData is Data for a table of symbols. It returns ErrTooLarge if that has more symbols than
// files have.
func SymbolData(f *File, s *Section) ([]byte, error) {
	if n := s.Size / uint64(f.symbolSize()); n > maxSymbols {
		return nil, fmt.Errorf("%s of %d symbols, more than %d: %w", s.Name, n, maxSymbols, ErrTooLarge)
	}
	return f.Data(s)
}

// Defined returns the number of symbols of a table that are in a section, 0 if it cannot be read.
// Like the result of Bytes, it may only be called in a function that defers Catch.
func Defined(f *File, s *Section) (n uint64) {
	b, err := SymbolData(f, s)
	if err != nil {
		return 0
	}
	at, size := 6, f.symbolSize() // of st_shndx
	if f.Class == elf.ELFCLASS32 {
		at = 14
	}
	for ; len(b) >= size; b = b[size:] {
		if b[at]|b[at+1] != 0 {
			n++
		}
	}
	return n
}

// Extended returns the section numbers of a table's symbols that do not fit into the symbols:
// 4 bytes for each symbol, nil if the file has none (SHT_SYMTAB_SHNDX).
func (f *File) Extended(table *Section) []byte {
	for i := range f.Sections {
		if s := &f.Sections[i]; s.Type == elf.SHT_SYMTAB_SHNDX && int(s.Link) < len(f.Sections) &&
			&f.Sections[s.Link] == table {
			b, _ := f.Data(s)
			return b
		}
	}
	return nil
}

func (f *File) symbolSize() int {
	if f.Class == elf.ELFCLASS32 {
		return elf.Sym32Size
	}
	return elf.Sym64Size
}

// Symbol decodes the symbol at the start of b, an Elf32_Sym or Elf64_Sym depending on the
// file's class.
func (f *File) Symbol(b []byte) elf.Sym64 {
	o := f.Order
	if f.Class == elf.ELFCLASS32 {
		return elf.Sym64{
			Name: o.Uint32(b), Value: uint64(o.Uint32(b[4:])), Size: uint64(o.Uint32(b[8:])),
			Info: b[12], Other: b[13], Shndx: o.Uint16(b[14:]),
		}
	}
	return elf.Sym64{
		Name: o.Uint32(b), Info: b[4], Other: b[5], Shndx: o.Uint16(b[6:]), Value: o.Uint64(b[8:]),
		Size: o.Uint64(b[16:]),
	}
}

// Len returns the number of symbols.
func (t *Symbols) Len() int { return len(t.tab) / t.size }

// At returns symbol i, which must be below Len.
func (t *Symbols) At(i int) elf.Sym64 { return t.f.Symbol(t.tab[i*t.size : (i+1)*t.size]) }

// All returns an iterator over the symbols, with their numbers.
func (t *Symbols) All() iter.Seq2[int, elf.Sym64] {
	return func(yield func(int, elf.Sym64) bool) {
		for i := range t.Len() {
			if !yield(i, t.At(i)) {
				return
			}
		}
	}
}

// Name returns a symbol's name, as a slice of Strings. It returns an error if the table's
// names overlap too much, and from then on always.
func (t *Symbols) Name(s *elf.Sym64) ([]byte, error) { return t.names.At(uint64(s.Name)) }

// Is reports whether a symbol has that name.
func (t *Symbols) Is(s *elf.Sym64, name string) bool {
	return IsString(t.Strings, uint64(s.Name), name)
}

// Section returns the number of the section that contains symbol i, or one of elf.SHN_….
func (t *Symbols) Section(i int, s *elf.Sym64) uint32 {
	if s.Shndx == uint16(elf.SHN_XINDEX) && len(t.extended) >= 4*i+4 {
		return t.f.Order.Uint32(t.extended[4*i:])
	}
	return uint32(s.Shndx)
}

// SymbolTables calls yield for the file's sections of symbols. It is an error if they have
// more bytes than the file together, because headers may refer to overlapping tables, or if
// there are many.
func (f *File) SymbolTables(yield func(*Section) error) error {
	left, tables := f.Size(), 0
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != elf.SHT_SYMTAB && s.Type != elf.SHT_DYNSYM || s.Size == 0 {
			continue
		}
		if left -= int64(min(s.Size, 1<<62)); left < 0 && s.Flags&elf.SHF_COMPRESSED == 0 {
			return fmt.Errorf("%s: %w", s.Name, ErrTooLarge)
		}
		if tables++; tables > maxTables {
			return fmt.Errorf("%s: more than %d tables of symbols: %w", s.Name, maxTables, ErrTooLarge)
		}
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}
