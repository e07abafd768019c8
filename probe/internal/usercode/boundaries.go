package usercode

import (
	"cmp"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/pclntab"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// Returns returns the offsets of a function's return instructions. It decodes the function
// from its start. An instruction that cannot be decoded is an error: a probe in the middle of
// an instruction would corrupt the program.
func Returns(m elf.Machine, code []byte) ([]uint64, error) {
	var out []uint64
	err := insn.Walk(m, code, func(off int, in insn.Inst) bool {
		if in.Ret {
			out = append(out, uint64(off))
		}
		return true
	})
	return out, err
}

// InsideError is the error for an offset within an instruction, which has length N and begins
// at the offset At.
type InsideError struct{ Offset, At, N uint64 }

// Error returns "offset 3 lies within the instruction of 3 bytes at +1".
func (e *InsideError) Error() string {
	return fmt.Sprintf("offset %d lies within the instruction of %d bytes at +%d", e.Offset, e.N, e.At)
}

// BeyondError is the error for an offset at which a function has ended. It matches fs.ErrInvalid.
type BeyondError struct {
	Function     string
	Offset, Size uint64
}

// Error returns "offset 9 lies beyond f, which has 8 bytes".
func (e *BeyondError) Error() string {
	return fmt.Sprintf("offset %d lies beyond %s, which has %d bytes", e.Offset, e.Function, e.Size)
}

// Unwrap returns fs.ErrInvalid.
func (e *BeyondError) Unwrap() error { return fs.ErrInvalid }

// CheckBoundary checks that an instruction begins at the offset. The error is an *InsideError
// if none does, and an *insn.Error if the code before it cannot be decoded.
func CheckBoundary(m elf.Machine, code []byte, offset uint64) error {
	if offset >= uint64(len(code)) {
		return fmt.Errorf("offset %d lies beyond the function's %d bytes", offset, len(code))
	}
	var inside error
	err := insn.Walk(m, code, func(off int, in insn.Inst) bool {
		at, n := uint64(off), uint64(in.Len)
		if at < offset && offset < at+n {
			inside = &InsideError{offset, at, n}
		}
		return at+n <= offset
	})
	return cmp.Or(inside, err)
}

// Boundaries checks whether instructions begin at addresses in a file, by decoding functions
// from their starts. It is for one file and one goroutine. It keeps the tables that it reads.
type Boundaries struct {
	Ctx context.Context // cancels decoding
	F   *elffile.File

	text []*elffile.Section // sections of code, by address
	// last is the last instruction found in the function that begins at from. Addresses that
	// are checked in ascending order are decoded from there.
	from, last uint64
	Followed   uint64 // in bytes

	read      bool
	functions []span // from the symbol tables, by start
	labels    []span // symbols of code without a size, which have no end, also by start
	table     *pclntab.Table
}

// span is a function's code.
type span struct{ start, end uint64 }

// Check returns nil if it is sure that an instruction begins at an address.
func (b *Boundaries) Check(addr uint64) error {
	s := b.section(addr)
	if s == nil {
		return fmt.Errorf("address %#x is in no executable code", addr)
	}
	if b.F.Machine == elf.EM_AARCH64 {
		if addr%4 != 0 {
			return fmt.Errorf("address %#x lies within the instruction of 4 bytes at %#x", addr, addr&^3)
		}
		return nil
	}
	start, err := b.start(s, addr)
	if err != nil || start == addr {
		return err
	}
	if start != b.from || addr < b.last {
		b.from, b.last = start, start
	}
	start = b.last
	text, err := b.Follow(start, min(addr+longest, s.Addr+s.Size)-start)
	if err != nil {
		return err
	}
	err = CheckBoundary(b.F.Machine, text, addr-start)
	var inside *InsideError
	var unknown *insn.Error
	switch {
	case err == nil:
		b.last = addr
	case errors.As(err, &inside):
		b.last = start + inside.At
		return fmt.Errorf("address %#x lies within the instruction of %d bytes at %#x", addr, inside.N,
			start+inside.At)
	case errors.As(err, &unknown):
		return fmt.Errorf(
			"whether an instruction begins at %#x can't be told: at %#x (% x): %w",
			addr, start+uint64(unknown.Offset), unknown.Code, unknown.Err)
	}
	return err
}

// CheckFunction is Check for an offset in a function from a symbol table. It relies on the
// table for where the function begins.
func (b *Boundaries) CheckFunction(s userfile.Symbol, offset uint64) error {
	switch {
	case b.section(s.Value+offset) == nil:
		return fmt.Errorf("address %#x is in no executable code", s.Value+offset)
	case offset == 0:
		return nil
	case s.Size == 0:
		return b.Check(s.Value + offset)
	}
	text, err := b.Follow(s.Value, min(s.Size, offset+longest))
	if err != nil {
		return err
	}
	return CheckBoundary(b.F.Machine, text, offset)
}

// longest is the length of the longest instruction.
const longest = 15

// MaxFollowed bounds how many bytes of one file's code are decoded: more than real files need.
const MaxFollowed = 256 << 20

// Follow returns n bytes of code to decode and counts them.
func (b *Boundaries) Follow(start, n uint64) ([]byte, error) {
	if err := b.Ctx.Err(); err != nil {
		return nil, err
	}
	if b.Followed += n; b.Followed > MaxFollowed {
		return nil, errors.New("there is too much code to be followed")
	}
	return userfile.Code(b.F, start, n)
}

// IsFunction returns an error unless a function's bytes are whole instructions.
func (b *Boundaries) IsFunction(s userfile.Symbol) error {
	text, err := b.Follow(s.Value, s.Size)
	if err != nil {
		return err
	}
	return insn.Walk(b.F.Machine, text, func(int, insn.Inst) bool { return true })
}

// section returns the section of code that contains an address, nil if none does.
func (b *Boundaries) section(addr uint64) *elffile.Section {
	if b.text == nil {
		b.text = []*elffile.Section{}
		for i := range b.F.Sections {
			s := &b.F.Sections[i]
			if s.Flags&elf.SHF_ALLOC != 0 && s.Flags&elf.SHF_EXECINSTR != 0 && s.Type != elf.SHT_NOBITS &&
				s.Size > 0 {
				b.text = append(b.text, s)
			}
		}
		slices.SortStableFunc(b.text, func(x, y *elffile.Section) int {
			return cmp.Compare(x.Addr, y.Addr)
		})
	}
	i := sort.Search(len(b.text), func(i int) bool { return b.text[i].Addr > addr })
	if i == 0 || !b.text[i-1].Contains(addr) {
		return nil
	}
	return b.text[i-1]
}

// start returns the address from which to decode the instructions up to addr: the start of the
// function that contains it, from the symbols, the unwind table or Go's function table; or a
// label behind the last function before it; or the start of the section if no function before
// it is known.
func (b *Boundaries) start(s *elffile.Section, addr uint64) (uint64, error) {
	if err := b.readFunctions(); err != nil {
		return 0, err
	}
	var in, last span // the innermost function that contains it; the function that ends last before it
	take := func(f span) {
		switch {
		case f.start < s.Addr || f.start > addr:
		case addr < f.end:
			if f.start >= in.start {
				in = f
			}
		case f.end > last.end:
			last = f
		}
	}
	if start, end, ok := b.F.FDE(addr); ok {
		take(span{start, end})
	}
	if b.table != nil {
		if i, ok := b.table.Index(addr); ok {
			start, end := b.table.Bounds(i)
			take(span{start, end})
		}
	}
	// Functions nest rarely, and not deeply.
	const deep = 64
	behind := sort.Search(len(b.functions), func(i int) bool { return b.functions[i].start > addr })
	for i := behind - 1; i >= max(0, behind-deep); i-- {
		take(b.functions[i])
	}
	if in.end != 0 {
		return in.start, nil
	}
	if i := sort.Search(len(b.labels), func(i int) bool {
		return b.labels[i].start > addr
	}); i > 0 && b.labels[i-1].start >= max(s.Addr, last.end) {
		return b.labels[i-1].start, nil
	}
	if last.end != 0 {
		return 0, fmt.Errorf("whether an instruction begins at %#x can't be told: it is in no function that the file knows; Options.Unsafe, and -unsafe of the tools, probes it all the same", addr)
	}
	return s.Addr, nil
}

// readFunctions reads the symbol tables and Go's function table, once.
func (b *Boundaries) readFunctions() error {
	if b.read {
		return nil
	}
	b.read = true
	var all []span // in memory only once, for large files
	add := func(_ int, sym *elf.Sym64, name []byte) error {
		typ := elf.ST_TYPE(sym.Info)
		switch end := sym.Value + sym.Size; {
		case typ != elf.STT_FUNC && typ != elf.STT_GNU_IFUNC && typ != elf.STT_NOTYPE || len(name) == 0 ||
			name[0] == '$':
		case typ == elf.STT_NOTYPE || end <= sym.Value:
			all = append(all, span{sym.Value, 0})
		default:
			all = append(all, span{sym.Value, end})
		}
		return nil
	}
	err := b.F.SymbolTables(func(s *elffile.Section) error {
		all = slices.Grow(all, int(min(s.Size, uint64(b.F.Stored()))/elf.Sym64Size))
		return userfile.EachSymbol(b.Ctx, b.F, s, add)
	})
	slices.SortFunc(all, func(x, y span) int {
		return cmp.Or(cmp.Compare(min(x.end, 1), min(y.end, 1)), cmp.Compare(x.start, y.start),
			cmp.Compare(x.end, y.end))
	})
	n := sort.Search(len(all), func(i int) bool { return all[i].end > 0 })
	b.labels, b.functions = all[:n], slices.Compact(all[n:])
	if userfile.IsGo(b.F) {
		// A table that cannot be read adds nothing, and is no error.
		b.table, _ = pclntab.New(b.F)
	}
	return err
}
